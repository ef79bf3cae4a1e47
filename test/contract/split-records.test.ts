/** A store of the record layer that splits under its clients: the contract, breaks at every step, and races. */
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { findStore, hashRow, initialPlacement } from '../../src/backends/metadata/records/placement.ts';
import { staleMessage } from '../../src/backends/metadata/records/shard-split.ts';
import { StoreUnavailable } from '../../src/ports/metadata-store.ts';
import { frozenClock } from '../support/frozen-clock.ts';
import { type Between, openShards } from '../support/sharded-records.ts';
import { random } from '../support/split-race.ts';
import {
  bucket,
  expectKeys,
  fill,
  keyOf,
  listed,
  objects,
  put,
  rank,
  remove,
  slotOf,
} from '../support/split-rows.ts';
import { head, heads, ranksOf, talliesOf } from './metadata-store/tables.ts';
import { metadataStoreContract, type Opened, timed } from './metadata-store.ts';

const intentTtlMs = 60_000;
const storesMax = 5;

for (const count of [1, 2])
  metadataStoreContract(`${count} SQLite stores that split meanwhile`, async (): Promise<Opened> => {
    let shards: Awaited<ReturnType<typeof openShards>> | undefined;
    let splitting: Promise<void> | undefined;
    let isOver = false;
    const opened = await timed(intentTtlMs, async ({ clock }) => {
      shards ??= await openShards(count, { clock, intentTtlMs });
      const { split, adopt } = shards;
      splitting ??= (async () => {
        for (let turn = 0; !isOver; turn += 1) {
          await split(storesMax);
          if (turn % 8 === 0) await adopt();
          await new Promise((resolve) => setTimeout(resolve, 1));
        }
      })();
      return shards.client(clock);
    });
    return {
      ...opened,
      async close() {
        isOver = true;
        await splitting;
        await opened.close();
        await shards?.close();
      },
    };
  });

const clock = frozenClock();
let shards: Awaited<ReturnType<typeof openShards>>;
beforeEach(async () => {
  shards = await openShards(1, { clock, intentTtlMs });
});
afterEach(() => shards.close());

const splitTo = async (count: number): Promise<void> => {
  while (await shards.split(count));
};

/** The phase in which the first store is. */
const phase = () => shards.stores[0]?.shard?.phase;

