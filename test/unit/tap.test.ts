/** Streams that several observers check at their end. */
import { expect, onTestFinished, test } from 'vitest';
import { tap } from '../../src/base/tap.ts';

async function* onePiece(): AsyncGenerator<Uint8Array> {
  yield new Uint8Array(3);
}

test('a refusal that comes after another observer has ended the stream is not an unhandled rejection', async () => {
  const unhandled: unknown[] = [];
  const collect = (cause: unknown): void => void unhandled.push(cause);
  process.on('unhandledRejection', collect);
  onTestFinished(() => void process.off('unhandledRejection', collect));
  const refusal = Promise.withResolvers<void>();
  const judged = tap(onePiece(), { see() {}, end: () => refusal.promise });
  const hashed = tap(judged, {
    see() {},
    end() {
      throw new Error('BadDigest');
    },
  });
  const read = async (): Promise<void> => {
    for await (const _ of hashed);
  };
  await expect(read()).rejects.toThrow('BadDigest');
  refusal.reject(new Error('AccessDenied'));
  // Node reports unhandled rejections before the next immediate.
  await new Promise((resolve) => setImmediate(resolve));
  expect(unhandled).toEqual([]);
});
