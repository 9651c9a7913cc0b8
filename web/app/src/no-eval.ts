import { config } from "zod/v4/core";

// The AI SDK's schemas try `new Function` first, which our Content-Security-Policy refuses and reports.
config({ jitless: true });
