import { BoundedMap } from "../common/bounded-map.js";
import { HttpError, NotConnected } from "../errors.js";
import type { Message } from "../tools/message.js";
import { callKey, isToolPart, type ToolPart } from "../tools/tool-part.js";
import type { ChatCall, LiveAttachment } from "./live-attachment.js";
import type { LiveChatTransport } from "./live-chat-transport.js";
import type { CallSettled, ToolResultData, TurnFrame } from "./live-frames.js";
import { settledPart } from "./settled-part.js";

/** Messages, questions and calls that are remembered. */
const MAX_KNOWN = 100;
/** States of a call that was approved. */
const APPROVED = new Set(["offered", "executing", "executed"]);

type Approval = { id: string; approved: boolean; reason?: string };
type Output = { toolCallId: string; output?: unknown; state?: string; errorText?: string };

/** The members of a chat that are used. A `Chat` of any framework has them, as an `AbstractChat` of AI SDK 6 or 7. */
export interface AttachableChat {
  messages: readonly Message[];
  /** `never`, so that chats with messages of any type fit. */
  sendMessage(message: never, options: { body: object }): Promise<void>;
  resumeStream(options?: { body: object }): Promise<void>;
  addToolApprovalResponse(answer: Approval): unknown;
  addToolOutput(output: Output): unknown;
  addToolResult?(output: Output): unknown;
}

/**
 * A private field of both majors: the message that a chat is writing. It replaces the one in `messages` at every chunk.
 */
type WritingChat = { activeResponse?: { state?: { message?: Message } } };

/**
 * Attach a chat to its live transport and return the chat. To be called once, before the chat is used. The chat then
 * shows the turns that the server begins, sends answers to calls while a message is being written, and drops text that
 * was not played.
 */
export function attach<C extends object>(chat: C & AttachableChat, transport: LiveChatTransport<never>): C {
  const attached = new AttachedChat(chat, transport);
  attached.wrapMethods();
  transport["~attach"](attached);
  return chat;
}

class AttachedChat implements LiveAttachment {
  private readonly addApproval: AttachableChat["addToolApprovalResponse"];
  private readonly addOutput: AttachableChat["addToolOutput"];
  /** The transcripts of the user's messages, by message id. */
  private readonly transcripts = new BoundedMap<string, string>(MAX_KNOWN);
  /** The ids of approved questions. Not those of their calls: some models number calls anew in each turn. */
  private readonly approved = new BoundedMap<string, true>(MAX_KNOWN);
  /**
   * The keys of calls that were answered elsewhere while the chat was idle. Its messages still show them as waiting.
   */
  private readonly answeredElsewhere = new BoundedMap<string, true>(MAX_KNOWN);

  constructor(
    private readonly chat: AttachableChat,
    private readonly transport: LiveChatTransport<never>,
  ) {
    this.addApproval = chat.addToolApprovalResponse;
    this.addOutput = chat.addToolOutput;
  }

  /** Replace the chat's methods for answers to calls, so that code which calls them need not know the transport. */
  wrapMethods(): void {
    const { chat } = this;
    chat.addToolApprovalResponse = async (approval) => {
      const call = this.findAsking((part) => part.approval?.id === approval.id);
      return this.answer(call && verdictData(call.part.toolCallId, approval), call, () => this.addApproval(approval));
    };
    chat.addToolOutput = async (output) => {
      const call = this.find(({ toolCallId }) => toolCallId === output.toolCallId);
      return this.answer(outputData(output), call, () => this.addOutput(output));
    };
    if ("addToolResult" in chat) chat.addToolResult = chat.addToolOutput;
  }

  showTurn(turn: TurnFrame, before: Promise<unknown>): void {
    const show = (): void => void this.readTurn(turn).catch((error: Error) => this.transport["~reportError"](error));
    // In a task of its own: the chat finishes the stream before in microtasks, and would mix its state with the new
    // one's.
    void before.then(() => setTimeout(show));
  }

  resume(run: string): void {
    void this.chat.resumeStream({ body: { run } }).catch((error: Error) => this.transport["~reportError"](error));
  }