describe('a store that splits', () => {
  test('has half of its rows afterwards, and the new store has the others, all of which every client finds', async () => {
    const [store, other] = [shards.client(), shards.client()];
    const keys = await fill(store, 700);
    await splitTo(2);
    expect(shards.stores).toHaveLength(2);
    await expectKeys(store, keys);
    for (const number of [0, 1]) await shards.restart(number);
    await expectKeys(other, keys);
    const counts: number[] = [];
    for (const each of shards.stores) {
      let rows = 0;
      for await (const page of each.everyRow(heads)) rows += page.rows.length;
      counts.push(rows);
    }
    expect(Math.min(...counts)).toBeGreaterThan(250);
    expect((counts[0] as number) + (counts[1] as number)).toBe(700);
  });

  test('splits again, and so does what split from it', async () => {
    const store = shards.client();
    const keys = await fill(store, 120);
    await splitTo(6);
    // One that has just split splits again when it has grown.
    for (let n = 0; shards.stores.length < 6; n += 1) {
      await put(store, `later-${n}`);
      keys.push(`later-${n}`);
      await splitTo(6);
    }
    await expectKeys(store, keys);
    for (const key of keys) expect(await store.get(objects, slotOf(key))).toBeDefined();
    await expectKeys(shards.client(), keys);
  });

  test('refuses a client that has an older placement, which reads the new one and finds every row', async () => {
    const stale = shards.client();
    const keys = await fill(stale, 50);
    await splitTo(2);
    const refused: unknown[] = [];
    shards.faults.heard = (cause) => void refused.push(String(cause));
    expect(await listed(stale)).toEqual(keys);
    expect(refused.join()).toContain(staleMessage);
    refused.length = 0;
    expect(await listed(stale)).toEqual(keys);
    expect(refused).toEqual([]);
  });

  test.each(['copying', 'removing'] as const)(
    'has what is written, changed and removed in each step of it (%s)',
    async (stop) => {
      const store = shards.client();
      const keys = new Set(await fill(store, 1_400));
      let n = 0;
      let met = 0;
      while (await shards.split(2)) {
        if (phase() !== stop) continue;
        met += 1;
        for (const key of [`a${n}`, `z${n}`, keyOf(2_000 + n)]) {
          expect((await put(store, key)).applied).toBe(true);
          keys.add(key);
        }
        for (const key of [keyOf(n), keyOf(600 - n), keyOf(1_399 - n)])
          if (await remove(store, key)) keys.delete(key);
        const key = keyOf(700 + n);
        const found = await store.get(objects, slotOf(key));
        const outcome = await store.commit(objects, [
          { put: head(bucket, key, { etag: 'changed' }), expect: found?.revision ?? 'absent' },
        ]);
        expect(outcome.applied).toBe(true);
        const listing = await listed(store);
        expect(listing).toEqual([...keys].sort());
        n += 1;
      }
      expect(met).toBeGreaterThan(2);
      await expectKeys(store, [...keys]);
      for (let changed = 0; changed < n; changed += 1) {
        const row = (await store.get(objects, slotOf(keyOf(700 + changed))))?.row;
        if (keys.has(keyOf(700 + changed))) expect(row?.etag).toBe('changed');
      }
    },
  );

  test('gives a row that has moved later revisions than it had, so none of them again', async () => {
    const store = shards.client();
    const keys = await fill(store, 300);
    const change = async (): Promise<readonly number[]> => {
      const revisions: number[] = [];
      for (const key of keys) {
        const found = await store.get(objects, slotOf(key));
        const outcome = await store.commit(objects, [
          { put: head(bucket, key, { etag: 'x' }), expect: found?.revision ?? 'absent' },
        ]);
        expect(outcome.applied).toBe(true);
        revisions.push(Number((await store.get(objects, slotOf(key)))?.revision));
      }
      return revisions;
    };
    const before = await change();
    await splitTo(3);
    const after = await change();
    expect(after.filter((revision, n) => revision <= (before[n] as number))).toEqual([]);
  });

  test('keeps its fences: a writer of an earlier generation is refused in the new store too', async () => {
    const store = shards.client();
    await fill(store, 40);
    await store.raiseFence(objects, 3);
    // Once more after it was copied.
    while (phase() !== 'copying') await shards.split(2);
    await shards.split(2);
    await store.raiseFence(objects, 4);
    await splitTo(2);
    for (let n = 0; n < 40; n += 1) {
      const outcome = await store.commit({ ...objects, fence: 3 }, [
        { put: head(bucket, `late${n}`), expect: 'absent' },
      ]);
      expect(outcome).toMatchObject({ applied: false, because: 'fenced' });
    }
    expect((await put(store, 'later')).applied).toBe(true);
  });

  test('keeps the ops that are open, those that were aborted while it split, and those that are swept afterwards', async () => {
    const store = shards.client();
    await fill(store, 60);
    const [open, aborted] = [await store.begin({ cluster: 'c' }), await store.begin({ cluster: 'c' })];
    const other = shards.client();
    const swept = await other.begin({ cluster: 'c' });
    let step = 0;
    while (await shards.split(2)) {
      if (step === 1) await store.abort(aborted.id);
      step += 1;
    }
    for (let n = 0; n < 30; n += 1) {
      expect((await put(store, `open${n}`, { op: open })).applied).toBe(true);
      expect(await put(store, `aborted${n}`, { op: aborted })).toMatchObject({ because: 'abandoned' });
      expect((await put(other, `swept${n}`, { op: swept })).applied).toBe(true);
    }
    clock.time += 2 * intentTtlMs;
    await store.abandoned();
    for (let n = 30; n < 60; n += 1)
      expect(await put(other, `swept${n}`, { op: swept })).toMatchObject({ because: 'abandoned' });
  });

  test('hands nothing over while side changes of its commits are unconfirmed, so none of them comes late', async () => {
    await shards.close();
    shards = await openShards(2, { clock, intentTtlMs });
    const store = shards.client();
    const keys = await fill(store, 60);
    shards.faults.between = (_, name) => (name === 'receive' ? 'lost before' : undefined);
    for (let n = 0; n < 4; n += 1) await put(store, `unknown${n}`).catch(() => undefined);
    for (let turn = 0; turn < 20; turn += 1) await shards.split(4).catch(() => undefined);
    const phases = shards.stores.map((each) => each.shard?.phase);
    expect(phases).toContain('closing');
    shards.faults.between = () => undefined;
    await splitTo(4);
    for (let n = 0; n < 4; n += 1) await remove(store, `unknown${n}`);
    await expectKeys(store, keys);
  });

  test('rows that expire in the new store are removed there', async () => {
    const store = shards.client();
    for (let n = 0; n < 40; n += 1)
      await store.commit(objects, [
        { put: head(bucket, keyOf(n)), expect: 'absent', expiresAt: clock.time + 1_000 },
      ]);
    await splitTo(2);
    expect(await listed(store)).toHaveLength(40);
    clock.time += 2_000;
    expect(await listed(store)).toEqual([]);
    for (const each of shards.stores) await each.maintain();
    // Back at a time at which a row that is still stored would be read.
    clock.time -= 2_000;
    expect(await listed(store)).toEqual([]);
  });
});

