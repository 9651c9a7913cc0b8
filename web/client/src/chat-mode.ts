/** How a page talks with its agent; `gemini` talks with the model itself. */
export type ChatMode = "sse" | "websocket" | "live" | "gemini";
