/** Properties of the embedded backend alone: its files, its epochs, its start and its end. */
import { mkdtemp, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { open } from 'lmdb';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { DiskSpace } from '../../src/backends/disk-space.ts';
import { type EmbeddedStore, embeddedStore } from '../../src/backends/metadata/embedded/store.ts';
import { StorageFull } from '../../src/ports/chunk-store.ts';
import { blob, optional, table, text } from '../../src/ports/metadata-store.ts';
import { systemRandom } from '../../src/ports/random.ts';
import { frozenClock } from '../support/frozen-clock.ts';
import { all, head, headColumns, heads, headsOf, ranksOf } from './metadata-store/tables.ts';
import { changeByTurns } from './metadata-store/two-releases.ts';

const ttl = 60_000;
let directory = '';
const clock = frozenClock();
const openStore = (): EmbeddedStore =>
  embeddedStore({ directory, clock, random: systemRandom(), durable: true, intentTtlMs: ttl });

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'embedded.v1-'));
  clock.time = Date.UTC(2026, 0, 1);
});
afterEach(() => rm(directory, { recursive: true, force: true }));

/** The first bytes of all keys in the file of a closed store. */
async function leftBehind(): Promise<number[]> {
  const database = open<unknown, Uint8Array>({ path: directory, noSubdir: false, keyEncoding: 'binary' });
  const kinds = [...database.getKeys({ start: Uint8Array.of(0) })].map((key) => key[0] as number);
  await database.close();
  return kinds;
}
const catalog = 1;
const fence = 2;
const epoch = 3;

