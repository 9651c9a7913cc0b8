import { chatOptions } from "adkwire";
import type { ChatTransport, UIMessage } from "ai";
import { version } from "ai/package.json";
import type { Connection } from "./connection";
import { fetchInSlots } from "./fetch-in-slots";
import { unsentMessages } from "./unsent-messages";

/** Declares the client, which also gets the newer chunks, such as the one about an interruption. */
export const CLIENT = `ai/${version}`;
export const BASE = new URL(".", location.href).href;

/** A chat's transport. */
export interface Transport extends ChatTransport<UIMessage> {
  /** Disconnect without stopping the run. */
  close: () => void;
}

export type OnConnection = (connection: Connection) => void;

function bodyOf(unsent: UIMessage[]): { message: UIMessage | undefined } | { messages: UIMessage[] } {
  return unsent.length > 1 ? { messages: unsent } : { message: unsent[0] };
}

/** Return the transport that sends and reads by HTTP. */
export function overHttp(chatId: string, mode: "sse" | "gemini", onConnection: OnConnection): Transport {
  const { transport } = chatOptions({
    mode, chatId, url: BASE,
    transport: {
      fetch: fetchInSlots(`${BASE}api/chat/${encodeURIComponent(chatId)}/stream`),
      client: CLIENT,
      // Leaving the page is no stop: the button uses the stop route.
      stopOnAbort: false,
      prepareSendMessagesRequest: ({ id, messages, trigger, messageId }) =>
        ({ body: { id, ...bodyOf(unsentMessages(messages)), trigger, messageId } }),
      onState: ({ status, attempt }) => onConnection(status === "reconnecting" ? { state: status, attempt } : { state: status }),
    },
  });
  return {
    resumeStreamIsReplay: true,
    sendMessages: (options) => {
      onConnection({ state: "connecting" });
      return transport.sendMessages(options);
    },
    reconnectToStream: (options) => transport.reconnectToStream(options),
    close: () => undefined,
  };
}
