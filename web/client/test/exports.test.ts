import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import * as adkwire from "../src/index.js";

/** The names that a page can import. Removing or renaming one breaks pages. */
const VALUES = [
  "HttpError", "LiveChatTransport", "NotConnected", "NotRecoveredError", "ResilientWebSocket", "ResumableSseTransport",
  "WebSocketChatTransport", "attach", "chatOptions", "clientTools", "resilientWebSocket", "sendAutomaticallyWhenSettled",
];
const TYPES = [
  "AttachableChat", "AudioFormat", "AudioInput", "Backoff", "ChatMode", "ChatOptionsInput", "ChatOptionsResult",
  "ClientToolCall", "ClientToolHandler", "ClientToolRunner", "ClientToolsOptions", "ConnectionState", "LiveAudioChunk",
  "LiveChatTransportOptions", "LiveDropped", "LiveInterruption", "LiveReady", "LiveState", "LiveToolRequest",
  "LiveTranscript", "PrepareSendMessagesRequest", "ResilientWebSocketOptions", "Resolvable", "ResumableSseOptions",
  "SocketCounters", "SocketNotice", "SocketState", "SocketStateDetail", "SpeakerLike", "VideoFrame",
  "WebSocketChatTransportOptions",
];

test("the public names", () => {
  expect(Object.keys(adkwire).toSorted()).toEqual(VALUES);
});

test("the public types", () => {
  const index = readFileSync(new URL("../src/index.ts", import.meta.url), "utf8");
  const names = [...index.matchAll(/^export type \{([^}]*)\}/gm)].flatMap(([, list = ""]) => list.match(/\w+/g) ?? []);
  expect(names.toSorted()).toEqual(TYPES);
});
