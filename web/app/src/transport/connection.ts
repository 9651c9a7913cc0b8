import { useCallback, useEffect, useRef, useState, useSyncExternalStore } from "react";

/** The state of the connection, as it is shown to the user. */
export type Connection =
  /** The browser reports no network. */
  | { state: "offline" }
  | { state: "connecting" }
  | { state: "connected" }
  /** Crowded: the server refuses another socket to this user. */
  | { state: "reconnecting"; attempt: number; crowded?: boolean }
  /** The answer went on after the last chunk that was received: none is missing. */
  | { state: "resumed" }
  /** The answer comes by HTTP, since the server refused another socket to this user. */
  | { state: "crowded" }
  | { state: "not-recovered" };

function subscribe(onChange: () => void): () => void {
  window.addEventListener("online", onChange);
  window.addEventListener("offline", onChange);
  return () => {
    window.removeEventListener("online", onChange);
    window.removeEventListener("offline", onChange);
  };
}

/** Return whether the browser reports a network. */
export function useOnline(): boolean {
  return useSyncExternalStore(subscribe, () => navigator.onLine);
}

/** Connecting is shown only when it takes longer than this. */
const SHOW_CONNECTING_AFTER_MS = 400;
const SHOW_NOTICE_MS = 8000;
const CONNECTED: Connection = { state: "connected" };

/** Return whether a state is followed by `connected` at once, and stays on the screen for a while nevertheless. */
function isNotice({ state }: Connection): boolean {
  return state === "resumed" || state === "crowded";
}

interface StreamConnection {
  connection: Connection;
  report: (connection: Connection) => void;
  /** Show `connected`: nothing is being sent or read. */
  reset: () => void;
}

/** Keep the state of the connection that carries the answer. */
export function useStreamConnection(): StreamConnection {
  const [connection, setConnection] = useState(CONNECTED);
  const timer = useRef(0);
  const report = useCallback((next: Connection) => {
    clearTimeout(timer.current);
    if (next.state === "connecting") timer.current = window.setTimeout(() => setConnection(next), SHOW_CONNECTING_AFTER_MS);
    else setConnection((before) => (isNotice(before) && next.state === "connected" ? before : next));
  }, []);
  const reset = useCallback(() => report(CONNECTED), [report]);
  useEffect(() => {
    if (!isNotice(connection)) return;
    const timeout = setTimeout(() => setConnection(CONNECTED), SHOW_NOTICE_MS);
    return () => clearTimeout(timeout);
  }, [connection]);
  return { connection, report, reset };
}