describe('an embedded store', () => {
  it('on a full disk commits only what frees space, so that nothing else spends the reserve', async () => {
    const full = new StorageFull('the disk is full');
    let isFull = false;
    // The cast: what is missing is asked only where a transaction fails.
    const room = { shortage: () => (isFull ? full : undefined), spend() {} } as unknown as DiskSpace;
    const store = embeddedStore({ directory, clock, random: systemRandom(), durable: true, space: room });
    const put = (key: string) => [{ put: head('b', key), expect: 'absent' }] as const;
    const first = await store.commit(headsOf('b'), put('key'));
    if (!first.applied) throw new Error('nothing was committed');
    isFull = true;
    await expect(store.commit(headsOf('b'), put('other'))).rejects.toBe(full);
    // The heartbeat of a worker that frees space.
    expect(await store.commit(headsOf('b'), put('third'), { frees: true })).toMatchObject({ applied: true });
    const { key, slot } = head('b', 'key');
    const removal = [{ remove: { key, slot }, expect: first.revision }] as const;
    expect(await store.commit(headsOf('b'), removal)).toMatchObject({ applied: true });
    await store.close();
  });

  it('leaves the event loop to other work during a long scan', async () => {
    // Each look at the clock takes 6 ms of the scan.
    const slow = { ...clock, elapsed: () => (elapsed += 6) };
    let elapsed = 0;
    const store = embeddedStore({ directory, clock: slow, random: systemRandom(), durable: true });
    for (let i = 0; i < 20; i += 1)
      await store.commit(headsOf('b'), [{ put: head('b', `k${i}`), expect: 'absent' }]);
    let turns = 0;
    const count = (): void => {
      turns += 1;
      other = setImmediate(count);
    };
    let other = setImmediate(count);
    const cursor = store.scan(headsOf('b'));
    let rows = 0;
    for (let page = await cursor.next(1); page.length > 0; page = await cursor.next(1)) rows += page.length;
    clearImmediate(other);
    expect(rows).toBe(20);
    expect(turns).toBeGreaterThan(5);
    await store.close();
  });

  it('keeps rows, fences and barred ops over a restart, with dots in its path', async () => {
    const first = openStore();
    const op = await first.begin({ cluster: 'c' });
    await first.commit(headsOf('b'), [{ put: head('b', 'k'), expect: 'absent' }]);
    await first.raiseFence(headsOf('b'), 4);
    await first.abort(op.id);
    await first.close();
    const second = openStore();
    expect(await all(second.scan(headsOf('b')))).toEqual([head('b', 'k')]);
    expect(await second.fence(headsOf('b'))).toBe(4);
    const late = await second.commit(headsOf('b', 4), [{ put: head('b', 'l'), expect: 'absent' }], { op });
    expect(late).toEqual({ applied: false, because: 'abandoned' });
    await second.close();
  });

  it('stores the fence of a partition with the first commit that states one, so that later ones find it', async () => {
    const store = openStore();
    await store.commit(headsOf('a'), [{ put: head('a', 'k'), expect: 'absent' }]);
    await store.commit(headsOf('b', 0), [{ put: head('b', 'k'), expect: 'absent' }]);
    await store.commit(headsOf('b', 0), [{ put: head('b', 'l'), expect: 'absent' }]);
    expect(await store.fence(headsOf('b'))).toBe(0);
    await store.close();
    expect((await leftBehind()).filter((kind) => kind === fence)).toHaveLength(1);
  });

  it('is read and changed by a former release, which leaves out the columns that it does not know', async () => {
    const [first, second] = [openStore(), openStore()];
    try {
      expect(await changeByTurns({ later: first, former: second })).toBeUndefined();
    } finally {
      await Promise.all([first.close(), second.close()]);
    }
  });

  it('finds what its former self left, once the lease has run out', async () => {
    const former = openStore();
    const op = await former.begin({ cluster: 'c' });
    await former.close();
    const store = openStore();
    expect(await store.abandoned()).toEqual([]);
    clock.time += ttl;
    const found = await store.abandoned();
    expect(found.map(({ prefix }) => op.id.startsWith(prefix))).toEqual([true]);
    const late = await store.commit(headsOf('b'), [{ put: head('b', 'k'), expect: 'absent' }], { op });
    expect(late).toEqual({ applied: false, because: 'abandoned' });
    await store.close();
  });

  it('leaves no trace of ops that ended, nor of rows that expired', async () => {
    const store = openStore();
    const op = await store.begin({ cluster: 'c' });
    const put = { put: { board: 'b', score: 1, name: 'n' }, expect: 'any' as const };
    await store.commit(ranksOf('b'), [{ ...put, expiresAt: clock.time + 1000 }]);
    await store.commit(ranksOf('b'), [{ ...put, expiresAt: clock.time + 2000 }]);
    await store.end(op);
    clock.time += 2000;
    await store.maintain();
    await store.close();
    // Two rows stay: the format of the file, and the layout of the table.
    expect(await leftBehind()).toEqual([catalog, catalog]);
  });

  it('keeps a row that was put again when its first expiry is swept', async () => {
    const store = openStore();
    const put = { put: { board: 'b', score: 1, name: 'n' }, expect: 'any' as const };
    await store.commit(ranksOf('b'), [{ ...put, expiresAt: clock.time + 1000 }]);
    await store.commit(ranksOf('b'), [put]);
    clock.time += 5000;
    await store.maintain();
    expect(await all(store.scan(ranksOf('b')))).toEqual([put.put]);
    await store.close();
  });

  it('begins and ends without touching its file', async () => {
    const store = openStore();
    await store.end(await store.begin({ cluster: 'c' }));
    const before = (await stat(join(directory, 'data.mdb'))).mtimeMs;
    for (let count = 0; count < 1000; count++) await store.end(await store.begin({ cluster: 'c' }));
    expect((await stat(join(directory, 'data.mdb'))).mtimeMs).toBe(before);
    await store.close();
  });

  it('starts new epochs by count and by time, and removes those that are done', async () => {
    const store = openStore();
    const held = await store.begin({ cluster: 'c' });
    const epochs = new Set<string>();
    for (let count = 0; count < 9000; count++) {
      const op = await store.begin({ cluster: 'c' });
      epochs.add(op.id.slice(0, op.id.indexOf('.')));
      await store.end(op);
    }
    expect(epochs.size).toBeGreaterThanOrEqual(3);
    clock.time += 61_000 - ttl;
    await store.maintain();
    clock.time += ttl - 1;
    await store.maintain();
    const later = await store.begin({ cluster: 'c' });
    expect(epochs.has(later.id.slice(0, later.id.indexOf('.')))).toBe(false);
    // The epoch of the op that is still open was not removed.
    const put = { put: head('b', 'k'), expect: 'absent' as const };
    expect(await store.commit(headsOf('b'), [put], { op: held })).toMatchObject({ applied: true });
    await store.end(held);
    await store.end(later);
    await store.close();
    expect(await leftBehind()).not.toContain(epoch);
  });

  it('takes no begin from an epoch whose lease ran out unnoticed', async () => {
    const store = openStore();
    const old = await store.begin({ cluster: 'c' });
    clock.time += ttl + 1;
    const op = await store.begin({ cluster: 'c' });
    expect(op.id.slice(0, 17)).not.toBe(old.id.slice(0, 17));
    await store.abandoned();
    const put = { put: head('b', 'k'), expect: 'absent' as const };
    expect(await store.commit(headsOf('b'), [put], { op: old })).toMatchObject({ because: 'abandoned' });
    expect(await store.commit(headsOf('b'), [put], { op })).toMatchObject({ applied: true });
    await store.close();
  });

  it('finishes commits that were submitted before it closes, and refuses later ones', async () => {
    const store = openStore();
    const sent = Array.from({ length: 700 }, (_, index) =>
      store.commit(headsOf('b'), [{ put: head('b', `k${index}`), expect: 'absent' }]),
    );
    await Promise.all([store.close(), store.close()]);
    expect((await Promise.all(sent)).every((outcome) => outcome.applied)).toBe(true);
    await expect(store.get(headsOf('b'), { key: 'k', slot: '~' })).rejects.toThrow('closed');
    await expect(store.commit(headsOf('b'), [{ put: head('b', 'late'), expect: 'absent' }])).rejects.toThrow(
      'closed',
    );
    await expect(store.begin({ cluster: 'c' })).rejects.toThrow('closed');
    const again = openStore();
    expect(await all(again.scan(headsOf('b')), 200)).toHaveLength(700);
    await again.close();
  });

  it('grows with its rows', async () => {
    const store = embeddedStore({ directory, clock, random: systemRandom(), durable: false });
    const manifest = new Uint8Array(12_000).fill(7);
    const count = 4000;
    for (let index = 0; index < count; index += 100) {
      await Promise.all(
        Array.from({ length: 100 }, (_, offset) =>
          store.commit(headsOf('b'), [
            { put: head('b', `k${index + offset}`, { manifest }), expect: 'absent' },
          ]),
        ),
      );
    }
    expect((await stat(join(directory, 'data.mdb'))).size).toBeGreaterThan(count * 12_000);
    expect((await store.get(headsOf('b'), { key: 'k3999', slot: '~' }))?.row.manifest).toEqual(manifest);
    await store.close();
  });

  it('reads rows of an earlier release that had fewer columns, and refuses moved ones', async () => {
    const store = openStore();
    await store.commit(headsOf('b'), [{ put: head('b', 'k', { size: 3 }), expect: 'absent' }]);
    const { manifest: _, ...columns } = headColumns;
    const at = <T extends object>(declared: T) => ({ ...headsOf('b'), table: { ...heads, ...declared } });
    await store.close();

    const later = openStore();
    const grown = table({ ...heads, columns: { ...headColumns, added: optional(text()) } });
    const row = (await later.get({ table: grown, in: { bucket: 'b' } }, { key: 'k', slot: '~' }))?.row;
    expect(row).toEqual(head('b', 'k', { size: 3 }));
    const moved = at({ columns: { ...columns, between: text(), manifest: blob() } });
    await expect(later.get(moved as never, { key: 'k', slot: '~' } as never)).rejects.toThrow(
      'keeps heads as',
    );
    await later.close();
  });
});