/** The messages of a split, and after which of them something fails. */
const messages = ['addShard', 'acceptEntries', 'takeOver', 'publishShard'] as const;
const faults = ['lost before', 'lost after'] as const;

describe('a split that is interrupted', () => {
  test.each(
    // Messages with rows are sent several times.
    messages.flatMap((name) =>
      faults.flatMap((fault) =>
        (name === 'acceptEntries' ? [1, 2] : [1]).map((nth) => [name, fault, nth] as const),
      ),
    ),
  )('continues after %s was %s (message %s) and both stores ended', async (name, fault, nth) => {
    const store = shards.client();
    const keys = await fill(store, 900);
    let sent = 0;
    shards.faults.between = (_, called) => (called === name && ++sent === nth ? fault : undefined);
    let broken = 0;
    let n = 0;
    for (;;) {
      const hasMore = await shards.split(2).catch(() => undefined);
      if (hasMore === false) break;
      if (hasMore === undefined) {
        broken += 1;
        await shards.restart(0);
        if (shards.stores[1] !== undefined) await shards.restart(1);
      }
      n += 1;
      // A client that meets a handover does the next step itself, and so can meet the fault.
      for (const change of [() => put(store, `during${n}`), () => remove(store, keyOf(n))])
        await change().catch(async () => {
          broken += 1;
          await shards.restart(0);
          await shards.restart(1);
          await change();
        });
      keys.push(`during${n}`);
      keys.splice(keys.indexOf(keyOf(n)), 1);
    }
    expect(broken).toBe(1);
    expect(shards.stores).toHaveLength(2);
    await expectKeys(store, keys);
    await expectKeys(shards.client(), keys);
  });

  test.each([0, 1])('continues where store %s ends after each step', async (ending) => {
    const store = shards.client();
    const keys = await fill(store, 900);
    for (let n = 0; await shards.split(2); n += 1) {
      if (shards.stores[ending] !== undefined) await shards.restart(ending);
      await put(store, `during${n}`);
      keys.push(`during${n}`);
    }
    await expectKeys(store, keys);
  });

  test('a client finishes the handover of a store whose alarm does not come', async () => {
    const store = shards.client();
    const keys = await fill(store, 80);
    let isLost = true;
    shards.faults.between = (_, name) => (name === 'publishShard' && isLost ? 'lost before' : undefined);
    while (phase() !== 'handover') await shards.split(2);
    await expect(shards.split(2)).rejects.toThrow();
    await expect(store.get(objects, slotOf(keyOf(1)))).rejects.toThrow(StoreUnavailable);
    isLost = false;
    await shards.restart(0);
    expect(await listed(store)).toEqual(keys);
    expect(phase()).toBe('removing');
  });

  test('a reader ends a handover too where a side change of another store waits for the new one', async () => {
    await shards.close();
    shards = await openShards(2, { clock, intentTtlMs });
    const store = shards.client();
    const keys = await fill(store, 80);
    const ofFirst = keys.filter((key) => findStore(initialPlacement(2), hashRow(objects, slotOf(key))) === 0);
    const key = keys.find((each) => !ofFirst.includes(each)) as string;
    const revision = (await store.get(objects, slotOf(key)))?.revision ?? 'any';
    while (phase() !== 'handover') await shards.stores[0]?.shard?.step(0);
    let isLost = true;
    shards.faults.between = (_, name) => (name === 'takeOver' && isLost ? 'lost before' : undefined);
    // Some of them are in the half that leaves.
    const boards = Array.from({ length: 24 }, (_, n) => talliesOf(`board${n}`));
    const then = boards.map((at) => ({ at, add: { className: 'c' }, by: { objects: 1, bytes: 7 } }));
    const removal = store.commit(objects, [{ remove: slotOf(key), expect: revision }], { then });
    await expect(removal).rejects.toThrow(StoreUnavailable);
    isLost = false;
    await shards.restart(0);
    // The second store does not send again.
    for (const each of ofFirst) expect(await store.get(objects, slotOf(each))).toBeDefined();
    expect(phase()).toBe('removing');
    expect(await listed(store)).toEqual(keys.filter((each) => each !== key));
    for (const at of boards) expect((await store.get(at, { className: 'c' }))?.row.objects).toBe(1);
  });

  test('a message of a former life that arrives late changes nothing in the new store', async () => {
    const store = shards.client();
    const keys = await fill(store, 900);
    const late: (() => Promise<unknown>)[] = [];
    shards.faults.delay = (name, again) => void (name === 'acceptEntries' && late.push(again));
    // The second one has rows.
    while (late.length < 2) await shards.split(2);
    expect(phase()).toBe('copying');
    shards.faults.delay = undefined;
    for (let n = 0; n < 200; n += 1) if (await remove(store, keyOf(n))) keys.shift();
    // While rows are copied, and when the new store has them.
    for (const again of late) await again();
    while (phase() === 'copying') {
      await shards.split(2);
      for (const again of late) await again();
    }
    await splitTo(2);
    for (const again of late) await again();
    await expectKeys(store, keys);
  });

  test('side changes of rows that have left arrive through the former store, also where its answers are lost', async () => {
    const store = shards.client();
    const keys = await fill(store, 30);
    await splitTo(4);
    // Nothing was adopted, so a sender knows of its own splits only, and its receivers send on what has left them.
    let sentOn = 0;
    for (let n = 0; n < 60; n += 1) {
      const senders = new Set<unknown>();
      shards.faults.between = (_, name, [sender]) => {
        if (name !== 'receive') return undefined;
        senders.add(sender);
        return n % 4 === 0 ? (n % 8 === 0 ? 'lost before' : 'lost after') : undefined;
      };
      const board = `board${n}`;
      const isKnown = await store
        .commit(objects, [{ put: head(bucket, `next${n}`), expect: 'absent' }], {
          then: [
            { at: talliesOf(board), add: { className: 'c' }, by: { objects: 1, bytes: 7 } },
            { at: talliesOf(bucket), add: { className: 'c' }, by: { objects: 1, bytes: 7 } },
            { at: ranksOf(bucket), put: rank(`next${n}`) },
          ],
        })
        .then(
          () => true,
          () => false,
        );
      if (senders.size > 1) sentOn += 1;
      shards.faults.between = () => undefined;
      const isThere = isKnown || (await store.get(objects, slotOf(`next${n}`))) !== undefined;
      if (isThere) keys.push(`next${n}`);
      const count = (await store.get(talliesOf(board), { className: 'c' }))?.row.objects ?? 0;
      expect(count).toBe(isThere ? 1 : 0);
    }
    expect(sentOn).toBeGreaterThan(0);
    await expectKeys(store, keys);
    await shards.adopt();
    let forwarded = 0;
    shards.faults.between = (_, name) => {
      if (name === 'receive') forwarded += 1;
      return undefined;
    };
    for (let n = 0; n < 10; n += 1) {
      await put(store, `adopted${n}`);
      keys.push(`adopted${n}`);
    }
    // Two receivers at most, and none of them sends anything on.
    expect(forwarded).toBeLessThanOrEqual(20);
    await expectKeys(store, keys);
  });
});

