/** A tool that this page runs. What it throws is told to the model. */
export type BrowserTool = (input: unknown) => Promise<unknown>;
