/** A stream of what a generator yields, asked for one by one. `quit` is called when the reader goes away. */
export function streamOf<T>(source: AsyncGenerator<T, void, void>, quit: () => void): ReadableStream<T> {
  return new ReadableStream<T>(
    {
      async pull(controller) {
        const { done, value } = await source.next();
        if (done) controller.close();
        else controller.enqueue(value);
      },
      async cancel() {
        quit();
        await source.return();
      },
    },
    { highWaterMark: 0 },
  );
}
