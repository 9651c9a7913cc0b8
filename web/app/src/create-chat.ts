import { Chat } from "@ai-sdk/react";
import { sendAutomaticallyWhenSettled } from "adkwire";
import type { UIMessage } from "ai";
import type { Transport } from "./create-transport";
import type { PageMode } from "./page-mode";

interface ChatSetup {
  id: string;
  messages: UIMessage[];
  transport: Transport;
  mode: () => PageMode;
  /** Hears of every answer that ends, and whether it was stopped. */
  onEnd: (messageId: string, stopped: boolean) => void;
  /** Hears of an error before anybody else sees it. */
  onError: (error: Error) => void;
}

/** A chat with our server. In Gemini direct nobody waits for answers to calls, so none leave by themselves. */
export function createChat({ id, messages, transport, mode, onEnd, onError }: ChatSetup): Chat<UIMessage> {
  return new Chat({
    id, messages, transport, onError,
    sendAutomaticallyWhen: (chat) => mode() !== "gemini" && sendAutomaticallyWhenSettled(chat),
    onFinish: ({ message, isAbort, finishReason }) => onEnd(message.id, isAbort || finishReason === "interrupted"),
  });
}
