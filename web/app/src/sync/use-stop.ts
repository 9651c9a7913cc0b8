import type { Chat } from "@ai-sdk/react";
import type { UIMessage } from "ai";
import { useCallback, useState } from "react";
import { request } from "../transport/request";
import { isBusy } from "./chat-status";

const PATIENCE_MS = 5000;
const PAUSE_MS = 200;
const NOT_STOPPED = "The server did not stop the answer. It may still be writing it: retry to see.";

const pause = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, PAUSE_MS));

async function askToStop(id: string, signal: AbortSignal): Promise<boolean> {
  const response = await request(`chat/${encodeURIComponent(id)}/stop`, { method: "POST", signal });
  return ((await response.json()) as { stopped: boolean }).stopped;
}

/** Asks again while the run is not there yet: a stop may overtake the message it stops. */
async function stopRun(chat: Chat<UIMessage>): Promise<void> {
  const patience = AbortSignal.timeout(PATIENCE_MS);
  let stopped = false;
  while (isBusy(chat.status) && !patience.aborted) {
    stopped ||= await askToStop(chat.id, patience);
    await pause();
  }
}

/**
 * Stops the run on the server. The stream then ends by itself with what was kept; the local end is only for a server
 * that does not answer. Nothing new may begin before it is through: that would be stopped as well.
 */
export function useStop(
  chat: Chat<UIMessage>, onFail: (error: Error) => void,
): [stop: () => void, stopping: boolean] {
  const [stopping, setStopping] = useState(false);
  const stop = useCallback(async () => {
    setStopping(true);
    const failed = await stopRun(chat).then(() => false, () => true);
    if (isBusy(chat.status)) {
      if (failed) onFail(new Error(NOT_STOPPED));
      await chat.stop();
    }
    setStopping(false);
  }, [chat, onFail]);
  return [stop, stopping];
}
