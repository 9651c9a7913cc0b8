import type { Chat } from "@ai-sdk/react";
import { HttpError } from "adkwire";
import type { UIMessage } from "ai";
import type { Follower } from "../sync/follower";
import { type ChatHistory, loadHistory } from "../sync/history";
import { authorizedFetch } from "../transport/request";
import { lastStepCalls, type ToolPart } from "../transport/tool-part";
import type { Scope } from "./approval-details";

/** A person's answer to a question. */
export interface CallAnswer {
  approved: boolean;
  /** Why the call is denied. */
  reason?: string;
  /** Other arguments, all of them, as JSON text: numbers in it may be larger than JavaScript's. */
  args?: string;
  /** The payload that the tool asked for, as JSON text. */
  payload?: string;
  scope?: Scope;
}

/** Return the wrong arguments that an error names: their names and what is wrong with them. */
function problemsIn(body: unknown): Record<string, string> {
  const fields = (body as { error?: { fields?: unknown } } | null)?.error?.fields;
  const problems = (Array.isArray(fields) ? fields : []).map(({ pointer, message }: { pointer?: unknown; message?: unknown }) => {
    const name = /^\/args\/([^/]+)/.exec(String(pointer))?.[1] ?? "";
    return [name.replaceAll("~1", "/").replaceAll("~0", "~"), String(message)];
  });
  // The first one of each argument counts.
  return Object.fromEntries(problems.filter(([name]) => name).reverse()) as Record<string, string>;
}

/** A refused answer. The server may have named the arguments that are wrong. */
export class AnswerRefused extends Error {
  override readonly name = "AnswerRefused";
  readonly status: number;
  readonly problems: Record<string, string>;

  constructor({ status, message }: HttpError, problems: Record<string, string>) {
    super(message);
    this.status = status;
    this.problems = problems;
  }

  /** Read the refusal out of a response. */
  static async of(response: Response): Promise<AnswerRefused> {
    const body: unknown = await response.clone().json().catch(() => null);
    return new AnswerRefused(await HttpError.of(response), problemsIn(body));
  }

  /** The call has another answer, has expired, or is unknown: the page shows something old. */
  get isLate(): boolean {
    return this.status === 404 || this.status === 409;
  }
}

/** Return the JSON of an answer. Its parts are JSON already, and stay as they were typed. */
function bodyOf({ approved, reason, args, payload, scope }: CallAnswer, approvalId: string | undefined): string {
  const fields = {
    approved: JSON.stringify(approved),
    reason: !approved && reason ? JSON.stringify(reason) : undefined,
    args, payload,
    scope: scope && scope !== "once" ? JSON.stringify(scope) : undefined,
    approvalId: JSON.stringify(approvalId),
  };
  const given = Object.entries(fields).filter(([, json]) => json !== undefined);
  return `{${given.map(([name, json]) => `${JSON.stringify(name)}:${json}`).join(",")}}`;
}

async function post(chatId: string, call: ToolPart, answer: CallAnswer): Promise<void> {
  const path = `api/chat/${encodeURIComponent(chatId)}/calls/${encodeURIComponent(call.toolCallId)}`;
  const response = await authorizedFetch(path, {
    method: "POST", headers: { "Content-Type": "application/json" }, body: bodyOf(answer, call.approval?.id),
  });
  if (!response.ok) throw await AnswerRefused.of(response);
}

function hasDetails({ args, payload, scope }: CallAnswer): boolean {
  return args !== undefined || payload !== undefined || (scope ?? "once") !== "once";
}

/** Return the message with the verdict in it, as the AI SDK writes it. */
function withVerdict(message: UIMessage, call: ToolPart, { approved, reason }: CallAnswer): UIMessage {
  const approval = { id: call.approval?.id, approved, ...(!approved && reason ? { reason } : {}) };
  const parts = message.parts.map((part) =>
    (part === call || ("toolCallId" in part && part.toolCallId === call.toolCallId && part.state === "approval-requested")
      ? ({ ...part, state: "approval-responded", approval } as ToolPart) : part));
  return { ...message, parts };
}

/** Sends a verdict without details, with the chat. */
type SendVerdict = (approvalId: string, approved: boolean, reason: string) => Promise<void>;

/**
 * Sends the answers of one chat. The AI SDK sends verdicts with the message, when all calls of the step have one. What it
 * cannot say, such as other arguments, goes by the calls route at once; then so do the other answers of that step.
 */
export class Answers {
  readonly #chat: Chat<UIMessage>;
  readonly #follower: Follower;
  readonly #sendVerdict: SendVerdict;
  /** The questions that were answered by the calls route. */
  readonly #posted = new Set<string>();

  constructor(chat: Chat<UIMessage>, follower: Follower, sendVerdict: SendVerdict) {
    this.#chat = chat;
    this.#follower = follower;
    this.#sendVerdict = sendVerdict;
  }

  /** True if this tab has answered a call of the last step by the calls route, so that it also runs its browser calls. */
  get hasPosted(): boolean {
    return lastStepCalls(this.#chat.lastMessage).some((call) => this.#isPosted(call));
  }

  /** Answer a question. Throw `AnswerRefused` if the server does not take the answer. */
  async give(call: ToolPart, answer: CallAnswer): Promise<void> {
    if (hasDetails(answer) || this.hasPosted) await this.#post(call, answer);
    else {
      void this.#sendVerdict(call.approval?.id ?? "", answer.approved, answer.reason ?? "");
    }
  }

  /** Return whether a call whose outcome is unknown may be run again. */
  async isRetryable({ toolCallId }: ToolPart): Promise<boolean> {
    const history: ChatHistory & { retryable?: string[] } = await loadHistory(this.#chat.id, 1);
    return history.retryable?.includes(toolCallId) ?? false;
  }

  /** Run a call again whose outcome is unknown. */
  async retry(call: ToolPart): Promise<void> {
    await post(this.#chat.id, call, { approved: true });
    this.#follower.check();
  }

  #isPosted(call: ToolPart): boolean {
    return call.approval !== undefined && this.#posted.has(call.approval.id);
  }

  async #post(call: ToolPart, answer: CallAnswer): Promise<void> {
    try {
      await this.#postEarlier();
      await post(this.#chat.id, call, answer);
    } catch (error) {
      if (error instanceof AnswerRefused && error.isLate) this.#follower.check();
      throw error;
    }
    this.#posted.add(call.approval?.id ?? "");
    const last = this.#chat.lastMessage;
    if (last) this.#chat.messages = [...this.#chat.messages.slice(0, -1), withVerdict(last, call, answer)];
    this.#follower.check();
  }

  /** Send the verdicts of this step that only this page has: the message that would bring them is not sent any more. */
  async #postEarlier(): Promise<void> {
    for (const other of lastStepCalls(this.#chat.lastMessage)) {
      if (other.state !== "approval-responded" || this.#isPosted(other)) continue;
      const { approved, reason } = other.approval;
      await post(this.#chat.id, other, { approved, ...(reason ? { reason } : {}) }).catch((error: unknown) => {
        // It was answered elsewhere, or before this page was loaded.
        if (!(error instanceof AnswerRefused && error.isLate)) throw error;
      });
      this.#posted.add(other.approval.id);
    }
  }
}
