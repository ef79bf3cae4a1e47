/** The embedded store where damage hides a row, or leads a scan to rows of other partitions. */
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { open } from 'lmdb';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type EmbeddedStore, embeddedStore } from '../../src/backends/metadata/embedded/store.ts';
import { buildOrder } from '../../src/backends/metadata/key-order.ts';
import { MetadataDamaged } from '../../src/ports/metadata-store.ts';
import { systemRandom } from '../../src/ports/random.ts';
import { branchEntries, flipText, patchFile, zeroPage } from '../support/damage-metadata.ts';
import { frozenClock } from '../support/frozen-clock.ts';
import { all, head, headsOf, putHeads, ranks, ranksOf, talliesOf } from './metadata-store/tables.ts';

let directory = '';
const found: MetadataDamaged[] = [];
const clock = frozenClock();
const dataFile = (): string => join(directory, 'data.mdb');

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'damaged-'));
  clock.time = Date.UTC(2026, 0, 1);
  found.length = 0;
});
afterEach(() => rm(directory, { recursive: true, force: true }));

async function withStore<T>(work: (store: EmbeddedStore) => Promise<T>): Promise<T> {
  const onDamage = (damage: MetadataDamaged): void => void found.push(damage);
  const store = embeddedStore({ directory, clock, random: systemRandom(), durable: false, onDamage });
  try {
    return await work(store);
  } finally {
    await store.close();
  }
}

const ranked = (board: string, index: number, note?: string) => ({
  board,
  score: 1,
  name: `n-${1000 + index}`,
  ...(note === undefined ? {} : { note }),
});
const boards = ['a', 'b', 'c'];
const rowsPerBoard = 400;
/** Writes enough rows that the tree has several leaves for each board. */
const fillBoards = () =>
  withStore(async (store) => {
    for (const board of boards)
      await Promise.all(
        Array.from({ length: rowsPerBoard }, (_, index) =>
          store.commit(ranksOf(board), [{ put: ranked(board, index), expect: 'any' }]),
        ),
      );
  });
const isOf = (board: string, key: Uint8Array): boolean =>
  Buffer.from(key).toString('latin1').startsWith(`ranks\0${board}\0`);
const countOf = async (store: EmbeddedStore, board: string): Promise<number> =>
  (await all(store.scan(ranksOf(board)))).length;

describe('clear of a partition in a damaged file', () => {
  it('removes no row of another partition where a branch page names a page of that', async () => {
    await fillBoards();
    await patchFile(dataFile(), (bytes) => {
      const entries = branchEntries(bytes);
      const own = entries.filter(({ key }) => isOf('b', key));
      const other = entries.filter(({ key }) => isOf('a', key));
      expect([own.length, other.length].every((count) => count >= 2)).toBe(true);
      bytes.writeUInt32LE(other[1]?.page ?? 0, own[1]?.at);
    });
    await withStore(async (store) => {
      await expect(store.clear(ranksOf('b'), {})).rejects.toThrow(MetadataDamaged);
      expect(await countOf(store, 'a')).toBe(rowsPerBoard);
      expect(await countOf(store, 'c')).toBe(rowsPerBoard);
    });
  });

  it('reports a row that it cannot remove because a flipped key of a branch page hides it from look-ups', async () => {
    await fillBoards();
    await patchFile(dataFile(), (bytes) => {
      const entry = branchEntries(bytes).filter(({ key }) => isOf('b', key))[0];
      // The changed key sorts after the first rows of its page, and before the next page.
      const last = Buffer.from(entry?.key ?? '').lastIndexOf('n-1') + 4;
      const at = (entry?.keyAt ?? 0) + last;
      bytes[at] = (bytes[at] as number) + 1;
    });
    await withStore((store) => expect(store.clear(ranksOf('b'), {})).rejects.toThrow(MetadataDamaged));
  });
});

