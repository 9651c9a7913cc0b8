import type { ReactElement } from "react";
import { Segments } from "../design/segments";
import { type Strings, useStrings } from "../strings";
import { chatModes, type PageMode } from "../transport/page-mode";
import type { ServerInfo } from "../transport/server-info";

const ABOUT_GEMINI = "about-gemini";

/** Says what answers in Gemini direct. It also describes the switch to screen readers, so it is always there. */
export function AboutGemini({ info, chosen }: { info: ServerInfo | null; chosen: boolean }): ReactElement | null {
  const t = useStrings().chat;
  if (!info?.gemini) return null;
  const words = info.gemini.offline ? t.geminiOffline : t.geminiOnline(info.gemini.model);
  return <p id={ABOUT_GEMINI} className={chosen ? "about" : "unseen"}>{words}</p>;
}

function ModeLabel({ name, technical }: Strings["chat"]["modes"][PageMode]): ReactElement {
  if (!technical) return <>{name}</>;
  return <><span className="name">{name}</span> <span className="technical">{technical}</span></>;
}

interface ModeSwitchProps {
  info: ServerInfo | null;
  mode: PageMode;
  onChoose: (mode: PageMode) => void;
}

/** The choice of the transport. All modes share one history. */
export function ModeSwitch({ info, mode, onChoose }: ModeSwitchProps): ReactElement | null {
  const t = useStrings().chat;
  const modes = chatModes(info);
  if (!info || modes.length < 2) return null;
  const segments = modes.map((value) => {
    const { name, technical } = t.modes[value];
    return {
      value,
      label: <ModeLabel name={name} technical={technical} />,
      name: technical ? `${name} (${technical})` : name,
      ...(value === "gemini" ? { describedBy: ABOUT_GEMINI } : {}),
    };
  });
  return <Segments legend={t.mode} hideLegend group="mode" segments={segments} value={mode} onChange={onChoose} />;
}
