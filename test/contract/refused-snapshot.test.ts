/** The embedded store when lmdb refuses a transaction, as it does while another process opens the file. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { RootDatabase } from 'lmdb';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { type EmbeddedStore, embeddedStore } from '../../src/backends/metadata/embedded/store.ts';
import { systemClock } from '../../src/ports/clock.ts';
import { systemRandom } from '../../src/ports/random.ts';
import { all, head, headsOf, holders } from './metadata-store/tables.ts';

/** The real database beneath the store. */
let raw: RootDatabase;
vi.mock('lmdb', async (original) => {
  const lmdb = await original<typeof import('lmdb')>();
  const open = (options: never): RootDatabase => {
    raw = lmdb.open(options) as RootDatabase;
    return raw;
  };
  return { ...lmdb, open };
});

const refusal = (code: number): Error => Object.assign(new Error('MDB_BAD_TXN'), { code });
const badTransaction = -30782;

let directory = '';
let store: EmbeddedStore;
let refusals: unknown[] = [];
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'refused-'));
  refusals = [];
  store = embeddedStore({
    directory,
    clock: systemClock,
    random: systemRandom(),
    durable: false,
    onRefused: (cause) => refusals.push(cause),
  });
  for (const key of ['a', 'b', 'c'])
    await store.commit(headsOf('b'), [{ put: head('b', key), expect: 'absent' }]);
});
afterEach(async () => {
  vi.restoreAllMocks();
  await store.close();
  await rm(directory, { recursive: true, force: true });
});

const read = () => store.get(headsOf('b'), { key: 'b', slot: '~' }).then((stored) => stored?.row);
/** Makes the next `count` calls of a method of the database fail. */
function refuse(method: 'get' | 'getRange' | 'transaction', count: number): void {
  const spy = vi.spyOn(raw, method as 'get');
  for (let n = 0; n < count; n += 1)
    spy.mockImplementationOnce(() => {
      throw refusal(badTransaction);
    });
}

describe('a transaction that lmdb refuses with MDB_BAD_TXN', () => {
  it('is begun again for a look-up, a listing and a commit', async () => {
    const expected = await read();
    expect(expected?.key).toBe('b');
    refuse('get', 1);
    expect(await read()).toEqual(expected);
    refuse('getRange', 1);
    expect((await all(store.scan(headsOf('b')))).map(({ key }) => key)).toEqual(['a', 'b', 'c']);
    refuse('transaction', 1);
    const outcome = await store.commit(headsOf('b'), [{ put: head('b', 'd'), expect: 'absent' }]);
    expect(outcome).toMatchObject({ applied: true });
    expect(await all(store.scan(headsOf('b')))).toHaveLength(4);
    // Each refusal is logged.
    expect(refusals).toHaveLength(3);
  });

  it('is no damage where the row was written between the refused snapshot and the new one', async () => {
    const expected = await read();
    // The old snapshot does not have the row, and lmdb refuses it when the neighbours of the row are read.
    vi.spyOn(raw, 'get').mockImplementationOnce(() => undefined);
    refuse('getRange', 1);
    expect(await read()).toEqual(expected);
  });

  it('is no damage where a scan began without the row that the new snapshot has', async () => {
    const holder = { table: holders, in: { name: 'h' } };
    await store.commit(holder, [{ put: { name: 'h', holder: 'one' }, expect: 'absent' }]);
    const spy = vi.spyOn(raw, 'getRange');
    spy.mockImplementationOnce(() => [] as never);
    spy.mockImplementationOnce(() => {
      throw refusal(badTransaction);
    });
    expect(await all(store.scan(holder))).toEqual([{ name: 'h', holder: 'one' }]);
  });

  it('is an error the second time, and not an absent row', async () => {
    refuse('get', 2);
    await expect(read()).rejects.toThrow('MDB_BAD_TXN');
    refuse('getRange', 2);
    await expect(all(store.scan(headsOf('b')))).rejects.toThrow('MDB_BAD_TXN');
    refuse('transaction', 2);
    const late = store.commit(headsOf('b'), [{ put: head('b', 'd'), expect: 'absent' }]);
    await expect(late).rejects.toThrow('could not commit');
    expect(await all(store.scan(headsOf('b')))).toHaveLength(3);
  });
});
