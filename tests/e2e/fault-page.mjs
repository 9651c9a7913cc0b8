// A page behind a bad network: what the test says about it is in the address that it gives.
import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { ChatPage } from "./chat-page.mjs";

/** The complaints of a page whose connections break, or whose server is away. */
export const BROKEN = /ERR_(CONNECTION|EMPTY_RESPONSE|INCOMPLETE|NETWORK|SOCKET|ABORTED)|WebSocket connection to/;

export class FaultPage extends ChatPage {
  constructor({ page, url, mode }) {
    const { searchParams, origin } = new URL(url);
    super({ page, url: `${origin}/`, mode });
    this.control = `http://127.0.0.1:${searchParams.get("control")}/`;
    this.server = Number(searchParams.get("server"));
    this.folder = searchParams.get("folder");
    this.connection = page.getByRole("status", { name: "Connection" });
  }

  /** Orders the network to do something. */
  async order(order) {
    const response = await fetch(this.control, { method: "POST", body: JSON.stringify({ do: order }) });
    assert.equal(response.status, 200, await response.text());
  }

  /** Breaks every connection, and lets new ones through once the page has said so. */
  async breakDown() {
    await this.order("refuse");
    await this.order("reset");
    await this.connection.getByText(/^Reconnecting \(attempt \d+\)$/).waitFor();
    await this.order("accept");
  }

  /** Lets the tool that takes its time come to an end. */
  async tellTheWeather() {
    await writeFile(join(this.folder, "weather"), "");
  }
}
