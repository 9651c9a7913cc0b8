import { useChat } from "@ai-sdk/react";
import { type LiveState, NotRecoveredError } from "adkwire";
import { type FileUIPart, isFileUIPart, type UIMessage } from "ai";
import { type ReactElement, useCallback, useEffect, useMemo, useState, useSyncExternalStore } from "react";
import { answerBrowserCalls } from "../browser-tools/answer-browser-calls";
import { Answers, type CallAnswer } from "../calls/answers";
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
import { isLiveElsewhere, reconnect } from "../sync/recover";
import { useSession } from "../sync/use-session";
import { useStop } from "../sync/use-stop";
import { type Connection, useStreamConnection, useOnline } from "../transport/connection";
import type { PageMode } from "../transport/page-mode";
import type { Limits, ServerInfo } from "../transport/server-info";
import type { ToolPart } from "../transport/tool-part";
import { ConnectionStatus } from "./connection-status";
import { describeError } from "./describe-error";
import { EarlierMessages } from "./earlier-messages";
import { ErrorCard } from "./error-card";
import { JumpButton } from "./jump-button";
import { LiveStatus, useInterrupted, useNotice } from "./live-status";
import { AboutGemini, ModeSwitch } from "./mode-switch";
import { TakeOverDialog } from "./take-over-dialog";
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
  const [contested, setContested] = useState<UIMessage | null>(null);
  const [liveState, setLiveState] = useState<LiveState | null>(null);
  const [interrupted, showInterrupted] = useInterrupted();
  const [notice, showNotice] = useNotice();
  const { connection: streamConnection, report, reset } = useStreamConnection();
  const [session] = useState(() => new ChatSession(id, history, mode, {
    onEnd: (ended, wasStopped) => setStopped((before) => marked(before, ended, wasStopped)),
    onConnection: report,
    onFail: setFailure,
    onReturn: setReturned,
    onLiveElsewhere: setContested,
    onLiveState: setLiveState,
    onInterrupted: showInterrupted,
    onNotice: showNotice,
  }));
  const { chat, follower } = session;
  const [answers] = useState(() => new Answers(chat, follower, (...verdict) => session.answer(...verdict)));
  const { messages, status, error: answerError } = useChat({ chat, throttle: RENDER_EVERY_MS });
  // The dialog is about this one.
  const error = (answerError && isLiveElsewhere(answerError) ? null : answerError) ?? failure;
  const busy = isBusy(status);
  const live = mode === "live";
  // A live answer stays open while its questions wait.
  const answering = busy && !(live && liveState === "waiting");
  const eventConnection = useSyncExternalStore(chatEvents.subscribe, chatEvents.connection);
  const connection = connectionToShow(error, useOnline(), streamConnection, eventConnection);
  useSession(session, history, mode, busy);
  useEffect(() => {
    if (!busy && !live) reset();
  }, [busy, live, reset]);
  const [stopRun, stopping] = useStop(chat, setFailure);
  const stop = (): void => {
    showInterrupted();
    stopRun();
  };
  const idle = !answering && !error;
  const answerable = mode !== "gemini";
  const last = messages.at(-1);
  const runOffered = useCallback((event?: Event) => {
    // The tab that began a run runs its browser calls, until the user focuses another one.
    follower.runsBrowserCalls ||= event !== undefined || answers.hasPosted;
    if (follower.runsBrowserCalls) answerBrowserCalls(chat).catch(setFailure);
  }, [chat, follower, answers]);
  const { asked, open, browserTools, schemas, twins } = useOpenCalls(last, info, (idle || live) && answerable, runOffered);
  const { box, content, onScroll, away, stick, jump } = useStickToBottom();
  useEscape(answering, live ? () => void session.interrupt().then(showInterrupted, setFailure) : stop);

  const send = (text: string, files: FileUIPart[]): void => {
    onSend();
    stick();
    setFailure(null);
    void session.send(text, files);
  };
  const takeOver = (message: UIMessage): void => {
    setContested(null);
    session.setMode("live");
    onMode("live");
    void session.sendMessage(message);
  };
  const leaveToOther = (message: UIMessage): void => {
    setContested(null);
    setReturned({ ...message });
  };
  // A live conversation goes on: nothing of it is rewound.
  const canEdit = !busy && !stopping && !live;
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
    const again = (): Promise<void> => (live ? session.sendAgain() : chat.regenerate());
    (isReconnect || open ? reconnect(chat).then(() => session.joinLive()) : again()).catch(setFailure);
  };
  const delivery = deliveryOf(status, connection);
  const calls = useMemo(() => ({
    browserTools, schemas, twins, answerable, delivery,
    onAnswer: (call: ToolPart, answer: CallAnswer): Promise<void> => {
      setFailure(null);
      return answers.give(call, answer);
    },
    isRetryable: (call: ToolPart) => answers.isRetryable(call),
    onRetry: (call: ToolPart) => answers.retry(call),
    onCheck: () => follower.check(),
  }), [answers, follower, browserTools, schemas, twins, answerable, delivery]);

  return (
    <main className="chat">
      <div className="transcript" ref={box} onScroll={onScroll}>
        <div className="column" ref={content} role="log" aria-live="polite" aria-busy={answering} aria-label={t.conversation}>
          {messages.length === 0 && <Welcome info={info} onChoose={(text) => send(text, [])} />}
          <EarlierMessages chat={chat} next={history.next} first={messages[0]?.id} busy={busy} box={box} onFail={setFailure} />
          <CallContext value={calls}><MessageContext value={edits}>
            {messages.map((message) => (
              <MessageView key={message.id} message={message} running={answering && message === last} current={message === last}
                stopped={stopped.has(message.id)} settled={idle || message !== last}
                {...(idle && !open && !live && message === last ? { onRegenerate: retry } : {})} />
            ))}
          </MessageContext></CallContext>
          {answering && last?.role !== "assistant" && <p className="waiting" role="status">{t.thinking}</p>}
          {error && <ErrorCard error={error} onRetry={retry} />}
        </div>
      </div>
      {away && <JumpButton growing={answering} onJump={jump} />}
      <LiveStatus state={live ? liveState : null} interrupted={interrupted} notice={live ? notice : null} />
      <QuestionStatus asked={asked} />
      <Composer busy={answering || stopping} stopping={stopping} asked={asked.length > 0} limits={info?.limits ?? UNKNOWN} returned={returned}
        onSend={send} onStop={stop} />
      <footer>
        <ModeSwitch info={info} mode={mode} onChoose={onMode} />
        <ConnectionStatus connection={connection} health={session.health} mode={mode} />
        <AboutGemini info={info} chosen={!answerable} />
      </footer>
      <TakeOverDialog open={contested !== null} onTakeOver={() => contested && takeOver(contested)}
        onCancel={() => contested && leaveToOther(contested)} />
    </main>
  );
}
