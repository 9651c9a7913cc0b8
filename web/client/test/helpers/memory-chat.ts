import type * as Ai from "ai-7-0-169";

type Init = Omit<Ai.ChatInit<Ai.UIMessage>, "messages"> & { messages?: Ai.UIMessage[] };

/** Make a chat without a page: the `AbstractChat` of the package with its state in memory. */
export function memoryChat(ai: typeof Ai, { messages = [], ...init }: Init): Ai.AbstractChat<Ai.UIMessage> {
  class MemoryState implements Ai.ChatState<Ai.UIMessage> {
    status: Ai.ChatStatus = "ready";
    error: Error | undefined;
    messages: Ai.UIMessage[] = messages;
    pushMessage = (message: Ai.UIMessage): void => {
      this.messages = [...this.messages, message];
    };
    popMessage = (): void => {
      this.messages = this.messages.slice(0, -1);
    };
    replaceMessage = (index: number, message: Ai.UIMessage): void => {
      this.messages = this.messages.with(index, structuredClone(message));
    };
    snapshot = <T>(value: T): T => structuredClone(value);
  }
  class MemoryChat extends ai.AbstractChat<Ai.UIMessage> {
    constructor() {
      super({ ...init, state: new MemoryState() });
    }
  }
  return new MemoryChat();
}
