import type { ReactElement } from "react";

const INTENTS = [
  "weather in Tokyo", "東京の天気", "pay 50 to Hanako", "where am I", "what time is it", "play track 1",
  "think about rain", "draw a cat", "count to 20", "cite",
];

/** What the demo agent can be asked. */
export function Suggestions({ onChoose }: { onChoose: (text: string) => void }): ReactElement {
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