  setTranscript(userMessageId: string, text: string): void {
    const before = this.transcripts.get(userMessageId) ?? "";
    this.transcripts.set(userMessageId, text);
    this.edit(userMessageId, (message) => ({ ...message, parts: withTranscript(message.parts, before, text) }));
  }

  showSettled(call: CallSettled): void {
    const { approvalId, state } = call;
    if (APPROVED.has(state)) return approvalId === undefined ? undefined : this.approvedElsewhere(approvalId);
    const message = this.chat.messages.findLast(({ parts }) => parts.some((part) => isPartOf(call, part)));
    if (!message || this.transport["~isWriting"](message.id)) return;
    if (state === "answered") this.answeredElsewhere.set(callKey(message.id, call.toolCallId), true);
    const parts = message.parts.map((part) => (isPartOf(call, part) ? settledPart(part, state) : part));
    this.edit(message.id, () => ({ ...message, parts }));
  }

  // AI SDK 6 has no chunk for this. Only while a message is being written: else the chat would send the verdict as its
  // own.
  showApproval(approvalId: string): void {
    if (!this.approved.has(approvalId) || !this.findAsking(({ approval }) => approval?.id === approvalId)) return;
    void this.addApproval({ id: approvalId, approved: true });
  }

  keepText(messageId: string, kept: string): void {
    const writing = (this.chat as WritingChat).activeResponse?.state?.message;
    if (writing?.id === messageId) truncateLastText(writing.parts, kept);
    this.edit(messageId, (message) => {
      const parts = message.parts.map((part) => ({ ...part }));
      truncateLastText(parts, kept);
      return { ...message, parts };
    });
  }

  showAnswer(data: ToolResultData): (error: Error) => void {
    const { toolCallId, status, reason } = data;
    const call = this.findAsking((part) => part.toolCallId === toolCallId);
    const id = call?.part.approval?.id;
    if (id === undefined || status === undefined) return () => {};
    const shown = this.addApproval({ id, approved: status === "approved", ...(reason !== undefined && { reason }) });
    return (error) => void this.reopen(data, call, shown, error);
  }

  approvalIdOf(toolCallId: string): string | undefined {
    return this.findAsking((part) => part.toolCallId === toolCallId)?.part.approval?.id;
  }

  calls(messageId?: string): ChatCall[] {
    const { messages } = this.chat;
    const message = messageId === undefined ? messages.at(-1) : messages.findLast(({ id }) => id === messageId);
    return message ? callsIn(message) : [];
  }

  private approvedElsewhere(approvalId: string): void {
    this.approved.set(approvalId, true);
    this.transport["~whenRead"](() => this.showApproval(approvalId));
  }

  private async readTurn({ requestId, messageId, userMessageId }: TurnFrame): Promise<void> {
    // The connection may have ended for good since the turn began.
    if (!this.transport["~isUnread"](requestId)) return;
    const options = { body: { liveTurn: requestId } };
    // Without a new message of the user the turn continues the last message.
    if (userMessageId === "" || this.has(userMessageId) || this.has(messageId)) return this.chat.resumeStream(options);
    const text = this.transcripts.get(userMessageId) ?? "";
    const message: Message = { id: userMessageId, role: "user", parts: [{ type: "text", text } as { type: string }] };
    return this.chat.sendMessage(message as never, options);
  }

  /** Show an answer to a call. Also send it while a message is being written; otherwise the chat sends it by itself. */
  private answer(data: ToolResultData | undefined, call: ChatCall | undefined, show: () => unknown): unknown {
    if (!data) return show();
    const send = call && this.isBlocked(call) ? "~sendAnswer" : "~sendAnswerIfStreaming";
    const sent = this.transport[send](data);
    const shown = show();
    sent.catch((error: Error) => {
      void this.reopen(data, call, shown, error);
      this.transport["~reportError"](error);
    });
    return shown;
  }

