import { callKey } from "./call-key.js";
import { HttpError } from "./http-error.js";
import { isToolPart } from "./is-tool-part.js";
import type { LiveAttachment } from "./live-attachment.js";
import type { LiveChatTransport } from "./live-chat-transport.js";
import type { CallSettled, ToolResultData, TurnFrame } from "./live-frames.js";
import type { Message } from "./message.js";
import { keepText } from "./keep-text.js";
import { NotConnected } from "./not-connected.js";
import { settledPart } from "./settled-part.js";
import { TranscriptText } from "./transcript-text.js";
import type { ToolPart } from "./tool-part.js";

const MAX_KNOWN = 100;
/** States that only an approved call has. */
const APPROVED = new Set(["offered", "executing", "executed"]);

type Approval = { id: string; approved: boolean; reason?: string };
/** A call, and the message that it is in. */
type Shown = { messageId: string; part: ToolPart };
type Output = { toolCallId: string; output?: unknown; state?: string; errorText?: string };

/** What is needed of a chat: a `Chat` of any framework, and whatever else extends `AbstractChat` of AI SDK 6 or 7. */
export interface AttachableChat {
  messages: readonly Message[];
  /** Of whatever type the chat's messages are. */
  sendMessage(message: never, options: { body: object }): Promise<void>;
  resumeStream(options?: { body: object }): Promise<void>;
  addToolApprovalResponse(answer: Approval): unknown;
  addToolOutput(output: Output): unknown;
  addToolResult?(output: Output): unknown;
}

/** The message that a chat is writing: it replaces the one in `messages` with every chunk. Both majors keep it here. */
type Writing = { activeResponse?: { state?: { message?: Message } } };

/**
 * Joins a chat and its live transport, once, before the chat is used: turns that the server begins are shown in it, answers
 * to calls leave at once while an answer is being written, and what was not heard is not kept. Returns the chat.
 */
export function attach<C extends object>(chat: C & AttachableChat, transport: LiveChatTransport<never>): C {
  const attached = new AttachedChat(chat, transport);
  attached.wrap();
  transport["~attach"](attached);
  return chat;
}

class AttachedChat implements LiveAttachment {
  private readonly approve: AttachableChat["addToolApprovalResponse"];
  private readonly output: AttachableChat["addToolOutput"];
  /** What is heard, by the message that it is. */
  private readonly heard = new Map<string, TranscriptText>();
  /** Questions that were approved, here or elsewhere. Not calls: some models number those anew in each answer. */
  private readonly approved = new Map<string, true>();
  /** Calls that were answered beside the chat while it was idle: it still waits for them, and would not send the others. */
  private readonly answeredBeside = new Map<string, true>();

  constructor(
    private readonly chat: AttachableChat,
    private readonly transport: LiveChatTransport<never>,
  ) {
    this.approve = chat.addToolApprovalResponse;
    this.output = chat.addToolOutput;
  }

  /** The chat's own methods, so that whoever calls them need not know of any transport. */
  wrap(): void {
    const { chat } = this;
    chat.addToolApprovalResponse = async (answer) => {
      const call = this.asking(({ approval }) => approval?.id === answer.id);
      return this.give(call && verdict(call.part.toolCallId, answer), call, () => this.approve(answer));
    };
    chat.addToolOutput = async (output) => {
      const call = this.find(({ toolCallId }) => toolCallId === output.toolCallId);
      return this.give(outcome(output), call, () => this.output(output));
    };
    if ("addToolResult" in chat) chat.addToolResult = chat.addToolOutput;
  }

  turn(turn: TurnFrame, before: Promise<unknown>): void {
    // Behind the chat's own last step of the answer before it, or its state would be that of the wrong answer.
    void before.then(() => setTimeout(() => this.show(turn).catch((error: Error) => this.transport["~failed"](error))));
  }

  resume(): void {
    void this.chat.resumeStream().catch((error: Error) => this.transport["~failed"](error));
  }

  transcript(userMessageId: string, text: string, final: boolean): void {
    const heard = this.heard.get(userMessageId) ?? new TranscriptText();
    const before = heard.text;
    heard.add(text, final);
    remember(this.heard, userMessageId, heard);
    this.edit(userMessageId, (message) => ({ ...message, parts: withTranscript(message.parts, before, heard.text) }));
  }

  settled(call: CallSettled): void {
    const { approvalId, state } = call;
    if (APPROVED.has(state)) return approvalId === undefined ? undefined : this.approvedElsewhere(approvalId);
    const message = this.chat.messages.findLast(({ parts }) => parts.some((part) => isMeant(part, call)));
    if (!message || this.transport["~isWriting"](message.id)) return;
    if (state === "answered") remember(this.answeredBeside, callKey(message.id, call.toolCallId), true);
    const parts = message.parts.map((part) => (isMeant(part, call) ? settledPart(part, state) : part));
    this.edit(message.id, () => ({ ...message, parts }));
  }

  // AI SDK 6 has no chunk that says so. Only amid an answer, or the chat would take the verdict for its own, and send it.
  asked(approvalId: string): void {
    if (!this.approved.has(approvalId) || !this.asking(({ approval }) => approval?.id === approvalId)) return;
    void this.approve({ id: approvalId, approved: true });
  }

  keep(messageId: string, kept: string): void {
    const writing = (this.chat as Writing).activeResponse?.state?.message;
    if (writing?.id === messageId) keepText(writing.parts, kept);
    this.edit(messageId, (message) => {
      const parts = message.parts.map((part) => ({ ...part }));
      keepText(parts, kept);
      return { ...message, parts };
    });
  }

