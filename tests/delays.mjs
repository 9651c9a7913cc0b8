// Makes `fetch` late at random when DELAYS is in the environment, as `delays.py` does with the servers.
const { DELAYS } = process.env;
const LATE = 20;
const VERY_LATE = 300;

/** Numbers between 0 and 1, the same for the same seed: mulberry32. */
function randomNumbers(seed) {
  let state = [...seed].reduce((sum, character) => (31 * sum + character.charCodeAt(0)) | 0, 7);
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

function late(fetch, random) {
  const pause = () => {
    const share = random();
    const most = share < 0.5 ? 0 : share > 0.97 ? VERY_LATE : LATE;
    return most && new Promise((resolve) => setTimeout(resolve, most * random()));
  };
  const slowly = () =>
    new TransformStream({
      async transform(bytes, controller) {
        await pause();
        controller.enqueue(bytes);
      },
    });
  return async (...args) => {
    await pause();
    const response = await fetch(...args);
    await pause();
    return response.body ? new Response(response.body.pipeThrough(slowly()), response) : response;
  };
}

if (DELAYS) globalThis.fetch = late(globalThis.fetch, randomNumbers(DELAYS));
