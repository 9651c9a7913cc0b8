import { isTextUIPart, type UIMessage } from "ai";
import { type ReactElement, type Ref, useContext } from "react";
import { CopyButton } from "../design/copy-button";
import { IconButton } from "../design/icon-button";
import { useStrings } from "../strings";
import { EditIcon } from "./icons";
import { MessageContext } from "./message-context";

/** Return the text of a message, without thoughts, calls and files. */
export function textOf(message: UIMessage): string {
  return message.parts.filter(isTextUIPart).map((part) => part.text).filter(Boolean).join("\n\n");
}

/** The buttons below an answer. */
export function AnswerActions({ message, onRegenerate }: { message: UIMessage; onRegenerate?: (() => void) | undefined }): ReactElement {
  const t = useStrings().message;
  return (
    <div className="actions">
      {textOf(message) && <CopyButton label={t.copyMessage} text={() => textOf(message)} />}
      {onRegenerate && <IconButton className="quiet" icon="retry" label={t.regenerate} onClick={onRegenerate} />}
    </div>
  );
}

interface OwnActionsProps {
  message: UIMessage;
  editButton: Ref<HTMLButtonElement>;
  onEdit: () => void;
}

/** The buttons below a message of the user. */
export function OwnActions({ message, editButton, onEdit }: OwnActionsProps): ReactElement {
  const t = useStrings().message;
  const { onEdit: send } = useContext(MessageContext);
  return (
    <div className="actions">
      {textOf(message) && <CopyButton label={t.copyMessage} text={() => textOf(message)} />}
      {send && (
        <button type="button" className="quiet square" ref={editButton} aria-label={t.edit} title={t.edit} onClick={onEdit}>
          <EditIcon />
        </button>
      )}
    </div>
  );
}
