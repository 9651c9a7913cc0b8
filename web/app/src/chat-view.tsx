import { useChat } from "@ai-sdk/react";
import { NotRecoveredError } from "adkwire";
import type { FileUIPart, UIMessage } from "ai";
import { type ReactElement, useCallback, useEffect, useMemo, useState, useSyncExternalStore } from "react";
import { AboutGemini } from "./about-gemini";
import { answerBrowserCalls } from "./answer-browser-calls";
import { CallContext } from "./call-context";
import type { ChatHistory } from "./chat-history";
import { ChatSession } from "./chat-session";
import { Composer } from "./composer";
import type { Connection } from "./connection";
import { ConnectionStatus } from "./connection-status";
import { deliveryOf } from "./delivery";
import { describeError } from "./describe-error";
import { ErrorCard } from "./error-card";
import { hasContent } from "./has-content";
import { isBusy } from "./is-busy";
import type { Limits } from "./limits";
import { MessageView } from "./message-view";
import { ModeSwitch } from "./mode-switch";
import { news } from "./news";
import type { PageMode } from "./page-mode";
import { QuestionStatus } from "./question-status";
import { reconnect } from "./reconnect";
import type { ServerInfo } from "./server-info";
import { useLink } from "./use-link";
import { useOnline } from "./use-online";
import { useOpenCalls } from "./use-open-calls";
import { useSession } from "./use-session";
import { useStickToBottom } from "./use-stick-to-bottom";
import { useStop } from "./use-stop";
import { Welcome } from "./welcome";

interface ChatViewProps {
  id: string;
  history: ChatHistory;
  info: ServerInfo | null;
  mode: PageMode;
  onMode: (mode: PageMode) => void;
  onSend: () => void;
}

const RENDER_EVERY_MS = 40;

/** Until the server has told its limits, it alone keeps them. */
const UNKNOWN: Limits = { bodyBytes: Infinity, partBytes: Infinity, parts: Infinity, imagePixels: Infinity };

function marked(ids: ReadonlySet<string>, id: string, isMarked: boolean): ReadonlySet<string> {
  const others = [...ids].filter((one) => one !== id);
  return new Set(isMarked ? [...others, id] : others);
}

function noteOn(message: UIMessage, stopped: ReadonlySet<string>): string {
  if (stopped.has(message.id)) return "Stopped";
  return message.role === "assistant" && !hasContent(message) ? "No answer" : "";
}

/** Of the connections that there are, the one worth knowing about. */
function worst(error: Error | null, online: boolean, link: Connection, news: Connection): Connection {
  if (error instanceof NotRecoveredError) return { state: "not-recovered" };
  if (!online) return { state: "offline" };
  return link.state === "connected" ? news : link;
}

/** One chat: what was said, what is being said, and the message box. */
export function ChatView({ id, history, info, mode, onMode, onSend }: ChatViewProps): ReactElement {
  const [stopped, setStopped] = useState<ReadonlySet<string>>(new Set());
  const [returned, setReturned] = useState<UIMessage | null>(null);
  // What failed beside the answer itself: to catch up with the server, or to stop it.
  const [failure, setFailure] = useState<Error | null>(null);
  const { link, tell, rest } = useLink();
  const [session] = useState(() => new ChatSession(id, history, mode, {
    onEnd: (ended, wasStopped) => setStopped((before) => marked(before, ended, wasStopped)),
    onConnection: tell,
    onFail: setFailure,
    onReturn: setReturned,
  }));
  const { chat, follower } = session;
  const { messages, status, error: answerError } = useChat({ chat, throttle: RENDER_EVERY_MS });
  const error = answerError ?? failure;
  const busy = isBusy(status);
  const connection = worst(error, useOnline(), link, useSyncExternalStore(news.subscribe, news.connection));
  useSession(session, history, mode, busy);
  useEffect(() => {
    if (!busy) rest();
  }, [busy, rest]);
  const [stop, stopping] = useStop(chat, setFailure);
  const idle = !busy && !error;
  const answerable = mode !== "gemini";
  const last = messages.at(-1);
  const runOffered = useCallback((event?: Event) => {
    // Calls of a run that another tab began are for that tab, until somebody looks at this one.
    follower.mine ||= event !== undefined;
    if (follower.mine) answerBrowserCalls(chat).catch(setFailure);
  }, [chat, follower]);
  const { browserTools, asked, open } = useOpenCalls(last, info, idle && answerable, runOffered);
  const { box, content, onScroll, stick } = useStickToBottom();

  useEffect(() => {
    const onKey = (event: KeyboardEvent): void => {
      if (event.key === "Escape" && busy) stop();
    };
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  }, [busy, stop]);

  const send = (text: string, files: FileUIPart[]): void => {
    onSend();
    stick();
    setFailure(null);
    void chat.sendMessage({ text, files });
  };
  const retry = (): void => {
    const behind = failure ?? (error && describeError(error).remedy !== "retry");
    setFailure(null);
    (behind || open ? reconnect(chat) : chat.regenerate()).catch(setFailure);
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
        <div className="column" ref={content} role="log" aria-live="polite" aria-busy={busy} aria-label="Conversation">
          {messages.length === 0 && <Welcome info={info} onChoose={(text) => send(text, [])} />}
          <CallContext value={calls}>
            {messages.map((message) => (
              <MessageView key={message.id} message={message} running={busy && message === last} current={message === last}
                note={!idle && message === last ? "" : noteOn(message, stopped)}
                {...(idle && !open && message === last ? { onRegenerate: retry } : {})} />
            ))}
          </CallContext>
          {busy && last?.role !== "assistant" && <p className="waiting" role="status">Thinking</p>}
          {error && <ErrorCard error={error} onRetry={retry} />}
        </div>
      </div>
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
