import type { ReactElement } from "react";
import { type Strings, useStrings } from "../strings";
import type { Connection } from "../transport/connection";

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

/** The state of the connection as a dot and a few words. Screen readers announce only what is out of the ordinary. */
export function ConnectionStatus({ connection }: { connection: Connection }): ReactElement {
  const t = useStrings().chat;
  const words = inWords(t, connection);
  const ordinary = connection.state === "connected" || connection.state === "connecting";
  return (
    <p className={`connection ${connection.state}`}>
      <span className="dot" aria-hidden="true" />
      {ordinary && <span className="words">{words}</span>}
      <span role="status" aria-label={t.connection}>{ordinary ? "" : words}</span>
    </p>
  );
}
