import type { Chat } from "@ai-sdk/react";
import type { UIMessage } from "ai";
import { useCallback, useState } from "react";
import { strings } from "../strings";
import { request } from "../transport/request";
import { isBusy } from "./chat-status";

const PATIENCE_MS = 5000;
const PAUSE_MS = 200;

const pause = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, PAUSE_MS));

async function askToStop(id: string, signal: AbortSignal): Promise<boolean> {
  const response = await request(`chat/${encodeURIComponent(id)}/stop`, { method: "POST", signal });
  return ((await response.json()) as { stopped: boolean }).stopped;
}

/** Ask the server to stop, again while it knows no run yet: a stop may overtake its message. */
export async function stopRun(chat: Chat<UIMessage>): Promise<void> {
  const patience = AbortSignal.timeout(PATIENCE_MS);
  let stopped = false;
  while (isBusy(chat.status) && !patience.aborted) {
    stopped ||= await askToStop(chat.id, patience);
    await pause();
  }
}

/**
 * Return a function that stops the run on the server, whose stream then ends by itself with what was stored; the chat is
 * stopped locally only when the server does not answer. Nothing may be sent meanwhile: it would be stopped as well.
 */
export function useStop(
  chat: Chat<UIMessage>, onFail: (error: Error) => void,
): [stop: () => void, stopping: boolean] {
  const [stopping, setStopping] = useState(false);
  const stop = useCallback(async () => {
    setStopping(true);
    const failed = await stopRun(chat).then(() => false, () => true);
    if (isBusy(chat.status)) {
      if (failed) onFail(new Error(strings().errors.notStopped));
      await chat.stop();
    }
    setStopping(false);
  }, [chat, onFail]);
  return [stop, stopping];
}
