import type { DynamicToolUIPart, ToolUIPart } from "ai";

/** A tool call in a message, of a tool known by type or not. */
export type ToolPart = ToolUIPart | DynamicToolUIPart;
