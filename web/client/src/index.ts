export type { Backoff } from "./backoff.js";
export type { ChatMode } from "./chat-mode.js";
export { chatOptions } from "./chat-options.js";
export type { ChatOptionsInput } from "./chat-options-input.js";
export type { ChatOptionsResult } from "./chat-options-result.js";
export type { ClientToolCall } from "./client-tool-call.js";
export type { ClientToolHandler } from "./client-tool-handler.js";
export type { ClientToolRunner } from "./client-tool-runner.js";
export { clientTools } from "./client-tools.js";
export type { ClientToolsOptions } from "./client-tools-options.js";
export type { ConnectionState } from "./connection-state.js";
export { HttpError } from "./http-error.js";
export { NotRecoveredError } from "./not-recovered-error.js";
export type { PrepareSendMessagesRequest } from "./prepare-send-messages-request.js";
export type { Resolvable } from "./resolvable.js";
export { ResilientWebSocket, resilientWebSocket } from "./resilient-web-socket.js";
export type {
  ResilientWebSocketOptions, SocketCounters, SocketNotice, SocketState, SocketStateDetail,
} from "./resilient-web-socket.js";
export type { ResumableSseOptions } from "./resumable-sse-options.js";
export { ResumableSseTransport } from "./resumable-sse-transport.js";
export { sendAutomaticallyWhenSettled } from "./send-automatically-when-settled.js";
export { WebSocketChatTransport } from "./web-socket-chat-transport.js";
export type { WebSocketChatTransportOptions } from "./web-socket-chat-transport.js";
