// The page against a server that wants a token. `TOKEN` is what the test started it with.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { ChatPage } from "./chat-page.mjs";

const TOKEN = "correct horse/battery+staple=";
const REFUSED = /status of 401/;

export async function token_in_the_address_is_taken_and_hidden({ page, url }) {
  const chat = await new ChatPage({ page, url }).open(`#token=${encodeURIComponent(TOKEN)}`);
  assert.equal(page.url(), url);
  await chat.ask("weather in Tokyo");
  await page.reload();
  await chat.answers.first().waitFor();
  await page.getByRole("radio", { name: "WebSocket" }).check();
  await chat.ask("weather in Rome");
}

export async function token_is_asked_for_until_it_is_right({ page, url }) {
  await page.goto(url);
  await page.getByLabel("Token").waitFor();
  assert.equal(await page.getByRole("alert").count(), 0);
  for (const text of ["wrong", TOKEN]) {
    await page.getByLabel("Token").fill(text);
    await page.keyboard.press("Enter");
    if (text === "wrong") await page.getByRole("alert").filter({ hasText: "token was wrong" }).waitFor();
  }
  const chat = new ChatPage({ page, url });
  await chat.box.waitFor();
  await chat.ask("weather in Tokyo");
  return REFUSED;
}

export async function token_of_one_tab_is_not_anothers({ page, context, url }) {
  await new ChatPage({ page, url }).open(`#token=${encodeURIComponent(TOKEN)}`);
  const other = await context.newPage();
  await other.goto(url);
  await other.getByLabel("Token").waitFor();
  return REFUSED;
}

export async function token_is_not_in_the_names_that_tabs_share({ page, url }) {
  await new ChatPage({ page, url }).open(`#token=${encodeURIComponent(TOKEN)}`);
  const names = await page.waitForFunction(async () => {
    const { held } = await navigator.locks.query();
    return held.length > 0 && held.map(({ name }) => name);
  });
  const digest = createHash("sha256").update(TOKEN).digest("hex");
  assert.deepEqual(await names.jsonValue(), [`adkwire-events ${url} ${digest}`]);
}
