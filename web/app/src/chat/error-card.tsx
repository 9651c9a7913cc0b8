import type { ReactElement } from "react";
import { Icon } from "../design/icon";
import { useStrings } from "../strings";
import { describeError } from "./describe-error";

/** What went wrong, what to do, and the button that does it, if one can. */
export function ErrorCard({ error, onRetry }: { error: Error; onRetry: () => void }): ReactElement {
  const t = useStrings().errors;
  const { message, hint, remedy } = describeError(error);
  return (
    <div className="error-card" role="alert">
      <div>
        <strong>{message}</strong>
        <p>{hint}</p>
      </div>
      {remedy && <button type="button" onClick={onRetry}><Icon name="retry" />{t[remedy]}</button>}
    </div>
  );
}