describe('a commit that meets a damaged page', () => {
  /** The number of a row of board c whose page holds no rows of board b. */
  const firstSound = 300;
  const sound = (store: EmbeddedStore, index: number) =>
    store.commit(ranksOf('c'), [{ put: ranked('c', firstSound + index, 'new'), expect: 'any' }]);

  it.each([
    [
      'reads',
      (store: EmbeddedStore) => store.commit(headsOf('b'), [{ put: head('b', 'k-200'), expect: 'absent' }]),
    ],
    [
      'writes',
      (store: EmbeddedStore) => store.commit(ranksOf('b'), [{ put: ranked('b', 200, 'new'), expect: 'any' }]),
    ],
    ['removes', (store: EmbeddedStore) => store.clear(ranksOf('b'), {})],
  ])('and %s it is refused alone: commits of the same moment are applied', async (_, damaged) => {
    await fillBoards();
    await withStore((store) =>
      putHeads(
        store,
        Array.from({ length: rowsPerBoard }, (_, index) => head('b', `k-${index}`)),
      ),
    );
    await patchFile(dataFile(), (bytes) => {
      // Point every branch entry of board b and of the heads to a page number behind the end of the file.
      const isDamaged = (key: Uint8Array): boolean => isOf('b', key) || key[0] === 'h'.charCodeAt(0);
      for (const { key, at } of branchEntries(bytes)) if (isDamaged(key)) bytes.writeUInt32LE(1 << 20, at);
    });
    await withStore(async (store) => {
      // The first commit runs alone; the others share one transaction.
      const works = [
        sound(store, 0),
        sound(store, 1),
        damaged(store),
        sound(store, 2),
        damaged(store),
        sound(store, 3),
      ];
      const outcomes = await Promise.allSettled<unknown>(works);
      expect(outcomes.map((each) => (each.status === 'rejected' ? each.reason : each.value))).toEqual([
        expect.objectContaining({ applied: true }),
        expect.objectContaining({ applied: true }),
        expect.any(MetadataDamaged),
        expect.objectContaining({ applied: true }),
        expect.any(MetadataDamaged),
        expect.objectContaining({ applied: true }),
      ]);
      const range = { from: { score: 1, name: ranked('c', firstSound).name } };
      const notes = (await all(store.scan(ranksOf('c'), range))).map(({ note }) => note);
      expect(notes.slice(0, 5)).toEqual(['new', 'new', 'new', 'new', undefined]);
    });
  });
});

describe('a row that a flipped bit in its key hides', () => {
  const flipped = (text: string) => flipText(dataFile(), text);

  it('is no absent row to a commit that expects one', async () => {
    await withStore((store) =>
      store.commit(headsOf('b'), [{ put: head('b', 'photo-27'), expect: 'absent' }]),
    );
    await flipped('photo-27\0');
    await withStore(async (store) => {
      const commit = store.commit(headsOf('b'), [{ put: head('b', 'photo-27'), expect: 'absent' }]);
      await expect(commit).rejects.toThrow(MetadataDamaged);
    });
  });

  it.each([
    ['behind', 'fenced'],
    ['ahead of', 'fencef'],
  ])('is no fence of generation 0 where it is a fence that now lies %s its place', async (_, bucket) => {
    await withStore(async (store) => {
      await store.commit(headsOf('b'), [{ put: head('b', 'k'), expect: 'absent' }]);
      await store.raiseFence(headsOf(bucket), 4);
    });
    await flipped(`${bucket}\0`);
    await withStore(async (store) => {
      await expect(store.fence(headsOf(bucket))).rejects.toThrow(MetadataDamaged);
      const stale = store.commit(headsOf(bucket, 0), [{ put: head(bucket, 'k'), expect: 'absent' }]);
      await expect(stale).rejects.toThrow(MetadataDamaged);
      await expect(store.raiseFence(headsOf(bucket), 1)).rejects.toThrow(MetadataDamaged);
    });
  });

  it('is no ended op where it holds the ops of a killed process', async () => {
    const op = await withStore((store) => store.begin({ cluster: 'c' }));
    await flipped(op.id.slice(0, op.id.lastIndexOf('.')));
    await withStore((store) => expect(store.isOpen(op.id)).rejects.toThrow(MetadataDamaged));
  });
});

