import type { UIMessage } from "ai";
import { memo, type ReactElement } from "react";
import { useStrings } from "../strings";
import { AnswerActions } from "./message-actions";
import { OwnMessage } from "./own-message";
import { PartView } from "./part-view";
import { SourceList } from "./source-list";
import "./message.css";

/** Return whether a message shows anything at all. */
export function hasContent(message: UIMessage): boolean {
  return message.parts.some((part) => (part.type === "text" ? part.text !== "" : part.type !== "step-start"));
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

/** An answer: its parts, its sources, how it ended, and what can be done with it. */
function Answer({ message, running, current, note, onRegenerate }: MessageViewProps): ReactElement {
  const t = useStrings().message;
  return (
    <>
      {message.parts.map((part, index) => (
        <PartView key={index} id={`${message.id}/${index}`} message={message} part={part} running={running} current={current} />
      ))}
      <SourceList parts={message.parts} />
      {running && <span className="cursor" aria-hidden="true" />}
      {note && <p className="note">{note}</p>}
      {isDirect(message) && <p className="note">{t.direct}</p>}
      {!running && <AnswerActions message={message} onRegenerate={onRegenerate} />}
    </>
  );
}

function Message(props: MessageViewProps): ReactElement {
  const t = useStrings().message;
  const { message } = props;
  const mine = message.role === "user";
  return (
    <article className={`message ${message.role}`} aria-label={mine ? t.you : t.agent}>
      {mine ? <OwnMessage message={message} /> : <Answer {...props} />}
    </article>
  );
}

/** A message. Finished ones are not rendered again while the next one streams. */
export const MessageView = memo(Message, (before, after) =>
  before.message === after.message && before.running === after.running && before.current === after.current &&
  before.note === after.note && !before.onRegenerate && !after.onRegenerate);