  answered(data: ToolResultData): (error: Error) => void {
    const { toolCallId, status, reason } = data;
    const call = this.asking((part) => part.toolCallId === toolCallId);
    const id = call?.part.approval?.id;
    if (id === undefined || status === undefined) return () => {};
    const shown = this.approve({ id, approved: status === "approved", ...(reason !== undefined && { reason }) });
    return (error) => void this.reopen(data, call, shown, error);
  }

  questionOf(toolCallId: string): string | undefined {
    return this.asking((part) => part.toolCallId === toolCallId)?.part.approval?.id;
  }

  calls(messageId?: string): Shown[] {
    const message = messageId === undefined ? this.chat.messages.at(-1) : this.chat.messages.findLast(({ id }) => id === messageId);
    return message ? callsIn(message) : [];
  }

  private approvedElsewhere(approvalId: string): void {
    remember(this.approved, approvalId, true);
    this.transport["~whenRead"](() => this.asked(approvalId));
  }

  private async show({ requestId, messageId, userMessageId }: TurnFrame): Promise<void> {
    // Its connection may have ended for good meanwhile.
    if (!this.transport["~hasBegun"](requestId)) return;
    const options = { body: { liveTurn: requestId } };
    // Nothing new from the user: the server goes on with what is there.
    if (userMessageId === "" || this.has(userMessageId) || this.has(messageId)) return this.chat.resumeStream(options);
    const text = this.heard.get(userMessageId)?.text ?? "";
    const message: Message = { id: userMessageId, role: "user", parts: [{ type: "text", text } as { type: string }] };
    return this.chat.sendMessage(message as never, options);
  }

  /** Show an answer, and tell the server while one is being written, or the chat would not. Else it sends it by itself. */
  private give(data: ToolResultData | undefined, call: Shown | undefined, show: () => unknown): unknown {
    if (!data) return show();
    const told = this.transport[call && this.isStuck(call) ? "~answer" : "~tell"](data);
    const shown = show();
    told.catch((error: Error) => {
      void this.reopen(data, call, shown, error);
      this.transport["~failed"](error);
    });
    return shown;
  }

  /** Whether the chat waits for a call beside this one that the server does not wait for any more. */
  private isStuck({ messageId, part: { toolCallId } }: Shown): boolean {
    return this.calls(messageId).some(({ part }) =>
      part.toolCallId !== toolCallId && isWaiting(part) && this.answeredBeside.has(callKey(messageId, part.toolCallId)));
  }

  /** The server does not take an answer, and the call still waits: it is shown as it was, so that it can be answered. */
  private async reopen(data: ToolResultData, call: Shown | undefined, shown: unknown, error: Error): Promise<void> {
    if (!call || !stillWaits(data, error)) return;
    await shown;
    const { messageId, part: before } = call;
    const back = (part: { type: string }): { type: string } => (shows(part, data) ? { ...before } : part);
    const writing = (this.chat as Writing).activeResponse?.state?.message;
    if (writing?.id === messageId) writing.parts = writing.parts.map(back);
    this.edit(messageId, (message) => ({ ...message, parts: message.parts.map(back) }));
  }

  private asking(matches: (part: ToolPart) => boolean): Shown | undefined {
    return this.find((part) => part.state === "approval-requested" && matches(part));
  }

  private find(matches: (part: ToolPart) => boolean): Shown | undefined {
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

function callsIn({ id, parts }: Message): Shown[] {
  return parts.filter(isToolPart).map((part) => ({ messageId: id, part: { ...part } }));
}

/** Whether a call whose answer failed can be answered again: not when another was faster, or nobody asks any more. */
function stillWaits({ status }: ToolResultData, error: Error): boolean {
  if (!(error instanceof HttpError)) return !(error instanceof NotConnected);
  return error.code !== "conflict" && (status === undefined || error.code !== "not-found");
}

/** Whether a part is as an answer has made it, and not as the server has since. */
function shows(part: { type: string }, { toolCallId, status }: ToolResultData): boolean {
  if (!isToolPart(part) || part.toolCallId !== toolCallId) return false;
  return status === undefined ? part.state.startsWith("output-") : part.state === "approval-responded";
}

function verdict(toolCallId: string, { id: approvalId, approved, reason }: Approval): ToolResultData {
  return { toolCallId, approvalId, status: approved ? "approved" : "rejected", ...(reason !== undefined && { reason }) };
}

function outcome({ toolCallId, output, state, errorText = "" }: Output): ToolResultData {
  return state === "output-error" ? { toolCallId, error: errorText } : { toolCallId, result: output ?? null };
}

function remember<V>(known: Map<string, V>, id: string, value: V): void {
  known.set(id, value);
  const [oldest] = known.keys();
  if (known.size > MAX_KNOWN && oldest !== undefined) known.delete(oldest);
}

function isMeant(part: { type: string }, { toolCallId, approvalId }: CallSettled): part is ToolPart {
  if (!isToolPart(part) || part.toolCallId !== toolCallId) return false;
  return approvalId === undefined || part.approval?.id === undefined || part.approval.id === approvalId;
}

/** What is heard is the last text of its message; words that were typed before it stay as they are. */
function withTranscript(parts: Message["parts"], before: string, text: string): Message["parts"] {
  const last = parts.at(-1) as { type: string; text?: string } | undefined;
  const isHeard = last?.type === "text" && (last.text === before || last.text === "");
  return [...(isHeard ? parts.slice(0, -1) : parts), { type: "text", text } as { type: string }];
}
