import { Chat } from "@ai-sdk/react";
import { DefaultChatTransport, type UIMessage } from "ai";
import { version } from "ai/package.json";
import { authorizedFetch } from "./authorized-fetch";
import { createAutoSend } from "./create-auto-send";
import { newsIn } from "./news-in";
import { Refusal } from "./refusal";

async function fetchOrRefuse(input: RequestInfo | URL, init?: RequestInit): Promise<Response> {
  const response = await authorizedFetch(input, init);
  if (!response.ok) throw await Refusal.of(response);
  return response;
}

/** A chat with our server. `onEnd` hears of every answer that ends, and whether it was stopped. */
export function createChat(
  id: string, messages: UIMessage[], onEnd: (messageId: string, stopped: boolean) => void,
): Chat<UIMessage> {
  const autoSend = createAutoSend();
  const transport = new DefaultChatTransport({
    api: "api/chat",
    fetch: fetchOrRefuse,
    // Whoever says what it is also hears that an answer was interrupted.
    headers: { "X-Adkwire-Client": `ai/${version}` },
    prepareSendMessagesRequest: ({ id, messages, trigger, messageId }) =>
      ({ body: { id, ...newsIn(messages), trigger, messageId } }),
  });
  return new Chat({
    id, messages, transport,
    sendAutomaticallyWhen: autoSend.when,
    onError: autoSend.forget,
    onFinish: ({ message, isAbort, finishReason }) => onEnd(message.id, isAbort || finishReason === "interrupted"),
  });
}
