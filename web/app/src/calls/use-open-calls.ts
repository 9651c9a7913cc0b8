import { getToolName, type UIMessage } from "ai";
import { useEffect, useMemo } from "react";
import type { ServerInfo } from "../transport/server-info";
import { lastStepCalls, type ToolPart } from "../transport/tool-part";
import type { Twin } from "./call-context";

interface OpenCalls {
  /** The tools of this agent that run in the browser. */
  browserTools: ReadonlySet<string>;
  /** The JSON schemas of the tools' arguments. */
  schemas: ReadonlyMap<string, unknown>;
  /** The calls of the last step that look like another one of it. */
  twins: ReadonlyMap<string, Twin>;
  /** The calls that wait for approval. */
  asked: ToolPart[];
  /** Whether any call is pending: for approval, for this browser, or for the other answers of its step. */
  open: boolean;
}

type ToolWithSchema = ServerInfo["tools"][number] & { schema?: unknown };

/** Number the calls of a step that have the same tool and the same arguments. */
function twinsAmong(calls: ToolPart[]): [string, Twin][] {
  const looks = calls.map((call) => `${getToolName(call)} ${JSON.stringify(call.input)}`);
  return calls.flatMap(({ toolCallId }, index): [string, Twin][] => {
    const of = looks.filter((look) => look === looks[index]).length;
    const number = looks.slice(0, index + 1).filter((look) => look === looks[index]).length;
    return of > 1 ? [[toolCallId, { number, of }]] : [];
  });
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
  const [browserTools, schemas] = useMemo(() => {
    const tools: ToolWithSchema[] = info?.tools ?? [];
    return [
      new Set(tools.filter((tool) => tool.kind === "client").map((tool) => tool.name)),
      new Map(tools.map(({ name, schema }) => [name, schema])),
    ];
  }, [info]);
  // The cards are rendered again when this object changes, and the calls change with every chunk.
  const numbered = JSON.stringify(twinsAmong(calls));
  const twins = useMemo(() => new Map(JSON.parse(numbered) as [string, Twin][]), [numbered]);
  const asked = calls.filter((part) => part.state === "approval-requested");
  const open = asked.length > 0 || calls.some((part) =>
    part.state === "approval-responded" || (part.state === "input-available" && browserTools.has(getToolName(part))));
  return { browserTools, schemas, twins, asked, open };
}
