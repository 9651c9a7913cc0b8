// The page with the name, logo, welcome text and suggestions of its owner.
import assert from "node:assert/strict";
import { ChatPage } from "./chat-page.mjs";

export async function owner_gives_the_page_its_name_texts_and_logo({ page, url }) {
  const chat = await new ChatPage({ page, url }).open();
  await page.getByRole("heading", { name: "Acme <b>Bank</b>" }).waitFor();
  const welcome = page.locator(".welcome");
  await welcome.getByText("Ask about <i>your</i> account.").waitFor();
  assert.deepEqual(await welcome.getByRole("button").allInnerTexts(), ["weather in Oslo", "weather in Bern"]);
  const logo = page.locator(".brand img");
  assert.match(await logo.getAttribute("src"), /\/api\/page\/logo/);
  await page.waitForFunction((image) => image.complete && image.naturalWidth > 0, await logo.elementHandle());
  await welcome.getByRole("button", { name: "weather in Oslo" }).click();
  await chat.says(/Oslo/);
}
