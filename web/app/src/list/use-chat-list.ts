import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { useChatEvents } from "../sync/chat-events";
import { request } from "../transport/request";

/** The fields of a row of `GET /api/chats` that this page reads. */
export interface ChatSummary {
  id: string;
  title: string;
  /** When the chat last changed, as an ISO time in UTC: these compare as strings. */
  updatedAt: string;
  active: boolean;
  pending: number;
}

/** Return a function that starts `work`, or, while it is running, has it run once more after that. */
function oneAtATime(work: () => Promise<void>): () => void {
  let running = false;
  let again = false;
  return async function ask(): Promise<void> {
    again = true;
    if (running) return;
    running = true;
    while (again) {
      again = false;
      await work();
    }
    running = false;
  };
}

interface ListPage {
  chats: ChatSummary[];
  next?: string;
}

interface ChatListState extends ListPage {
  error: Error | null;
  loadMore: () => Promise<void>;
  remove: (id: string) => Promise<boolean>;
}

async function loadPage(before?: string): Promise<ListPage> {
  const query = before === undefined ? "" : `?before=${encodeURIComponent(before)}`;
  return (await (await request(`chats${query}`)).json()) as ListPage;
}

async function loadPages(count: number): Promise<ListPage> {
  let { chats, next } = await loadPage();
  for (let page = 1; page < count && next !== undefined; page++) {
    const more = await loadPage(next);
    chats = [...chats, ...more.chats];
    next = more.next;
  }
  return next === undefined ? { chats } : { chats, next };
}

/** Load the user's chats, newest first, and again after each event of a chat or when the window gets the focus. */
export function useChatList(): ChatListState {
  const [list, setList] = useState<ListPage>({ chats: [] });
  const [error, setError] = useState<Error | null>(null);
  const pages = useRef(1);
  const newest = useRef(0);
  const refresh = useCallback(async () => {
    const attempt = ++newest.current;
    try {
      const loaded = await loadPages(pages.current);
      // A slow response must not replace a newer one.
      if (attempt !== newest.current) return;
      setList(loaded);
      setError(null);
    } catch (failure) {
      if (attempt === newest.current) setError(failure as Error);
    }
  }, []);
  const refreshSoon = useMemo(() => oneAtATime(refresh), [refresh]);
  useChatEvents(refreshSoon);
  useEffect(() => {
    refreshSoon();
    window.addEventListener("focus", refreshSoon);
    return () => window.removeEventListener("focus", refreshSoon);
  }, [refreshSoon]);
  const loadMore = (): Promise<void> => {
    pages.current += 1;
    return refresh();
  };
  const remove = async (id: string): Promise<boolean> => {
    try {
      await request(`chats/${encodeURIComponent(id)}`, { method: "DELETE", accept: 404 });
    } catch (failure) {
      setError(failure as Error);
      return false;
    }
    await refresh();
    return true;
  };
  return { ...list, error, loadMore, remove };
}
