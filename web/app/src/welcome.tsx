import type { ReactElement } from "react";
import type { ServerInfo } from "./server-info";
import { Suggestions } from "./suggestions";

const DEMO = "demo";

function Introduction({ agent, tools }: ServerInfo): ReactElement {
  return (
    <p className="hint">
      You are talking to <strong>{agent}</strong>. Write something below, or drop an image.
      {tools.length > 0 && <> Its tools: {tools.map((tool) => tool.name).join(", ")}.</>}
    </p>
  );
}

/** What an empty chat says. Only the demo agent is known well enough to suggest something. */
export function Welcome({ info, onChoose }: { info: ServerInfo | null; onChoose: (text: string) => void }): ReactElement {
  return (
    <section className="welcome" aria-label="Welcome">
      <h2>What can I do for you?</h2>
      {info && (info.agent === DEMO ? <Suggestions onChoose={onChoose} /> : <Introduction {...info} />)}
    </section>
  );
}
