import { getLocation } from "./get-location";
import { getTimezone } from "./get-timezone";
import { music } from "./music";

/** A tool that this page runs. What it throws is told to the model. */
type BrowserTool = (input: unknown) => Promise<unknown>;

/** Plays one of the two tracks. */
async function changeBgm(input: unknown): Promise<{ success: true; track: 0 | 1 }> {
  const { track } = input as { track: unknown };
  if (track !== 0 && track !== 1) throw new Error(`There is no track ${String(track)}, only 0 and 1.`);
  await music.play(track);
  return { success: true, track };
}

/** What this page can do for an agent, by the name of the tool. */
export const browserTools: ReadonlyMap<string, BrowserTool> = new Map<string, BrowserTool>([
  ["get_location", getLocation],
  ["get_timezone", getTimezone],
  ["change_bgm", changeBgm],
]);

/** What came of a call: its output, or words that say why there is none. */
type Outcome = { output: unknown } | { errorText: string };

const outcomes = new Map<string, Promise<Outcome>>();

async function run(tool: string, input: unknown): Promise<Outcome> {
  const handler = browserTools.get(tool);
  if (!handler) return { errorText: `This page cannot do that: it has no tool named ${tool}.` };
  try {
    return { output: await handler(input) };
  } catch (error) {
    return { errorText: error instanceof Error ? error.message : String(error) };
  }
}

/** Runs a call once in the life of this page. Whoever asks for it again gets what came of it. */
export function runBrowserTool(call: string, tool: string, input: unknown): Promise<Outcome> {
  const outcome = outcomes.get(call) ?? run(tool, input);
  outcomes.set(call, outcome);
  return outcome;
}
