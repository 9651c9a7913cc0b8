import type { BrowserTool } from "./browser-tool";
import { changeBgm } from "./change-bgm";
import { getLocation } from "./get-location";
import { getTimezone } from "./get-timezone";

/** What this page can do for an agent, by the name of the tool. */
export const browserTools: ReadonlyMap<string, BrowserTool> = new Map<string, BrowserTool>([
  ["get_location", getLocation],
  ["get_timezone", getTimezone],
  ["change_bgm", changeBgm],
]);
