import type { LiveState, SocketNotice } from "adkwire";
import { type ReactElement, useCallback, useEffect, useState } from "react";
import { useStrings } from "../strings";

const SHOW_INTERRUPTED_MS = 2000;

/** Return whether something was interrupted just now, and a function that says so. */
export function useInterrupted(): [interrupted: boolean, show: () => void] {
  const [count, setCount] = useState(0);
  useEffect(() => {
    if (count === 0) return;
    const timer = setTimeout(() => setCount(0), SHOW_INTERRUPTED_MS);
    return () => clearTimeout(timer);
  }, [count]);
  return [count > 0, useCallback(() => setCount((before) => before + 1), [])];
}

const SHOW_NOTICE_MS = 8000;
/** Notices that say nothing to a person: the server deals with them. */
const SILENT = new Set(["go-away", "malformed-frame", "unknown-frame"]);

/** Keep the last notice of a live conversation for a while. */
export function useNotice(): [notice: SocketNotice | null, show: (notice: SocketNotice) => void] {
  const [notice, setNotice] = useState<SocketNotice | null>(null);
  useEffect(() => {
    if (!notice) return;
    const timer = setTimeout(() => setNotice(null), SHOW_NOTICE_MS);
    return () => clearTimeout(timer);
  }, [notice]);
  return [notice, useCallback((next) => setNotice((before) => (SILENT.has(next.code) ? before : next)), [])];
}

interface LiveStatusProps {
  /** What the agent does; null outside a live conversation. */
  state: LiveState | null;
  interrupted: boolean;
  notice: SocketNotice | null;
}

/** What a live conversation does at this moment, and for two seconds that something was interrupted. */
export function LiveStatus({ state, interrupted, notice }: LiveStatusProps): ReactElement {
  const t = useStrings().chat;
  return (
    <div className="live-status">
      {state && !interrupted && (
        <p className="live-state" data-state={state}>
          <span className="bars" aria-hidden="true"><i /><i /><i /></span>
          {t.liveStates[state]}
        </p>
      )}
      <p className="notice" role="status" aria-label={t.notice}>{notice && (t.notices[notice.code] ?? notice.text)}</p>
      <p className="interrupted" role="status" aria-label={t.interruption}>{interrupted && <span>{t.interrupted}</span>}</p>
    </div>
  );
}
