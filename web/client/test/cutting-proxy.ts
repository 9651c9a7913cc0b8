import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";

/** What a proxy does with one connection: `refuse` hangs up at once, `hole` never answers, a number cuts behind so many bytes. */
export type Fate = "refuse" | "hole" | number;

const WHOLE = Number.POSITIVE_INFINITY;

/** Stands between client and server and cuts connections, as told, in the middle of whatever they carry. */
export class CuttingProxy {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  readonly #target: URL;
  /** How many connections were made, and how many of them were cut. */
  connections = 0;
  cuts = 0;
  /** What becomes of the next connections, one after the other; those that follow are left alone. */
  fates: Fate[] = [];

  private constructor(target: string) {
    this.#target = new URL(target);
    this.#server = createServer((socket) => this.#accept(socket));
  }

  static async start(target: string): Promise<CuttingProxy> {
    const proxy = new CuttingProxy(target);
    proxy.#server.listen(0, "127.0.0.1");
    await once(proxy.#server, "listening");
    return proxy;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Cuts all there is now, and from now on does this. */
  cut(...fates: Fate[]): void {
    this.fates = fates;
    for (const socket of this.#sockets) this.#break(socket);
  }

  async stop(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
    await once(this.#server, "close");
  }

  #accept(socket: Socket): void {
    this.connections += 1;
    this.#sockets.add(socket);
    socket.on("error", () => undefined).on("close", () => this.#sockets.delete(socket));
    const fate = this.fates.shift() ?? WHOLE;
    if (fate === "refuse") this.#break(socket);
    else if (fate !== "hole") this.#forward(socket, fate);
  }

  #forward(socket: Socket, bytes: number): void {
    const server = connect(Number(this.#target.port), this.#target.hostname);
    let left = bytes;
    socket.on("close", () => server.destroy()).pipe(server);
    server.on("error", () => socket.destroy()).on("close", () => socket.end());
    server.on("data", (data) => {
      socket.write(data.subarray(0, left));
      left -= data.length;
      if (left < 0) this.#break(socket);
    });
  }

  /** What was written before still arrives; then there is nothing more. */
  #break(socket: Socket): void {
    this.cuts += 1;
    socket.destroySoon();
  }
}
