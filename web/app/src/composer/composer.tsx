import { type FileUIPart, isFileUIPart, isTextUIPart, type UIMessage } from "ai";
import {
  type ClipboardEvent, type DragEvent, type KeyboardEvent, type ReactElement, useEffect, useRef, useState,
} from "react";
import { HAS_KEYBOARD } from "../design/has-keyboard";
import { Icon } from "../design/icon";
import type { Limits } from "../transport/server-info";
import { describeExcess, readImages } from "./attachments";

interface ComposerProps {
  busy: boolean;
  stopping: boolean;
  /** Whether a question of the agent is open: what is written instead withdraws it. */
  asked: boolean;
  limits: Limits;
  /** A message the server did not take: it comes back to be changed. */
  returned: UIMessage | null;
  onSend: (text: string, files: FileUIPart[]) => void;
  onStop: () => void;
}

const OVER = "Enter stops the answer and sends this";

/** The message box: text, images by button, paste or drop, send and stop. */
export function Composer({ busy, stopping, asked, limits, returned, onSend, onStop }: ComposerProps): ReactElement {
  const [text, setText] = useState("");
  const [images, setImages] = useState<FileUIPart[]>([]);
  const [notice, setNotice] = useState("");
  const [dragging, setDragging] = useState(false);
  // Whoever writes over an answer has it stopped first.
  const [waiting, setWaiting] = useState(false);
  const picker = useRef<HTMLInputElement>(null);

  const invitation = asked ? "Or write something else" : "Write a message";
  const excess = describeExcess(text, images, limits);
  const sendable = !excess && (text.trim() !== "" || images.length > 0);

  useEffect(() => {
    if (!returned) return;
    const said = returned.parts.filter(isTextUIPart).map((part) => part.text);
    setText((written) => [...said, written].filter(Boolean).join("\n"));
    setImages((chosen) => [...returned.parts.filter(isFileUIPart), ...chosen]);
  }, [returned]);

  const add = async (files: Iterable<File>): Promise<void> => {
    setNotice("");
    const { images: more, refused } = await readImages(files, limits);
    setImages((before) => [...before, ...more]);
    if (refused.length) setNotice(`Not added: ${refused.join(" ")}`);
  };
  const send = (): void => {
    if (!sendable) return;
    if (busy) {
      setWaiting(true);
      if (!stopping) onStop();
      return;
    }
    onSend(text.trim(), images);
    setText("");
    setImages([]);
    setNotice("");
  };
  useEffect(() => {
    if (busy || !waiting) return;
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
    // Dragged text is the text box's own business.
    if (!event.dataTransfer.types.includes("Files")) return;
    event.preventDefault();
    setDragging(over);
  };

  return (
    <form className={dragging ? "composer dragging" : "composer"} aria-label="Message"
      onSubmit={(event) => { event.preventDefault(); send(); }}
      onDragOver={(event) => onDrag(event, true)} onDragLeave={(event) => onDrag(event, false)}
      onDrop={(event) => { onDrag(event, false); if (event.dataTransfer.files.length) void add(event.dataTransfer.files); }}>
      {notice && <p className="failure" role="alert">{notice}</p>}
      {excess && <p className="failure" role="alert">{excess}</p>}
      <p className="over" role="status">{busy && sendable && (waiting ? "Stops the answer, then sends" : OVER)}</p>
      {images.length > 0 && (
        <ul className="previews" aria-label="Images to send">
          {images.map((image, index) => (
            <li key={index}>
              <img src={image.url} alt={image.filename ?? "Image"} />
              <button type="button" className="square" aria-label={`Remove ${image.filename ?? "image"}`}
                onClick={() => setImages(images.filter((other) => other !== image))}><Icon name="close" /></button>
            </li>
          ))}
        </ul>
      )}
      <div className="bar">
        <button type="button" className="quiet square" aria-label="Add images" onClick={() => picker.current?.click()}>
          <Icon name="image" />
        </button>
        <input ref={picker} type="file" hidden multiple accept="image/png,image/jpeg,image/webp,image/gif"
          aria-label="Images" onChange={(event) => { void add(event.target.files ?? []); event.target.value = ""; }} />
        <textarea id="composer" rows={1} dir="auto" value={text} autoFocus={HAS_KEYBOARD} aria-label="Message"
          placeholder={dragging ? "Drop the image here" : invitation}
          onChange={(event) => setText(event.target.value)} onKeyDown={onKey} onPaste={onPaste} />
        {busy
          ? <button type="button" className="primary square" aria-label={stopping ? "Stopping" : "Stop"} disabled={stopping}
            onClick={onStop}><Icon name="stop" /></button>
          : <button type="submit" className="primary square" aria-label="Send"
            disabled={!sendable}><Icon name="send" /></button>}
      </div>
    </form>
  );
}
