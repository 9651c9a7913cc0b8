import type { Chat } from "@ai-sdk/react";
import type { UIMessage } from "ai";
import { type ReactElement, type RefObject, useLayoutEffect, useRef, useState } from "react";
import { useStrings } from "../strings";
import { request } from "../transport/request";

/** Messages that are loaded at once: a long chat is shown from its end. */
export const MESSAGES_PER_PAGE = 50;

interface Page {
  messages: UIMessage[];
  /** The id of the first message, if there are earlier ones. */
  next?: string;
}

async function loadBefore(chat: string, message: string): Promise<Page> {
  const query = `limit=${MESSAGES_PER_PAGE}&before=${encodeURIComponent(message)}`;
  return (await (await request(`chats/${encodeURIComponent(chat)}?${query}`)).json()) as Page;
}

interface EarlierMessagesProps {
  chat: Chat<UIMessage>;
  /** The first message that was loaded, if the server has earlier ones. */
  next: string | undefined;
  /** The first message on the screen. */
  first: string | undefined;
  /** Whether an answer is being written. */
  busy: boolean;
  /** The element that scrolls. */
  box: RefObject<HTMLDivElement | null>;
  onFail: (error: Error) => void;
}

/** A button that loads the messages before those that are shown. What is being read stays where it is. */
export function EarlierMessages({ chat, next: firstNext, first, busy, box, onFail }: EarlierMessagesProps): ReactElement | null {
  const t = useStrings().chat;
  const [next, setNext] = useState(firstNext);
  const [loading, setLoading] = useState(false);
  // The height below the place that is read, while messages are added above it.
  const below = useRef<number | null>(null);
  useLayoutEffect(() => {
    if (below.current === null || !box.current) return;
    box.current.scrollTop = box.current.scrollHeight - below.current;
    below.current = null;
  }, [first, box]);
  // The whole history may have been loaded meanwhile.
  if (busy || next === undefined || first !== next) return null;
  const load = async (): Promise<void> => {
    setLoading(true);
    try {
      const page = await loadBefore(chat.id, next);
      if (chat.messages[0]?.id !== next) return;
      below.current = box.current ? box.current.scrollHeight - box.current.scrollTop : null;
      chat.messages = [...page.messages, ...chat.messages];
      setNext(page.next);
    } catch (error) {
      onFail(error as Error);
    } finally {
      setLoading(false);
    }
  };
  return (
    <button type="button" className="quiet earlier" disabled={loading} onClick={load}>{loading ? t.loadingEarlier : t.earlier}</button>
  );
}
