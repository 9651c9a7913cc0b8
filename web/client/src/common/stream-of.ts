/**
 * Return a stream that pulls from a generator one value at a time. `cancelled` is called when the reader cancels it.
 */
export function streamOf<T>(source: AsyncGenerator<T, void, void>, cancelled: () => void): ReadableStream<T> {
  return new ReadableStream<T>(
    {
      async pull(controller) {
        const { done, value } = await source.next();
        if (done) controller.close();
        else controller.enqueue(value);
      },
      async cancel() {
        cancelled();
        await source.return();
      },
    },
    { highWaterMark: 0 },
  );
}
