/** Counts the bytes of a reply that is streamed. */
import type { Awaitable } from '../../base/awaitable.ts';

/** The same body; calls `over` once with the number of bytes that were read, at its end or when the reader stops. */
export function countedBody(
  body: AsyncIterable<Uint8Array>,
  over: (bytes: number) => Awaitable<void>,
): AsyncIterable<Uint8Array> {
  return {
    [Symbol.asyncIterator]() {
      const inner = body[Symbol.asyncIterator]();
      let bytes = 0;
      let isOver = false;
      const end = async (): Promise<void> => {
        if (isOver) return;
        isOver = true;
        await over(bytes);
      };
      return {
        async next() {
          try {
            const step = await inner.next();
            if (step.done === true) await end();
            else bytes += step.value.length;
            return step;
          } catch (cause) {
            await end();
            throw cause;
          }
        },
        async return() {
          await inner.return?.();
          await end();
          return { done: true, value: undefined };
        },
      };
    },
  };
}
