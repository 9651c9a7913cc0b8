import { type FileUIPart, isToolUIPart, type UIMessage } from "ai";
import type { ReactElement } from "react";
import { approvalDetails } from "../calls/approval-details";
import { prettyJson } from "../calls/json-text";
import { ToolCard } from "../calls/tool-card";

/** An image the page already holds is shown; anything else is a link, so that nothing is fetched unasked. */
function FileView({ file }: { file: FileUIPart }): ReactElement {
  const name = file.filename ?? file.mediaType;
  const local = /^(data|blob):/.test(file.url);
  if (local && file.mediaType.startsWith("image/")) {
    return <img className="picture" src={file.url} alt={file.filename ?? "Image from the conversation"} />;
  }
  if (local) return <a className="file" href={file.url} download={name}>Save {name}</a>;
  return /^https?:/.test(file.url)
    ? <a className="file" href={file.url} target="_blank" rel="noreferrer">{name}</a>
    : <span className="file">{name}</span>;
}

/** Anything, folded away, as JSON. */
function JsonCard({ title, value }: { title: string; value: unknown }): ReactElement {
  return (
    <details className="json-card">
      <summary>{title}</summary>
      <pre tabIndex={0}>{prettyJson(value)}</pre>
    </details>
  );
}

interface PartViewProps {
  message: UIMessage;
  part: UIMessage["parts"][number];
  running: boolean;
  current: boolean;
}

/** One part of a message. A type this page does not know is shown as data, never as an error. */
export function PartView({ message, part, running, current }: PartViewProps): ReactElement | null {
  if (isToolUIPart(part)) {
    return <ToolCard part={part} running={running} current={current} details={approvalDetails(message, part)} />;
  }
  switch (part.type) {
    case "text":
      return part.text ? <p className="text" dir="auto">{part.text}</p> : null;
    case "reasoning": {
      const thinking = running && part.state === "streaming";
      return (
        <details className="reasoning" open={thinking}>
          <summary>{thinking ? "Thinking..." : "Thoughts"}</summary>
          <p className="text" dir="auto">{part.text}</p>
        </details>
      );
    }
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
