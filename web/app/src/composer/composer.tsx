import { type FileUIPart, isFileUIPart, isTextUIPart, type UIMessage } from "ai";
import {
  type ClipboardEvent, type DragEvent, type KeyboardEvent, type ReactElement, useEffect, useRef, useState,
} from "react";
import { HAS_KEYBOARD } from "../design/has-keyboard";
import { Icon } from "../design/icon";
import { IconButton } from "../design/icon-button";
import { useStrings } from "../strings";
import type { Limits } from "../transport/server-info";
import { describeExcess, readImages } from "./attachments";
import "./composer.css";

interface ComposerProps {
  busy: boolean;
  stopping: boolean;
  /** Whether a question is open: a message instead of an answer supersedes it. */
  asked: boolean;
  limits: Limits;
  /** A message that the server refused, to be changed. */
  returned: UIMessage | null;
  onSend: (text: string, files: FileUIPart[]) => void;
  onStop: () => void;
}

/** The message box: text, images by button, paste or drop, send and stop. */
export function Composer({ busy, stopping, asked, limits, returned, onSend, onStop }: ComposerProps): ReactElement {
  const t = useStrings().composer;
  const [text, setText] = useState("");
  const [images, setImages] = useState<FileUIPart[]>([]);
  const [notice, setNotice] = useState("");
  const [dragging, setDragging] = useState(false);
  // True from Enter while an answer is being stopped until it has stopped and the message is sent.
  const [waiting, setWaiting] = useState(false);
  const picker = useRef<HTMLInputElement>(null);

  const invitation = asked ? t.invitationInstead : t.invitation;
  const excess = describeExcess(text, images, limits);
  const sendable = !excess && (text.trim() !== "" || images.length > 0);

  useEffect(() => {
    if (!returned) return;
    const texts = returned.parts.filter(isTextUIPart).map((part) => part.text);
    setText((written) => [...texts, written].filter(Boolean).join("\n"));
    setImages((chosen) => [...returned.parts.filter(isFileUIPart), ...chosen]);
  }, [returned]);

  const add = async (files: Iterable<File>): Promise<void> => {
    setNotice("");
    const { images: more, refused } = await readImages(files, limits);
    setImages((before) => [...before, ...more]);
    if (refused.length) setNotice(t.notAdded(refused));
  };
  const send = (): void => {
    if (!sendable) return;
    if (stopping) return setWaiting(true);
    onSend(text.trim(), images);
    setText("");
    setImages([]);
    setNotice("");
  };
  useEffect(() => {
    if (stopping || !waiting) return;
    setWaiting(false);
    send();
  });
  const onKey = (event: KeyboardEvent): void => {
    // Enter also ends the composition of a Japanese word: that one belongs to the input method.
    if (event.key !== "Enter" || event.shiftKey || event.nativeEvent.isComposing) return;
    event.preventDefault();
    send();
  };
  const onPaste = (event: ClipboardEvent): void => {
    if (event.clipboardData.files.length === 0) return;
    event.preventDefault();
    void add(event.clipboardData.files);
  };
  const onDrag = (event: DragEvent, over: boolean): void => {
    // The text box itself takes text that is dropped.
    if (!event.dataTransfer.types.includes("Files")) return;
    event.preventDefault();
    setDragging(over);
  };

  return (
    <form className={dragging ? "composer dragging" : "composer"} aria-label={t.message}
      onSubmit={(event) => { event.preventDefault(); send(); }}
      onDragOver={(event) => onDrag(event, true)} onDragLeave={(event) => onDrag(event, false)}
      onDrop={(event) => { onDrag(event, false); if (event.dataTransfer.files.length) void add(event.dataTransfer.files); }}>
      {notice && <p className="failure" role="alert">{notice}</p>}
      {excess && <p className="failure" role="alert">{excess}</p>}
      <p className="over" role="status">{busy && sendable && (waiting ? t.stopsThenSends : t.enterStops)}</p>
      {images.length > 0 && (
        <ul className="previews" aria-label={t.imagesToSend}>
          {images.map((image, index) => (
            <li key={index}>
              <img src={image.url} alt={image.filename ?? t.image} />
              <IconButton icon="close" label={t.remove(image.filename ?? t.image)}
                onClick={() => setImages(images.filter((other) => other !== image))} />
            </li>
          ))}
        </ul>
      )}
      <div className="bar">
        <IconButton className="quiet" icon="image" label={t.addImages} onClick={() => picker.current?.click()} />
        <input ref={picker} type="file" hidden multiple accept="image/png,image/jpeg,image/webp,image/gif"
          aria-label={t.images} onChange={(event) => { void add(event.target.files ?? []); event.target.value = ""; }} />
        <textarea id="composer" rows={1} dir="auto" value={text} autoFocus={HAS_KEYBOARD} aria-label={t.message}
          placeholder={dragging ? t.dropHere : invitation}
          onChange={(event) => setText(event.target.value)} onKeyDown={onKey} onPaste={onPaste} />
        {busy
          ? <button type="button" className="primary square" aria-label={stopping ? t.stopping : t.stop} disabled={stopping}
            onClick={onStop}><Icon name="stop" /></button>
          : <button type="submit" className="primary square" aria-label={t.send}
            disabled={!sendable}><Icon name="send" /></button>}
      </div>
    </form>
  );
}
