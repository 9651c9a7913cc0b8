import { isToolUIPart, type UIMessage } from "ai";
import type { ReactElement } from "react";
import { approvalDetails } from "./approval-details";
import { FileView } from "./file-view";
import { JsonCard } from "./json-card";
import { ToolCard } from "./tool-card";

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
