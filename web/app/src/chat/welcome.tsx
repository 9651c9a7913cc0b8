import type { ReactElement } from "react";
import { language, useStrings } from "../strings";
import type { ServerInfo } from "../transport/server-info";

const DEMO = "demo";

const INTENTS = [
  "weather in Tokyo", "東京の天気", "pay 50 to Hanako", "where am I", "what time is it", "play track 1",
  "think about rain", "draw a cat", "count to 20", "cite",
];

const INTENTS_JAPANESE = [
  "東京の天気", "花子に50ドル送金", "今どこ", "何時", "BGMを1に", "weather in Tokyo", "think about rain", "draw a cat",
  "count to 20", "cite",
];

function Suggestions({ texts, onChoose }: { texts: string[]; onChoose: (text: string) => void }): ReactElement {
  return (
    <div className="chips">
      {texts.map((text) => <button type="button" key={text} onClick={() => onChoose(text)}>{text}</button>)}
    </div>
  );
}

interface WelcomeProps {
  info: ServerInfo | null;
  onChoose: (text: string) => void;
}

/** The content of an empty chat: the owner's texts, or our own. Only the demo agent has suggestions of ours. */
export function Welcome({ info, onChoose }: WelcomeProps): ReactElement {
  const t = useStrings().chat;
  const isDemo = info?.agent === DEMO;
  const { logo, welcome, suggestions } = info?.page ?? {};
  const demoIntents = language() === "ja" ? INTENTS_JAPANESE : INTENTS;
  const texts = suggestions ?? (isDemo ? demoIntents : []);
  return (
    <section className="welcome" aria-label={t.welcome}>
      <img src={logo ?? "./icon.svg"} alt="" width="44" height="44" />
      <h2>{t.welcomeTitle}</h2>
      {info && <p className="hint">{welcome ?? (isDemo ? t.welcomeDemo : t.welcomeAgent(info.agent))}</p>}
      {info && !isDemo && welcome === undefined && info.tools.length > 0 && (
        <p className="hint">{t.welcomeTools(info.tools.map((tool) => tool.name))}</p>
      )}
      {texts.length > 0 && <Suggestions texts={texts} onChoose={onChoose} />}
    </section>
  );
}
