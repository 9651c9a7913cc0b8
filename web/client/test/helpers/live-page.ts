import { randomUUID } from "node:crypto";
import type * as Ai from "ai-7-0-169";
import { expect, inject } from "vitest";
import { WebSocket } from "ws";
import { chatOptions } from "../../src/chat-options.js";
import { attach } from "../../src/live/attach.js";
import type { LiveChatTransportOptions } from "../../src/live/live-chat-transport-options.js";
import type { LiveChatTransport } from "../../src/live/live-chat-transport.js";
import type { ClientToolRunner } from "../../src/tools/client-tools.js";
import type { majors } from "./majors.js";
import { memoryChat } from "./memory-chat.js";
import { history } from "./messages.js";

export type Chat = Ai.AbstractChat<Ai.UIMessage>;

type PageOptions = {
  url?: string;
  chatId?: string;
  messages?: Ai.UIMessage[];
  tools?: ClientToolRunner;
  transport?: Omit<LiveChatTransportOptions, "url" | "chat">;
};

/** A page with a live chat: the chat, its transport, and the frames that were sent. */
export class LivePage {
  readonly chat: Chat;
  readonly transport: LiveChatTransport;
  /** The types of the frames that were sent, on all connections. */
  readonly sent: string[] = [];
  readonly errors: string[] = [];

  constructor({ ai, version }: (typeof majors)[number], options: PageOptions = {}) {
    const { url = inject("serverUrl"), chatId = randomUUID(), messages = [], tools, transport: more } = options;
    const { useChatOptions, transport } = chatOptions<Ai.UIMessage>({
      mode: "live", url, chatId, messages, ...(tools && { tools }),
      transport: {
        WebSocket: noting(this.sent), client: `ai/${version}`, backoff: { initial: 5, max: 50, attempts: 1000 },
        onError: ({ message }) => this.errors.push(message), ...more,
      },
    });
    this.transport = transport;
    this.chat = attach(memoryChat(ai, useChatOptions as Parameters<typeof memoryChat>[1]), transport as LiveChatTransport<never>);
    tools?.pickUp(this.chat);
  }

  /** Return how many frames of these types were sent. */
  count(...types: string[]): number {
    return this.sent.filter((type) => types.includes(type)).length;
  }

  /** Return the calls in the last message, or those in one state. */
  calls(state?: string): Ai.ToolUIPart[] {
    const parts = this.chat.messages.findLast(({ role }) => role === "assistant")?.parts ?? [];
    return parts.filter((part): part is Ai.ToolUIPart => "toolCallId" in part && (state === undefined || part.state === state));
  }

  async asked(count: number): Promise<Ai.ToolUIPart[]> {
    await expect.poll(() => this.calls("approval-requested").length).toBe(count);
    return this.calls("approval-requested");
  }

  answer(part: Ai.ToolUIPart | undefined, approved: boolean, reason?: string): void {
    const id = part && "approval" in part ? part.approval?.id : undefined;
    void this.chat.addToolApprovalResponse({ id: id ?? "", approved, ...(reason !== undefined && { reason }) });
  }

  async ready(): Promise<void> {
    await expect.poll(() => [this.chat.status, this.chat.error?.message, this.chat.lastMessage?.role]).toEqual(["ready", undefined, "assistant"]);
  }

  /** Check that the page shows the history of the server. */
  async isAsStored(): Promise<void> {
    await expect.poll(async () => (await history(inject("serverUrl"), this.chat.id)).active).toBeNull();
    const { messages } = await history(inject("serverUrl"), this.chat.id);
    // The chat reads its last chunks a little later than the server stores them.
    await expect.poll(() => this.chat.messages).toEqual(messages);
  }
}

/** The real socket, which notes the types of the frames that it sends. */
function noting(sent: string[]): typeof WebSocket {
  return class extends WebSocket {
    override send(data: unknown): void {
      sent.push(typeof data === "string" ? (JSON.parse(data) as { type: string }).type : "binary");
      super.send(data as string);
    }
  };
}
