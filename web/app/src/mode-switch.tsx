import type { ReactElement } from "react";
import { chatModes } from "./chat-modes";
import type { PageMode } from "./page-mode";
import type { ServerInfo } from "./server-info";

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
