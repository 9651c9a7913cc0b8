import { type ReactElement, useCallback, useEffect, useState } from "react";
import { useStrings } from "../strings";
import { type ChatHistory, loadHistory } from "../sync/history";
import type { PageMode } from "../transport/page-mode";
import type { ServerInfo } from "../transport/server-info";
import { ChatView } from "./chat-view";
import { MESSAGES_PER_PAGE } from "./earlier-messages";
import { ErrorCard } from "./error-card";

interface ChatPanelProps {
  id: string;
  fresh: boolean;
  info: ServerInfo | null;
  mode: PageMode;
  onMode: (mode: PageMode) => void;
  onSend: () => void;
}

const EMPTY: ChatHistory = { messages: [], active: null, pending: [] };

/** Loads the newest messages of a chat, then shows the chat. */
export function ChatPanel({ id, fresh, ...props }: ChatPanelProps): ReactElement {
  const t = useStrings().chat;
  const [history, setHistory] = useState<ChatHistory | null>(fresh ? EMPTY : null);
  const [error, setError] = useState<Error | null>(null);
  const load = useCallback(() => {
    setError(null);
    loadHistory(id, MESSAGES_PER_PAGE).then(setHistory, setError);
  }, [id]);
  useEffect(() => {
    if (!fresh) load();
  }, [fresh, load]);
  if (history) return <ChatView id={id} history={history} {...props} />;
  return (
    <main className="center">
      {error ? <ErrorCard error={error} onRetry={load} /> : <p className="hint" role="status">{t.loading}</p>}
    </main>
  );
}
