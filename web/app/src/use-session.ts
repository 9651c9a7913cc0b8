import { useCallback, useEffect } from "react";
import type { ChatHistory } from "./chat-history";
import type { ChatSession } from "./chat-session";
import type { NewsItem } from "./news-item";
import type { PageMode } from "./page-mode";
import { useNews } from "./use-news";

/** Keeps a session up with the page: its mode, whether it is looked at, and what happens elsewhere. */
export function useSession(session: ChatSession, history: ChatHistory, mode: PageMode, busy: boolean): void {
  useNews(useCallback((item: NewsItem | null) => session.follower.hear(item), [session]));
  useEffect(() => {
    if (history.active) session.follower.join(history.active.run);
    return () => void session.leave();
  }, [history, session]);
  useEffect(() => {
    session.mode = mode;
  }, [mode, session]);
  useEffect(() => {
    if (busy) return;
    session.follower.catchUp();
    session.rest();
    const onHide = (): void => session.rest();
    document.addEventListener("visibilitychange", onHide);
    return () => document.removeEventListener("visibilitychange", onHide);
  }, [busy, mode, session]);
}