test.each([7, 8, 9])(
  'under splits, lost calls and stores that end, no row is lost or doubled, and listings are complete and in order (seed %s)',
  async (seed) => {
    const chance = random(seed);
    const store = shards.client();
    let isOver = false;
    const lose: Between = () =>
      chance() < 0.04 ? (chance() < 0.5 ? 'lost before' : 'lost after') : undefined;
    const splitting = async (): Promise<void> => {
      while (!isOver) {
        shards.faults.between = lose;
        await shards.split(6).catch(() => undefined);
        if (chance() < 0.1) await shards.adopt().catch(() => undefined);
        if (chance() < 0.05) await shards.restart(Math.floor(chance() * shards.stores.length));
        await new Promise((resolve) => setTimeout(resolve, 1));
      }
    };
    /** The keys that are surely there, and those whose last change has an unknown outcome. */
    const [there, unknown] = [new Set<string>(), new Set<string>()];
    const writer = async (name: number): Promise<void> => {
      for (let turn = 0; turn < 60 || (shards.stores.length < 5 && turn < 2_000); turn += 1) {
        const key = `${keyOf(Math.floor(chance() * 9_000))}-${name}-${turn}`;
        unknown.add(key);
        // The stores answer without a timer, and the split needs its turns.
        await new Promise(setImmediate);
        const outcome = await put(store, key).catch(() => undefined);
        if (outcome?.applied) {
          unknown.delete(key);
          there.add(key);
        }
        const mine = [...there].filter((each) => each.split('-')[1] === String(name));
        if (chance() < 0.3 && mine.length > 0) {
          const gone = mine[Math.floor(chance() * mine.length)] as string;
          there.delete(gone);
          unknown.add(gone);
          await remove(store, gone).catch(() => undefined);
        }
      }
    };
    const lister = async (): Promise<void> => {
      while (!isOver) {
        const before = new Set(there);
        const found = await listed(store).catch(() => undefined);
        if (found !== undefined) {
          expect(found).toEqual([...new Set(found)].sort());
          for (const key of before) if (there.has(key)) expect(found).toContain(key);
        }
        await new Promise((resolve) => setTimeout(resolve, 3));
      }
    };
    const races = [splitting(), lister()];
    await Promise.all([0, 1, 2, 3].map(writer));
    isOver = true;
    await Promise.all(races);
    shards.faults.between = () => undefined;
    while (await shards.split(0));
    const found = await listed(store);
    expect(shards.stores.length).toBeGreaterThan(3);
    expect(found).toEqual(expect.arrayContaining([...there]));
    for (const key of found) expect(there.has(key) || unknown.has(key), key).toBe(true);
    await expectKeys(store, found);
  },
);
