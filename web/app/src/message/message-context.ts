import type { UIMessage } from "ai";
import { createContext } from "react";

interface MessageContextValue {
  /** Send a message of the user again with another text; null while that is not possible. */
  onEdit: ((message: UIMessage, text: string) => void) | null;
}

/** What the messages of a chat share. Only the buttons below them read it, so that a change renders no message again. */
export const MessageContext = createContext<MessageContextValue>({ onEdit: null });
