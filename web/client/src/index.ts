export { chatOptions } from "./chat-options.js";
export type { ChatMode, ChatOptionsInput, ChatOptionsResult } from "./chat-options.js";
export type { Backoff } from "./common/backoff.js";
export type { Resolvable } from "./common/resolvable.js";
export { HttpError, NotConnected, NotRecoveredError } from "./errors.js";
export { attach } from "./live/attach.js";
export type { AttachableChat } from "./live/attach.js";
export type { LiveToolRequest } from "./live/live-calls.js";
export type { LiveChatTransportOptions, LiveTranscript } from "./live/live-chat-transport-options.js";
export { LiveChatTransport } from "./live/live-chat-transport.js";
export type { AudioFormat, LiveInterruption, LiveReady, LiveState } from "./live/live-frames.js";
export type { LiveAudioChunk, SpeakerLike } from "./live/live-playback.js";
export type { AudioInput, LiveDropped, VideoFrame } from "./live/live-uplink.js";
export type {
  ResilientWebSocketOptions, SocketCounters, SocketState, SocketStateDetail,
} from "./socket/resilient-web-socket-options.js";
export { ResilientWebSocket, resilientWebSocket } from "./socket/resilient-web-socket.js";
export type { SocketNotice } from "./socket/socket-frames.js";
export { WebSocketChatTransport } from "./socket/web-socket-chat-transport.js";
export type { WebSocketChatTransportOptions } from "./socket/web-socket-chat-transport.js";
export type { PrepareSendMessagesRequest, ResumableSseOptions } from "./sse/resumable-sse-options.js";
export { ResumableSseTransport } from "./sse/resumable-sse-transport.js";
export type { ConnectionState } from "./sse/run-reader.js";
export { clientTools } from "./tools/client-tools.js";
export type { ClientToolHandler, ClientToolRunner, ClientToolsOptions } from "./tools/client-tools.js";
export { sendAutomaticallyWhenSettled } from "./tools/send-automatically-when-settled.js";
export type { ClientToolCall } from "./tools/tool-part.js";
