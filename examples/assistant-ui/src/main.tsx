import { generateId } from "ai";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { chats, openChat } from "./agent-chat";
import { ChatView } from "./chat-view";
import { loadHistory } from "./history";
import "./style.css";

const root = createRoot(document.getElementById("root")!);

/** Shows the chat whose id stands behind the # of the address, a new one without. */
async function show(): Promise<void> {
  const id = location.hash.slice(1);
  if (!id) return location.replace(`#${openChat(generateId()).id}`);
  try {
    const chat = chats.get(id) ?? openChat(id, await loadHistory(id));
    root.render(<StrictMode><a href="#">New chat</a><ChatView key={id} chat={chat} /></StrictMode>);
  } catch (error) {
    root.render(<p role="alert">{String(error)}</p>);
  }
}

addEventListener("hashchange", () => void show());
void show();
