import { useChat } from "@ai-sdk/react";
import type { FileUIPart, UIMessage } from "ai";
import { type ReactElement, useEffect, useMemo, useState } from "react";
import { CallContext } from "./call-context";
import { catchUp } from "./catch-up";
import type { ChatHistory } from "./chat-history";
import { Composer } from "./composer";
import { createChat } from "./create-chat";
import { describeError } from "./describe-error";
import { ErrorCard } from "./error-card";
import { followRun } from "./follow-run";
import { hasContent } from "./has-content";
import { isBusy } from "./is-busy";
import { lastStepCalls } from "./last-step-calls";
import type { Limits } from "./limits";
import { MessageView } from "./message-view";
import { QuestionStatus } from "./question-status";
import { reconnect } from "./reconnect";
import { Refusal } from "./refusal";
import { reopenQuestions } from "./reopen-questions";
import type { ServerInfo } from "./server-info";
import { takeBack } from "./take-back";
import { useOpenCalls } from "./use-open-calls";
import { useStickToBottom } from "./use-stick-to-bottom";
import { useStop } from "./use-stop";
import { Welcome } from "./welcome";

interface ChatViewProps {
  id: string;
  history: ChatHistory;
  info: ServerInfo | null;
  onSend: () => void;
  onChange: () => void;
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

/** One chat: what was said, what is being said, and the message box. */
export function ChatView({ id, history, info, onSend, onChange }: ChatViewProps): ReactElement {
  const [stopped, setStopped] = useState<ReadonlySet<string>>(new Set());
  const [returned, setReturned] = useState<UIMessage | null>(null);
  const [chat] = useState(() => createChat(id, history.messages, (ended, wasStopped) =>
    setStopped((before) => marked(before, ended, wasStopped))));
  const { messages, status, error: answerError } = useChat({ chat, throttle: RENDER_EVERY_MS });
  // What failed beside the answer itself: to catch up with the server, or to stop it.
  const [failure, setFailure] = useState<Error | null>(null);
  const error = answerError ?? failure;
  const busy = isBusy(status);
  const [stop, stopping] = useStop(chat, busy, setFailure);
  const idle = !busy && !error;
  const last = messages.at(-1);
  const { browserTools, asked, open } = useOpenCalls(chat, last, info, idle, setFailure);
  const { box, content, onScroll, stick } = useStickToBottom();

  useEffect(() => {
    if (history.active) followRun(chat).catch(setFailure);
    return () => void chat.stop();
  }, [history, chat]);
  useEffect(() => void onChange(), [status, onChange]);
  useEffect(() => {
    if (answerError instanceof Refusal && answerError.final) takeBack(chat).then(setReturned, setFailure);
    else if (answerError && lastStepCalls(chat.lastMessage).length > 0) reopenQuestions(chat).catch(setFailure);
  }, [answerError, chat]);
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
    const behind = failure ?? (error && describeError(error).remedy === "reconnect");
    setFailure(null);
    (behind || open ? reconnect(chat) : chat.regenerate()).catch(setFailure);
  };
  const calls = useMemo(() => ({
    browserTools,
    onAnswer: (id: string, approved: boolean, reason: string): void => {
      setFailure(null);
      void chat.addToolApprovalResponse({ id, approved, ...(!approved && reason ? { reason } : {}) });
    },
    // Nobody asked for it: what went wrong is told when the person answers.
    onCheck: (call: string) => void catchUp(chat, call).catch(() => undefined),
  }), [chat, browserTools]);

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
      <Composer busy={busy} stopping={stopping} asked={asked.length > 0} limits={info?.limits ?? UNKNOWN} returned={returned}
        onSend={send} onStop={stop} />
    </main>
  );
}
