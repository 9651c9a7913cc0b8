import type { Connection } from "../transport/connection";
import { token } from "../transport/token";
import { type ChatEvent, type EventReader, followEvents } from "./read-events";

async function fingerprint(text: string): Promise<string> {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Return the name of the lock and channel of all tabs that have the same server and user. */
async function sharedName(): Promise<string> {
  const bearer = token.read();
  // A hash, since every script of this origin can read the names of locks.
  return `adkwire-events ${new URL(".", location.href).href} ${bearer ? await fingerprint(bearer) : ""}`;
}

/** Messages between tabs. A new tab sends `hello` to learn the state of the connection. */
type TabMessage =
  | { type: "hello" }
  | { type: "connection"; connection: Connection }
  | { type: "event"; event: ChatEvent | null };

/** Return the reader of what the leading tab passes on. Events from before this tab opened count as missed. */
function tabReader({ onConnection, onEvent }: EventReader): (message: TabMessage) => void {
  let behind = true;
  return (message) => {
    if (message.type === "event") onEvent(message.event);
    if (message.type !== "connection") return;
    onConnection(message.connection);
    if (!behind || message.connection.state !== "connected") return;
    behind = false;
    onEvent(null);
  };
}

/**
 * Read the events over one connection for all tabs of a user: the tab with the lock reads and passes them on. When it
 * closes, another tab gets the lock, and all tabs load their state again, since events may have been missed.
 */
export async function shareEvents(signal: AbortSignal, reader: EventReader): Promise<void> {
  if (!("locks" in navigator)) return followEvents(signal, reader);
  const name = await sharedName();
  if (signal.aborted) return;
  const channel = new BroadcastChannel(name);
  signal.addEventListener("abort", () => channel.close());
  const post = (message: TabMessage): void => {
    if (!signal.aborted) channel.postMessage(message);
  };
  const read = tabReader(reader);
  channel.onmessage = ({ data }: MessageEvent<TabMessage>) => read(data);
  post({ type: "hello" });
  const lead = (): Promise<void> => {
    let current: Connection = { state: "connecting" };
    channel.onmessage = ({ data }: MessageEvent<TabMessage>) => {
      if (data.type === "hello") post({ type: "connection", connection: current });
    };
    return followEvents(signal, {
      onConnection: (connection) => {
        current = connection;
        reader.onConnection(connection);
        post({ type: "connection", connection });
      },
      onEvent: (event) => {
        reader.onEvent(event);
        post({ type: "event", event });
      },
    });
  };
  // Rejects when the tab is closed or hidden before it gets the lock.
  await navigator.locks.request(name, { signal }, lead).catch(() => undefined);
}
