import { describe, expect, test } from "vitest";
import { NotConnected } from "../../src/errors.js";
import { UnconfirmedAnswers } from "../../src/live/unconfirmed-answers.js";
import type { ToolResultData } from "../../src/live/live-frames.js";
import { settledPart } from "../../src/live/settled-part.js";

const VERDICT: ToolResultData = { toolCallId: "a", status: "approved" };
const OUTPUT: ToolResultData = { toolCallId: "a", result: { ok: true } };

/** The answers that are sent on a new connection. */
function again(answers: UnconfirmedAnswers): ToolResultData[] {
  return answers.frames().map((frame) => (JSON.parse(frame) as { data: ToolResultData }).data);
}

describe("answers to calls", () => {
  test("are sent on every connection until the server has confirmed them", async () => {
    const answers = new UnconfirmedAnswers();
    const { frame, done } = answers.add(VERDICT);
    expect(JSON.parse(frame ?? "")).toMatchObject({ type: "tool_result", requestId: expect.any(String), data: VERDICT });
    expect(again(answers)).toEqual([VERDICT]);
    answers.confirm("b");
    expect(again(answers)).toEqual([VERDICT]);
    answers.confirm("a");
    await done;
    expect(again(answers)).toEqual([]);
  });

  test("that are given twice are sent once", () => {
    const answers = new UnconfirmedAnswers();
    answers.add(VERDICT);
    expect(answers.add({ ...VERDICT, status: "rejected" }).frame).toBeUndefined();
    expect(again(answers)).toEqual([VERDICT]);
  });

  test("a verdict is confirmed before the output after it", async () => {
    const answers = new UnconfirmedAnswers();
    const verdict = answers.add(VERDICT);
    const output = answers.add(OUTPUT);
    answers.confirm("a");
    await verdict.done;
    expect(again(answers)).toEqual([OUTPUT]);
    answers.confirmAll("a");
    await output.done;
    expect(again(answers)).toEqual([]);
  });

  test("to another question about a call with the same id are separate", async () => {
    const answers = new UnconfirmedAnswers();
    const first = answers.add({ ...VERDICT, approvalId: "q1" });
    const second = answers.add({ ...VERDICT, approvalId: "q2", status: "rejected" });
    expect(second.frame).toBeDefined();
    answers.confirm("a", "q2");
    await second.done;
    expect(again(answers)).toEqual([{ ...VERDICT, approvalId: "q1" }]);
    answers.confirm("a");
    await first.done;
    expect(again(answers)).toEqual([]);
  });

  test("reject with the server's refusal", async () => {
    const answers = new UnconfirmedAnswers();
    const { done } = answers.add(VERDICT);
    expect(answers.refuse({ requestId: "other", toolCallId: undefined }, new Error("no"))).toBe(false);
    expect(answers.refuse({ requestId: undefined, toolCallId: "a" }, new Error("no"))).toBe(true);
    await expect(done).rejects.toThrow("no");
  });

  test("reject when no further connection is made", async () => {
    const answers = new UnconfirmedAnswers();
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

describe("a pending call", () => {
  const asked = { type: "tool-pay", toolCallId: "a", state: "approval-requested", input: {}, approval: { id: "q" } };

  test.each([
    ["not executed", { state: "output-denied", approval: { id: "q", approved: false } }],
    ["superseded", { state: "output-error", errorText: "The user went on without answering; this call was not executed." }],
    ["taken-over", { state: "output-error", errorText: "The user opened a live conversation before this call ran; it was not executed." }],
    ["deleted", { state: "output-error", errorText: "The user deleted the chat; this call was not executed." }],
    ["expired", { state: "output-error", errorText: "Nobody answered in time; this call was not executed." }],
    ["answered", { state: "approval-requested" }],
  ])("and is %s", (state, expected) => expect(settledPart(asked, state)).toMatchObject(expected));

  test.each(["approval-responded", "input-available"])("and is superseded after its approval, when it is %s", (state) => {
    const approved = { ...asked, state, approval: { id: "q", approved: true } };
    const errorText = "The user went on before this call ran; it was not executed.";
    expect(settledPart(approved, "superseded")).toMatchObject({ state: "output-error", errorText });
  });

  test("a call with an output keeps it", () => {
    const done = { ...asked, state: "output-available" };
    expect(settledPart(done, "superseded")).toBe(done);
  });
});
