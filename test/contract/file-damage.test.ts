/** Damaged files of the file store: a wrong byte is never read. */
import fs from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { type Disk, nodeDisk } from '../../src/backends/data/file/disk.ts';
import type { ChunkRef, ChunkStore } from '../../src/ports/chunk-store.ts';
import { systemClock } from '../../src/ports/clock.ts';
import { ChunkDamaged, ChunkMissing, DataUnavailable } from '../../src/ports/object-bytes.ts';
import { expectIntact, idsOf, listAll, owner, put, readWhole, whole } from './chunk-store.ts';
import { compactAll, type FileFixture, fileFixture, filesIn, refusedBy } from './file-fixture.ts';

let fixture: FileFixture;
let store: ChunkStore;
beforeEach(async () => {
  fixture = await fileFixture();
  store = fixture.store;
});
afterEach(() => fixture.dispose());

const dataFiles = async (): Promise<string[]> =>
  (await filesIn(fixture.directory)).filter((path) => path.endsWith('.seg') || path.includes('/large/'));

async function putVarious(): Promise<ChunkRef[]> {
  const chunks: ChunkRef[] = [];
  for (const [at, size] of [100, 70_000, 1, 262_144, 4096, 300_000, 5000].entries()) {
    chunks.push(await put(store, `v${at}.0`, size));
  }
  return chunks;
}

describe('damage', () => {
  /** Chunks in both forms of a segment: as written, or as packed. */
  async function damageable(isPacked: boolean): Promise<ChunkRef[]> {
    const chunks = await putVarious();
    if (!isPacked) return chunks;
    const dead = await Promise.all(Array.from({ length: 10 }, (_, n) => put(store, `dead${n}.0`, 100)));
    await store.remove(dead);
    await compactAll(store);
    return chunks;
  }

  test.each([false, true])('a byte flipped anywhere is never read (packed: %s)', async (isPacked) => {
    const chunks = await damageable(isPacked);
    const files = await dataFiles();
    expect(files).toHaveLength(2);
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(...files),
        fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
        fc.integer({ min: 1, max: 255 }),
        async (path, where, mask) => {
          const content = fs.readFileSync(path);
          const position = Math.floor(where * content.length);
          const flip = (): void => {
            const fd = fs.openSync(path, 'r+');
            fs.writeSync(fd, Uint8Array.of((content[position] as number) ^ mask), 0, 1, position);
            fs.closeSync(fd);
          };
          flip();
          const reader = fixture.reopen();
          try {
            const refused = await refusedBy(reader, chunks);
            // A packed segment has a table, which every chunk needs, and unused bytes in its head, which no chunk needs.
            if (!isPacked || path.includes('/large/')) expect(refused).toHaveLength(1);
            await listAll(reader).catch((error: unknown) => expect(error).toBeInstanceOf(ChunkDamaged));
          } finally {
            await reader.close();
            fs.writeFileSync(path, content);
          }
        },
      ),
      { numRuns: 60 },
    );
    expect(await refusedBy(fixture.reopen(), chunks)).toEqual([]);
  });

  test('a file truncated anywhere never returns a wrong byte, and chunks before the cut are readable', async () => {
    const chunks = await putVarious();
    await store.close();
    for (const path of await dataFiles()) {
      const content = fs.readFileSync(path);
      for (const share of [0, 0.3, 0.6, 0.95, 0.99999]) {
        fs.truncateSync(path, Math.floor(content.length * share));
        const reader = fixture.reopen();
        expect(await refusedBy(reader, chunks)).not.toEqual([]);
        const listed = (await listAll(reader)).filter((chunk) => chunk.owner.bucketId !== '');
        expect(await refusedBy(reader, listed)).toEqual([]);
        await reader.close();
        fs.writeFileSync(path, content);
      }
    }
  });

  test('records behind a damaged one are listed, and the segment is never packed', async () => {
    const chunks = await putVarious();
    await store.remove(chunks.slice(2));
    const [path = ''] = (await dataFiles()).filter((each) => each.endsWith('.seg'));
    const fd = fs.openSync(path, 'r+');
    fs.writeSync(fd, Buffer.from('x'), 0, 1, 1);
    fs.closeSync(fd);
    const size = fs.statSync(path).size;
    expect(idsOf(await listAll(store))).toEqual(['v1.0']);
    await compactAll(store);
    expect(fs.statSync(path).size).toBe(size);
    await expectIntact(store, chunks[1] as ChunkRef);
    expect((await fixture.reopen().health()).problems).toEqual(['1 segments hold unreadable records']);
  });

  test("another segment's records inside a client's object are no records", async () => {
    const elsewhere = fixture.reopen({ directory: join(fixture.directory, 'elsewhere') });
    await put(elsewhere, 'forged.0', 1000);
    const [path = ''] = await dataFiles();
    const forged = fs.readFileSync(path.includes('elsewhere') ? path : String((await dataFiles())[1]));
    const first = await put(store, 'first.0', 10);
    const source = (async function* () {
      yield forged;
    })();
    const outer = await store.write('outer.0', source, { owner });
    await put(store, 'after.0', 10);
    // The outer header is damaged, so the list must look for the next record: inside the outer content.
    const [segment, offset] = (outer.at ?? '').split('.');
    const fd = fs.openSync(join(fixture.directory, 'segments', `${segment}.seg`), 'r+');
    fs.writeSync(fd, Buffer.from('x'), 0, 1, Number.parseInt(offset ?? '', 36));
    fs.closeSync(fd);
    expect(idsOf(await listAll(store))).toEqual(['after.0', 'first.0']);
    expect(await refusedBy(store, [first, outer])).toEqual(['outer.0']);
  });

  test('a locator with a wrong position returns no bytes', async () => {
    const [a, b] = [await put(store, 'a.0', 100), await put(store, 'b.0', 100)];
    for (const at of [b.at, `${a.at}1`, a.at?.replace(/^./, 'v')]) {
      const read = readWhole(store.read({ ...a, ...(at && { at }) }, whole(a)));
      await expect(read).rejects.toSatisfy((e) => e instanceof ChunkDamaged || e instanceof ChunkMissing);
    }
    const outside = readWhole(store.read({ ...a, at: '../../etc/passwd.0.1' }, whole(a)));
    await expect(outside).rejects.toThrow("is not a chunk's place");
    await expect(put(store, '../escape', 10)).rejects.toThrow('cannot be named');
    await expect(put(store, '../escape', 1_000_000)).rejects.toThrow('cannot be named');
  });
});

