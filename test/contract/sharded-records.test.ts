/** Several stores of the record layer as one: the contract of the metadata port, and what the journal between them promises. */
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import type { Columns } from '../../src/backends/metadata/key-order.ts';
import { findStore, hashRow, initialPlacement } from '../../src/backends/metadata/records/placement.ts';
import { tables } from '../../src/metadata/tables.ts';
import {
  type AnyTable,
  type At,
  type CommitOptions,
  type MetadataStore,
  StoreUnavailable,
} from '../../src/ports/metadata-store.ts';
import { frozenClock } from '../support/frozen-clock.ts';
import { openShards } from '../support/sharded-records.ts';
import { random } from '../support/split-race.ts';
import { all, fresh, head, heads, headsOf, ranks, ranksOf, talliesOf } from './metadata-store/tables.ts';
import { metadataStoreContract, type Opened, timed } from './metadata-store.ts';

const intentTtlMs = 60_000;

for (const count of [2, 5])
  metadataStoreContract(`${count} SQLite stores`, async (): Promise<Opened> => {
    let shards: Awaited<ReturnType<typeof openShards>> | undefined;
    const opened = await timed(intentTtlMs, async ({ clock }) => {
      shards ??= await openShards(count, { clock, intentTtlMs });
      return shards.client(clock);
    });
    return {
      ...opened,
      async close() {
        await opened.close();
        await shards?.close();
      },
    };
  });

const clock = frozenClock();
let shards: Awaited<ReturnType<typeof openShards>>;
beforeEach(async () => {
  shards = await openShards(3, { clock, intentTtlMs });
});
afterEach(() => shards.close());

/** Among three. */
const findShard = (at: At<AnyTable>, row?: Columns): number =>
  findStore(initialPlacement(3), hashRow(at, row));

/** The name of a bucket whose heads are in another store than its counter and its ranking. */
const apart = (): string => {
  for (;;) {
    const bucket = fresh();
    const home = findShard(headsOf(bucket));
    if (findShard(talliesOf(bucket)) !== home && findShard(ranksOf(bucket)) !== home) return bucket;
  }
};

const rank = (bucket: string, name: string) => ({ board: bucket, score: 1, name });
const putWithSides = (store: MetadataStore, bucket: string, key: string, options: CommitOptions = {}) =>
  store.commit(headsOf(bucket), [{ put: head(bucket, key), expect: 'absent' }], {
    ...options,
    then: [
      { at: talliesOf(bucket), add: { className: 'c' }, by: { objects: 1, bytes: 7 } },
      { at: ranksOf(bucket), put: rank(bucket, key) },
    ],
  });
const slotOf = (key: string) => ({ key, slot: '~' });
const objectsIn = async (store: MetadataStore, bucket: string) =>
  (await store.get(talliesOf(bucket), { className: 'c' }))?.row.objects ?? 0;
const ranked = async (store: MetadataStore, bucket: string) =>
  (await all(store.scan(ranksOf(bucket)))).map(({ name }) => name).sort();

