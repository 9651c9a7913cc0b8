import { getToolName, type UIMessage } from "ai";
import { useEffect, useMemo } from "react";
import type { ServerInfo } from "../transport/server-info";
import { lastStepCalls, type ToolPart } from "../transport/tool-part";

interface OpenCalls {
  /** The tools of this agent that run in the browser. */
  browserTools: ReadonlySet<string>;
  /** The calls that wait for approval. */
  asked: ToolPart[];
  /** Whether any call is pending: for approval, for this browser, or for the other answers of its step. */
  open: boolean;
}

/** Return the open calls of the last message. `onOffer` is called to run those for this browser, once the chat is idle. */
export function useOpenCalls(
  last: UIMessage | undefined, info: ServerInfo | null, idle: boolean, onOffer: () => void,
): OpenCalls {
  const calls = lastStepCalls(last);
  const offered = calls.filter((part) => part.state === "input-available").map((part) => part.toolCallId).join(" ");
  useEffect(() => {
    if (!idle || !offered) return;
    onOffer();
    window.addEventListener("focus", onOffer);
    return () => window.removeEventListener("focus", onOffer);
  }, [idle, offered, onOffer]);
  const browserTools = useMemo(() =>
    new Set(info?.tools.filter((tool) => tool.kind === "client").map((tool) => tool.name)), [info]);
  const asked = calls.filter((part) => part.state === "approval-requested");
  const open = asked.length > 0 || calls.some((part) =>
    part.state === "approval-responded" || (part.state === "input-available" && browserTools.has(getToolName(part))));
  return { browserTools, asked, open };
}
