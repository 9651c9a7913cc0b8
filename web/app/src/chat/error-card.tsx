import type { ReactElement } from "react";
import { Icon } from "../design/icon";
import { describeError } from "./describe-error";

const ACTIONS = { retry: "Retry", reconnect: "Reconnect", load: "Load the chat again" };

/** What went wrong, what to do, and the button that does it, if one can. */
export function ErrorCard({ error, onRetry }: { error: Error; onRetry: () => void }): ReactElement {
  const { message, hint, remedy } = describeError(error);
  return (
    <div className="error-card" role="alert">
      <div>
        <strong>{message}</strong>
        <p>{hint}</p>
      </div>
      {remedy && <button type="button" onClick={onRetry}><Icon name="retry" />{ACTIONS[remedy]}</button>}
    </div>
  );
}
