import { isToolUIPart, type UIMessage } from "ai";
import type { ReactElement } from "react";
import { FileView } from "./file-view";
import { JsonCard } from "./json-card";
import { ToolCard } from "./tool-card";

interface PartViewProps {
  part: UIMessage["parts"][number];
  running: boolean;
}

/** One part of a message. A type this page does not know is shown as data, never as an error. */
export function PartView({ part, running }: PartViewProps): ReactElement | null {
  if (isToolUIPart(part)) return <ToolCard part={part} running={running} />;
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
      return null;
    default:
      return <JsonCard title={part.type} value={part} />;
  }
}
