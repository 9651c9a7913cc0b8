import type { ChatMode } from "adkwire";

/** The ways to talk that this page has. */
export type PageMode = Exclude<ChatMode, "live">;
