import { useCallback, useState } from "react";
import { chatModes } from "./chat-modes";
import type { PageMode } from "./page-mode";
import type { ServerInfo } from "./server-info";

const KEY = "adkwire-mode";

/** How this page talks: as the person last chose, if the server offers it. */
export function useMode(info: ServerInfo | null): [mode: PageMode, choose: (mode: PageMode) => void] {
  const [choice, setChoice] = useState(() => localStorage.getItem(KEY));
  const choose = useCallback((mode: PageMode) => {
    localStorage.setItem(KEY, mode);
    setChoice(mode);
  }, []);
  return [chatModes(info).find((mode) => mode === choice) ?? "sse", choose];
}
