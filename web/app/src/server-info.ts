import type { Limits } from "./limits";

/** What `GET /api/info` says and this page shows. */
export interface ServerInfo {
  name: string;
  agent: string;
  model: string;
  offline: boolean;
  tools: { name: string; kind: "server" | "client" }[];
  limits: Limits;
}
