import { isFileUIPart, type UIMessage } from "ai";
import { type FormEvent, type KeyboardEvent, type ReactElement, useContext, useEffect, useRef, useState } from "react";
import { useEscape } from "../design/escape";
import { useStrings } from "../strings";
import { OwnActions, textOf } from "./message-actions";
import { MessageContext } from "./message-context";
import { PartView } from "./part-view";

interface EditFormProps {
  message: UIMessage;
  onClose: () => void;
}

/** The text of a sent message, to be changed and sent again. What came after it is then no longer part of the chat. */
function EditForm({ message, onClose }: EditFormProps): ReactElement {
  const t = useStrings();
  const { onEdit } = useContext(MessageContext);
  const [text, setText] = useState(() => textOf(message));
  const box = useRef<HTMLTextAreaElement>(null);
  const sendable = onEdit !== null && (text.trim() !== "" || message.parts.some(isFileUIPart));
  useEscape(true, onClose);
  useEffect(() => {
    box.current?.focus();
    box.current?.setSelectionRange(-1, -1);
  }, []);
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    if (!sendable) return;
    onClose();
    onEdit(message, text.trim());
  };
  const onKey = (event: KeyboardEvent): void => {
    if (event.key === "Enter" && !event.shiftKey && !event.nativeEvent.isComposing) submit(event);
  };
  return (
    <form className="edit" aria-label={t.message.edit} onSubmit={submit}>
      <textarea ref={box} rows={1} dir="auto" value={text} aria-label={t.message.editedText}
        onChange={(event) => setText(event.target.value)} onKeyDown={onKey} />
      <div className="edit-actions">
        <p className="note">{t.message.editHint}</p>
        <button type="button" onClick={onClose}>{t.common.cancel}</button>
        <button type="submit" className="primary" disabled={!sendable}>{t.message.update}</button>
      </div>
    </form>
  );
}

/** The content of a message of the user: its images, and its text in a bubble that can be edited in place. */
export function OwnMessage({ message }: { message: UIMessage }): ReactElement {
  const [editing, setEditing] = useState(false);
  const editButton = useRef<HTMLButtonElement>(null);
  const files = message.parts.filter(isFileUIPart);
  const others = message.parts.filter((part) => !isFileUIPart(part) && !(part.type === "text" && part.text === ""));
  const view = (part: UIMessage["parts"][number], index: number): ReactElement => (
    <PartView key={index} id={`${message.id}/${index}`} message={message} part={part} running={false} current={false} />
  );
  const close = (): void => {
    setEditing(false);
    // The button is there again after the next render.
    setTimeout(() => editButton.current?.focus());
  };
  return (
    <>
      {files.length > 0 && <div className="attachments">{files.map(view)}</div>}
      {editing ? <EditForm message={message} onClose={close} /> : others.length > 0 && <div className="bubble">{others.map(view)}</div>}
      {!editing && <OwnActions message={message} editButton={editButton} onEdit={() => setEditing(true)} />}
    </>
  );
}
