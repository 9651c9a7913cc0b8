import { useCallback, useEffect, useRef, useState } from "react";
import type { Connection } from "./connection";

/** A connection that is there at once is not worth a word. */
const PATIENCE_MS = 400;
const GOOD_NEWS_MS = 8000;
const CONNECTED: Connection = { state: "connected" };

/** What would be gone before anybody has read it. */
function isWorthAWhile({ state }: Connection): boolean {
  return state === "resumed" || state === "crowded";
}

interface Link {
  link: Connection;
  tell: (connection: Connection) => void;
  /** Nothing is tried any more. */
  rest: () => void;
}

/** How the connection of the answer stands; what passes quickly is told for a while. */
export function useLink(): Link {
  const [link, setLink] = useState(CONNECTED);
  const timer = useRef(0);
  const tell = useCallback((next: Connection) => {
    clearTimeout(timer.current);
    if (next.state === "connecting") timer.current = window.setTimeout(() => setLink(next), PATIENCE_MS);
    else setLink((before) => (isWorthAWhile(before) && next.state === "connected" ? before : next));
  }, []);
  const rest = useCallback(() => tell(CONNECTED), [tell]);
  useEffect(() => {
    if (!isWorthAWhile(link)) return;
    const enough = setTimeout(() => setLink(CONNECTED), GOOD_NEWS_MS);
    return () => clearTimeout(enough);
  }, [link]);
  return { link, tell, rest };
}
