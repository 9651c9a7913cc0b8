import { useChat } from "@ai-sdk/react";
import type { FileUIPart, UIMessage } from "ai";
import { type ReactElement, useEffect, useState } from "react";
import type { ChatHistory } from "./chat-history";
import { Composer } from "./composer";
import { createChat } from "./create-chat";
import { describeError } from "./describe-error";
import { ErrorCard } from "./error-card";
import { followRun } from "./follow-run";
import { hasContent } from "./has-content";
import { isBusy } from "./is-busy";
import type { Limits } from "./limits";
import { MessageView } from "./message-view";
import { reconnect } from "./reconnect";
import { Refusal } from "./refusal";
import type { ServerInfo } from "./server-info";
import { takeBack } from "./take-back";
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
  const { box, content, onScroll, stick } = useStickToBottom();

  useEffect(() => {
    if (history.active) followRun(chat).catch(setFailure);
    return () => void chat.stop();
  }, [history, chat]);
  useEffect(() => void onChange(), [status, onChange]);
  useEffect(() => {
    if (answerError instanceof Refusal && answerError.final) takeBack(chat).then(setReturned, setFailure);
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
    (behind ? reconnect(chat) : chat.regenerate()).catch(setFailure);
  };

  const last = messages.at(-1);
  return (
    <main className="chat">
      <div className="transcript" ref={box} onScroll={onScroll}>
        <div className="column" ref={content} role="log" aria-live="polite" aria-busy={busy} aria-label="Conversation">
          {messages.length === 0 && <Welcome info={info} onChoose={(text) => send(text, [])} />}
          {messages.map((message) => (
            <MessageView key={message.id} message={message} running={busy && message === last}
              note={(busy || error) && message === last ? "" : noteOn(message, stopped)}
              {...(!busy && !error && message === last ? { onRegenerate: retry } : {})} />
          ))}
          {busy && last?.role !== "assistant" && <p className="waiting" role="status">Thinking</p>}
          {error && <ErrorCard error={error} onRetry={retry} />}
        </div>
      </div>
      <Composer busy={busy} stopping={stopping} limits={info?.limits ?? UNKNOWN} returned={returned}
        onSend={send} onStop={stop} />
    </main>
  );
}
