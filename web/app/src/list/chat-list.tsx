import { type ReactElement, useState } from "react";
import { Icon } from "../design/icon";
import { useStrings } from "../strings";
import type { ChatSummary } from "./use-chat-list";
import "./list.css";

interface ChatListProps {
  chats: ChatSummary[];
  current: string;
  onDelete: (id: string) => void;
  onOpen: () => void;
}

/** The list of chats. To delete one takes two presses of the same button. */
export function ChatList({ chats, current, onDelete, onOpen }: ChatListProps): ReactElement {
  const t = useStrings().list;
  const [asked, setAsked] = useState<string | null>(null);
  const press = (id: string): void => {
    setAsked(asked === id ? null : id);
    if (asked === id) onDelete(id);
  };
  if (chats.length === 0) return <p className="hint">{t.empty}</p>;
  return (
    <ul className="chat-list">
      {chats.map((chat) => {
        const title = chat.title || t.untitled;
        return (
          <li key={chat.id} className={chat.id === current ? "current" : ""}>
            <a href={`#/c/${encodeURIComponent(chat.id)}`} onClick={onOpen}
              aria-current={chat.id === current ? "page" : undefined}>
              <span className="title" dir="auto">{title}</span>
              {chat.active && <span className="dot" role="img" aria-label={t.running} />}
              {chat.pending > 0 && <span className="badge">{t.waiting}</span>}
            </a>
            <button type="button" className={asked === chat.id ? "quiet danger" : "quiet square"}
              onClick={() => press(chat.id)} onBlur={() => setAsked(null)}
              aria-label={asked === chat.id ? t.reallyDelete(title) : t.delete(title)}>
              {asked === chat.id ? t.confirmDelete : <Icon name="trash" />}
            </button>
          </li>
        );
      })}
    </ul>
  );
}
