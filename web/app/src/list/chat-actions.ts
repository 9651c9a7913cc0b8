import { HttpError } from "adkwire";
import { authorizedFetch, request } from "../transport/request";
import type { ChatSummary } from "./use-chat-list";

/** Requests that delete chats at the same time: a browser has few connections to one server. */
const PARALLEL = 3;

/** Chats in a page of the list: the most that the server gives at once. */
const PAGE = 1000;

/** Set the title of a chat. While an answer is being written the server waits for its end. */
export async function renameChat(id: string, title: string): Promise<ChatSummary> {
  const response = await authorizedFetch(`api/chats/${encodeURIComponent(id)}`, {
    method: "PATCH", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ title }),
  });
  if (!response.ok) throw await HttpError.of(response);
  return (await response.json()) as ChatSummary;
}

async function allChats(): Promise<string[]> {
  const ids: string[] = [];
  let next: string | undefined;
  do {
    const before: string = next === undefined ? "" : `&before=${encodeURIComponent(next)}`;
    const page = (await (await request(`chats?limit=${PAGE}${before}`)).json()) as { chats: ChatSummary[]; next?: string };
    ids.push(...page.chats.map((chat) => chat.id));
    next = page.next;
  } while (next !== undefined);
  return ids;
}

/** Delete all chats of the user but one, also those that the list has not loaded. */
export async function deleteOtherChats(kept: string | undefined): Promise<void> {
  const ids = (await allChats()).filter((id) => id !== kept);
  const work = async (): Promise<void> => {
    for (let id = ids.pop(); id !== undefined; id = ids.pop()) {
      await request(`chats/${encodeURIComponent(id)}`, { method: "DELETE", accept: 404 });
    }
  };
  await Promise.all(Array.from({ length: PARALLEL }, work));
}
