import { generateId } from "ai";
import { useCallback, useEffect, useState } from "react";
import { decodeAddress } from "../transport/token";

interface LocationChat {
  id: string;
  /** True until the first message is sent: the server does not know the chat, so there is no history to load. */
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
  /** Start a new chat if this one is still open. */
  leave: (id: string) => void;
}

/** Return the chat that `#/c/<id>` names; without one, a new chat, which gets its address with its first message. */
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
