import { useCallback, useEffect, useRef, useState } from "react";
import { request } from "./request";

const PATIENCE_MS = 2000;
const PAUSE_MS = 200;

const pause = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, PAUSE_MS));

async function stopRun(id: string): Promise<boolean> {
  const response = await request(`chat/${encodeURIComponent(id)}/stop`, "POST");
  return ((await response.json()) as { stopped: boolean }).stopped;
}

/**
 * Stops the run on the server. The stream then ends by itself with what was kept; the local end is only for a server
 * that does not answer. Asked again while the run is not there yet: a stop may overtake the message it stops.
 */
export function useStop(id: string, busy: boolean, stopLocally: () => Promise<void>): [() => void, boolean] {
  const [stopping, setStopping] = useState(false);
  const running = useRef(busy);
  useEffect(() => {
    running.current = busy;
    if (!busy) setStopping(false);
  }, [busy]);
  const stop = useCallback(async () => {
    setStopping(true);
    const deadline = Date.now() + PATIENCE_MS;
    let stopped = false;
    try {
      while (running.current && Date.now() < deadline) {
        stopped ||= await stopRun(id);
        await pause();
      }
    } finally {
      if (running.current) await stopLocally();
    }
  }, [id, stopLocally]);
  return [() => void stop().catch(() => undefined), stopping];
}
