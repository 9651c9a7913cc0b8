import type { PageMode } from "./page-mode";
import type { ServerInfo } from "./server-info";

const KNOWN: readonly PageMode[] = ["sse", "websocket", "gemini"];

/** The ways to talk that this page has and the server offers, as far as that is known. */
export function chatModes(info: ServerInfo | null): PageMode[] {
  return KNOWN.filter((mode) => !info || info.modes.includes(mode));
}
