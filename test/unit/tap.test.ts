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

test('an observer that refuses a piece ends the stream at the next one, and is no unhandled rejection where the consumer leaves before', async () => {
  const unhandled: unknown[] = [];
  const note = (cause: unknown): void => void unhandled.push(cause);
  process.on('unhandledRejection', note);
  onTestFinished(() => void process.off('unhandledRejection', note));
  async function* pieces(): AsyncGenerator<Uint8Array> {
    yield new Uint8Array(1);
    yield new Uint8Array(2);
  }
  const refuse = (): Promise<never> => Promise.reject(new Error('refused'));
  const refusing = () => tap(tap(pieces(), { see: refuse }), { see: refuse });
  for await (const { length } of refusing()) {
    expect(length).toBe(1);
    break;
  }
  const read = async (): Promise<void> => {
    for await (const _ of refusing());
  };
  await expect(read()).rejects.toThrow('refused');
  await new Promise((resolve) => setImmediate(resolve));
  expect(unhandled).toEqual([]);
});
