import { isTextUIPart, type UIMessage } from "ai";
import { memo, type ReactElement } from "react";
import { CopyButton } from "../design/copy-button";
import { IconButton } from "../design/icon-button";
import { useStrings } from "../strings";
import { PartView } from "./part-view";
import { SourceList } from "./source-list";
import "./message.css";

/** Return whether a message shows anything at all. */
export function hasContent(message: UIMessage): boolean {
  return message.parts.some((part) => (part.type === "text" ? part.text !== "" : part.type !== "step-start"));
}

function textOf(message: UIMessage): string {
  return message.parts.filter(isTextUIPart).map((part) => part.text).filter(Boolean).join("\n\n");
}

/** Return whether the model itself answered, without the agent. */
function isDirect({ metadata }: UIMessage): boolean {
  return typeof metadata === "object" && metadata !== null && "author" in metadata && metadata.author === "gemini";
}

interface MessageViewProps {
  message: UIMessage;
  /** Whether the answer is being written. */
  running: boolean;
  /** Whether it is the last message. */
  current: boolean;
  /** How it ended, where that needs saying. */
  note: string;
  onRegenerate?: () => void;
}

/** The buttons below a message. */
function MessageActions({ message, onRegenerate }: Pick<MessageViewProps, "message" | "onRegenerate">): ReactElement {
  const t = useStrings().message;
  return (
    <div className="actions">
      {textOf(message) && <CopyButton label={t.copyMessage} text={() => textOf(message)} />}
      {onRegenerate && <IconButton className="quiet" icon="retry" label={t.regenerate} onClick={onRegenerate} />}
    </div>
  );
}

function Message({ message, running, current, note, onRegenerate }: MessageViewProps): ReactElement {
  const t = useStrings().message;
  const mine = message.role === "user";
  return (
    <article className={`message ${message.role}`} aria-label={mine ? t.you : t.agent}>
      {message.parts.map((part, index) => (
        <PartView key={index} message={message} part={part} running={running} current={current} />
      ))}
      <SourceList parts={message.parts} />
      {running && <span className="cursor" aria-hidden="true" />}
      {note && <p className="note">{note}</p>}
      {isDirect(message) && <p className="note">{t.direct}</p>}
      {!mine && !running && <MessageActions message={message} {...(onRegenerate ? { onRegenerate } : {})} />}
    </article>
  );
}

/** A message. Finished ones are not rendered again while the next one streams. */
export const MessageView = memo(Message, (before, after) =>
  before.message === after.message && before.running === after.running && before.current === after.current &&
  before.note === after.note && !before.onRegenerate && !after.onRegenerate);
