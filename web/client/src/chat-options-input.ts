import type { UIMessage } from "ai";
import type { ClientToolRunner } from "./client-tool-runner.js";
import type { LiveChatTransportOptions } from "./live-chat-transport-options.js";
import type { ResumableSseOptions } from "./resumable-sse-options.js";
import type { WebSocketChatTransportOptions } from "./web-socket-chat-transport.js";

interface Common<M extends UIMessage> {
  /** Where the server is: `https://chat.example.com`, also with a path. This page's own server by default. */
  url?: string;
  chatId: string;
  /** The chat's history, as `GET /api/chats/{id}` has it. */
  messages?: M[];
  /** What `clientTools` returned. */
  tools?: Pick<ClientToolRunner, "onToolCall"> & Partial<Pick<ClientToolRunner, "runs">>;
  /** Whether to look for an answer that is being written when the page loads; true by default. */
  resume?: boolean;
}

/** What `chatOptions` takes. `transport` has more options for the transport of that mode. */
export type ChatOptionsInput<M extends UIMessage = UIMessage> = Common<M> &
  (
    | { mode: "sse" | "gemini"; transport?: Omit<ResumableSseOptions<M>, "api" | "resumeApi"> }
    | { mode: "websocket"; transport?: Omit<WebSocketChatTransportOptions<M>, "url"> }
    | { mode: "live"; transport?: Omit<LiveChatTransportOptions, "url" | "chat"> }
  );
