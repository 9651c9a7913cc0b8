import type { ReactElement } from "react";
import { describeError } from "./describe-error";
import { Icon } from "./icon";

/** What went wrong, what to do, and the button that does it. */
export function ErrorCard({ error, onRetry }: { error: Error; onRetry: () => void }): ReactElement {
  const { message, hint, disconnected } = describeError(error);
  return (
    <div className="error-card" role="alert">
      <div>
        <strong>{message}</strong>
        <p>{hint}</p>
      </div>
      <button type="button" onClick={onRetry}><Icon name="retry" />{disconnected ? "Reconnect" : "Retry"}</button>
    </div>
  );
}
