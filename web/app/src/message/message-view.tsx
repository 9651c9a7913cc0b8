import type { UIMessage } from "ai";
import { memo, type ReactElement } from "react";
import { useStrings } from "../strings";
import { EndingNote, endingOf } from "./ending";
import { AnswerActions } from "./message-actions";
import { OwnMessage } from "./own-message";
import { PartView } from "./part-view";
import { SourceList } from "./source-list";
import "./message.css";

/** Return whether a message shows anything at all. */
function hasContent(message: UIMessage): boolean {
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
  /** Whether it was stopped here. The server says so in the metadata too, but an older one does not. */
  stopped: boolean;
  /** Whether it has come to its end, with no error of it shown elsewhere. */
  settled: boolean;
  onRegenerate?: () => void;
}

/** The line that says how an answer ended, where that needs saying. */
function Outcome({ message, stopped }: Pick<MessageViewProps, "message" | "stopped">): ReactElement | null {
  const t = useStrings().message;
  const ending = endingOf(message) ?? (stopped ? { how: "stopped" as const, error: "" } : null);
  if (ending) return <EndingNote ending={ending} />;
  return hasContent(message) ? null : <p className="note">{t.noAnswer}</p>;
}

/** An answer: its parts, its sources, how it ended, and what can be done with it. */
function Answer({ message, running, current, stopped, settled, onRegenerate }: MessageViewProps): ReactElement {
  const t = useStrings().message;
  return (
    <>
      {message.parts.map((part, index) => (
        <PartView key={index} id={`${message.id}/${index}`} message={message} part={part} running={running} current={current} />
      ))}
      <SourceList parts={message.parts} />
      {running && <span className="cursor" aria-hidden="true" />}
      {settled && <Outcome message={message} stopped={stopped} />}
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
  before.stopped === after.stopped &&
  before.settled === after.settled && !before.onRegenerate && !after.onRegenerate);
