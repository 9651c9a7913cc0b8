import { type FormEvent, type ReactElement, useEffect, useRef, useState } from "react";
import { useEscape } from "../design/escape";
import { Icon } from "../design/icon";
import { EditIcon } from "../message/icons";
import { useStrings } from "../strings";
import type { ChatSummary } from "./use-chat-list";

/** The longest title that the server takes. */
const LONGEST = 200;

interface TitleFormProps {
  title: string;
  onSave: (title: string) => void;
  onClose: () => void;
}

/** The title of a chat, to be changed in place. Enter and leaving it keep the change, Escape does not. */
function TitleForm({ title, onSave, onClose }: TitleFormProps): ReactElement {
  const t = useStrings().list;
  const [text, setText] = useState(title);
  const box = useRef<HTMLInputElement>(null);
  useEscape(true, onClose);
  useEffect(() => {
    box.current?.focus();
    box.current?.select();
  }, []);
  const save = (event?: FormEvent): void => {
    event?.preventDefault();
    const next = text.trim();
    if (next && next !== title) onSave(next);
    onClose();
  };
  return (
    <form className="title-form" onSubmit={save}>
      <input ref={box} dir="auto" value={text} maxLength={LONGEST} aria-label={t.newTitle}
        onChange={(event) => setText(event.target.value)} onBlur={() => save()} />
    </form>
  );
}

/** What there is to know about a chat at a glance: that it waits for an answer, is running, or has news. */
function Mark({ chat, unread }: { chat: ChatSummary; unread: boolean }): ReactElement | null {
  const t = useStrings().list;
  if (chat.pending > 0) return <span className="mark asking" title={t.waiting}><Icon name="ask" /><span className="unseen">{t.waiting}</span></span>;
  if (chat.active) return <span className="mark running" title={t.running}><span className="unseen">{t.running}</span></span>;
  if (unread) return <span className="mark unread" title={t.unread}><span className="unseen">{t.unread}</span></span>;
  return null;
}

interface ChatRowProps {
  chat: ChatSummary;
  current: boolean;
  unread: boolean;
  /** Whether Tab leads to this row: the list is one stop, and arrow keys lead to the other rows. */
  reachable: boolean;
  /** Whether the next press of its button deletes it. */
  asked: boolean;
  renaming: boolean;
  onOpen: () => void;
  onFocus: () => void;
  onDelete: () => void;
  onKeep: () => void;
  onRename: (renaming: boolean) => void;
  onTitle: (title: string) => void;
}

/** A chat in the list: a link to it, and buttons to rename and delete it. */
export function ChatRow(props: ChatRowProps): ReactElement {
  const { chat, current, unread, reachable, asked, renaming } = props;
  const t = useStrings().list;
  const title = chat.title || t.untitled;
  const tabIndex = reachable ? 0 : -1;
  const className = [current && "current", unread && "news"].filter(Boolean).join(" ");
  if (renaming) {
    return (
      <li className="renaming" data-chat={chat.id}>
        <TitleForm title={chat.title} onSave={props.onTitle} onClose={() => props.onRename(false)} />
      </li>
    );
  }
  return (
    <li className={className} data-chat={chat.id} onFocus={props.onFocus}>
      <a href={`#/c/${encodeURIComponent(chat.id)}`} tabIndex={tabIndex} onClick={props.onOpen}
        aria-current={current ? "page" : undefined}>
        <span className="title" dir="auto" title={title}>{title}</span>
        <Mark chat={chat} unread={unread} />
      </a>
      {!asked && (
        <button type="button" className="quiet square rename" tabIndex={tabIndex} aria-label={t.rename(title)} title={t.renameHint}
          onClick={() => props.onRename(true)}><EditIcon /></button>
      )}
      <button type="button" className={asked ? "quiet danger delete" : "quiet square delete"} tabIndex={tabIndex}
        onClick={props.onDelete} onBlur={props.onKeep}
        aria-label={asked ? t.reallyDelete(title) : t.delete(title)}>
        {asked ? t.confirmDelete : <Icon name="trash" />}
      </button>
    </li>
  );
}
