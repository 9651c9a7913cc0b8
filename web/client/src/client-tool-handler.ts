import type { ClientToolCall } from "./client-tool-call.js";

/**
 * Runs a tool in the page. What it returns is the output, what it throws is told to the model as an error. It may name the
 * type of its input: the server has checked the arguments against the tool's schema.
 */
export type ClientToolHandler = (input: never, call: ClientToolCall) => unknown;
