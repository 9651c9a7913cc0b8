import { useChat } from "@ai-sdk/react";
import { DefaultChatTransport, type FileUIPart } from "ai";
import { type ReactElement, useEffect, useState } from "react";
import { authorizedFetch } from "./authorized-fetch";
import type { ChatHistory } from "./chat-history";
import { Composer } from "./composer";
import { describeError } from "./describe-error";
import { ErrorCard } from "./error-card";
import { loadHistory } from "./load-history";
import { MessageView } from "./message-view";
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

/** One chat: what was said, what is being said, and the message box. */
export function ChatView({ id, history, onSend, onChange }: ChatViewProps): ReactElement {
  const [transport] = useState(() => new DefaultChatTransport({ api: "api/chat", fetch: authorizedFetch }));
  const chat = useChat({ id, messages: history.messages, transport, throttle: RENDER_EVERY_MS });
  const { messages, status, error, resumeStream } = chat;
  const busy = status === "submitted" || status === "streaming";
  const [stop, stopping] = useStop(id, busy, chat.stop);
  const { box, content, onScroll, stick } = useStickToBottom();

  useEffect(() => {
    if (history.active) void resumeStream();
  }, [history, resumeStream]);
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
    void chat.sendMessage({ text, files });
  };
  const reconnect = async (): Promise<void> => {
    const known = await loadHistory(id);
    const asked = messages.findLast((message) => message.role === "user");
    chat.clearError();
    chat.setMessages(known.messages);
    if (known.active) await resumeStream();
    else if (asked && !known.messages.some((message) => message.id === asked.id)) await chat.sendMessage(asked);
  };
  const retry = (): void => {
    const attempt = error && describeError(error).disconnected ? reconnect() : chat.regenerate();
    attempt.catch(() => undefined);
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