  /**
   * Return true when the chat will not send the answer to this call, as it still waits for one that was given
   * elsewhere.
   */
  private isBlocked({ messageId, part: { toolCallId } }: ChatCall): boolean {
    const others = this.calls(messageId).filter(({ part }) => part.toolCallId !== toolCallId && isWaiting(part));
    return others.some(({ part }) => this.answeredElsewhere.has(callKey(messageId, part.toolCallId)));
  }

  /** Show a call as waiting again, so that it can be answered, if the server has refused its answer and still waits. */
  private async reopen(data: ToolResultData, call: ChatCall | undefined, shown: unknown, error: Error): Promise<void> {
    if (!call || !stillWaits(data, error)) return;
    await shown;
    const { messageId, part: before } = call;
    const reopened = (part: { type: string }): { type: string } => (showsAnswer(part, data) ? { ...before } : part);
    const writing = (this.chat as WritingChat).activeResponse?.state?.message;
    if (writing?.id === messageId) writing.parts = writing.parts.map(reopened);
    this.edit(messageId, (message) => ({ ...message, parts: message.parts.map(reopened) }));
  }

  /** Return the last call that waits for a verdict and matches. */
  private findAsking(matches: (part: ToolPart) => boolean): ChatCall | undefined {
    return this.find((part) => part.state === "approval-requested" && matches(part));
  }

  private find(matches: (part: ToolPart) => boolean): ChatCall | undefined {
    return this.chat.messages.flatMap(callsIn).findLast(({ part }) => matches(part));
  }

  private has(messageId: string): boolean {
    return this.chat.messages.some(({ id }) => id === messageId);
  }

  private edit(messageId: string, change: (message: Message) => Message): void {
    this.chat.messages = this.chat.messages.map((message) => (message.id === messageId ? change(message) : message));
  }
}

function isWaiting({ state }: ToolPart): boolean {
  return state === "approval-requested" || state === "input-available";
}

function callsIn({ id, parts }: Message): ChatCall[] {
  return parts.filter(isToolPart).map((part) => ({ messageId: id, part: { ...part } }));
}

/** Return true when a call can be answered again after this error: not if another answer was first or nothing waits. */
function stillWaits({ status }: ToolResultData, error: Error): boolean {
  if (!(error instanceof HttpError)) return !(error instanceof NotConnected);
  return error.code !== "conflict" && (status === undefined || error.code !== "not-found");
}

/** Return true for a part that shows this answer, and nothing that the server has sent since. */
function showsAnswer(part: { type: string }, { toolCallId, status }: ToolResultData): boolean {
  if (!isToolPart(part) || part.toolCallId !== toolCallId) return false;
  return status === undefined ? part.state.startsWith("output-") : part.state === "approval-responded";
}

function verdictData(toolCallId: string, { id: approvalId, approved, reason }: Approval): ToolResultData {
  const status = approved ? "approved" : "rejected";
  return { toolCallId, approvalId, status, ...(reason !== undefined && { reason }) };
}

function outputData({ toolCallId, output, state, errorText = "" }: Output): ToolResultData {
  return state === "output-error" ? { toolCallId, error: errorText } : { toolCallId, result: output ?? null };
}

/** Return true for the part of this call. A part with another approval request is another call with the same id. */
function isPartOf({ toolCallId, approvalId }: CallSettled, part: { type: string }): part is ToolPart {
  if (!isToolPart(part) || part.toolCallId !== toolCallId) return false;
  return approvalId === undefined || part.approval?.id === undefined || part.approval.id === approvalId;
}

/** Replace the transcript in a message, which is its last text. A text that was typed before it stays. */
function withTranscript(parts: Message["parts"], before: string, text: string): Message["parts"] {
  const last = parts.at(-1) as { type: string; text?: string } | undefined;
  const isTranscript = last?.type === "text" && (last.text === before || last.text === "");
  return [...(isTranscript ? parts.slice(0, -1) : parts), { type: "text", text } as { type: string }];
}

/** Shorten the last text among the parts to what is kept of it, in place. */
function truncateLastText(parts: readonly { type: string }[], kept: string): void {
  const last = parts.findLast((part): part is { type: "text"; text: string } => part.type === "text");
  if (last?.text.startsWith(kept)) last.text = kept;
}
