import type { ChatMode } from "adkwire";
import { useCallback, useState } from "react";
import { chatModes } from "./chat-modes";
import type { ServerInfo } from "./server-info";

const KEY = "adkwire-mode";

/** How this page talks: as the person last chose, if the server offers it. */
export function useMode(info: ServerInfo | null): [mode: ChatMode, choose: (mode: ChatMode) => void] {
  const [choice, setChoice] = useState(() => localStorage.getItem(KEY));
  const choose = useCallback((mode: ChatMode) => {
    localStorage.setItem(KEY, mode);
    setChoice(mode);
  }, []);
  return [chatModes(info).find((mode) => mode === choice) ?? "sse", choose];
}
