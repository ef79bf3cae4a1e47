/** Stores that split: what a split frees and what ends it, and what engines that fail and messages that are lost must not change. */
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { kindSpan, textKeyIn } from '../../src/backends/metadata/records/codec.ts';
import { hashRow, isIn, type Slot } from '../../src/backends/metadata/records/placement.ts';
import { tableFinder } from '../../src/backends/metadata/records/remote.ts';
import type { Handover } from '../../src/backends/metadata/records/shard-split.ts';
import type { Sql } from '../../src/backends/metadata/records/sqlite.ts';
import type { RecordStore } from '../../src/backends/metadata/records/store.ts';
import { StorageFull } from '../../src/ports/chunk-store.ts';
import { StoreUnavailable } from '../../src/ports/metadata-store.ts';
import { frozenClock } from '../support/frozen-clock.ts';
import { openShards, type ShardsOptions } from '../support/sharded-records.ts';
import { bucket, expectKeys, fill, keyOf, objects, put, remove, slotOf } from '../support/split-rows.ts';
import { contractTables, head, talliesOf } from './metadata-store/tables.ts';

const intentTtlMs = 60_000;
const clock = frozenClock();

let shards: Awaited<ReturnType<typeof openShards>>;
const open = async (count: number, options: Partial<ShardsOptions> = {}): Promise<void> => {
  await shards?.close();
  shards = await openShards(count, { clock, intentTtlMs, ...options });
};
beforeEach(async () => {
  shards = await openShards(1, { clock, intentTtlMs });
});
afterEach(() => shards.close());

const splitTo = async (count: number): Promise<void> => {
  while (await shards.split(count));
};
const phase = (number = 0) => shards.stores[number]?.shard?.phase;
const step = (number = 0) => shards.stores[number]?.shard?.step(0);

describe('a split that copies', () => {
  test.each(['lost before', 'lost after'] as const)(
    'has every row and no removed one where a message was %s, and the next one ends before it',
    async (fault) => {
      const store = shards.client();
      const keys = new Set(await fill(store, 900));
      let messages = 0;
      shards.faults.between = (_, name, args) =>
        name === 'acceptEntries' && (args[1] as readonly unknown[]).length > 50 && ++messages === 1
          ? fault
          : undefined;
      while (messages === 0) await step()?.catch(() => undefined);
      await shards.restart(0);
      for (let n = 0; n < 40; n += 1) {
        await put(store, `a${n}`);
        keys.add(`a${n}`);
      }
      // Fewer of the same keys, because others came before them: up to 471 in place of 511. It does not arrive.
      shards.faults.between = (_, name) => (name === 'acceptEntries' ? 'lost before' : undefined);
      await expect(step()).rejects.toThrow();
      for (let n = 474; n < 512; n += 2) if (await remove(store, keyOf(n))) keys.delete(keyOf(n));
      shards.faults.between = () => undefined;
      await splitTo(2);
      await expectKeys(store, [...keys]);
    },
  );

  test('ends although writers change rows in each of its steps', async () => {
    const store = shards.client();
    const keys = await fill(store, 700);
    let round = 0;
    const write = async (): Promise<void> => {
      round += 1;
      const changes = keys.slice(0, 200).map(async (key) => {
        const found = await store.get(objects, slotOf(key));
        return store.commit(objects, [
          { put: head(bucket, key, { etag: `of ${round}` }), expect: found?.revision ?? 'absent' },
        ]);
      });
      for (const outcome of await Promise.all(changes)) expect(outcome.applied).toBe(true);
    };
    for (let n = 0; phase() !== 'closing'; n += 1) {
      expect(n).toBeLessThan(30);
      await step();
      if (phase() === 'copying') await write();
    }
    await splitTo(2);
    await expectKeys(store, keys);
    for (const key of keys.slice(0, 200))
      expect((await store.get(objects, slotOf(key)))?.row.etag).toBe(`of ${round}`);
  });
});

