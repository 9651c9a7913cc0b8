import { useCallback, useEffect } from "react";
import type { PageMode } from "../transport/page-mode";
import type { ChatSession } from "./chat-session";
import type { ChatHistory } from "./history";
import { useChatEvents } from "./chat-events";
import type { ChatEvent } from "./read-events";

/** Pass the mode, the visibility of the tab and the events of other tabs on to a session. */
export function useSession(session: ChatSession, history: ChatHistory, mode: PageMode, busy: boolean): void {
  useChatEvents(useCallback((item: ChatEvent | null) => session.follower.onEvent(item), [session]));
  useEffect(() => {
    if (history.active) session.follower.join(history.active.run);
    return () => void session.leave();
  }, [history, session]);
  useEffect(() => session.setMode(mode), [mode, session]);
  useEffect(() => {
    if (busy) return;
    session.joinLive();
    session.follower.catchUp();
    session.releaseSocket();
    const onHide = (): void => session.releaseSocket();
    document.addEventListener("visibilitychange", onHide);
    return () => document.removeEventListener("visibilitychange", onHide);
  }, [busy, mode, session]);
}
