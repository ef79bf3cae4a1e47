/** The guarantees of the client on any healthy cluster. */
import { describe, expect, test } from 'vitest';
import { toWide } from '../../src/backends/tikv/messages.ts';
import { bare, bytes, count, freshKeys, opened, put, text } from './world.ts';

type Endpoints = () => Promise<readonly string[]>;

export function transactionLaws(endpoints: Endpoints): void {
  describe('transactions', () => {
    test('are seen whole or not at all, and by every snapshot that begins behind them', async () => {
      await using world = opened(await endpoints());
      const { client } = world;
      const key = freshKeys();
      const before = await client.snapshot();
      await client.transact(async (transaction) => {
        for (const name of ['a', 'b', 'c']) transaction.put(key(name), bytes(name));
      });
      const stretch = { low: key(''), high: key('~'), limit: 10, reverse: false };
      expect(await before.scan(stretch)).toEqual([]);
      const found = await (await client.snapshot()).scan(stretch);
      expect(found.map(({ value }) => text(value))).toEqual(['a', 'b', 'c']);
      const backwards = await (await client.snapshot()).scan({ ...stretch, reverse: true, limit: 2 });
      expect(backwards.map(({ value }) => text(value))).toEqual(['c', 'b']);
    });

    test('leave nothing behind when their work throws', async () => {
      await using world = opened(await endpoints());
      const { client } = world;
      const key = freshKeys();
      const work = client.transact(async (transaction) => {
        await transaction.lock([key('a'), key('b')]);
        transaction.put(key('a'), bytes('x'));
        throw new Error('of its own');
      });
      await expect(work).rejects.toThrow('of its own');
      expect(await client.get(key('a'))).toBeUndefined();
      await put(client, key('a'), 'free');
      expect(text(await client.get(key('a')))).toBe('free');
    });

    test('lose no update of a key that all want', async () => {
      await using world = opened(await endpoints());
      const { client } = world;
      const key = freshKeys()('counter');
      await Promise.all(Array.from({ length: 40 }, () => count(client, key)));
      expect(text(await client.get(key))).toBe('40');
    });

    test('that lock in opposite orders all come through', async () => {
      await using world = opened(await endpoints());
      const { client } = world;
      const key = freshKeys();
      const transfer = (from: string, to: string): Promise<void> =>
        client.transact(async (transaction) => {
          const [a] = await transaction.lock([key(from)]);
          const [b] = await transaction.lock([key(to)]);
          transaction.put(key(from), bytes(String(Number(text(a) ?? 0) - 1)));
          transaction.put(key(to), bytes(String(Number(text(b) ?? 0) + 1)));
        });
      const ways = Array.from({ length: 12 }, (_, i) => (i % 2 ? transfer('a', 'b') : transfer('b', 'a')));
      await Promise.all(ways);
      expect(text(await client.get(key('a')))).toBe('0');
      expect(text(await client.get(key('b')))).toBe('0');
    });

    test('do not change rows that they only read', async () => {
      await using world = opened(await endpoints());
      const { client } = world;
      const key = freshKeys();
      await put(client, key('rule'), 'old');
      let other: Promise<void> | undefined;
      await client.transact(async (transaction) => {
        await transaction.lock([key('rule')]);
        other ??= put(client, key('rule'), 'new').then(async () => {
          expect(text(await client.get(key('deed')))).toBe('done');
        });
        transaction.put(key('deed'), bytes('done'));
      });
      await other;
    });
  });

  test('old locks are settled before the safe point moves, and those of the living hold it back', async () => {
    await using world = opened(await endpoints());
    await using others = bare(await endpoints());
    const key = freshKeys();
    const lock = async (name: string, ttl: bigint): Promise<bigint> => {
      const start = await others.pd.timestamp();
      await others.sender.one('Prewrite', key(name), {
        request: {
          mutations: [{ op: 0, key: key(name), value: bytes('left') }],
          primary_lock: key(name),
          start_version: toWide(start),
          lock_ttl: toWide(ttl),
          txn_size: toWide(1n),
          for_update_ts: toWide(0n),
          min_commit_ts: toWide(start + 1n),
          pessimistic_actions: [0],
        },
        backoff: others.backoff(),
      });
      return start;
    };
    const dead = await lock('dead', 1n);
    // A safe point is made of PD's milliseconds alone, which PD advances in steps of 50.
    const millisecondsOf = (timestamp: bigint): bigint => timestamp >> 18n;
    const isLater = async () => millisecondsOf(await others.pd.timestamp()) > millisecondsOf(dead) + 1n;
    await expect.poll(isLater, { timeout: 60_000 }).toBe(true);
    await world.client.collect({ ageMs: 0, everyMs: 0 });
    expect(await others.pd.safePoint(others.backoff())).toBeGreaterThan(dead);
    const alive = await lock('alive', 60_000n);
    await world.client.collect({ ageMs: 0, everyMs: 0 });
    const safe = await others.pd.safePoint(others.backoff());
    expect(safe).toBeLessThan(alive);
    // Another process has just moved the safe point, which suffices.
    await world.client.collect({ ageMs: 0, everyMs: 600_000 });
    expect(await others.pd.safePoint(others.backoff())).toBe(safe);
    const commit = (name: string, start: bigint) =>
      others.pd.timestamp().then((at) =>
        others.sender.one('Commit', key(name), {
          request: { start_version: toWide(start), keys: [key(name)], commit_version: toWide(at) },
          backoff: others.backoff(),
        }),
      );
    expect((await commit('dead', dead)).error).toBeTruthy();
    expect((await commit('alive', alive)).error).toBeFalsy();
  });

  test('readers pass a writer that has prewritten and not committed, who then commits behind them', async () => {
    await using world = opened(await endpoints());
    await using others = bare(await endpoints());
    const { client } = world;
    const key = freshKeys();
    await put(client, key('a'), 'old');
    const start = await others.pd.timestamp();
    const sent = { backoff: others.backoff() };
    await others.sender.one('Prewrite', key('a'), {
      request: {
        mutations: [{ op: 0, key: key('a'), value: bytes('new') }],
        primary_lock: key('a'),
        start_version: toWide(start),
        lock_ttl: toWide(60_000n),
        txn_size: toWide(1n),
        for_update_ts: toWide(0n),
        min_commit_ts: toWide(start + 1n),
        pessimistic_actions: [0],
      },
      ...sent,
    });
    const tooEarly = await others.pd.timestamp();
    expect(text(await client.get(key('a')))).toBe('old');
    const page = { low: key(''), high: key('~'), limit: 10, reverse: false };
    expect((await (await client.snapshot()).scan(page)).map(({ value }) => text(value))).toEqual(['old']);
    const commit = (at: bigint) =>
      others.sender.one('Commit', key('a'), {
        request: { start_version: toWide(start), keys: [key('a')], commit_version: toWide(at) },
        ...sent,
      });
    expect((await commit(tooEarly)).error?.commit_ts_expired).toBeTruthy();
    expect((await commit(await others.pd.timestamp())).error).toBeFalsy();
    expect(text(await client.get(key('a')))).toBe('new');
  });
}