describe('a handover', () => {
  test('does not wait for side changes that another store sends through the store meanwhile', async () => {
    let bytes = 1;
    // Whatever a split has freed, the store has grown.
    await open(2, { wrap: (sql) => ({ ...sql, usedBytes: () => (bytes *= 2) }) });
    const store = shards.client();
    const keys = await fill(store, 60);
    await splitTo(4);
    const second = shards.stores[1]?.shard;
    const receiver = second?.halves[0] as Slot & { readonly number: number };
    while (phase(1) !== 'closing') await step(1);
    await step(1);
    // It has split off from the second store, which the first one does not know.
    shards.faults.between = (shard, name) =>
      shard === receiver.number && name === 'receive' ? 'lost before' : undefined;
    const boards = Array.from({ length: 100 }, (_, n) => talliesOf(`board${n}`)).filter((at) =>
      isIn(receiver, hashRow(at, { className: 'c' })),
    );
    const key = keys.find((each) =>
      isIn({ residue: 0, modulus: 4 }, hashRow(objects, slotOf(each))),
    ) as string;
    const found = await store.get(objects, slotOf(key));
    const change = [
      { put: head(bucket, key, { etag: 'x' }), expect: found?.revision ?? ('absent' as const) },
    ];
    const then = boards.map((at) => ({ at, add: { className: 'c' }, by: { objects: 1, bytes: 7 } }));
    await expect(store.commit(objects, change, { then })).rejects.toThrow(StoreUnavailable);
    expect(phase(1)).toBe('closing');
    for (let n = 0; n < 3; n += 1) await step(1);
    expect(phase(1)).not.toBe('closing');
    shards.faults.between = () => undefined;
    await splitTo(4);
    await expectKeys(store, keys);
    for (const at of boards) expect((await store.get(at, { className: 'c' }))?.row.objects).toBe(1);
  });

  test('has all changes, also where more came than one message takes while calls waited', async () => {
    await open(2);
    const store = shards.client();
    const keys = await fill(store, 60);
    while (phase(1) !== 'closing') await step(1);
    const boards = Array.from({ length: 2_600 }, (_, n) => talliesOf(`board${n}`)).filter((at) =>
      isIn({ residue: 3, modulus: 4 }, hashRow(at, { className: 'c' })),
    );
    expect(boards.length).toBeGreaterThan(512);
    const ofFirst = keys.filter((key) => isIn({ residue: 0, modulus: 2 }, hashRow(objects, slotOf(key))));
    for (let begin = 0, n = 0; begin < boards.length; begin += 40, n += 1) {
      const key = ofFirst[n] as string;
      const found = await store.get(objects, slotOf(key));
      const change = [
        { put: head(bucket, key, { etag: 'x' }), expect: found?.revision ?? ('absent' as const) },
      ];
      const then = boards
        .slice(begin, begin + 40)
        .map((at) => ({ at, add: { className: 'c' }, by: { objects: 1, bytes: 7 } }));
      expect((await store.commit(objects, change, { then })).applied).toBe(true);
    }
    expect(phase(1)).toBe('closing');
    await splitTo(2);
    await expectKeys(store, keys);
    for (const at of boards) expect((await store.get(at, { className: 'c' }))?.row.objects).toBe(1);
  });

  test('has an addition that arrives in the transaction that closes the store', async () => {
    const board = Array.from({ length: 20 }, (_, n) => talliesOf(`board${n}`)).find((at) =>
      isIn({ residue: 3, modulus: 4 }, hashRow(at, { className: 'c' })),
    ) as ReturnType<typeof talliesOf>;
    let keys: string[] = [];
    let met = 0;
    const stateKey = Buffer.from(textKeyIn('shard', 'split')).toString('latin1');
    const wrap = (sql: Sql, number: number): Sql => ({
      ...sql,
      exec(text, ...params) {
        if (number === 1 && text.startsWith('INSERT'))
          keys.push(Buffer.from(params[0] as Uint8Array).toString('latin1'));
        return sql.exec(text, ...params);
      },
      transact(work) {
        keys = [];
        const result = sql.transact(work);
        if (phase(1) === 'handover' && keys.includes(stateKey) && keys.some((key) => key.includes('tallies')))
          met += 1;
        return result;
      },
    });
    for (let later = 0; later < 24; later += 1) {
      await open(2, { wrap });
      const store = shards.client();
      const filled = await fill(store, 40);
      const ofFirst = filled.find((key) =>
        isIn({ residue: 0, modulus: 2 }, hashRow(objects, slotOf(key))),
      ) as string;
      const found = await store.get(objects, slotOf(ofFirst));
      let message: Parameters<RecordStore['receive']> | undefined;
      shards.faults.between = (_, name, [sender, entries]) => {
        if (name !== 'receive') return undefined;
        message = [sender as number, entries as never, tableFinder(contractTables)];
        return 'lost before';
      };
      const change = [
        { put: head(bucket, ofFirst, { etag: 'x' }), expect: found?.revision ?? ('absent' as const) },
      ];
      const then = [{ at: board, add: { className: 'c' }, by: { objects: 1, bytes: 7 } }];
      await store.commit(objects, change, { then }).catch(() => undefined);
      shards.faults.between = () => undefined;
      while (phase(1) !== 'closing') await step(1);
      await step(1);
      const closing = step(1);
      for (let n = 0; n < later; n += 1) await undefined;
      await Promise.all([closing, shards.stores[1]?.receive(...(message as NonNullable<typeof message>))]);
      await splitTo(2);
      expect((await store.get(board, { className: 'c' }))?.row.objects, `${later} turns later`).toBe(1);
    }
    expect(met).toBeGreaterThan(0);
  });

  test('takes only the epochs that are open', async () => {
    const store = shards.client();
    await fill(store, 30);
    const ended = await store.begin({ cluster: 'c' });
    clock.time += 2 * intentTtlMs;
    for (const each of await store.abandoned()) await store.settle(each);
    const other = shards.client();
    const current = await other.begin({ cluster: 'c' });
    let taken = '';
    shards.faults.between = (_, name, args) => {
      if (name === 'takeOver')
        taken = (args[0] as Handover).epochs.map(({ key }) => Buffer.from(key).toString()).join();
      return undefined;
    };
    await splitTo(2);
    expect(taken).toContain(current.id.split('.')[0]);
    expect(taken).not.toContain(ended.id.split('.')[0]);
    for (let n = 0; n < 20; n += 1) {
      expect((await put(other, `current${n}`, { op: current })).applied).toBe(true);
      expect(await put(store, `ended${n}`, { op: ended })).toMatchObject({ because: 'abandoned' });
    }
  });

  test('leaves no epoch open that a sweep has ended while rows were copied', async () => {
    const [store, sweeper] = [shards.client(), shards.client()];
    await fill(store, 30);
    while (phase() !== 'copying') await step();
    // It is opened in the new store too.
    await store.get(objects, slotOf('none'));
    const op = await store.begin({ cluster: 'c' });
    clock.time += 2 * intentTtlMs;
    expect(await sweeper.abandoned()).toHaveLength(1);
    await splitTo(2);
    for (let n = 0; n < 30; n += 1)
      expect(await put(store, `late${n}`, { op })).toMatchObject({ because: 'abandoned' });
  });
});

