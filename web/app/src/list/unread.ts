import { useCallback, useEffect, useSyncExternalStore } from "react";
import type { ChatSummary } from "./use-chat-list";

const KEY = "adkwire-seen";

/** Chats whose last visit is kept; of older ones only the newest visit is. */
const KEPT = 500;

/** What this browser has shown of the chats, in the server's times. */
interface Seen {
  /** A chat that is not in `chats` is unread when it has changed after this. */
  since: string;
  /** By chat, its `updatedAt` when it was last shown. */
  chats: Record<string, string>;
}

const listeners = new Set<() => void>();
let text: string | null = null;
let seen: Seen | null = null;

function read(): Seen | null {
  const stored = localStorage.getItem(KEY);
  if (stored !== text) {
    text = stored;
    try {
      seen = stored === null ? null : (JSON.parse(stored) as Seen);
    } catch {
      seen = null;
    }
  }
  return seen;
}

function write(next: Seen): void {
  localStorage.setItem(KEY, JSON.stringify(next));
  for (const listener of [...listeners]) listener();
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  window.addEventListener("storage", listener);
  return () => {
    listeners.delete(listener);
    window.removeEventListener("storage", listener);
  };
}

/** Drop what `since` says as well, and the oldest visits when there are too many. */
function bounded({ since, chats }: Seen): Seen {
  const visits = Object.entries(chats).filter(([, at]) => at > since).sort(([, one], [, other]) => (one < other ? 1 : -1));
  return { since: visits[KEPT]?.[1] ?? since, chats: Object.fromEntries(visits.slice(0, KEPT)) };
}

/** Note that the user has seen a chat as it is now. */
export function markSeen({ id, updatedAt }: ChatSummary): void {
  const now = read();
  if (now && updatedAt > (now.chats[id] ?? now.since)) write(bounded({ ...now, chats: { ...now.chats, [id]: updatedAt } }));
}

/** What there is when a browser shows the list for the first time is not news. */
function begin(chats: ChatSummary[]): void {
  if (read() || chats.length === 0) return;
  write({ since: chats.map((chat) => chat.updatedAt).sort().at(-1) ?? "", chats: {} });
}

/** Return a function that tells whether an answer in a chat has ended that this browser has not shown. */
export function useUnread(chats: ChatSummary[], current: string): (chat: ChatSummary) => boolean {
  const now = useSyncExternalStore(subscribe, read);
  useEffect(() => {
    begin(chats);
    const shown = chats.find((chat) => chat.id === current);
    const mark = (): void => {
      if (shown && !shown.active && !document.hidden) markSeen(shown);
    };
    mark();
    document.addEventListener("visibilitychange", mark);
    return () => document.removeEventListener("visibilitychange", mark);
  }, [chats, current]);
  return useCallback(({ id, active, updatedAt }: ChatSummary) =>
    now !== null && id !== current && !active && updatedAt > (now.chats[id] ?? now.since), [now, current]);
}
