/** What a chat asks a transport to resume. Older releases of the AI SDK give no signal. */
export interface ReconnectOptions {
  chatId: string;
  abortSignal?: AbortSignal;
  headers?: Record<string, string> | Headers;
  body?: object;
  metadata?: unknown;
}
