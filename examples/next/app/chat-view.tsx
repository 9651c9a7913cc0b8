"use client";

import { useChat } from "@ai-sdk/react";
import { getToolName, isToolUIPart, type UIMessage } from "ai";
import { type FormEvent, useState } from "react";
import { chats, explain, openChat, stopAgent } from "./agent-chat";
import type { History } from "./history";

export function ChatView({ id, history }: { id: string; history: History }) {
  const [chat] = useState(() => chats.get(id) ?? openChat(id, history));
  const [draft, setDraft] = useState("");
  const { messages, sendMessage, addToolApprovalResponse, status, error } = useChat({ chat });
  const isBusy = status === "submitted" || status === "streaming"; // not after an error: a person may try again

  function send(event: FormEvent) {
    event.preventDefault();
    if (isBusy || !draft.trim()) return;
    void sendMessage({ text: draft });
    setDraft("");
  }

  function showPart(part: UIMessage["parts"][number], index: number) {
    if (part.type === "text") return <p key={index}>{part.text}</p>;
    if (part.type === "file") return <img key={index} src={part.url} alt={part.filename ?? ""} />;
    if (!isToolUIPart(part)) return null;
    const answer = (approved: boolean) =>
      part.state === "approval-requested" && addToolApprovalResponse({ id: part.approval.id, approved });
    return (
      <fieldset key={index}>
        <legend>{getToolName(part)}</legend>
        <code>{JSON.stringify(part.input)}</code> <em>{part.state}</em>
        {part.state === "approval-requested" && (
          <div>
            <button onClick={() => answer(true)}>Approve</button>
            <button onClick={() => answer(false)}>Deny</button>
          </div>
        )}
        {part.state === "output-available" && <pre>{JSON.stringify(part.output, null, 2)}</pre>}
        {part.state === "output-error" && <pre>{part.errorText}</pre>}
      </fieldset>
    );
  }

  return (
    <main>
      <section role="log" aria-label="Conversation" aria-busy={isBusy}>
        {messages.map((message) => (
          <article key={message.id} aria-label={message.role}>{message.parts.map(showPart)}</article>
        ))}
      </section>
      {error && <p role="alert">{explain(error)}</p>}
      <form onSubmit={send}>
        <input aria-label="Message" value={draft} onChange={(event) => setDraft(event.target.value)} autoFocus />
        {isBusy ? <button type="button" onClick={() => stopAgent(chat)}>Stop</button> : <button>Send</button>}
      </form>
    </main>
  );
}
