/** What the contract of metadata stores does not ask, because only SQLite has it: its file, and a database that is full. */
import { mkdtemp, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { openNodeSqlite } from '../../src/backends/metadata/records/node-sqlite.ts';
import { answerCalls, type GatewayCalls, remoteRecords } from '../../src/backends/metadata/records/remote.ts';
import { type Sql, sqliteStore } from '../../src/backends/metadata/records/sqlite.ts';
import type { RecordStore } from '../../src/backends/metadata/records/store.ts';
import { StorageFull } from '../../src/ports/chunk-store.ts';
import { systemClock } from '../../src/ports/clock.ts';
import { type Revision, StoreUnavailable } from '../../src/ports/metadata-store.ts';
import { systemRandom } from '../../src/ports/random.ts';
import { contractTables, head, headsOf, tallies, talliesOf } from './metadata-store/tables.ts';

let directory: string;
let sql: Sql;
let store: RecordStore;
const path = () => join(directory, 'metadata.sqlite');
const open = (): void => {
  sql = openNodeSqlite({ path: path(), durable: false });
  store = sqliteStore(sql, { clock: systemClock, random: systemRandom() });
};
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'sqlite.store-'));
  open();
});
afterEach(async () => {
  await store.close();
  await rm(directory, { recursive: true, force: true });
});

const put = (key: string, bytes = 0) =>
  store.commit(
    headsOf('b'),
    [{ put: head('b', key, { manifest: new Uint8Array(bytes) }), expect: 'absent' }],
    {
      then: [{ at: talliesOf('b'), add: { className: 'c' }, by: { objects: 1 } }],
    },
  );
const revisionOf = async (key: string): Promise<Revision | undefined> =>
  (await store.get(headsOf('b'), { key, slot: '~' }))?.revision;

test('a commit that meets a full database changes nothing, and deletions and later commits apply', async () => {
  await put('first');
  for (const _ of sql.exec('PRAGMA max_page_count = 40'));
  const keys = Array.from({ length: 40 }, (_, index) => `k${index}`);
  const applied: string[] = [];
  for (const key of keys) {
    const outcome = await put(key, 8_000).catch((cause: unknown) => cause);
    if (outcome instanceof StoreUnavailable) continue;
    expect(outcome).toMatchObject({ applied: true });
    applied.push(key);
  }
  expect(applied.length).toBeGreaterThan(2);
  expect(applied.length).toBeLessThan(40);
  const rows = await store.scan(headsOf('b')).next(100);
  expect(rows.map(({ row }) => row.key).sort()).toEqual(['first', ...applied].sort());
  // The counter is changed with the head or not at all.
  expect((await store.get(talliesOf('b'), { className: 'c' }))?.row.objects).toBe(rows.length);
  const removed = await Promise.all(
    applied.slice(-3).map(async (key) => ({
      remove: { key, slot: '~' },
      expect: (await revisionOf(key)) as Revision,
    })),
  );
  // Together with a write that is refused, and so in one transaction at first.
  const [refused, deletion] = await Promise.allSettled([
    put('large', 23_000),
    store.commit(headsOf('b'), removed),
  ]);
  expect(deletion).toMatchObject({ value: { applied: true } });
  expect(refused).toMatchObject({ status: 'rejected' });
  expect(await put('after')).toMatchObject({ applied: true });
});

