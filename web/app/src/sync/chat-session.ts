import { Chat } from "@ai-sdk/react";
import { attach, type LiveState, NotRecoveredError, sendAutomaticallyWhenSettled, type SocketNotice } from "adkwire";
import { type FileUIPart, generateId, type UIMessage } from "ai";
import type { Connection } from "../transport/connection";
import { type ChatRoutes, createTransport } from "../transport/create-transport";
import type { Transport } from "../transport/over-http";
import type { PageMode } from "../transport/page-mode";
import { StreamHealth } from "../transport/stream-health";
import { lastStepCalls } from "../transport/tool-part";
import { isBusy } from "./chat-status";
import { Follower } from "./follower";
import type { ChatHistory } from "./history";
import { answerByRoute, isBusyElsewhere, isLiveElsewhere, isRefused, reopenQuestions, undoRefused } from "./recover";
import { stopRun } from "./use-stop";

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
  /** Called with a message that was refused because the chat is live in another window. */
  onLiveElsewhere: (message: UIMessage) => void;
  /** Called with what the agent does in a live conversation. */
  onLiveState: (state: LiveState | null) => void;
  onInterrupted: () => void;
  onNotice: (notice: SocketNotice) => void;
}

/** How long an answer may take to end after the server has taken the message that replaces it. */
const END_PATIENCE_MS = 5000;
const PAUSE_MS = 10;

const pause = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, PAUSE_MS));

/** A chat while it is on the screen: the AI SDK's chat, its transport, and what keeps it up to date. */
export class ChatSession {
  readonly chat: Chat<UIMessage>;
  readonly follower: Follower;
  readonly health = new StreamHealth();
  /** The mode of the next message. */
  #mode: PageMode;
  readonly #owner: SessionOwner;
  readonly #transport: ChatRoutes;

  constructor(id: string, history: ChatHistory, mode: PageMode, owner: SessionOwner) {
    this.#mode = mode;
    this.#owner = owner;
    this.#transport = createTransport(id, {
      mode: () => this.#mode,
      onSend: () => this.follower.onSend(),
      onTurn: () => this.follower.onTurn(),
      onConnection: owner.onConnection,
      onLive: ({ transport }) => void attach(this.chat, transport),
      live: { onState: owner.onLiveState, onInterrupted: owner.onInterrupted, onError: owner.onFail, onNotice: owner.onNotice },
      health: this.health,
    });
    this.chat = createChat({
      id, messages: history.messages, transport: this.#transport, mode: () => this.#mode, onEnd: owner.onEnd,
      onError: (error) => this.#recover(error),
    });
    this.follower = new Follower(this.chat, { onFail: owner.onFail, isLive: () => this.#isLive });
  }

  /** Send the next messages in this mode. A live conversation ends first: it would refuse those of other modes. */
  setMode(mode: PageMode): void {
    const before = this.#mode;
    if (before === mode) return;
    this.#mode = mode;
    this.health.forgetLatency();
    if (before !== "live") return;
    this.#transport.live()?.hangUp();
    this.follower.letGo();
  }

  /** Join the live conversation, so that the turns that the server begins are shown. */
  joinLive(): void {
    if (this.#mode === "live" && !this.#isLive) this.follower.joinLive();
  }

  /** Send a message. One that is sent over a running answer replaces it, without a stop of its own. */
  async send(text: string, files: FileUIPart[]): Promise<void> {
    await this.sendMessage({ id: generateId(), role: "user", parts: [...files, ...(text ? [{ type: "text" as const, text }] : [])] });
  }

  async sendMessage(message: UIMessage): Promise<void> {
    if (!isBusy(this.chat.status)) return this.chat.sendMessage(message);
    await this.follower.hold(this.#replaceAnswer(message));
  }

  /**
   * Answer a question. In a live run of another window the chat would never send the answer by itself, since that run
   * goes on while its questions wait.
   */
  async answer(id: string, approved: boolean, reason: string): Promise<void> {
    const { chat, follower } = this;
    const isJoined = isBusy(chat.status) && follower.readsJoinedRun && this.#mode !== "live";
    await chat.addToolApprovalResponse({ id, approved, ...(!approved && reason ? { reason } : {}) });
    if (isJoined) await answerByRoute(chat).catch(this.#owner.onFail);
  }

  /** Send the user's last message once more, as a new one: a live conversation is not rewound. */
  async sendAgain(): Promise<void> {
    const last = this.chat.messages.findLast(({ role }) => role === "user");
    if (last) await this.sendMessage({ ...last, id: generateId() });
  }

  /** Interrupt the agent in a live conversation. */
  async interrupt(): Promise<void> {
    await this.#transport.live()?.interrupt();
  }

  /** Close a socket that is not needed: the server limits them per user. */
  releaseSocket(): void {
    if (this.#mode !== "websocket" || document.hidden) this.#transport.releaseSocket();
  }

  /** Disconnect without stopping the run. The transport closes first: on a socket, `chat.stop` would stop the run. */
  async leave(): Promise<void> {
    this.#transport.close();
    await this.chat.stop();
  }

  get #isLive(): boolean {
    return this.#mode === "live" && this.#transport.live()?.isConnected() === true;
  }

  /**
   * Send a message while an answer is being read. The server ends the answer, or refuses the message and leaves the
   * answer and its questions as they are: a stop before the message would have taken these back.
   */
  async #replaceAnswer(message: UIMessage): Promise<void> {
    const { chat } = this;
    // A message that overtakes the one before it would be replaced by it.
    while (chat.status === "submitted") await pause();
    try {
      await this.#transport.sendAhead([...chat.messages, message]);
    } catch (error) {
      return this.#notReplaced(error as Error, message);
    }
    await this.#untilIdle();
    await this.#begin(message);
  }

  async #notReplaced(error: Error, message: UIMessage): Promise<void> {
    if (isLiveElsewhere(error)) return this.#owner.onLiveElsewhere(message);
    if (!isBusyElsewhere(error)) {
      this.#owner.onReturn(message);
      return this.#owner.onFail(error);
    }
    // This server wants no message while an answer is being written.
    await stopRun(this.chat);
    await this.#untilIdle();
    await this.#begin(message);
  }

  /** Let the chat send a message, without waiting for its answer. */
  async #begin(message: UIMessage): Promise<void> {
    void this.chat.sendMessage(message);
    // By then the chat is busy, and what the server tells about the run is no news.
    await pause();
  }

  async #untilIdle(): Promise<void> {
    const until = performance.now() + END_PATIENCE_MS;
    while (isBusy(this.chat.status) && performance.now() < until) await pause();
    if (isBusy(this.chat.status)) await this.chat.stop();
  }

  /** Do not show as sent what the server did not take. */
  #recover(error: Error): void {
    const { chat, follower } = this;
    if (error instanceof NotRecoveredError) this.health.noteLost();
    if (isLiveElsewhere(error)) follower.recover(() => this.#yieldToLive());
    else if (isRefused(error)) follower.recover(async () => this.#owner.onReturn(await undoRefused(chat)));
    else if (lastStepCalls(chat.lastMessage).length > 0) follower.recover(() => reopenQuestions(chat));
  }

  /** The chat is live in another window: give answers by the calls route, and ask what to do with a message. */
  async #yieldToLive(): Promise<void> {
    const { chat } = this;
    if (chat.lastMessage?.role === "assistant") await answerByRoute(chat);
    const message = await undoRefused(chat);
    chat.clearError();
    this.follower.letGo();
    if (message) this.#owner.onLiveElsewhere(message);
  }
}
