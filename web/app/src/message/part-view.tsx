import { isToolUIPart, type UIMessage } from "ai";
import type { ReactElement } from "react";
import { approvalDetails } from "../calls/approval-details";
import { prettyJson } from "../calls/json-text";
import { ToolCard } from "../calls/tool-card";
import { FileView } from "./file-view";
import { Markdown } from "./markdown/markdown";
import { Reasoning } from "./reasoning";

/** A part of a type that this page does not know, folded away, as JSON. */
function JsonCard({ title, value }: { title: string; value: unknown }): ReactElement {
  return (
    <details className="json-card">
      <summary>{title}</summary>
      <pre tabIndex={0} aria-label={title}>{prettyJson(value)}</pre>
    </details>
  );
}

interface PartViewProps {
  /** Names the part among those of all chats. */
  id: string;
  message: UIMessage;
  part: UIMessage["parts"][number];
  running: boolean;
  current: boolean;
}

/** A part of a message. A type that this page does not know is shown as data, never as an error. */
export function PartView({ id, message, part, running, current }: PartViewProps): ReactElement | null {
  if (isToolUIPart(part)) {
    return <ToolCard part={part} running={running} current={current} details={approvalDetails(message, part)} />;
  }
  switch (part.type) {
    case "text":
      if (!part.text) return null;
      if (message.role === "user") return <p className="text" dir="auto">{part.text}</p>;
      return <Markdown text={part.text} streaming={running && part.state === "streaming"} />;
    case "reasoning":
      return <Reasoning id={id} part={part} running={running} />;
    case "file":
      return <FileView file={part} />;
    case "step-start":
    case "source-url":
    case "source-document":
    case "data-approval":
      return null;
    default:
      return <JsonCard title={part.type} value={part} />;
  }
}
