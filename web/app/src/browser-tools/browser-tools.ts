import { strings } from "../strings";
import { getLocation } from "./get-location";
import { getTimezone } from "./get-timezone";
import { music } from "./music";

/** A tool that this page runs. The message of an error that it throws goes to the model. */
type BrowserTool = (input: unknown) => Promise<unknown>;

/** Play one of the two tracks. */
async function changeBgm(input: unknown): Promise<{ success: true; track: 0 | 1 }> {
  const { track } = input as { track: unknown };
  if (track !== 0 && track !== 1) throw new Error(strings().browserTools.noTrack(String(track)));
  await music.play(track);
  return { success: true, track };
}

/** The tools of this page, by name. */
export const browserTools: ReadonlyMap<string, BrowserTool> = new Map<string, BrowserTool>([
  ["get_location", getLocation],
  ["get_timezone", getTimezone],
  ["change_bgm", changeBgm],
]);

/** The output of a call, or the reason why there is none. */
type Outcome = { output: unknown } | { errorText: string };

const outcomes = new Map<string, Promise<Outcome>>();

async function run(tool: string, input: unknown): Promise<Outcome> {
  const handler = browserTools.get(tool);
  if (!handler) return { errorText: strings().browserTools.noTool(tool) };
  try {
    return { output: await handler(input) };
  } catch (error) {
    return { errorText: error instanceof Error ? error.message : String(error) };
  }
}

/** Run a call, at most once while this page is open: a second request for it gets the same outcome. */
export function runBrowserTool(call: string, tool: string, input: unknown): Promise<Outcome> {
  const outcome = outcomes.get(call) ?? run(tool, input);
  outcomes.set(call, outcome);
  return outcome;
}
