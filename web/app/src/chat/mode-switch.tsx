import type { ReactElement } from "react";
import { chatModes, type PageMode } from "../transport/page-mode";
import type { ServerInfo } from "../transport/server-info";

function inWords(gemini: NonNullable<ServerInfo["gemini"]>): string {
  const model = gemini.offline ? "The offline model answers: the server has no API key" : `${gemini.model} answers`;
  return `${model}. No agent, no tools; the same history.`;
}

/** Says what answers in Gemini direct. It also describes the switch to a screen reader, so it is always there. */
export function AboutGemini({ info, chosen }: { info: ServerInfo | null; chosen: boolean }): ReactElement | null {
  if (!info?.gemini) return null;
  return <p id="about-gemini" className={chosen ? "about" : "unseen"}>{inWords(info.gemini)}</p>;
}

const NAMES: Record<PageMode, string> = { sse: "SSE", websocket: "WebSocket", gemini: "Gemini direct" };

interface ModeSwitchProps {
  info: ServerInfo | null;
  mode: PageMode;
  onChoose: (mode: PageMode) => void;
}

/** How the page talks. The history is the same whichever way. */
export function ModeSwitch({ info, mode, onChoose }: ModeSwitchProps): ReactElement | null {
  const modes = chatModes(info);
  if (!info || modes.length < 2) return null;
  return (
    <fieldset className="modes">
      <legend className="unseen">How to talk</legend>
      {modes.map((each) => (
        <label key={each}>
          <input type="radio" name="mode" value={each} checked={each === mode} aria-label={NAMES[each]}
            {...(each === "gemini" ? { "aria-describedby": "about-gemini" } : {})} onChange={() => onChoose(each)} />
          <span>{NAMES[each]}</span>
        </label>
      ))}
    </fieldset>
  );
}
