import { type ReactElement, useEffect, useState } from "react";
import { type Strings, useStrings } from "../strings";

const SECOND_MS = 1000;
const ASK_AGAIN_MS = 5000;
const SOON = 30;
/** Seconds that are left when a screen reader says so, the last first. */
const ANNOUNCED = [10, 60, 300];

function inWords(t: Strings["calls"], seconds: number): string {
  if (seconds <= 0) return t.expired;
  const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor(seconds / 60)];
  if (hours > 0) return t.expiresInHours(hours);
  return t.expiresIn(`${minutes}:${String(seconds % 60).padStart(2, "0")}`);
}

/** The time left to answer a question. The server's clock decides: at the end `onOver` asks the server. */
export function Expiry({ at, onOver }: { at: string; onOver: () => void }): ReactElement {
  const t = useStrings().calls;
  const [now, setNow] = useState(Date.now);
  const seconds = Math.ceil((Date.parse(at) - now) / SECOND_MS);
  const over = seconds <= 0;
  const reached = ANNOUNCED.find((limit) => seconds <= limit);
  useEffect(() => {
    const clock = setInterval(() => setNow(Date.now()), SECOND_MS);
    return () => clearInterval(clock);
  }, []);
  useEffect(() => {
    if (!over) return;
    onOver();
    const again = setInterval(onOver, ASK_AGAIN_MS);
    return () => clearInterval(again);
  }, [over, onOver]);
  return (
    <span className="expiry" data-soon={seconds <= SOON}>
      <span role="timer" aria-live="off">{inWords(t, seconds)}</span>
      <span className="unseen" aria-live="polite">{reached !== undefined && !over && t.expiresSoon(reached)}</span>
    </span>
  );
}
