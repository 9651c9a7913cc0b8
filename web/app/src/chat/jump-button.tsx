import type { ReactElement } from "react";
import { HAS_KEYBOARD } from "../design/has-keyboard";
import { IconButton } from "../design/icon-button";
import { useStrings } from "../strings";

interface JumpButtonProps {
  /** Whether an answer is being written below. */
  growing: boolean;
  onJump: () => void;
}

/** A button that scrolls to the newest message; shown while the user has scrolled up. */
export function JumpButton({ growing, onJump }: JumpButtonProps): ReactElement {
  const t = useStrings().chat;
  const jump = (): void => {
    onJump();
    // This button goes away: without this the keyboard would start over at the top.
    if (HAS_KEYBOARD) document.getElementById("composer")?.focus();
  };
  return (
    <div className="jump">
      <IconButton className={growing ? "growing" : ""} icon="down" label={t.jump} onClick={jump} />
    </div>
  );
}
