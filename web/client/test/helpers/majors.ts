import * as ai6 from "ai-6-0-326";
import * as ai7 from "ai-7-0-169";

/** The real packages of both majors. Their types differ only where the tests do not look, so those of AI SDK 7 serve for both. */
export const majors: { version: string; ai: typeof ai7 }[] = [
  { version: "6.0.326", ai: ai6 as unknown as typeof ai7 },
  { version: "7.0.169", ai: ai7 },
];
