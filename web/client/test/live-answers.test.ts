import { describe, expect, test } from "vitest";
import { LiveAnswers } from "../src/live-answers.js";
import type { ToolResultData } from "../src/live-frames.js";
import { NotConnected } from "../src/not-connected.js";
import { settledPart } from "../src/settled-part.js";

const VERDICT: ToolResultData = { toolCallId: "a", status: "approved" };
const OUTPUT: ToolResultData = { toolCallId: "a", result: { ok: true } };

/** What is said on a new connection. */
function again(answers: LiveAnswers): ToolResultData[] {
  return answers.again().map((frame) => (JSON.parse(frame) as { data: ToolResultData }).data);
}

describe("answers to calls", () => {
  test("are said again on every connection until the server has them", async () => {
    const answers = new LiveAnswers();
    const { frame, done } = answers.add(VERDICT);
    expect(JSON.parse(frame ?? "")).toMatchObject({ type: "tool_result", requestId: expect.any(String), data: VERDICT });
    expect(again(answers)).toEqual([VERDICT]);
    answers.taken("b");
    expect(again(answers)).toEqual([VERDICT]);
    answers.taken("a");
    await done;
    expect(again(answers)).toEqual([]);
  });

  test("given twice are one", () => {
    const answers = new LiveAnswers();
    answers.add(VERDICT);
    expect(answers.add({ ...VERDICT, status: "rejected" }).frame).toBeUndefined();
    expect(again(answers)).toEqual([VERDICT]);
  });

  test("a verdict is taken before the output behind it", async () => {
    const answers = new LiveAnswers();
    const verdict = answers.add(VERDICT);
    const output = answers.add(OUTPUT);
    answers.taken("a");
    await verdict.done;
    expect(again(answers)).toEqual([OUTPUT]);
    answers.settled("a");
    await output.done;
    expect(again(answers)).toEqual([]);
  });

  test("to another question about a call with the same id are others", async () => {
    const answers = new LiveAnswers();
    const first = answers.add({ ...VERDICT, approvalId: "q1" });
    const second = answers.add({ ...VERDICT, approvalId: "q2", status: "rejected" });
    expect(second.frame).toBeDefined();
    answers.taken("a", "q2");
    await second.done;
    expect(again(answers)).toEqual([{ ...VERDICT, approvalId: "q1" }]);
    answers.taken("a");
    await first.done;
    expect(again(answers)).toEqual([]);
  });

  test("reject with the server's refusal", async () => {
    const answers = new LiveAnswers();
    const { done } = answers.add(VERDICT);
    expect(answers.refused({ requestId: "other", toolCallId: undefined }, new Error("no"))).toBe(false);
    expect(answers.refused({ requestId: undefined, toolCallId: "a" }, new Error("no"))).toBe(true);
    await expect(done).rejects.toThrow("no");
  });

  test("reject when no connection comes any more", async () => {
    const answers = new LiveAnswers();
    const { done } = answers.add(OUTPUT);
    const [why, known] = [new Error("closed"), new NotConnected("known")];
    answers.fail(why);
    await expect(done).rejects.toThrow(NotConnected);
    await expect(done).rejects.toThrow("There is no connection to the server: closed");
    const next = answers.add(OUTPUT);
    answers.fail(known);
    await expect(next.done).rejects.toBe(known);
    expect(again(answers)).toEqual([]);
  });
});

describe("a call that waits", () => {
  const asked = { type: "tool-pay", toolCallId: "a", state: "approval-requested", input: {}, approval: { id: "q" } };

  test.each([
    ["not executed", { state: "output-denied", approval: { id: "q", approved: false } }],
    ["superseded", { state: "output-error", errorText: "The user went on without answering; this call was not executed." }],
    ["expired", { state: "output-error", errorText: "Nobody answered in time; this call was not executed." }],
    ["answered", { state: "approval-requested" }],
  ])("and is %s", (state, expected) => expect(settledPart(asked, state)).toMatchObject(expected));

  test.each(["approval-responded", "input-available"])("and is taken back after a yes, when it is %s", (state) => {
    const approved = { ...asked, state, approval: { id: "q", approved: true } };
    const errorText = "The user went on before this call ran; it was not executed.";
    expect(settledPart(approved, "superseded")).toMatchObject({ state: "output-error", errorText });
  });

  test("a call with an output keeps it", () => {
    const done = { ...asked, state: "output-available" };
    expect(settledPart(done, "superseded")).toBe(done);
  });
});
