import type { LiveCallsOptions } from "./live-calls.js";
import type { LiveInterruption, LiveReady, LiveState } from "./live-frames.js";
import type { LiveAudioChunk } from "./live-sound.js";
import type { LiveToolRequest } from "./live-tool-request.js";
import type { Resolvable } from "./resolvable.js";
import type { SocketNotice } from "./socket-frames.js";
import type { ResilientWebSocketOptions } from "./socket-options.js";
import type { SpeakerLike } from "./speaker-like.js";

/** What the user is heard to say: a piece of it, or `final`, all that was said without a pause. */
export type LiveTranscript = { messageId: string; text: string; final: boolean };

/** The options of `LiveChatTransport`. */
export interface LiveChatTransportOptions
  extends Pick<ResilientWebSocketOptions, "WebSocket" | "token" | "headers" | "backoff" | "pingInterval" | "silence"> {
  /** Where the live socket is: ws, wss, http, https, or relative to the page. */
  url: string;
  /** The chat's id: a live socket is of one chat. */
  chat: string;
  /** The release of the AI SDK in the page, `ai/7.0.169`: the server then uses all that it understands. */
  client?: string;
  /** More data inside every message. */
  body?: Resolvable<object>;
  /** Milliseconds that an attempt to connect may take; 10000 by default. */
  timeout?: number;
  /** Runs a call that is the page's: what it returns is the output, what it throws is told to the model, undefined leaves it. */
  toolCallCallback?: LiveCallsOptions["toolCallCallback"];
  /** Hears of calls that wait for `sendToolResult`: those to be approved, and those that `toolCallCallback` leaves. */
  onToolCallRequest?: (request: LiveToolRequest) => void;
  /** Hears that what was being said is not heard to its end, whoever has interrupted it. */
  onInterruptRequest?: (interruption: LiveInterruption) => void;
  /** Hears that the agent begins to sound. */
  onAudioStart?: (sound: { generation: number }) => void;
  /** Hears that the agent's sound is complete, or interrupted. */
  onAudioStop?: (sound: { generation: number; interrupted: boolean }) => void;
  /** Hears the agent's sound. */
  onAudioChunk?: (chunk: LiveAudioChunk) => void;
  /** Hears what the user is heard to say. */
  onTranscript?: (transcript: LiveTranscript) => void;
  /** Hears what the agent is doing. */
  onState?: (state: LiveState) => void;
  onNotice?: (notice: SocketNotice) => void;
  /** Hears of every connection, once the server is ready. */
  onConnect?: (ready: LiveReady) => void;
  /** Hears that the connection is lost; `final` when no other is made by itself. */
  onDisconnect?: (lost: { reason: string; final: boolean }) => void;
  /** Hears what went wrong outside of a message: those tell the chat. */
  onError?: (error: Error) => void;
  /** Milliseconds from a ping to its answer. */
  latencyCallback?: (milliseconds: number) => void;
  /** Plays the agent's voice. */
  speaker?: SpeakerLike;
}
