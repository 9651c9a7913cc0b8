import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";

/** What the proxy does with a connection: `refuse` closes it at once, `hole` never answers, a number cuts it after so many bytes. */
export type Fate = "refuse" | "hole" | number;

const WHOLE = Number.POSITIVE_INFINITY;

/** A proxy between client and server that cuts connections in the middle of what they carry, as `fates` says. */
export class CuttingProxy {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  readonly #target: URL;
  /** Connections that were made, and those of them that were cut. */
  connections = 0;
  cuts = 0;
  /** What the proxy does with the next connections, in order; later ones are not cut. */
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

  /** Cut all open connections, and do this with the next ones. */
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

  /** Close a connection; what was written before still arrives. */
  #break(socket: Socket): void {
    this.cuts += 1;
    socket.destroySoon();
  }
}