it('a commit that adds to a damaged counter applies nothing', async () => {
  const counted = { at: talliesOf('b'), add: { className: 'counted' }, by: { bytes: 1, objects: 1 } };
  await withStore(async (store) => {
    // These rows sort between the rows of the commit below and the damaged counter, so that proofs of absence do not read the counter.
    await store.commit(headsOf('z'), [{ put: head('z', 'k'), expect: 'absent' }]);
    await store.commit(ranksOf('z'), [{ put: ranked('z', 1), expect: 'any' }]);
    await store.apply([counted]);
  });
  await flipText(dataFile(), 'counted\0');
  await withStore(async (store) => {
    const other = { at: ranksOf('a'), put: ranked('a', 1) };
    const change = { put: head('b', 'k'), expect: 'absent' as const };
    const commit = store.commit(headsOf('b'), [change], { then: [other, counted] });
    await expect(commit).rejects.toThrow(MetadataDamaged);
    await expect(store.apply([other, counted])).rejects.toThrow(MetadataDamaged);
    expect(await store.get(headsOf('b'), { key: 'k', slot: '~' })).toBeUndefined();
    expect(await countOf(store, 'a')).toBe(0);
  });
});

it('a process whose own epoch row is damaged uses another epoch after its next renewal', async () => {
  await withStore(async (store) => {
    let commits = 0;
    const commit = (id: string) =>
      store.commit(headsOf('b'), [{ put: head('b', `k-${commits++}`), expect: 'absent' }], { op: { id } });
    const op = await store.begin({ cluster: 'c' });
    expect(await commit(op.id)).toMatchObject({ applied: true });
    await flipText(dataFile(), op.id.slice(0, op.id.lastIndexOf('.')));
    await expect(commit(op.id)).rejects.toThrow(MetadataDamaged);
    await store.maintain();
    expect(await commit((await store.begin({ cluster: 'c' })).id)).toMatchObject({ applied: true });
  });
});

describe('a damaged row with an expiry', () => {
  /** The number of expiry entries that are left in the file. */
  async function entriesLeft(): Promise<number> {
    const database = open<unknown, Uint8Array>({ path: directory, noSubdir: false, keyEncoding: 'binary' });
    const entries = [...database.getKeys({ start: Uint8Array.of(4), end: Uint8Array.of(5) })];
    await database.close();
    return entries.length;
  }
  const rows = 600;

  it('is reported once, and the sweep removes the rows behind it', async () => {
    await withStore((store) =>
      Promise.all(
        Array.from({ length: rows }, (_, index) =>
          store.commit(ranksOf('a'), [
            { put: ranked('a', index, `note-${1000 + index}`), expect: 'any', expiresAt: clock.time + index },
          ]),
        ),
      ),
    );
    clock.time += rows;
    await flipText(dataFile(), 'note-1002');
    await withStore(async (store) => {
      await store.maintain();
      await store.maintain();
      expect(found.map(({ table, row }) => [table, row.includes('n-1002')])).toEqual([['ranks', true]]);
    });
    expect(await entriesLeft()).toBe(1);
  });
});

