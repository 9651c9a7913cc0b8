/** One server-sent event: its data, and the id it carries itself, if any. */
export interface SseEvent {
  data: string;
  id: string | undefined;
}