describe('a transaction that the engine undoes', () => {
  /** An insertion of the state of a split fails once, where a test says so. */
  let isArmed = false;
  const stateKey = textKeyIn('shard', 'split');
  const wrap = (sql: Sql): Sql => ({
    ...sql,
    exec(text, ...params) {
      if (isArmed && text.startsWith('INSERT') && Buffer.compare(params[0] as Uint8Array, stateKey) === 0) {
        isArmed = false;
        throw new Error('disk I/O error');
      }
      return sql.exec(text, ...params);
    },
  });

  test('leaves the store in the phase that is stored', async () => {
    await open(1, { wrap });
    const store = shards.client();
    const keys = await fill(store, 60);
    shards.faults.between = (_, name) => {
      isArmed = name === 'publishShard';
      return undefined;
    };
    while (phase() !== 'handover') await step();
    await expect(step()).rejects.toThrow();
    expect(isArmed).toBe(false);
    shards.faults.between = () => undefined;
    expect(phase()).toBe('handover');
    await splitTo(2);
    await expectKeys(store, keys);
  });

  test.each(['acceptEntries', 'takeOver'] as const)(
    'is run again as if for the first time beside another one (%s)',
    async (message) => {
      await open(1, { wrap });
      const store = shards.client();
      const keys = await fill(store, 600);
      let met = 0;
      shards.faults.between = (_, name, args) => {
        const hasRows = name === 'takeOver' || (args[1] as readonly unknown[] | undefined)?.length;
        const receiver = shards.stores[1];
        if (name !== message || !hasRows || met > 0 || receiver === undefined) return undefined;
        met += 1;
        // In the same transaction.
        void receiver.epochRows.open('beside');
        isArmed = true;
        return undefined;
      };
      await splitTo(2);
      expect(met).toBe(1);
      expect(isArmed).toBe(false);
      await shards.restart(1);
      await expectKeys(store, keys);
    },
  );
});

