import { useChat } from "@ai-sdk/react";
import { NotRecoveredError } from "adkwire";
import { type FileUIPart, isFileUIPart, type UIMessage } from "ai";
import { type ReactElement, useCallback, useEffect, useMemo, useState, useSyncExternalStore } from "react";
import { answerBrowserCalls } from "../browser-tools/answer-browser-calls";
import { CallContext, deliveryOf } from "../calls/call-context";
import { QuestionStatus } from "../calls/question-status";
import { useOpenCalls } from "../calls/use-open-calls";
import { Composer } from "../composer/composer";
import { useEscape } from "../design/escape";
import { MessageContext } from "../message/message-context";
import { MessageView } from "../message/message-view";
import { ChatSession } from "../sync/chat-session";
import { isBusy } from "../sync/chat-status";
import type { ChatHistory } from "../sync/history";
import { useStrings } from "../strings";
import { chatEvents } from "../sync/chat-events";
import { reconnect } from "../sync/recover";
import { useSession } from "../sync/use-session";
import { useStop } from "../sync/use-stop";
import { type Connection, useStreamConnection, useOnline } from "../transport/connection";
import type { PageMode } from "../transport/page-mode";
import type { Limits, ServerInfo } from "../transport/server-info";
import { ConnectionStatus } from "./connection-status";
import { describeError } from "./describe-error";
import { EarlierMessages } from "./earlier-messages";
import { ErrorCard } from "./error-card";
import { JumpButton } from "./jump-button";
import { AboutGemini, ModeSwitch } from "./mode-switch";
import { useStickToBottom } from "./use-stick-to-bottom";
import { Welcome } from "./welcome";
import "./chat.css";

interface ChatViewProps {
  id: string;
  /** The newest messages; `next` is the id of the first if there are earlier ones. */
  history: ChatHistory & { next?: string };
  info: ServerInfo | null;
  mode: PageMode;
  onMode: (mode: PageMode) => void;
  onSend: () => void;
}

const RENDER_EVERY_MS = 40;

/** The limits until the server's are known: it checks them anyway. */
const UNKNOWN: Limits = { bodyBytes: Infinity, partBytes: Infinity, parts: Infinity, imagePixels: Infinity };

function marked(ids: ReadonlySet<string>, id: string, isMarked: boolean): ReadonlySet<string> {
  const others = [...ids].filter((one) => one !== id);
  return new Set(isMarked ? [...others, id] : others);
}

/** Return the connection state to show: that of the answer, or when nothing is wrong with it, that of the events. */
function connectionToShow(error: Error | null, online: boolean, stream: Connection, events: Connection): Connection {
  if (error instanceof NotRecoveredError) return { state: "not-recovered" };
  if (!online) return { state: "offline" };
  return stream.state === "connected" ? events : stream;
}

/** A chat: its messages, the message box, and the state of the connection. */
export function ChatView({ id, history, info, mode, onMode, onSend }: ChatViewProps): ReactElement {
  const t = useStrings().chat;
  const [stopped, setStopped] = useState<ReadonlySet<string>>(new Set());
  const [returned, setReturned] = useState<UIMessage | null>(null);
  // An error beside the answer itself: of a load, a resume or a stop.
  const [failure, setFailure] = useState<Error | null>(null);
  const { connection: streamConnection, report, reset } = useStreamConnection();
  const [session] = useState(() => new ChatSession(id, history, mode, {
    onEnd: (ended, wasStopped) => setStopped((before) => marked(before, ended, wasStopped)),
    onConnection: report,
    onFail: setFailure,
    onReturn: setReturned,
  }));
  const { chat, follower } = session;
  const { messages, status, error: answerError } = useChat({ chat, throttle: RENDER_EVERY_MS });
  const error = answerError ?? failure;
  const busy = isBusy(status);
  const eventConnection = useSyncExternalStore(chatEvents.subscribe, chatEvents.connection);
  const connection = connectionToShow(error, useOnline(), streamConnection, eventConnection);
  useSession(session, history, mode, busy);
  useEffect(() => {
    if (!busy) reset();
  }, [busy, reset]);
  const [stop, stopping] = useStop(chat, setFailure);
  const idle = !busy && !error;
  const answerable = mode !== "gemini";
  const last = messages.at(-1);
  const runOffered = useCallback((event?: Event) => {
    // The tab that began a run runs its browser calls, until the user focuses another one.
    follower.runsBrowserCalls ||= event !== undefined;
    if (follower.runsBrowserCalls) answerBrowserCalls(chat).catch(setFailure);
  }, [chat, follower]);
  const { browserTools, asked, open } = useOpenCalls(last, info, idle && answerable, runOffered);
  const { box, content, onScroll, away, stick, jump } = useStickToBottom();
  useEscape(busy, stop);

  const send = (text: string, files: FileUIPart[]): void => {
    onSend();
    stick();
    setFailure(null);
    void chat.sendMessage({ text, files });
  };
  const canEdit = !busy && !stopping;
  const edits = useMemo(() => ({
    onEdit: canEdit ? (message: UIMessage, text: string): void => {
      setFailure(null);
      stick();
      chat.sendMessage({ text, files: message.parts.filter(isFileUIPart), messageId: message.id }).catch(setFailure);
    } : null,
  }), [chat, canEdit, stick]);
  const retry = (): void => {
    const isReconnect = failure ?? (error && describeError(error).remedy !== "retry");
    setFailure(null);
    (isReconnect || open ? reconnect(chat) : chat.regenerate()).catch(setFailure);
  };
  const delivery = deliveryOf(status, connection);
  const calls = useMemo(() => ({
    browserTools, answerable, delivery,
    onAnswer: (id: string, approved: boolean, reason: string): void => {
      setFailure(null);
      void chat.addToolApprovalResponse({ id, approved, ...(!approved && reason ? { reason } : {}) });
    },
    onCheck: () => follower.check(),
  }), [chat, follower, browserTools, answerable, delivery]);

  return (
    <main className="chat">
      <div className="transcript" ref={box} onScroll={onScroll}>
        <div className="column" ref={content} role="log" aria-live="polite" aria-busy={busy} aria-label={t.conversation}>
          {messages.length === 0 && <Welcome info={info} onChoose={(text) => send(text, [])} />}
          <EarlierMessages chat={chat} next={history.next} first={messages[0]?.id} busy={busy} box={box} onFail={setFailure} />
          <CallContext value={calls}><MessageContext value={edits}>
            {messages.map((message) => (
              <MessageView key={message.id} message={message} running={busy && message === last} current={message === last}
                stopped={stopped.has(message.id)} settled={idle || message !== last}
                {...(idle && !open && message === last ? { onRegenerate: retry } : {})} />
            ))}
          </MessageContext></CallContext>
          {busy && last?.role !== "assistant" && <p className="waiting" role="status">{t.thinking}</p>}
          {error && <ErrorCard error={error} onRetry={retry} />}
        </div>
      </div>
      {away && <JumpButton growing={busy} onJump={jump} />}
      <QuestionStatus asked={asked} />
      <Composer busy={busy || stopping} stopping={stopping} asked={asked.length > 0} limits={info?.limits ?? UNKNOWN} returned={returned}
        onSend={send} onStop={stop} />
      <footer>
        <ModeSwitch info={info} mode={mode} onChoose={onMode} />
        <ConnectionStatus connection={connection} />
        <AboutGemini info={info} chosen={!answerable} />
      </footer>
    </main>
  );
}
