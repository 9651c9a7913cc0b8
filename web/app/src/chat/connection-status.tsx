import { Popover } from "radix-ui";
import { type ReactElement, useEffect, useState, useSyncExternalStore } from "react";
import { type Strings, useStrings } from "../strings";
import type { Connection } from "../transport/connection";
import type { PageMode } from "../transport/page-mode";
import { request } from "../transport/request";
import type { StreamHealth } from "../transport/stream-health";

function inWords(t: Strings["chat"], connection: Connection): string {
  switch (connection.state) {
    case "offline":
      return t.offline;
    case "connecting":
      return t.connecting;
    case "connected":
      return t.connected;
    case "reconnecting":
      return connection.crowded ? t.tooManySockets : t.reconnecting(connection.attempt);
    case "resumed":
      return t.resumed;
    case "crowded":
      return t.bySse;
    case "not-recovered":
      return t.notRecovered;
  }
}

const PING_EVERY_MS = 5000;

/** Measure the latency of HTTP. Sockets measure their own. */
function useHttpLatency(active: boolean, onLatency: (milliseconds: number) => void): void {
  useEffect(() => {
    if (!active) return;
    const measure = (): void => {
      const sent = performance.now();
      request("info").then(() => onLatency(performance.now() - sent), () => undefined);
    };
    measure();
    const timer = setInterval(measure, PING_EVERY_MS);
    return () => clearInterval(timer);
  }, [active, onLatency]);
}

interface HealthProps {
  health: StreamHealth;
  mode: PageMode;
}

/** The numbers of the connection. */
function Health({ health, mode }: HealthProps): ReactElement {
  const t = useStrings().chat;
  const { latency, reconnects, chunks, lost } = useSyncExternalStore(health.subscribe, health.report);
  const isHttp = mode === "sse" || mode === "gemini";
  useHttpLatency(isHttp || latency === null, health.noteLatency);
  const { name, technical } = t.modes[mode];
  const rows = [
    [t.health.mode, technical ? `${name} (${technical})` : name],
    [t.health.latency, latency === null ? t.health.unknown : t.health.milliseconds(latency)],
    [t.health.reconnects, String(reconnects)],
    [t.health.chunks, String(chunks)],
    [t.health.lost, String(lost)],
  ];
  return <dl>{rows.map(([term, value]) => <div key={term}><dt>{term}</dt><dd>{value}</dd></div>)}</dl>;
}

/**
 * The state of the connection as a dot and a few words, with its numbers on a click. Screen readers announce only what is
 * out of the ordinary.
 */
export function ConnectionStatus({ connection, health, mode }: HealthProps & { connection: Connection }): ReactElement {
  const t = useStrings().chat;
  const [open, setOpen] = useState(false);
  const words = inWords(t, connection);
  const ordinary = connection.state === "connected" || connection.state === "connecting";
  return (
    <div className={`connection ${connection.state}`}>
      <span role="status" aria-label={t.connection}>{ordinary ? "" : words}</span>
      <Popover.Root open={open} onOpenChange={setOpen}>
        <Popover.Trigger asChild>
          <button type="button" className="quiet" aria-label={t.health.about(words)}>
            <span className="dot" aria-hidden="true" />
            {ordinary && <span className="words">{words}</span>}
          </button>
        </Popover.Trigger>
        <Popover.Portal>
          <Popover.Content className="popover health" aria-label={t.health.title} side="top" align="end" sideOffset={6} collisionPadding={12}>
            <h2>{t.health.title}</h2>
            <p>{words}</p>
            <Health health={health} mode={mode} />
          </Popover.Content>
        </Popover.Portal>
      </Popover.Root>
    </div>
  );
}