test('above its size the store refuses writes as a full disk does, also over calls, and takes deletions', async () => {
  await put('first');
  const small = sqliteStore(sql, {
    clock: systemClock,
    random: systemRandom(),
    bytesMax: sql.usedBytes() + 100_000,
  });
  const answer = answerCalls(small, contractTables);
  // Errors lose their class on their way.
  const send = (name: keyof GatewayCalls, args: readonly unknown[]): Promise<unknown> =>
    answer(name, args).catch((cause: unknown) => {
      throw new Error(String(cause));
    });
  const remote = remoteRecords(send, { clock: systemClock, random: systemRandom(), intentTtlMs: 60_000 });
  const putSmall = (key: string) =>
    remote.commit(headsOf('b'), [
      { put: head('b', key, { manifest: new Uint8Array(8_000) }), expect: 'absent' },
    ]);
  const applied: string[] = [];
  let refusal: unknown;
  for (let turn = 0; turn < 40 && refusal === undefined; turn += 1)
    await putSmall(`k${turn}`).then(
      () => applied.push(`k${turn}`),
      (cause: unknown) => {
        refusal = cause;
      },
    );
  expect(refusal).toBeInstanceOf(StorageFull);
  // A lease of a worker that frees space, for example.
  const freeing = await remote.commit(headsOf('b'), [{ put: head('b', 'lease'), expect: 'absent' }], {
    frees: true,
  });
  expect(freeing).toMatchObject({ applied: true });
  for (const key of applied)
    expect(
      await remote.commit(headsOf('b'), [
        { remove: { key, slot: '~' }, expect: (await revisionOf(key)) as Revision },
      ]),
    ).toMatchObject({ applied: true });
  expect(await putSmall('after')).toMatchObject({ applied: true });
});

test('no revision is given twice, whether a transaction failed or the file was opened again', async () => {
  const seen: (Revision | undefined)[] = [];
  for (let opening = 0; opening < 3; opening += 1) {
    const [key, later] = [`k${opening}`, `later${opening}`];
    const { transact } = sql;
    let isFailing = true;
    // The commit that reserves a block of revisions fails.
    Object.assign(sql, {
      transact: <Result>(work: () => Result) =>
        transact(() => {
          const result = work();
          if (isFailing) throw new Error('the disk is full');
          return result;
        }),
    });
    await expect(put(key)).rejects.toThrow('the metadata store refused a transaction');
    isFailing = false;
    const other = sqliteStore(openNodeSqlite({ path: path(), durable: false }), {
      clock: systemClock,
      random: systemRandom(),
    });
    const here = await put(key);
    const there = await Promise.all(
      ['x', 'y'].map((x) => other.commit(headsOf('b'), [{ put: head('b', later + x), expect: 'absent' }])),
    );
    for (const outcome of [here, ...there]) seen.push(outcome.applied ? outcome.revision : undefined);
    await other.close();
    await store.close();
    open();
  }
  expect(seen).not.toContain(undefined);
  expect(new Set(seen).size).toBe(9);
});

test('the file is readable by its owner only', async () => {
  await put('k');
  expect((await stat(path())).mode & 0o077).toBe(0);
  expect((await stat(`${path()}-wal`)).mode & 0o077).toBe(0);
});

test('entries of another store apply together or not at all, so that one that is sent again is not added twice', async () => {
  const names = ['soundly', 'damaged'] as const;
  for (const name of names)
    await store.apply([{ at: talliesOf(name), add: { className: 'c' }, by: { objects: 1 } }]);
  const keys = [...sql.exec('SELECT key FROM entries')].map(({ key }) => Buffer.from(key as Uint8Array));
  const keyOf = (name: string): Uint8Array => keys.find((key) => key.includes(name)) as Uint8Array;
  const [{ value } = {}] = [...sql.exec('SELECT value FROM entries WHERE key = ?', keyOf('damaged'))];
  for (const _ of sql.exec("UPDATE entries SET value = x'96' WHERE key = ?", keyOf('damaged')));
  const entries = names.map((name, index) => ({
    number: index + 1,
    changes: [{ table: tallies.name, key: keyOf(name), by: { objects: 1 } }],
  }));
  const receive = () => store.receive(1, entries, () => tallies);
  for (let turn = 0; turn < 2; turn += 1) await expect(receive()).rejects.toThrow();
  for (const _ of sql.exec(
    'UPDATE entries SET value = ? WHERE key = ?',
    value as Uint8Array,
    keyOf('damaged'),
  ));
  for (let turn = 0; turn < 2; turn += 1) await receive();
  for (const name of names)
    expect((await store.get(talliesOf(name), { className: 'c' }))?.row.objects).toBe(2);
});
