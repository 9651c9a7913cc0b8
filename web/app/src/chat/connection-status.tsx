import type { ReactElement } from "react";
import type { Connection } from "../transport/connection";

function inWords(connection: Connection): string {
  switch (connection.state) {
    case "offline":
      return "No network";
    case "connecting":
      return "Connecting";
    case "connected":
      return "Connected";
    case "reconnecting":
      return connection.crowded
        ? "Too many WebSockets: close a window"
        : `Reconnecting (attempt ${connection.attempt})`;
    case "resumed":
      return "Resumed: 0 lost";
    case "crowded":
      return "By SSE: too many WebSockets";
    case "not-recovered":
      return "Not recovered";
  }
}

/** How the page is connected: a dot and a few words. Only what is out of the ordinary is announced. */
export function ConnectionStatus({ connection }: { connection: Connection }): ReactElement {
  const words = inWords(connection);
  const ordinary = connection.state === "connected" || connection.state === "connecting";
  return (
    <p className={`connection ${connection.state}`}>
      <span className="dot" aria-hidden="true" />
      {ordinary && <span className="words">{words}</span>}
      <span role="status" aria-label="Connection">{ordinary ? "" : words}</span>
    </p>
  );
}
