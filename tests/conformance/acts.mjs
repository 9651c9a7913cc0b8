// The single things a person does at a gate, to be put together to scenarios: `{do: name, ...arguments}`.
// A call is named by its tool and `nth`, counted over the page. The page comes to rest after an act, unless it says `now`
// (the next one follows at once) or `begin` (the next one follows while it goes on, until a `rest`).

/** The card of a call. A live page does not tell when all of its cards are there: it is waited for. */
const cardOf = async ({ page }, { tool, nth = 0 }, isShown = () => true) => {
  const find = () => page.calls(tool)[nth];
  if (page.isLive) await page.until(`a call of ${tool}`, () => find() && find().state !== "input-streaming" && isShown(find()));
  const part = page.calls(tool)[nth];
  if (!part) throw new Error(`the page shows no call ${nth} of ${tool}`);
  return part;
};

const asks = (part) => part.approval;
/** When a card takes these answers: in live a call is shown before its question is. */
const takes = (...bodies) => (bodies.some((body) => "approved" in body) ? asks : () => true);

const acts = {
  say: ({ page }, { text }) => page.chat.sendMessage({ text }),
  approve: async (world, { reason, ...call }) => world.page.verdict(await cardOf(world, call, asks), true, reason),
  deny: async (world, { reason, ...call }) => world.page.verdict(await cardOf(world, call, asks), false, reason),
  async give(world, { output, error, ...call }) {
    const { toolCallId } = await cardOf(world, call);
    return world.page.output(call.tool, toolCallId, { output, error });
  },
  regenerate: ({ page }) => page.chat.regenerate(),
  edit: ({ page }, { index, text }) => page.chat.sendMessage({ text, messageId: page.chat.messages[index].id }),

  /** The page sends its messages again, as they are. */
  send: ({ page }) => page.chat.sendMessage(),

  /** Several acts in one breath. */
  async together(world, { acts }) {
    await Promise.all(acts.map((act) => run(world, { ...act, now: true })));
  },

  /** Wait until this is on the screen. */
  see: ({ page }, { what }) => page.untilSeen(what),

  /** Wait until a call has come to this. */
  async becomes(world, { state, ...call }) {
    await world.page.until(`${call.tool} ${state}`, () => world.page.calls(call.tool)[call.nth]?.state === state);
  },

  /** Say something aloud: each sample is a character. The server begins the turn. */
  async speak({ page }, { text }) {
    const known = page.wire.requests.length;
    const { transport } = page.wire;
    await transport.startAudio();
    transport.sendAudioChunk(Int16Array.from(text, (character) => character.charCodeAt(0)));
    await transport.stopAudio();
    await page.until("a turn", () => page.wire.requests.length > known && page.chat.status === "streaming");
  },

  /** Say something that is not answered yet: a call waits. */
  async murmur({ page }, { text }) {
    const known = page.wire.received("state").length;
    const { transport } = page.wire;
    await transport.startAudio();
    transport.sendAudioChunk(Int16Array.from(text, (character) => character.charCodeAt(0)));
    await transport.stopAudio();
    // It listens, and then thinks about it.
    await page.until("an ear", () => page.wire.received("state").length > known + 1);
  },

  interrupt: ({ page }) => page.wire.transport.interrupt(),

  /** Wait until the live socket has received so many frames of this type. */
  frame: ({ page }, { type, times }) => page.until(type, () => page.wire.received(type).length >= times),

  /** Leave this way of talking, as a page does that changes to another. */
  hang: ({ page }) => (page.wire.end ?? page.wire.settled).call(page.wire),

  attach: ({ page }, { text, files }) => page.chat.sendMessage({ text, files }),

  /** Wait for the end of what was begun. */
  rest: ({ begun }) => begun,

  /** The page loses its connection, when what it has asked for last has begun to be answered. */
  async cut({ page }) {
    await page.until("an answer", () => page.wire.requests.at(-1)?.status !== null);
    await page.leave();
  },

  /** The stop button of a page on a socket: its transport tells the server. */
  press: ({ page }) => page.chat.stop(),

  /** The page's sockets break, and it has to see for itself what that means. */
  lose: ({ page }) => page.wire.lose(),

  /** Follow what runs in the same page; come back when that has begun. `rest` waits for the end. */
  async resume(world) {
    const { chat, wire } = world.page;
    const known = wire.requests.length;
    world.begun = chat.resumeStream();
    await world.page.until("what runs", () => wire.requests.length > known && wire.requests.at(-1).stream);
  },

  /** From here on the chat is used in a new page, made from history; what runs is followed. */
  async load(world, { name, ...options }) {
    world.page = await world.scene.load(name, { named: true, ...world.options, ...options });
    // As `chatOptions` does: what waits in live is open, though nothing is being written.
    if (world.scene.seen.loaded.active || world.page.isLive) await world.page.ask(() => world.scene.resume(world.page));
  },

  /** The same in mid-answer: come back when `after` is on the new page's screen; `rest` waits for the end. */
  async join(world, { name, after, ...options }) {
    world.page = await world.scene.load(name, { ...world.options, ...options });
    world.begun = world.page.chat.resumeStream();
    await world.page.untilSeen(after);
  },

  /** The same with the messages of a page that lived on. */
  continue(world, { name, messages, ...options }) {
    world.page = world.scene.open(name, { messages, ...world.options, ...options });
  },

  /** Back to an older page. */
  turn(world, { name }) {
    world.page = world.scene.clients[name];
  },

  /** Execute the calls that were there when the page was loaded, as an app does that scans its messages. */
  async execute({ page }) {
    const waiting = page.chat.messages.at(-1).parts.filter((part) => part.state === "input-available");
    for (const part of waiting) await page.execute({ ...part, toolName: part.type.slice("tool-".length) });
  },

  /** Answer by the calls route. */
  async call(world, { body, ...call }) {
    const { toolCallId } = await cardOf(world, call, takes(body));
    const answer = await world.scene.answer(toolCallId, body);
    (world.scene.seen.answers ??= []).push(answer);
  },

  /** Answers to one call by both routes at the same time; `bodies` are for the calls route. */
  async race(world, { posts, bodies, ...call }) {
    const { scene, page } = world;
    const { toolCallId } = await cardOf(world, call, takes(...bodies));
    const messages = page.chat.messages;
    const [streams, answers] = await Promise.all([
      Promise.all(Array.from({ length: posts }, () => scene.post({ messages, messageId: messages.at(-1).id }))),
      Promise.all(bodies.map((body) => scene.answer(toolCallId, body))),
    ]);
    Object.assign(scene.seen, { streams, answers });
    await scene.ended();
  },

  /** The message of the last card again, sent past the page with this verdict on it. */
  async late(world, { approved = true, ...call }) {
    const { scene, page } = world;
    const part = await cardOf(world, call);
    const message = structuredClone(page.chat.messages.find(({ parts }) => parts.includes(part)));
    const answered = { state: "approval-responded", approval: { ...part.approval, approved } };
    Object.assign(message.parts.find(({ toolCallId }) => toolCallId === part.toolCallId), answered);
    scene.seen.late = await scene.post({ messages: [message], messageId: message.id });
  },

  async stop({ scene }) {
    await scene.stop();
    await scene.ended();
  },

  ended: ({ scene }) => scene.ended(),
  elsewhere: ({ scene }, { text, name }) => scene.sayElsewhere(text, name),

  /** Wait for an event of the user's own stream about this chat. */
  event: ({ scene }, { type, times }) => scene.received(type, times),

  async note({ scene }, { as }) {
    scene.seen[as] = await scene.history();
  },

  async audit({ scene }) {
    scene.seen.audit = await scene.audit();
  },
};

/** Acts that are over when they are answered. */
const SENDING = new Set(["say", "send", "attach"]);

async function run(world, { do: name, now, begin, ...args }) {
  const doing = SENDING.has(name) && !begin ? world.page.ask(() => acts[name](world, args)) : acts[name](world, args);
  if (begin) world.begun = doing;
  else await doing;
  if (!begin && !now) await world.page.idle();
}

/** The acts of a list, in a page of their own unless the first one opens its own. */
export async function perform(scene, { acts: list, predicate, executor, watch, lastOnly }) {
  const options = { predicate, executor, lastOnly };
  const world = { scene, options };
  if (watch) await scene.watch();
  if (!["load", "continue"].includes(list[0].do)) world.page = scene.open("page", options);
  for (const act of list) await run(world, act);
}