describe('a file of the store that cannot be read', () => {
  /** The names of the segments, oldest first. */
  const segments = (): string[] =>
    fs
      .readdirSync(join(fixture.directory, 'segments'))
      .filter((name) => name.endsWith('.seg'))
      .toSorted();
  const pathOf = (name: string): string => join(fixture.directory, 'segments', name);
  const listUnreadable = async (from: ChunkStore): Promise<{ readable: string[]; unreadable: string[] }> => {
    const all = await listAll(from);
    const idsWhere = (isUnreadable: boolean) =>
      idsOf(all.filter((chunk) => (chunk.owner.unreadable === true) === isUnreadable));
    return { readable: idsWhere(false), unreadable: idsWhere(true) };
  };

  /** A packed segment with a damaged table, a sound segment, and a large file. */
  async function putBesideDamagedTable(): Promise<string> {
    const dead = await Promise.all(Array.from({ length: 4 }, (_, n) => put(store, `packed${n}.0`, 100)));
    await store.remove(dead.slice(1));
    await compactAll(store);
    const [packed = ''] = segments();
    const fd = fs.openSync(pathOf(packed), 'r+');
    const { size } = fs.fstatSync(fd);
    fs.writeSync(fd, Buffer.from('x'), 0, 1, size - 1);
    fs.closeSync(fd);
    await put(store, 'small.0', 100);
    await put(store, 'large.0', 300_000);
    return packed;
  }

  test('a packed segment whose table is damaged is listed as unreadable, and everything else is listed', async () => {
    const packed = await putBesideDamagedTable();
    const standIn = packed.replace('.seg', '.0');
    expect(await listUnreadable(store)).toEqual({
      readable: ['large.0', 'small.0'],
      unreadable: [standIn],
    });
    for (const id of ['small.0', 'large.0', standIn]) expect(idsOf(await listAll(store, id))).toEqual([id]);
    expect(await listAll(store, 'packed0.')).toEqual([]);
  });

  test('a packed segment whose table is damaged is not packed, and compactions go on', async () => {
    const packed = await putBesideDamagedTable();
    await store.remove([{ id: 'packed0.0', size: 100 }]);
    // A compaction computes the summary again.
    fs.rmSync(pathOf(packed.replace('.seg', '.sum')));
    const before = fs.readFileSync(pathOf(packed));
    await compactAll(fixture.reopen());
    expect(fs.readFileSync(pathOf(packed)).equals(before)).toBe(true);
    expect((await fixture.reopen().health()).problems).toEqual(['1 segments hold unreadable records']);
  });

  test('files whose reads fail are listed as unreadable; a list by prefix fails at its end', async () => {
    await put(store, 'lost.0', 100);
    await put(store, 'lost-large.0', 300_000);
    const [failing = ''] = segments();
    const failure = Object.assign(new Error('EIO: i/o error, read'), { code: 'EIO' });
    const disk: Disk = nodeDisk({ clock: systemClock, durable: false });
    const reader = fixture.reopen({
      disk: {
        ...disk,
        async read(fd, into, position) {
          const count = await disk.read(fd, into, position);
          if (Buffer.from(into).includes('lost-large.0')) throw failure;
          return count;
        },
      },
    });
    await put(reader, 'small.0', 100);
    await put(reader, 'large.0', 300_000);
    const { openSync } = fs;
    using _ = vi.spyOn(fs, 'openSync').mockImplementation((path, ...more) => {
      if (path === pathOf(failing)) throw failure;
      return openSync(path, ...more);
    });
    const standIn = failing.replace('.seg', '.0');
    expect(await listUnreadable(reader)).toEqual({
      readable: ['large.0', 'small.0'],
      unreadable: [standIn, 'lost-large.0'],
    });
    const found: string[] = [];
    const listSmall = async (): Promise<void> => {
      for await (const { id } of reader.list('small.')) found.push(id);
    };
    await expect(listSmall()).rejects.toThrow(DataUnavailable);
    expect(found).toEqual(['small.0']);
  });
});
