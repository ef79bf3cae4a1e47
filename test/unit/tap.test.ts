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

test('the next piece is requested when the observers have read the last one', async () => {
  const order: string[] = [];
  async function* pieces(): AsyncGenerator<Uint8Array> {
    for (const length of [1, 2]) {
      order.push(`requested ${length}`);
      yield new Uint8Array(length);
    }
  }
  const seen = tap(pieces(), {
    see: async ({ length }) => {
      await new Promise((resolve) => setImmediate(resolve));
      order.push(`read ${length}`);
    },
    end: () => void order.push('ended'),
  });
  for await (const { length } of seen) order.push(`passed ${length}`);
  expect(order).toEqual(['requested 1', 'passed 1', 'read 1', 'requested 2', 'passed 2', 'read 2', 'ended']);
});
