/** How much one message may carry. */
export interface Limits {
  bodyBytes: number;
  partBytes: number;
  parts: number;
  imagePixels: number;
}

/** What `GET /api/info` says and this page shows. */
export interface ServerInfo {
  name: string;
  agent: string;
  model: string;
  offline: boolean;
  modes: string[];
  /** What answers in Gemini direct; null when nothing does. */
  gemini: { model: string; offline: boolean } | null;
  tools: { name: string; kind: "server" | "client" }[];
  limits: Limits;
}
