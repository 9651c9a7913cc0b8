/** Listens how many runs are begun in a chat, from now on; the function returned ends that and tells the number. */
export async function runsStarted(url: string, chatId: string): Promise<() => Promise<number>> {
  const listening = new AbortController();
  const response = await fetch(`${url}/api/events`, { signal: listening.signal });
  let heard = "";
  const reading = (async () => {
    for await (const text of response.body?.pipeThrough(new TextDecoderStream()) ?? []) heard += text;
  })().catch(() => undefined);
  return async () => {
    listening.abort();
    await reading;
    return heard.split("\n").filter((line) => line.includes('"run-started"') && line.includes(chatId)).length;
  };
}
