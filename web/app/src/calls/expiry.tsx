import { type ReactElement, useEffect, useState } from "react";

const SECOND_MS = 1000;
const ASK_AGAIN_MS = 5000;

function inWords(seconds: number): string {
  if (seconds <= 0) return "Expired";
  const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor(seconds / 60)];
  if (hours > 0) return `Expires in ${hours} h`;
  return `Expires in ${minutes}:${String(seconds % 60).padStart(2, "0")}`;
}

/** How long a question can still be answered. The server's clock decides when it is over: `onOver` asks it. */
export function Expiry({ at, onOver }: { at: string; onOver: () => void }): ReactElement {
  const [now, setNow] = useState(Date.now);
  const seconds = Math.ceil((Date.parse(at) - now) / SECOND_MS);
  const over = seconds <= 0;
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
  return <span className="expiry" role="timer">{inWords(seconds)}</span>;
}
