import { useEffect } from "react";
import type { Connection } from "../transport/connection";
import type { ChatEvent } from "./read-events";
import { shareEvents } from "./share-events";

/** Called with each event, and with null when events may have been missed. */
type Listener = (event: ChatEvent | null) => void;

const listeners = new Set<Listener>();
const watchers = new Set<() => void>();
let connection: Connection = { state: "connecting" };
let reading: AbortController | null = null;

function publish(event: ChatEvent | null): void {
  for (const listener of [...listeners]) listener(event);
}

function setConnection(next: Connection): void {
  connection = next;
  for (const watcher of [...watchers]) watcher();
}

/** Connect while the tab is visible only: a browser has few connections to one server. */
function update(): void {
  const wanted = listeners.size > 0 && !document.hidden;
  if (wanted && !reading) {
    reading = new AbortController();
    void shareEvents(reading.signal, { onConnection: setConnection, onEvent: publish });
  } else if (!wanted && reading) {
    reading.abort();
    reading = null;
  }
}

document.addEventListener("visibilitychange", update);

/** The events of all chats of the user, whichever tab or device caused them. */
export const chatEvents = {
  listen(listener: Listener): () => void {
    listeners.add(listener);
    update();
    return () => {
      listeners.delete(listener);
      update();
    };
  },
  /** With `connection`, for `useSyncExternalStore`. */
  subscribe(watcher: () => void): () => void {
    watchers.add(watcher);
    return () => watchers.delete(watcher);
  },
  connection: (): Connection => connection,
};

/** Call a listener, which must be stable, with each event of the user's chats. */
export function useChatEvents(listener: Listener): void {
  useEffect(() => chatEvents.listen(listener), [listener]);
}
