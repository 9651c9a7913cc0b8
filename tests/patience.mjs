// The limit of all waits in the tests, as `patience.py` has it, for Node. Importing this file also makes `fetch` wait so
// long for a connection: by itself it gives up after 10 s, which a busy machine may need.
import { readFileSync } from "node:fs";
import { Agent, setGlobalDispatcher } from "undici";

const { seconds } = JSON.parse(readFileSync(new URL("patience.json", import.meta.url), "utf8"));

/** Milliseconds to wait for an event that must come. */
export const PATIENCE = 1000 * Number(process.env.PATIENCE ?? seconds);

setGlobalDispatcher(new Agent({ connect: { timeout: PATIENCE }, headersTimeout: PATIENCE, bodyTimeout: PATIENCE }));
