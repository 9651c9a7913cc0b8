import type { ChatMode } from "adkwire";
import { useCallback, useState } from "react";
import type { ServerInfo } from "./server-info";

/** The modes that this page has: all of the package. */
export type PageMode = ChatMode;

const KNOWN: readonly PageMode[] = ["sse", "websocket", "live", "gemini"];

/** Return the modes that this page has and the server offers; all of them until that is known. */
export function chatModes(info: ServerInfo | null): PageMode[] {
  return KNOWN.filter((mode) => !info || info.modes.includes(mode));
}

const KEY = "adkwire-mode";

/** Keep the mode that the user chose last, if the server offers it. */
export function useMode(info: ServerInfo | null): [mode: PageMode, choose: (mode: PageMode) => void] {
  const [choice, setChoice] = useState(() => localStorage.getItem(KEY));
  const choose = useCallback((mode: PageMode) => {
    localStorage.setItem(KEY, mode);
    setChoice(mode);
  }, []);
  return [chatModes(info).find((mode) => mode === choice) ?? "sse", choose];
}
