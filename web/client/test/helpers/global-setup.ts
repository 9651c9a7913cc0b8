import type { TestProject } from "vitest/node";
import { Server } from "./server.js";

declare module "vitest" {
  interface ProvidedContext {
    /** The address of the server that all tests share. */
    serverUrl: string;
    /** Milliseconds to wait for an event that must come. */
    patience: number;
  }
}

/** Start one server for all test files, since that takes long. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const server = await Server.start({ env: { ADKWIRE_SOCKETS_PER_USER: "1000" } });
  project.provide("serverUrl", server.url);
  return () => server.stop();
}
