// Usage: node client.mjs MODULE BASE_URL [SOCKETS [LIVE]] < jobs.json
// MODULE is an installed alias of `ai` or a file that re-exports one; with SOCKETS, a module that has a
// `WebSocketChatTransport`, the pages talk over sockets; with LIVE, a module that has that one or a `LiveChatTransport`,
// they are live. A job is {name, chat, drive, ...arguments}.
// Prints one JSON line per job: what every client of it saw, and what the server's history says afterwards.
import { readFileSync } from "node:fs";
import { isAbsolute } from "node:path";
import { pathToFileURL } from "node:url";
import { drivers, Scene } from "./drivers.mjs";
import "../delays.mjs";
import { PATIENCE } from "../patience.mjs";

const [module, base, socketModule, liveModule] = process.argv.slice(2);
const load = (name) => import(isAbsolute(name) ? pathToFileURL(name) : name);
const ai = await load(module);
const sockets = socketModule ? await load(socketModule) : null;
const live = liveModule ? await load(liveModule) : null;

/** Much longer than any scenario takes: one that hangs is a failure, and the others go on. */
function within(work) {
  const late = new Promise((_, reject) => setTimeout(() => reject(new Error("the scenario hangs")), 2 * PATIENCE).unref());
  return Promise.race([work, late]);
}

async function perform({ name, chat, drive, keep, ...args }) {
  const scene = new Scene({ ai, sockets, live }, base, chat);
  let failure = null;
  try {
    await within(drivers[drive](scene, args));
  } catch (error) {
    failure = error.stack;
  }
  scene.close();
  const clients = {};
  for (const [key, client] of Object.entries(scene.clients)) clients[key] = await client.record();
  // With `keep` the server learns of the end only when this process is gone.
  if (!keep) for (const client of Object.values(scene.clients)) await client.wire.end?.();
  const history = await scene.history().catch(({ message }) => ({ text: message }));
  return { name, chat, failure, clients, history, seen: scene.seen };
}

// `$CHAT` in an argument is the chat's id: a name that no other scenario has.
const jobs = JSON.parse(readFileSync(0, "utf8")).map((job) => JSON.parse(JSON.stringify(job).replaceAll("$CHAT", job.chat)));
const AT_ONCE = 6;

/** Chats do not disturb each other, so a few are used at the same time, as on any server. */
async function worker() {
  for (let job = jobs.shift(); job; job = jobs.shift()) process.stdout.write(`${JSON.stringify(await perform(job))}\n`);
}

await Promise.all(Array.from({ length: AT_ONCE }, worker));
// A hanging scenario must not keep the process: end it, once all is written.
process.stdout.write("", () => process.exit(0));