describe('a page that fsck has found damaged', () => {
  const longRows = 1_500;
  const note = 'x'.repeat(900);
  const nameOf = (index: number): string => ranked('b', index).name;
  /** Three rows a page, so that there are branch pages below the root. Every tenth row expires at once. */
  const fillLong = () =>
    withStore(async (store) => {
      for (const board of boards)
        await Promise.all(
          Array.from({ length: board === 'b' ? longRows : 10 }, (_, index) =>
            store.commit(ranksOf(board), [
              {
                put: ranked(board, index, note),
                expect: 'any',
                ...(index % 10 === 0 ? { expiresAt: clock.time + 1 } : {}),
              },
            ]),
          ),
        );
    });
  const rowKey = (index: number): Uint8Array => buildOrder(ranks).rowKey({ board: 'b' }, ranked('b', index));
  const verify = async (store: EmbeddedStore): Promise<string[]> => {
    const details: string[] = [];
    for await (const faults of store.verify?.([ranks]) ?? [])
      details.push(...faults.map(({ detail }) => detail));
    return details;
  };
  /** All rows of a scan that continues after each damaged range. */
  async function soundRows(
    store: EmbeddedStore,
  ): Promise<{ readonly names: string[]; readonly damages: number }> {
    const cursor = store.scan(ranksOf('b'));
    const names: string[] = [];
    for (let damages = 0; ; ) {
      try {
        const rows = await cursor.next(7);
        if (rows.length === 0) return { names, damages };
        names.push(...rows.map(({ row }) => row.name));
      } catch (cause) {
        expect(cause).toBeInstanceOf(MetadataDamaged);
        damages += 1;
      }
    }
  }

  it.each([
    ['leaf', [700]],
    ['branch', [700]],
    ['leaf', [700, 703, 900]],
  ] as const)(
    'a zeroed %s page with row %j costs its own rows: the others are scanned, read, written and swept',
    async (kind, indexes) => {
      await fillLong();
      for (const index of indexes) await zeroPage(dataFile(), rowKey(index), kind);
      clock.time += 2;
      await withStore(async (store) => {
        expect((await verify(store)).some((detail) => detail.includes('cannot be read'))).toBe(true);
      });
      // The next process reads what that one has found.
      await withStore(async (store) => {
        await store.maintain();
        const { names, damages } = await soundRows(store);
        expect(damages).toBeGreaterThan(0);
        const expired = longRows / 10;
        const lost = longRows - expired - names.length;
        expect(lost).toBeGreaterThan(0);
        expect(lost).toBeLessThan(kind === 'leaf' ? 5 * indexes.length : longRows / 3);
        for (let index = 1; index < longRows; index += 7) {
          if (index % 10 === 0) continue;
          const found = store.get(ranksOf('b'), { score: 1, name: nameOf(index) });
          if (names.includes(nameOf(index))) expect(await found).toBeDefined();
          else await expect(found).rejects.toThrow(MetadataDamaged);
        }
        // Deletions everywhere: lmdb would merge the pages on either side with the damaged one.
        let refused = 0;
        for (const name of names) {
          const removal = store.commit(ranksOf('b'), [{ remove: { score: 1, name }, expect: 'any' }]);
          await removal.catch((cause: unknown) => {
            expect(cause).toBeInstanceOf(MetadataDamaged);
            refused += 1;
          });
        }
        expect(refused).toBeGreaterThan(0);
        expect(refused).toBeLessThan(20 * indexes.length);
        expect((await soundRows(store)).names).toHaveLength(refused);
        await expect(store.clear(ranksOf('b'), {})).rejects.toThrow(MetadataDamaged);
        for (const board of ['a', 'c']) expect(await countOf(store, board)).toBe(9);
        await store.maintain();
        expect((await verify(store)).filter((detail) => detail.includes('cannot be read'))).toHaveLength(
          indexes.length,
        );
      });
    },
  );

  it('is read again after its content was restored', async () => {
    await fillLong();
    const before = await readFile(dataFile());
    await zeroPage(dataFile(), rowKey(700), 'leaf');
    await withStore(verify);
    await withStore((store) =>
      expect(store.get(ranksOf('b'), { score: 1, name: nameOf(700) })).rejects.toThrow(MetadataDamaged),
    );
    await patchFile(dataFile(), (bytes) => void before.copy(bytes, 8192, 8192));
    await withStore(async (store) => {
      expect(await countOf(store, 'b')).toBe(longRows);
      const removed = store.commit(ranksOf('b'), [
        { remove: { score: 1, name: nameOf(700) }, expect: 'any' },
      ]);
      expect(await removed).toMatchObject({ applied: true });
    });
  });
});
