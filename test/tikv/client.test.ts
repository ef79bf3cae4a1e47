/** The TiKV client on a real PD with a TiKV-protocol store, or on what `SVC_KV_PD_ENDPOINTS` names. */
import { afterAll, beforeAll, describe, expect, it, test } from 'vitest';
import { Unreachable } from '../../src/backends/tikv/backoff.ts';
import { toWide } from '../../src/backends/tikv/messages.ts';
import { noTikv, startTikv } from '../support/engines/tikv.ts';
import { transactionLaws } from './laws.ts';
import { answering, bare, bytes, freshKeys, opened, put, text } from './world.ts';

/** The first start on a machine may have to build the engine. */
const buildMs = 600_000;

describe('the TiKV client on PD and a store', () => {
  if (noTikv !== undefined) {
    it.skip(`(${noTikv})`, () => {});
    return;
  }
  const engine = startTikv();
  const endpoints = async (): Promise<readonly string[]> => (await engine).endpoints;
  beforeAll(() => engine, buildMs);
  afterAll(async () => (await engine)[Symbol.asyncDispose]());

  transactionLaws(endpoints);

  /** Another client's transaction that wrote 'new' to `a` and `b`, and whose locks are at these keys. */
  async function leaveAsync(key: (name: string) => Uint8Array, locked: readonly string[]): Promise<void> {
    await using others = bare(await endpoints());
    const start = await others.pd.timestamp();
    for (const name of locked) {
      const answer = await others.sender.one('Prewrite', key(name), {
        // The request of a client that has ended; its locks expire immediately.
        request: {
          mutations: [{ op: 0, key: key(name), value: bytes('new') }],
          primary_lock: key('a'),
          start_version: toWide(start),
          lock_ttl: toWide(1n),
          txn_size: toWide(2n),
          for_update_ts: toWide(0n),
          min_commit_ts: toWide(start + 1n),
          pessimistic_actions: [0],
          use_async_commit: true,
          secondaries: name === 'a' ? [key('b')] : [],
        } as never,
        backoff: others.backoff(),
      });
      expect(answer.errors ?? []).toEqual([]);
    }
    await new Promise((resolve) => setTimeout(resolve, 10));
  }

  test.each([
    ['all of whose locks stand is committed', true],
    ['one of whose locks is missing is rolled back', false],
  ])('a transaction of another client that commits asynchronously and %s', async (_, isWhole) => {
    await using world = opened(await endpoints());
    const key = freshKeys();
    await put(world.client, key('a'), 'old');
    await put(world.client, key('b'), 'old');
    await leaveAsync(key, isWhole ? ['a', 'b'] : ['a']);
    const page = { low: key(''), high: key('~'), limit: 10, reverse: false };
    const found = await (await world.client.snapshot()).scan(page);
    const expected = isWhole ? 'new' : 'old';
    expect(found.map(({ value }) => text(value))).toEqual([expected, expected]);
  });

  test('a transaction that commits asynchronously is not undone while a store does not tell of its locks', async () => {
    await using world = opened(await endpoints(), { timeoutMs: 1_000 });
    const key = freshKeys();
    await put(world.client, key('a'), 'old');
    await put(world.client, key('b'), 'old');
    await leaveAsync(key, ['a', 'b']);
    const many = answering('CheckSecondaryLocks', { error: { retryable: 'later' } });
    try {
      await expect(world.client.get(key('b'))).rejects.toThrow(Unreachable);
    } finally {
      many.mockRestore();
    }
    expect(text(await world.client.get(key('b')))).toBe('new');
  });
});
