import { type KeyboardEvent, type ReactElement, useRef, useState } from "react";
import { type Strings, useStrings } from "../strings";
import { renameChat } from "./chat-actions";
import { ChatRow } from "./chat-row";
import { ClearHistory } from "./clear-history";
import { SearchField } from "./search-field";
import { markSeen, useUnread } from "./unread";
import type { ChatSummary } from "./use-chat-list";
import "./list.css";

const DAY_MS = 86_400_000;

/** Return the heading that a chat is listed under: how long ago it last changed, in days of the calendar. */
function ageOf(t: Strings["list"], { updatedAt }: ChatSummary, today: number): string {
  const days = Math.ceil((today - Date.parse(updatedAt)) / DAY_MS);
  if (days <= 0) return t.today;
  if (days <= 1) return t.yesterday;
  return days <= 7 ? t.lastWeek : t.earlier;
}

/** Return the chats in groups of one age, in the order of the list. */
function byAge(t: Strings["list"], chats: ChatSummary[]): Map<string, ChatSummary[]> {
  const today = new Date().setHours(0, 0, 0, 0);
  const groups = new Map<string, ChatSummary[]>();
  for (const chat of chats) {
    const age = ageOf(t, chat, today);
    groups.set(age, [...(groups.get(age) ?? []), chat]);
  }
  return groups;
}

function isFound({ title }: ChatSummary, words: string[], untitled: string): boolean {
  const text = (title || untitled).normalize("NFKC").toLowerCase();
  return words.every((word) => text.includes(word));
}

/** Return the row that a key leads to from the one at `index`; undefined for other keys. */
function rowByKey(key: string, index: number, count: number): number | undefined {
  switch (key) {
    case "ArrowDown":
      return Math.min(index + 1, count - 1);
    case "ArrowUp":
      return Math.max(index - 1, 0);
    case "Home":
      return 0;
    case "End":
      return count - 1;
    default:
      return undefined;
  }
}

/** A title that was given here: shown until the list has a newer state of the chat. */
interface NewTitle {
  title: string;
  until: string;
}

/** Later than all times. */
const ALWAYS = "~";

function titleOf(chat: ChatSummary, given: NewTitle | undefined): string {
  return given && chat.updatedAt < given.until ? given.title : chat.title;
}

interface ChatListProps {
  chats: ChatSummary[];
  current: string;
  onDelete: (id: string) => void;
  onOpen: () => void;
}

/**
 * The list of chats, with a search. To delete one takes two presses of the same button. The list is one stop of the Tab
 * key: arrow keys, Home and End lead from row to row, F2 renames and Delete deletes.
 */
export function ChatList({ chats, current, onDelete, onOpen }: ChatListProps): ReactElement {
  const t = useStrings().list;
  const [query, setQuery] = useState("");
  const [asked, setAsked] = useState<string | null>(null);
  const [renaming, setRenaming] = useState<string | null>(null);
  const [renamed, setRenamed] = useState<ReadonlyMap<string, NewTitle>>(new Map());
  const [failure, setFailure] = useState("");
  const [focused, setFocused] = useState<string | null>(null);
  const rows = useRef<HTMLDivElement>(null);
  const shown = chats.find((chat) => chat.id === current);
  const isUnread = useUnread(chats, current);

  const words = query.normalize("NFKC").toLowerCase().split(/\s+/).filter(Boolean);
  const titled = chats.map((chat) => ({ ...chat, title: titleOf(chat, renamed.get(chat.id)) }));
  const found = titled.filter((chat) => isFound(chat, words, t.untitled));
  const reachable = [focused, current].find((id) => found.some((chat) => chat.id === id)) ?? found[0]?.id;

  const links = (): HTMLAnchorElement[] => [...(rows.current?.querySelectorAll<HTMLAnchorElement>("li > a") ?? [])];
  const focusRow = (id: string, part: string): void => {
    // What is focused is there after the next render.
    setTimeout(() => rows.current?.querySelector<HTMLElement>(`[data-chat="${CSS.escape(id)}"] > ${part}`)?.focus());
  };
  const press = (id: string): void => {
    setAsked(asked === id ? null : id);
    if (asked === id) onDelete(id);
  };
  const rename = (id: string, isRenaming: boolean): void => {
    setRenaming(isRenaming ? id : null);
    if (!isRenaming && document.activeElement?.closest(".title-form")) focusRow(id, "a");
  };
  const save = async (chat: ChatSummary, title: string): Promise<void> => {
    setFailure("");
    const note = (until: string): void => setRenamed((before) => new Map(before).set(chat.id, { title, until }));
    note(ALWAYS);
    try {
      const wasUnread = isUnread(chat);
      const now = await renameChat(chat.id, title);
      note(now.updatedAt);
      if (!wasUnread) markSeen(now);
    } catch (error) {
      note("");
      setFailure(t.notRenamed((error as Error).message));
    }
  };
  const onKey = (event: KeyboardEvent): void => {
    const all = links();
    const index = all.indexOf(event.target as HTMLAnchorElement);
    const id = all[index]?.closest("li")?.dataset["chat"];
    if (id === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    const next = rowByKey(event.key, index, all.length);
    if (next !== undefined) all[next]?.focus();
    else if (event.key === "F2") setRenaming(id);
    else if (event.key === "Delete") {
      setAsked(id);
      focusRow(id, ".delete");
    } else return;
    event.preventDefault();
  };
  const onCleared = (): void => {
    setFailure("");
    if (shown) onDelete(shown.id);
    else document.getElementById("composer")?.focus();
  };

  if (chats.length === 0) return <p className="hint">{t.empty}</p>;
  return (
    <>
      <SearchField query={query} onChange={setQuery} onDown={() => links()[0]?.focus()} onEnter={() => links()[0]?.click()} />
      {failure && <p className="failure" role="alert">{failure}</p>}
      <p className={found.length ? "unseen" : "hint"} role="status">{query && t.found(found.length)}</p>
      <div className="chat-list" ref={rows} onKeyDown={onKey}>
        {[...byAge(t, found)].map(([age, group]) => (
          <section key={age} aria-label={age}>
            <h2>{age}</h2>
            <ul>
              {group.map((chat) => (
                <ChatRow key={chat.id} chat={chat} current={chat.id === current} unread={isUnread(chat)}
                  reachable={chat.id === reachable} asked={asked === chat.id} renaming={renaming === chat.id}
                  onOpen={onOpen} onFocus={() => setFocused(chat.id)} onDelete={() => press(chat.id)} onKeep={() => setAsked(null)}
                  onRename={(isRenaming) => rename(chat.id, isRenaming)} onTitle={(title) => void save(chat, title)} />
              ))}
            </ul>
          </section>
        ))}
      </div>
      <ClearHistory shown={shown} onCleared={onCleared} />
    </>
  );
}
