import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../../../../", import.meta.url));
const READY = /adkwire is ready at (http:\/\/\S+)/;

interface ServerOptions {
  /** More arguments for `adkwire serve`. */
  args?: string[];
  env?: Record<string, string>;
  /** The port; 0 takes a free one. */
  port?: number;
  /** The folder of its state; by default a new one that is removed with the server. */
  folder?: string;
}

/** A real `adkwire serve` with the offline demo agent, on a free port of this machine. */
export class Server {
  readonly url: string;
  readonly #process: ChildProcess;
  readonly #folder: string | undefined;

  private constructor(url: string, process: ChildProcess, folder: string | undefined) {
    this.url = url;
    this.#process = process;
    this.#folder = folder;
  }

  static async start({ args = [], env = {}, port = 0, folder }: ServerOptions = {}): Promise<Server> {
    const own = folder === undefined ? mkdtempSync(join(tmpdir(), "adkwire-client-")) : undefined;
    const words = ["-m", "adkwire.cli", "serve", ...args, "--port", String(port)];
    const child = spawn(python(), words, {
      cwd: folder ?? own, env: { ...cleanEnvironment(), ...env }, stdio: ["ignore", "pipe", "pipe"],
    });
    let complaints = "";
    child.stderr.setEncoding("utf8").on("data", (text: string) => (complaints = (complaints + text).slice(-10_000)));
    for await (const line of createInterface({ input: child.stdout })) {
      const url = READY.exec(line)?.[1];
      if (url === undefined) continue;
      child.stdout.resume();
      return new Server(url, child, own);
    }
    throw new Error(`The server ended before it was ready:\n${complaints}`);
  }

  get port(): number {
    return Number(new URL(this.url).port);
  }

  /** Let the server finish its runs, and wait for its end. */
  async stop(): Promise<void> {
    await this.#end("SIGTERM");
  }

  /** Kill the server, and wait for its end. */
  async kill(): Promise<void> {
    await this.#end("SIGKILL");
  }

  async #end(signal: "SIGTERM" | "SIGKILL"): Promise<void> {
    const ended = this.#process.exitCode === null && this.#process.signalCode === null ? once(this.#process, "exit") : undefined;
    this.#process.kill(signal);
    await ended;
    if (this.#folder) rmSync(this.#folder, { recursive: true, force: true });
  }
}

function python(): string {
  const own = join(ROOT, ".venv", "bin", "python");
  return existsSync(own) ? own : (process.env["PYTHON"] ?? "python3");
}

/** The environment without variables that would reach a real model or change a setting, and without limits that tests would hit. */
function cleanEnvironment(): NodeJS.ProcessEnv {
  const kept = Object.entries(process.env).filter(([name]) => !/^(ADKWIRE|GOOGLE|GEMINI)_/.test(name));
  return { ...Object.fromEntries(kept), ADKWIRE_CHATS_PER_MINUTE: "0", ADKWIRE_UI: "0", PYTHONUNBUFFERED: "1" };
}
