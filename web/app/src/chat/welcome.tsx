import type { ReactElement } from "react";
import type { ServerInfo } from "../transport/server-info";

const INTENTS = [
  "weather in Tokyo", "東京の天気", "pay 50 to Hanako", "where am I", "what time is it", "play track 1",
  "think about rain", "draw a cat", "count to 20", "cite",
];

/** What the demo agent can be asked. */
function Suggestions({ onChoose }: { onChoose: (text: string) => void }): ReactElement {
  return (
    <>
      <p className="hint">Write something below, drop an image, or start with one of these.</p>
      <div className="chips">
        {INTENTS.map((text) => (
          <button type="button" key={text} onClick={() => onChoose(text)}>{text}</button>
        ))}
      </div>
    </>
  );
}

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
