import { type ReactElement, useEffect, useState } from "react";
import { Icon } from "../design/icon";
import { useStrings } from "../strings";
import { describeError } from "./describe-error";

const TICK_MS = 250;

/** Count down from a number of seconds, anew for each error. */
function useCountdown(error: Error, seconds: number): number {
  const [left, setLeft] = useState(seconds);
  useEffect(() => {
    setLeft(seconds);
    if (seconds === 0) return;
    const end = performance.now() + 1000 * seconds;
    const timer = setInterval(() => setLeft(Math.max(0, Math.ceil((end - performance.now()) / 1000))), TICK_MS);
    return () => clearInterval(timer);
  }, [error, seconds]);
  return left;
}

/** What went wrong, what to do, and the button that does it, if one can. A wait that the server named is counted down. */
export function ErrorCard({ error, onRetry }: { error: Error; onRetry: () => void }): ReactElement {
  const t = useStrings().errors;
  const { message, hint, remedy, wait = 0 } = describeError(error);
  const left = useCountdown(error, wait);
  return (
    <div className="error-card" role="alert">
      <div>
        <strong>{message}</strong>
        <p>{hint}</p>
      </div>
      {remedy && (
        <button type="button" disabled={left > 0} onClick={onRetry}>
          <Icon name="retry" />{left > 0 ? <span aria-live="off">{t.waitSeconds(left)}</span> : t[remedy]}
        </button>
      )}
    </div>
  );
}
