import type { Chat } from "@ai-sdk/react";
import type { UIMessage } from "ai";
import type { ChatHistory } from "./chat-history";
import type { Connection } from "./connection";
import { createChat } from "./create-chat";
import { createTransport, type Transport } from "./create-transport";
import { Follower } from "./follower";
import { isRefused } from "./is-refused";
import { lastStepCalls } from "./last-step-calls";
import type { PageMode } from "./page-mode";
import { reopenQuestions } from "./reopen-questions";
import { takeBack } from "./take-back";

interface SessionOwner {
  onEnd: (messageId: string, stopped: boolean) => void;
  onConnection: (connection: Connection) => void;
  onFail: (error: Error) => void;
  /** After a refusal: the person's message, if the server did not keep it. */
  onReturn: (message: UIMessage | null) => void;
}

/** A chat as long as it is on the screen: what talks, and what keeps it where the server has it. */
export class ChatSession {
  /** How the next message leaves. */
  mode: PageMode;
  readonly chat: Chat<UIMessage>;
  readonly follower: Follower;
  readonly #transport: Transport;

  constructor(id: string, history: ChatHistory, mode: PageMode, owner: SessionOwner) {
    this.mode = mode;
    this.#transport = createTransport(id, {
      mode: () => this.mode, onSend: () => this.follower.sends(), onConnection: owner.onConnection,
    });
    this.chat = createChat({
      id, messages: history.messages, transport: this.#transport, mode: () => this.mode, onEnd: owner.onEnd,
      onError: (error) => this.#recover(error, owner.onReturn),
    });
    this.follower = new Follower(this.chat, owner.onFail);
  }

  /** A socket that is not needed is given back: the server has so many for one person. */
  rest(): void {
    if (this.mode !== "websocket" || document.hidden) this.#transport.close();
  }

  /** Goes away without stopping what runs. A socket would take being stopped for a wish to stop the answer. */
  async leave(): Promise<void> {
    this.#transport.close();
    await this.chat.stop();
  }

  /** What the server did not take is not shown as if it had. */
  #recover(error: Error, onReturn: SessionOwner["onReturn"]): void {
    const { chat, follower } = this;
    if (isRefused(error)) follower.recover(async () => onReturn(await takeBack(chat)));
    else if (lastStepCalls(chat.lastMessage).length > 0) follower.recover(() => reopenQuestions(chat));
  }
}
