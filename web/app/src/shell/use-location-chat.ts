import { generateId } from "ai";
import { useCallback, useEffect, useState } from "react";
import { decodeAddress } from "../transport/token";

interface LocationChat {
  id: string;
  /** Made here and not yet sent: the server does not know it, so there is no history to ask for. */
  fresh: boolean;
}

function readLocation(): LocationChat {
  const id = /^#\/c\/([^&]+)/.exec(location.hash)?.[1];
  return id ? { id: decodeAddress(id), fresh: false } : { id: generateId(), fresh: true };
}

interface LocationChatState {
  chat: LocationChat;
  startNew: () => void;
  keepAddress: () => void;
  /** Starts a new chat if this one is still the open one. */
  leave: (id: string) => void;
}

/** The chat named by `#/c/<id>`; without one, a new chat that gets its address with its first message. */
export function useLocationChat(): LocationChatState {
  const [chat, setChat] = useState(readLocation);
  useEffect(() => {
    const follow = (): void => setChat(readLocation());
    window.addEventListener("hashchange", follow);
    return () => window.removeEventListener("hashchange", follow);
  }, []);
  const startNew = useCallback(() => {
    if (location.hash) history.pushState(null, "", location.pathname + location.search);
    setChat(readLocation());
  }, []);
  const keepAddress = useCallback(() => {
    history.replaceState(null, "", `#/c/${encodeURIComponent(chat.id)}`);
  }, [chat.id]);
  const leave = useCallback((id: string) => {
    if (readLocation().id === id) startNew();
  }, [startNew]);
  return { chat, startNew, keepAddress, leave };
}
