import type { ChatMode } from "adkwire";
import type { ServerInfo } from "./server-info";

const KNOWN: readonly ChatMode[] = ["sse", "websocket", "gemini"];

/** The ways to talk that this page has and the server offers, as far as that is known. */
export function chatModes(info: ServerInfo | null): ChatMode[] {
  return KNOWN.filter((mode) => !info || info.modes.includes(mode));
}
