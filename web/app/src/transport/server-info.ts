/** The server's limits of one message. */
export interface Limits {
  bodyBytes: number;
  partBytes: number;
  parts: number;
  imagePixels: number;
}

/** The fields of `GET /api/info` that this page reads. */
export interface ServerInfo {
  name: string;
  agent: string;
  model: string;
  offline: boolean;
  modes: string[];
  /** The model of Gemini direct; null when the mode is not offered. */
  gemini: { model: string; offline: boolean } | null;
  tools: { name: string; kind: "server" | "client" }[];
  limits: Limits;
  /** The owner's texts and logo; a field that is not set is absent. */
  page?: { name?: string; logo?: string; welcome?: string; suggestions?: string[] };
}