describe('the journal of side changes between stores', () => {
  test.each(['lost before', 'lost after'] as const)(
    'a commit whose side changes are %s has an unknown outcome, and no later reader sees it without them',
    async (fault) => {
      const store = shards.client();
      const bucket = apart();
      shards.faults.between = (_, name) => (name === 'receive' ? fault : undefined);
      await expect(putWithSides(store, bucket, 'k')).rejects.toThrow(StoreUnavailable);
      expect(await store.hasPendingAdditions(talliesOf(bucket))).toBe(true);
      expect(await store.hasPendingPuts?.(ranks)).toBe(true);
      await expect(store.get(headsOf(bucket), slotOf('k'))).rejects.toThrow(StoreUnavailable);
      await expect(store.scan(headsOf(bucket)).next(10)).rejects.toThrow(StoreUnavailable);
      shards.faults.between = () => undefined;
      expect(await store.get(headsOf(bucket), slotOf('k'))).toBeDefined();
      expect([await objectsIn(store, bucket), await ranked(store, bucket)]).toEqual([1, ['k']]);
      expect(await store.hasPendingAdditions(talliesOf(bucket))).toBe(false);
      expect(await store.hasPendingPuts?.(ranks)).toBe(false);
    },
  );

  test('a store that ends between a commit and its side changes makes them before it answers again', async () => {
    const store = shards.client();
    const bucket = apart();
    shards.faults.between = (_, name) => (name === 'receive' ? 'lost before' : undefined);
    await expect(putWithSides(store, bucket, 'k')).rejects.toThrow(StoreUnavailable);
    await shards.restart(findShard(headsOf(bucket)));
    shards.faults.between = () => undefined;
    expect(await objectsIn(store, bucket)).toBe(0);
    expect(await store.get(headsOf(bucket), slotOf('k'))).toBeDefined();
    expect([await objectsIn(store, bucket), await ranked(store, bucket)]).toEqual([1, ['k']]);
  });

  test('after restarts, settleAll applies the side changes exactly once although their first answer was lost', async () => {
    const store = shards.client();
    const bucket = apart();
    shards.faults.between = (_, name) => (name === 'receive' ? 'lost after' : undefined);
    await expect(putWithSides(store, bucket, 'k')).rejects.toThrow(StoreUnavailable);
    for (const number of [0, 1, 2]) await shards.restart(number);
    shards.faults.between = () => undefined;
    for (let turn = 0; turn < 2; turn += 1)
      await shards.stores[findShard(headsOf(bucket))]?.outbox?.settleAll();
    expect([await objectsIn(store, bucket), await ranked(store, bucket)]).toEqual([1, ['k']]);
  });

  test('the side changes of 150 commits arrive in three messages, in the order of the commits', async () => {
    const store = shards.client();
    const bucket = apart();
    const home = findShard(headsOf(bucket));
    const target = findShard(ranksOf(bucket));
    shards.faults.between = (_, name) => (name === 'receive' ? 'lost before' : undefined);
    const keys = Array.from({ length: 150 }, (_, n) => `k${n}`);
    const outcomes = await Promise.allSettled(keys.map((key) => putWithSides(store, bucket, key)));
    expect(outcomes.filter(({ status }) => status === 'rejected')).toHaveLength(150);
    let messages = 0;
    shards.faults.between = (shard, name) => {
      if (name === 'receive' && shard === target) messages += 1;
      return undefined;
    };
    await shards.stores[home]?.outbox?.settleAll();
    expect(messages).toBe(3);
    expect([await objectsIn(store, bucket), await ranked(store, bucket)]).toEqual([150, [...keys].sort()]);
  });

  test('a message without an answer is given up after ten seconds, and the next call sends it again', async () => {
    const store = shards.client();
    const bucket = apart();
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    try {
      shards.faults.between = (_, name) => (name === 'receive' ? 'unanswered' : undefined);
      const refused = expect(putWithSides(store, bucket, 'k')).rejects.toThrow(StoreUnavailable);
      await vi.advanceTimersByTimeAsync(9_900);
      expect(vi.getTimerCount()).toBeGreaterThan(0);
      await vi.advanceTimersByTimeAsync(200);
      await refused;
    } finally {
      vi.useRealTimers();
    }
    shards.faults.between = () => undefined;
    expect(await store.get(headsOf(bucket), slotOf('k'))).toBeDefined();
    expect([await objectsIn(store, bucket), await ranked(store, bucket)]).toEqual([1, ['k']]);
  });

  test('a row that a later commit removes does not come back with the side changes of an earlier one', async () => {
    const store = shards.client();
    const bucket = apart();
    shards.faults.between = (_, name) => (name === 'receive' ? 'lost before' : undefined);
    await expect(putWithSides(store, bucket, 'k')).rejects.toThrow(StoreUnavailable);
    shards.faults.between = () => undefined;
    const outcome = await store.commit(headsOf(bucket), [{ put: head(bucket, 'other'), expect: 'absent' }], {
      then: [{ at: ranksOf(bucket), remove: rank(bucket, 'k') }],
    });
    expect(outcome.applied).toBe(true);
    for (const each of shards.stores) await each.outbox?.settleAll();
    expect(await ranked(store, bucket)).toEqual([]);
  });

  test.each(['abort', 'sweep'] as const)(
    'after an %s the side changes of the commits under the op are there, and no further commit applies in any store',
    async (how) => {
      const store = shards.client();
      const other = shards.client();
      const bucket = apart();
      const op = await store.begin({ cluster: 'c' });
      shards.faults.between = (_, name) => (name === 'receive' ? 'lost before' : undefined);
      await expect(putWithSides(store, bucket, 'k', { op })).rejects.toThrow(StoreUnavailable);
      if (how === 'sweep') clock.time += 2 * intentTtlMs;
      const end = () => (how === 'abort' ? other.abort(op.id) : other.abandoned());
      await expect(end()).rejects.toThrow(StoreUnavailable);
      shards.faults.between = () => undefined;
      await end();
      expect([await objectsIn(other, bucket), await ranked(other, bucket)]).toEqual([1, ['k']]);
      expect(await other.isOpen(op.id)).toBe(false);
      for (let turn = 0; turn < 12; turn += 1) {
        const refused = await putWithSides(store, apart(), 'late', { op });
        expect(refused).toMatchObject({ applied: false, because: 'abandoned' });
      }
    },
  );

  test('while a store cannot be asked, an op that it would let commit is open', async () => {
    const store = shards.client();
    const op = await store.begin({ cluster: 'c' });
    clock.time += 2 * intentTtlMs;
    shards.faults.between = (shard, name) =>
      shard === 2 && name === 'barEpochs' ? 'lost before' : undefined;
    await expect(store.abandoned()).rejects.toThrow(StoreUnavailable);
    expect(await store.isOpen(op.id)).toBe(true);
    shards.faults.between = () => undefined;
    expect(await store.abandoned()).toHaveLength(1);
    expect(await store.isOpen(op.id)).toBe(false);
  });

  test('an epoch that arrives at a store after half of its lease is refused', async () => {
    const store = shards.client();
    shards.faults.between = (shard, name) => {
      if (shard === 1 && name === 'openEpoch') clock.time += intentTtlMs / 2 + 1;
      return undefined;
    };
    await expect(store.begin({ cluster: 'c' })).rejects.toThrow(StoreUnavailable);
  });

  test('under lost calls and stores that end, each commit that applied has its side changes exactly once', async () => {
    const chance = random(11);
    const store = shards.client();
    const buckets = Array.from({ length: 6 }, apart);
    let isOver = false;
    const breaking = async (): Promise<void> => {
      while (!isOver) {
        shards.faults.between = () =>
          chance() < 0.15 ? (chance() < 0.5 ? 'lost before' : 'lost after') : undefined;
        await new Promise((resolve) => setTimeout(resolve, 5));
        if (chance() < 0.3) await shards.restart(Math.floor(chance() * 3)).catch(() => undefined);
      }
    };
    const applied: string[] = [];
    const writer = async (name: number): Promise<void> => {
      for (let turn = 0; turn < 40; turn += 1) {
        const bucket = buckets[Math.floor(chance() * buckets.length)] as string;
        const key = `${name}-${turn}`;
        const outcome = await putWithSides(store, bucket, key).catch(() => undefined);
        if (outcome?.applied) applied.push(`${bucket}/${key}`);
      }
    };
    const ended = breaking();
    await Promise.all([0, 1, 2, 3].map(writer));
    isOver = true;
    await ended;
    shards.faults.between = () => undefined;
    const found: string[] = [];
    for (const bucket of buckets) {
      const keys = (await all(store.scan(headsOf(bucket)))).map(({ key }) => key).sort();
      found.push(...keys.map((key) => `${bucket}/${key}`));
      expect(await ranked(store, bucket)).toEqual(keys);
      expect(await objectsIn(store, bucket)).toBe(keys.length);
      expect(await store.hasPendingAdditions(talliesOf(bucket))).toBe(false);
    }
    expect(found).toEqual(expect.arrayContaining(applied));
    expect(applied.length).toBeGreaterThan(20);
    expect(found.length).toBeGreaterThan(applied.length);
  });
});

test('the rows of a gateway are spread over the stores', async () => {
  const places = Array.from({ length: 300 }, (_, n) =>
    findShard({ table: tables.audit, in: { hour: 5, slot: n } }),
  );
  const bucket = { table: heads, in: { bucket: 'b' }, ways: 64 };
  const keys = Array.from({ length: 300 }, (_, n) => findShard(bucket, { key: `photos/${n}` }));
  for (const of of [places, keys])
    for (const shard of [0, 1, 2]) expect(of.filter((place) => place === shard).length).toBeGreaterThan(70);
});
