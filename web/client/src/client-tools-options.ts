import type { ClientToolCall } from "./client-tool-call.js";

/** The options of `clientTools`. */
export interface ClientToolsOptions {
  /** What the model is told of an error; its message by default. */
  errorText?: (error: unknown, call: ClientToolCall) => string;
}
