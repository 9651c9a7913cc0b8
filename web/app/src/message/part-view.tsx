import { type FileUIPart, isToolUIPart, type ReasoningUIPart, type UIMessage } from "ai";
import type { ReactElement } from "react";
import { approvalDetails } from "../calls/approval-details";
import { prettyJson } from "../calls/json-text";
import { ToolCard } from "../calls/tool-card";
import { useStrings } from "../strings";
import { ExternalLink } from "./external-link";
import { Markdown } from "./markdown/markdown";

/** A file. An image that the page already holds is shown; anything else is a link, so that no request is made unasked. */
function FileView({ file }: { file: FileUIPart }): ReactElement {
  const t = useStrings().message;
  const name = file.filename ?? file.mediaType;
  const local = /^(data|blob):/.test(file.url);
  if (local && file.mediaType.startsWith("image/")) {
    return <img className="picture" src={file.url} alt={file.filename ?? t.picture} />;
  }
  if (local) return <a className="file" href={file.url} download={name}>{t.save(name)}</a>;
  return <ExternalLink className="file" url={file.url}>{name}</ExternalLink>;
}

/** A part of a type that this page does not know, folded away, as JSON. */
function JsonCard({ title, value }: { title: string; value: unknown }): ReactElement {
  return (
    <details className="json-card">
      <summary>{title}</summary>
      <pre tabIndex={0} aria-label={title}>{prettyJson(value)}</pre>
    </details>
  );
}

/** The thoughts of the model: open while it thinks, folded away after. */
function Reasoning({ part, running }: { part: ReasoningUIPart; running: boolean }): ReactElement {
  const t = useStrings().message;
  const thinking = running && part.state === "streaming";
  return (
    <details className="reasoning" open={thinking}>
      <summary>{thinking ? t.thinking : t.thoughts}</summary>
      <Markdown text={part.text} streaming={thinking} />
    </details>
  );
}

interface PartViewProps {
  message: UIMessage;
  part: UIMessage["parts"][number];
  running: boolean;
  current: boolean;
}

/** A part of a message. A type that this page does not know is shown as data, never as an error. */
export function PartView({ message, part, running, current }: PartViewProps): ReactElement | null {
  if (isToolUIPart(part)) {
    return <ToolCard part={part} running={running} current={current} details={approvalDetails(message, part)} />;
  }
  switch (part.type) {
    case "text":
      if (!part.text) return null;
      if (message.role === "user") return <p className="text" dir="auto">{part.text}</p>;
      return <Markdown text={part.text} streaming={running && part.state === "streaming"} />;
    case "reasoning":
      return <Reasoning part={part} running={running} />;
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