describe('the size of a store', () => {
  const count = (number: number, kind: 'expiry'): number => {
    const { low, high } = kindSpan(kind);
    const text = 'SELECT count(*) AS n FROM entries WHERE key >= ? AND key < ?';
    return Number([...(shards.connections[number] as Sql).exec(text, low, high)][0]?.['n']);
  };

  test('falls by the half that has left', async () => {
    await fill(shards.client(), 3_000);
    const before = shards.connections[0]?.usedBytes() as number;
    await splitTo(2);
    expect(shards.connections[0]?.usedBytes()).toBeLessThan(before * 0.4);
  });

  test('has no index any more of the expiring rows that have left', async () => {
    const store = shards.client();
    for (let n = 0; n < 300; n += 1)
      await store.commit(objects, [
        { put: head(bucket, keyOf(n)), expect: 'absent', expiresAt: clock.time + 1_000_000 },
      ]);
    expect(count(0, 'expiry')).toBe(300);
    await splitTo(2);
    let rows = 0;
    for await (const page of (shards.stores[0] as (typeof shards.stores)[0]).everyRow(objects.table))
      rows += page.rows.length;
    expect(count(0, 'expiry')).toBe(rows);
    expect(count(1, 'expiry')).toBe(300 - rows);
  });

  /** What the stores say of their size. */
  let bytes = 0;
  const wrap = (sql: Sql): Sql => ({ ...sql, usedBytes: () => bytes });
  const run = () => shards.stores[0]?.shard?.step(900);
  const runTo = async (end: 'removing' | undefined): Promise<void> => {
    for (let n = 0; n === 0 || phase() !== end; n += 1) {
      expect(n, phase()).toBeLessThan(100);
      await run();
    }
  };

  test('begins no split again that freed nothing before it has grown, but one before the store is full', async () => {
    await open(1, { wrap, bytesMax: 1_000 });
    bytes = 0;
    await fill(shards.client(), 30);
    bytes = 950;
    await runTo(undefined);
    expect(shards.stores).toHaveLength(2);
    bytes = 970;
    expect(await run()).toBe(false);
    bytes = 980;
    await runTo(undefined);
    expect(shards.stores).toHaveLength(3);
    bytes = 1_000;
    await runTo(undefined);
    expect(shards.stores).toHaveLength(4);
    // Full, and no split helps.
    bytes = 1_010;
    expect(await run()).toBe(false);
  });

  test('begins the next split at once where one has freed much, and the store is still large', async () => {
    await open(1, { wrap });
    bytes = 0;
    await fill(shards.client(), 30);
    bytes = 4_000;
    await runTo('removing');
    bytes = 2_000;
    await runTo(undefined);
    await runTo('removing');
    expect(shards.stores).toHaveLength(3);
  });

  test('is no obstacle to the split of a full store', async () => {
    await open(1, { wrap, bytesMax: 1_000 });
    bytes = 0;
    const store = shards.client();
    const keys = await fill(store, 200);
    bytes = 1_000;
    await expect(put(store, 'refused')).rejects.toThrow(StorageFull);
    await runTo('removing');
    bytes = 500;
    await splitTo(2);
    await expectKeys(store, keys);
    expect((await put(store, 'taken')).applied).toBe(true);
  });
});
