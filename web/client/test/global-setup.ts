import type { TestProject } from "vitest/node";
import { Server } from "./server.js";

declare module "vitest" {
  interface ProvidedContext {
    /** Where the one server of all tests answers. */
    serverUrl: string;
  }
}

/** One server for all test files: starting Python is what takes longest here. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const server = await Server.start({ env: { ADKWIRE_SOCKETS_PER_USER: "1000" } });
  project.provide("serverUrl", server.url);
  return () => server.stop();
}
