import { useCallback, useEffect, useState } from "react";
import type { ChatSummary } from "./chat-summary";
import { request } from "./request";

interface ListPage {
  chats: ChatSummary[];
  next?: string | null;
}

interface ChatListState extends ListPage {
  refresh: () => Promise<void>;
  loadMore: () => Promise<void>;
  remove: (id: string) => Promise<void>;
}

async function loadPage(before?: string): Promise<ListPage> {
  const query = before === undefined ? "" : `?before=${encodeURIComponent(before)}`;
  return (await (await request(`chats${query}`)).json()) as ListPage;
}

/** The person's chats, newest first; fresh again whenever the window is looked at. */
export function useChatList(): ChatListState {
  const [page, setPage] = useState<ListPage>({ chats: [] });
  const refresh = useCallback(async () => {
    // A list that cannot be loaded leaves the old one: the chat itself says what is wrong with the server.
    await loadPage().then(setPage, () => undefined);
  }, []);
  useEffect(() => {
    const onFocus = (): void => void refresh();
    onFocus();
    window.addEventListener("focus", onFocus);
    return () => window.removeEventListener("focus", onFocus);
  }, [refresh]);
  const loadMore = async (): Promise<void> => {
    const more = await loadPage(page.next ?? undefined);
    setPage({ ...more, chats: [...page.chats, ...more.chats] });
  };
  const remove = async (id: string): Promise<void> => {
    await request(`chats/${encodeURIComponent(id)}`, "DELETE");
    await refresh();
  };
  return { ...page, refresh, loadMore, remove };
}
