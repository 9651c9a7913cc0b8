import { type ReactElement, useEffect, useRef, useState } from "react";
import { MusicControl } from "../browser-tools/music-control";
import { ChatPanel } from "../chat/chat-panel";
import { describeError } from "../chat/describe-error";
import { Icon } from "../design/icon";
import { ChatList } from "../list/chat-list";
import { useChatList } from "../list/use-chat-list";
import { ThemeToggle } from "../settings/theme-toggle";
import { useMode } from "../transport/page-mode";
import { request, UNAUTHORIZED } from "../transport/request";
import type { ServerInfo } from "../transport/server-info";
import { TokenForm } from "./token-form";
import { useLocationChat } from "./use-location-chat";

function Header({ info }: { info: ServerInfo | null }): ReactElement {
  return (
    <div className="brand">
      <img src="./icon.svg" alt="" width="28" height="28" />
      <h1>{info?.name ?? "adkwire"}</h1>
      {info && <span className="model">{info.offline ? info.agent : `${info.agent} · ${info.model}`}</span>}
      {info?.offline && <span className="badge">offline model</span>}
    </div>
  );
}

/** The workspace of a person the server knows: chats at the side, one chat in the middle. */
function Workspace(): ReactElement {
  const { chat, startNew, keepAddress, leave } = useLocationChat();
  const list = useChatList();
  const [info, setInfo] = useState<ServerInfo | null>(null);
  const [mode, setMode] = useMode(info);
  const [menu, setMenu] = useState(false);
  const newChat = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    request("info").then((response) => response.json()).then(setInfo, () => undefined);
  }, []);
  useEffect(() => {
    // Captured, so that ESC closes the list and does not also stop the answer behind it.
    const onKey = (event: KeyboardEvent): void => {
      if (event.key !== "Escape" || !menu) return;
      event.stopImmediatePropagation();
      setMenu(false);
    };
    window.addEventListener("keydown", onKey, true);
    return () => window.removeEventListener("keydown", onKey, true);
  }, [menu]);
  const closeMenu = (): void => setMenu(false);
  const openNew = (): void => {
    closeMenu();
    startNew();
  };
  const remove = async (id: string): Promise<void> => {
    // The pressed button goes away with its row: without this the keyboard would start over at the top.
    newChat.current?.focus();
    if (await list.remove(id)) leave(id);
  };
  return (
    <div className={menu ? "workspace menu-open" : "workspace"}>
      <a className="skip" href="#composer" onClick={(event) => {
        event.preventDefault();
        document.getElementById("composer")?.focus();
      }}>Skip to the message box</a>
      <header>
        <button type="button" className="quiet square menu" onClick={() => setMenu(!menu)}
          aria-label="Chats" aria-expanded={menu} aria-controls="chats">
          <Icon name={menu ? "close" : "menu"} />
        </button>
        <Header info={info} />
        <MusicControl />
        <ThemeToggle />
      </header>
      <nav id="chats" aria-label="Chats">
        <button type="button" className="new-chat" ref={newChat} onClick={openNew}><Icon name="plus" />New chat</button>
        {list.error && <p className="failure" role="alert">{describeError(list.error).message}</p>}
        <ChatList chats={list.chats} current={chat.id} onDelete={remove} onOpen={closeMenu} />
        {list.next && <button type="button" className="quiet" onClick={list.loadMore}>Older chats</button>}
      </nav>
      <div className="scrim" onClick={closeMenu} aria-hidden="true" />
      <ChatPanel key={chat.id} id={chat.id} fresh={chat.fresh} info={info} mode={mode} onMode={setMode} onSend={keepAddress} />
    </div>
  );
}

/** The page. A 401 anywhere asks for the token and starts over. */
export function App(): ReactElement {
  const [refused, setRefused] = useState(false);
  useEffect(() => {
    const ask = (): void => setRefused(true);
    window.addEventListener(UNAUTHORIZED, ask);
    return () => window.removeEventListener(UNAUTHORIZED, ask);
  }, []);
  return refused ? <TokenForm onDone={() => setRefused(false)} /> : <Workspace />;
}
