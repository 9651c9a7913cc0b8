/** Count the runs that begin in a chat from now on. The returned function ends the count and returns it. */
export async function runsStarted(url: string, chatId: string): Promise<() => Promise<number>> {
  const listening = new AbortController();
  const response = await fetch(`${url}/api/events`, { signal: listening.signal });
  let text = "";
  const reading = (async () => {
    for await (const piece of response.body?.pipeThrough(new TextDecoderStream()) ?? []) text += piece;
  })().catch(() => undefined);
  return async () => {
    listening.abort();
    await reading;
    return text.split("\n").filter((line) => line.includes('"run-started"') && line.includes(chatId)).length;
  };
}
