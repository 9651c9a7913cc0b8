import { Chat } from "@ai-sdk/react";
import { sendAutomaticallyWhenSettled } from "adkwire";
import type { UIMessage } from "ai";
import type { Connection } from "../transport/connection";
import { createTransport } from "../transport/create-transport";
import type { Transport } from "../transport/over-http";
import type { PageMode } from "../transport/page-mode";
import { lastStepCalls } from "../transport/tool-part";
import { Follower } from "./follower";
import type { ChatHistory } from "./history";
import { isRefused, reopenQuestions, undoRefused } from "./recover";

interface ChatSetup {
  id: string;
  messages: UIMessage[];
  transport: Transport;
  mode: () => PageMode;
  /** Called when an answer ends. */
  onEnd: (messageId: string, stopped: boolean) => void;
  /** Called before the error is shown. */
  onError: (error: Error) => void;
}

/** Create the AI SDK's chat. Gemini direct has no calls, so no answers are sent automatically there. */
function createChat({ id, messages, transport, mode, onEnd, onError }: ChatSetup): Chat<UIMessage> {
  return new Chat({
    id, messages, transport, onError,
    sendAutomaticallyWhen: (chat) => mode() !== "gemini" && sendAutomaticallyWhenSettled(chat),
    onFinish: ({ message, isAbort, finishReason }) => onEnd(message.id, isAbort || finishReason === "interrupted"),
  });
}

interface SessionOwner {
  onEnd: (messageId: string, stopped: boolean) => void;
  onConnection: (connection: Connection) => void;
  onFail: (error: Error) => void;
  /** Called after a refusal with the user's message, if the server did not store it. */
  onReturn: (message: UIMessage | null) => void;
}

/** A chat while it is on the screen: the AI SDK's chat, its transport, and what keeps it up to date. */
export class ChatSession {
  /** The mode of the next message. */
  mode: PageMode;
  readonly chat: Chat<UIMessage>;
  readonly follower: Follower;
  readonly #transport: Transport;

  constructor(id: string, history: ChatHistory, mode: PageMode, owner: SessionOwner) {
    this.mode = mode;
    this.#transport = createTransport(id, {
      mode: () => this.mode, onSend: () => this.follower.onSend(), onConnection: owner.onConnection,
    });
    this.chat = createChat({
      id, messages: history.messages, transport: this.#transport, mode: () => this.mode, onEnd: owner.onEnd,
      onError: (error) => this.#recover(error, owner.onReturn),
    });
    this.follower = new Follower(this.chat, owner.onFail);
  }

  /** Close a socket that is not needed: the server limits them per user. */
  releaseSocket(): void {
    if (this.mode !== "websocket" || document.hidden) this.#transport.close();
  }

  /** Disconnect without stopping the run. The transport closes first: on a socket, `chat.stop` would stop the run. */
  async leave(): Promise<void> {
    this.#transport.close();
    await this.chat.stop();
  }

  /** Do not show as sent what the server did not take. */
  #recover(error: Error, onReturn: SessionOwner["onReturn"]): void {
    const { chat, follower } = this;
    if (isRefused(error)) follower.recover(async () => onReturn(await undoRefused(chat)));
    else if (lastStepCalls(chat.lastMessage).length > 0) follower.recover(() => reopenQuestions(chat));
  }
}
