import { generateId } from "ai";
import { chats, openChat } from "./agent-chat";
import { loadHistory } from "./history";

type Chat = ReturnType<typeof openChat>;

/** Shows the chat whose id stands behind the # of the address, as `main.tsx` of the Vite starter does. */
export function routed(show: (root: HTMLElement, chat: Chat) => void): void {
  const root = document.getElementById("root")!;

  async function route(): Promise<void> {
    const id = location.hash.slice(1);
    if (!id) return location.replace(`#${openChat(generateId()).id}`);
    show(root, chats.get(id) ?? openChat(id, await loadHistory(id)));
  }

  addEventListener("hashchange", () => void route());
  void route();
}
