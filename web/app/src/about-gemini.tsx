import type { ReactElement } from "react";
import type { ServerInfo } from "./server-info";

function inWords(gemini: NonNullable<ServerInfo["gemini"]>): string {
  const model = gemini.offline ? "The offline model answers: the server has no API key" : `${gemini.model} answers`;
  return `${model}. No agent, no tools; the same history.`;
}

/** Says what answers in Gemini direct. It also describes the switch to a screen reader, so it is always there. */
export function AboutGemini({ info, chosen }: { info: ServerInfo | null; chosen: boolean }): ReactElement | null {
  if (!info?.gemini) return null;
  return <p id="about-gemini" className={chosen ? "about" : "unseen"}>{inWords(info.gemini)}</p>;
}
