import type { Resolvable } from "../common/resolvable.js";
import type { ResilientWebSocketOptions } from "../socket/resilient-web-socket-options.js";
import type { SocketNotice } from "../socket/socket-frames.js";
import type { LiveCallsOptions, LiveToolRequest } from "./live-calls.js";
import type { LiveInterruption, LiveReady, LiveState } from "./live-frames.js";
import type { LiveAudioChunk, SpeakerLike } from "./live-playback.js";

/** The transcript of all that the user has said in a turn so far; `final` is true when an utterance is complete. */
export type LiveTranscript = { messageId: string; text: string; final: boolean };

/** The options of `LiveChatTransport`. */
export interface LiveChatTransportOptions
  extends Pick<ResilientWebSocketOptions, "WebSocket" | "token" | "headers" | "backoff" | "pingInterval" | "silence"> {
  /** The address of the live socket: ws, wss, http, https, or relative to the page. */
  url: string;
  /** The id of the chat: a live socket serves one chat. */
  chat: string;
  /**
   * The run that the history named as active, `active.run`: a reconnect returns its message, also when it has ended
   * since the history was loaded.
   */
  activeRun?: string | undefined;
  /**
   * The release of the AI SDK in the page, such as `ai/7.0.169`: the server then sends all chunks that it understands.
   */
  client?: string;
  /** More data inside every message. */
  body?: Resolvable<object>;
  /** Milliseconds that an attempt to connect may take; 10000 by default. */
  timeout?: number;
  /**
   * Runs a call of the page's tools. What it returns is the output; what it throws goes to the model as an error; after
   * undefined the call still waits for an answer.
   */
  toolCallCallback?: LiveCallsOptions["toolCallCallback"];
  /**
   * Called for a call that waits for `sendToolResult`: for a verdict, or for an output that `toolCallCallback` left
   * out.
   */
  onToolCallRequest?: (request: LiveToolRequest) => void;
  /** Called when the agent is interrupted, by this page, by another one or by the server. */
  onInterruptRequest?: (interruption: LiveInterruption) => void;
  /** Called when the agent's audio begins. */
  onAudioStart?: (sound: { generation: number }) => void;
  /** Called when the agent's audio is complete or was interrupted. */
  onAudioStop?: (sound: { generation: number; interrupted: boolean }) => void;
  /** Called with the agent's audio. */
  onAudioChunk?: (chunk: LiveAudioChunk) => void;
  /** Called with a transcript of the user's voice. */
  onTranscript?: (transcript: LiveTranscript) => void;
  /** Called when the agent begins to do something else. */
  onState?: (state: LiveState) => void;
  /** Called with a notice for the person. */
  onNotice?: (notice: SocketNotice) => void;
  /** Called on every connection, once the server is ready. */
  onConnect?: (ready: LiveReady) => void;
  /** Called when the connection is lost; `final` is true when no other one is made by itself. */
  onDisconnect?: (lost: { reason: string; final: boolean }) => void;
  /** Called with an error that belongs to no message: the chat reports the others. */
  onError?: (error: Error) => void;
  /** Called with the milliseconds from a ping to its pong. */
  latencyCallback?: (milliseconds: number) => void;
  /** The player of the agent's voice. */
  speaker?: SpeakerLike;
}
