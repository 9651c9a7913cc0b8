import { music } from "./music";

/** Plays one of the two tracks. */
export async function changeBgm(input: unknown): Promise<{ success: true; track: 0 | 1 }> {
  const { track } = input as { track: unknown };
  if (track !== 0 && track !== 1) throw new Error(`There is no track ${String(track)}, only 0 and 1.`);
  await music.play(track);
  return { success: true, track };
}
