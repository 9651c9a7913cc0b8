import { expect, test } from "vitest";
import { type LiveDropped, LiveUplink } from "../../src/live/live-uplink.js";
import { readMediaFrame } from "../../src/live/media-frame.js";

/** An uplink whose connection can be taken away, and the frames that it has sent. */
function scene(): { line: { away: boolean }; sent: string[]; uplink: LiveUplink; dropped: LiveDropped } {
  const line = { away: false };
  const sent: string[] = [];
  const uplink = new LiveUplink((frame) => {
    if (!line.away) sent.push(named(frame));
    return !line.away;
  });
  return { line, sent, uplink, dropped: uplink.dropped };
}

function named(frame: string | ArrayBuffer): string {
  if (typeof frame === "string") {
    const { type, action, source } = JSON.parse(frame) as Record<string, string>;
    return `${type} ${action} ${source}`;
  }
  const { kind, position, payload } = readMediaFrame(frame) ?? { kind: "?", position: -1, payload: [] };
  return `${kind} ${payload.length} bytes at ${position} ms`;
}

test("audio is sent with its time, and long pieces are split", () => {
  const { sent, uplink } = scene();
  uplink.start("ptt");
  expect(uplink.audio(new Int16Array(320))).toBe(true);
  expect(uplink.audio(new Uint8Array(9000).buffer)).toBe(true);
  uplink.audio(new Int16Array(1000).subarray(900));
  uplink.stop();
  expect(sent).toEqual([
    "audio_control start ptt", "pcm 640 bytes at 0 ms", "pcm 8000 bytes at 20 ms", "pcm 1000 bytes at 270 ms", "pcm 200 bytes at 301 ms",
    "audio_control stop ptt",
  ]);
});

test("audio without a connection is dropped and counted; the next connection repeats that the user speaks", () => {
  const { line, sent, uplink, dropped } = scene();
  line.away = true;
  uplink.start("vad");
  expect([uplink.audio(new Int16Array(320)), uplink.audio(new Int16Array(320))]).toEqual([false, false]);
  line.away = false;
  uplink.connected();
  uplink.audio(new Int16Array(320));
  expect([sent, dropped.audio]).toEqual([["audio_control start vad", "pcm 640 bytes at 40 ms"], 2]);
});

test("the end of speaking is sent on the next connection", () => {
  const { line, sent, uplink } = scene();
  uplink.start("ptt");
  line.away = true;
  uplink.stop();
  line.away = false;
  uplink.connected();
  uplink.connected();
  expect(sent).toEqual(["audio_control start ptt", "audio_control stop ptt"]);
});

test("pictures are JPEG or PNG", async () => {
  const { line, sent, uplink, dropped } = scene();
  await uplink.video({ data: new Uint8Array(3), mediaType: "image/png" });
  await uplink.video(new Blob([new Uint8Array(5)], { type: "image/jpeg" }));
  await expect(uplink.video(new Blob([], { type: "image/webp" }))).rejects.toThrow("A video frame is a JPEG or a PNG, not image/webp.");
  line.away = true;
  expect(await uplink.video({ data: new ArrayBuffer(3), mediaType: "image/png" })).toBe(false);
  expect([sent, dropped.video]).toEqual([["image/png 3 bytes at 0 ms", "image/jpeg 5 bytes at 0 ms"], 1]);
});
