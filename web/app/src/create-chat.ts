import { Chat } from "@ai-sdk/react";
import { DefaultChatTransport, type UIMessage } from "ai";
import { version } from "ai/package.json";
import { authorizedFetch } from "./authorized-fetch";
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
  const transport = new DefaultChatTransport({
    api: "api/chat",
    fetch: fetchOrRefuse,
    // Whoever says what it is also hears that an answer was interrupted.
    headers: { "X-Adkwire-Client": `ai/${version}` },
    // The server knows the history; with pictures in it, sending it along would soon be too much.
    prepareSendMessagesRequest: ({ id, messages, trigger, messageId }) =>
      ({ body: { id, message: messages.at(-1), trigger, messageId } }),
  });
  return new Chat({
    id, messages, transport,
    onFinish: ({ message, isAbort, finishReason }) => onEnd(message.id, isAbort || finishReason === "interrupted"),
  });
}
