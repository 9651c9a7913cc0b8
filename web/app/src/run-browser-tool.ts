import { browserTools } from "./browser-tools";

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
