import { Chat, useChat } from "@ai-sdk/react";
import { DefaultChatTransport, type FileUIPart, type UIMessage } from "ai";
import { type ReactElement, useEffect, useState } from "react";
import { authorizedFetch } from "./authorized-fetch";
import type { ChatHistory } from "./chat-history";
import { Composer } from "./composer";
import { describeError } from "./describe-error";
import { ErrorCard } from "./error-card";
import { followRun } from "./follow-run";
import { isBusy } from "./is-busy";
import { MessageView } from "./message-view";
import { reconnect } from "./reconnect";
import { Suggestions } from "./suggestions";
import { useStickToBottom } from "./use-stick-to-bottom";
import { useStop } from "./use-stop";

interface ChatViewProps {
  id: string;
  history: ChatHistory;
  onSend: () => void;
  onChange: () => void;
}

const RENDER_EVERY_MS = 40;

function createChat(id: string, messages: UIMessage[]): Chat<UIMessage> {
  return new Chat({ id, messages, transport: new DefaultChatTransport({ api: "api/chat", fetch: authorizedFetch }) });
}

/** One chat: what was said, what is being said, and the message box. */
export function ChatView({ id, history, onSend, onChange }: ChatViewProps): ReactElement {
  const [chat] = useState(() => createChat(id, history.messages));
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
    const behind = failure ?? (error && describeError(error).disconnected);
    setFailure(null);
    (behind ? reconnect(chat) : chat.regenerate()).catch(setFailure);
  };

  const last = messages.at(-1);
  return (
    <main className="chat">
      <div className="transcript" ref={box} onScroll={onScroll}>
        <div className="column" ref={content} role="log" aria-live="polite" aria-busy={busy} aria-label="Conversation">
          {messages.length === 0 && <Suggestions onChoose={(text) => send(text, [])} />}
          {messages.map((message) => (
            <MessageView key={message.id} message={message} running={busy && message === last}
              {...(!busy && !error && message === last ? { onRegenerate: retry } : {})} />
          ))}
          {busy && last?.role !== "assistant" && <p className="waiting" role="status">Thinking</p>}
          {error && <ErrorCard error={error} onRetry={retry} />}
        </div>
      </div>
      <Composer busy={busy} stopping={stopping} onSend={send} onStop={stop} />
    </main>
  );
}
