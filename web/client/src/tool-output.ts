/** What `addToolOutput` of AI SDK 6 and 7 takes. */
export type ToolOutput =
  | { tool: string; toolCallId: string; output: unknown }
  | { tool: string; toolCallId: string; state: "output-error"; errorText: string };
