import type { UIMessage } from "ai";
import { memo, type ReactElement } from "react";
import { Icon } from "../design/icon";
import { PartView } from "./part-view";
import { SourceList } from "./source-list";

/** Whether a message shows anything at all. */
export function hasContent(message: UIMessage): boolean {
  return message.parts.some((part) => (part.type === "text" ? part.text !== "" : part.type !== "step-start"));
}

interface MessageViewProps {
  message: UIMessage;
  running: boolean;
  /** Whether nothing was said after it. */
  current: boolean;
  /** How it ended, where that needs saying. */
  note: string;
  onRegenerate?: () => void;
}

/** Answers of the model itself stand among those of the agent. */
function isDirect({ metadata }: UIMessage): boolean {
  return typeof metadata === "object" && metadata !== null && "author" in metadata && metadata.author === "gemini";
}

function Message({ message, running, current, note, onRegenerate }: MessageViewProps): ReactElement {
  const mine = message.role === "user";
  return (
    <article className={`message ${message.role}`} aria-label={mine ? "You" : "Agent"}>
      {message.parts.map((part, index) => (
        <PartView key={index} message={message} part={part} running={running} current={current} />
      ))}
      <SourceList parts={message.parts} />
      {running && <span className="cursor" aria-hidden="true" />}
      {note && <p className="note">{note}</p>}
      {isDirect(message) && <p className="note">Gemini direct</p>}
      {!mine && onRegenerate && (
        <button type="button" className="quiet small" onClick={onRegenerate}><Icon name="retry" />Regenerate</button>
      )}
    </article>
  );
}

/** One message. Finished ones are not drawn again while the next one streams. */
export const MessageView = memo(Message, (before, after) =>
  before.message === after.message && before.running === after.running && before.current === after.current &&
  before.note === after.note && !before.onRegenerate && !after.onRegenerate);
