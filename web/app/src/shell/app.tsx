import { Tooltip } from "radix-ui";
import { type ReactElement, useEffect, useRef, useState } from "react";
import { MusicControl } from "../browser-tools/music-control";
import { ChatPanel } from "../chat/chat-panel";
import { describeError } from "../chat/describe-error";
import { useEscape } from "../design/escape";
import { Icon } from "../design/icon";
import { IconButton } from "../design/icon-button";
import { ChatList } from "../list/chat-list";
import { useChatList } from "../list/use-chat-list";
import { LeaveDialog } from "../message/external-link";
import { SettingsDialog } from "../settings/settings-dialog";
import { ThemeToggle } from "../settings/theme-toggle";
import { useStrings } from "../strings";
import { useMode } from "../transport/page-mode";
import { request, UNAUTHORIZED } from "../transport/request";
import type { ServerInfo } from "../transport/server-info";
import { TokenForm } from "./token-form";
import { useLocationChat } from "./use-location-chat";
import "./shell.css";

const TOOLTIP_DELAY_MS = 400;

function Brand({ info }: { info: ServerInfo | null }): ReactElement {
  const t = useStrings().shell;
  return (
    <div className="brand">
      <img src={info?.page?.logo ?? "./icon.svg"} alt="" width="24" height="24" />
      <h1>{info?.page?.name ?? info?.name ?? "adkwire"}</h1>
      {info && <span className="model">{info.offline ? info.agent : `${info.agent} · ${info.model}`}</span>}
      {info?.offline && <span className="badge">{t.offlineModel}</span>}
    </div>
  );
}

function SkipLink(): ReactElement {
  const t = useStrings().shell;
  return (
    <a className="skip" href="#composer" onClick={(event) => {
      event.preventDefault();
      document.getElementById("composer")?.focus();
    }}>{t.skip}</a>
  );
}

/** The page of an identified user: chats at the side, one chat in the middle. */
function Workspace(): ReactElement {
  const t = useStrings();
  const { chat, startNew, keepAddress, leave } = useLocationChat();
  const list = useChatList();
  const [info, setInfo] = useState<ServerInfo | null>(null);
  const [mode, setMode] = useMode(info);
  const [menu, setMenu] = useState(false);
  const newChat = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    request("info").then((response) => response.json()).then(setInfo, () => undefined);
  }, []);
  const closeMenu = (): void => setMenu(false);
  useEscape(menu, closeMenu);
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
      <SkipLink />
      <header>
        <IconButton className="quiet menu" icon={menu ? "close" : "menu"} label={t.shell.chats}
          aria-expanded={menu} aria-controls="chats" onClick={() => setMenu(!menu)} />
        <Brand info={info} />
        <MusicControl />
        <ThemeToggle />
        <SettingsDialog chatId={chat.id} info={info} />
      </header>
      <nav id="chats" aria-label={t.shell.chats}>
        <button type="button" className="new-chat" ref={newChat} onClick={openNew}>
          <Icon name="plus" />{t.list.newChat}
        </button>
        {list.error && <p className="failure" role="alert">{describeError(list.error).message}</p>}
        <ChatList chats={list.chats} current={chat.id} onDelete={remove} onOpen={closeMenu} />
        {list.next && <button type="button" className="quiet" onClick={list.loadMore}>{t.list.older}</button>}
      </nav>
      <div className="scrim" onClick={closeMenu} aria-hidden="true" />
      <ChatPanel key={chat.id} id={chat.id} fresh={chat.fresh} info={info} mode={mode} onMode={setMode} onSend={keepAddress} />
    </div>
  );
}

/** The page. A 401 of any request asks for the token and starts over. */
export function App(): ReactElement {
  const [refused, setRefused] = useState(false);
  useEffect(() => {
    const ask = (): void => setRefused(true);
    window.addEventListener(UNAUTHORIZED, ask);
    return () => window.removeEventListener(UNAUTHORIZED, ask);
  }, []);
  return (
    <Tooltip.Provider delayDuration={TOOLTIP_DELAY_MS}>
      {refused ? <TokenForm onDone={() => setRefused(false)} /> : <Workspace />}
      <LeaveDialog />
    </Tooltip.Provider>
  );
}
