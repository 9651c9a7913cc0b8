import type { Strings } from "../strings";

const IN_THE_BROWSER: Record<string, (t: Strings["calls"], input: unknown) => string> = {
  get_location: (t) => t.locates,
  get_timezone: (t) => t.tellsTime,
  change_bgm: (t, input) => t.playsTrack(String((input as { track?: unknown } | null)?.track)),
};

/** Return a sentence that says what the agent asks for with a call. */
export function describeCall(t: Strings["calls"], tool: string, input: unknown, inBrowser: boolean): string {
  if (!inBrowser) return t.runs(tool);
  return IN_THE_BROWSER[tool]?.(t, input) ?? t.runsInBrowser(tool);
}
