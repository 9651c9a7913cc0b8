const IN_THE_BROWSER: Record<string, (input: unknown) => string> = {
  get_location: () => "asks your browser for your location",
  get_timezone: () => "asks your browser for your time zone and local time",
  change_bgm: (input) => `asks your browser to play track ${String((input as { track?: unknown } | null)?.track)}`,
};

/** What an agent does with a call, in words that follow its name. */
export function describeCall(tool: string, input: unknown, inBrowser: boolean): string {
  if (!inBrowser) return `asks to run ${tool}`;
  return IN_THE_BROWSER[tool]?.(input) ?? `asks your browser to run ${tool}`;
}
