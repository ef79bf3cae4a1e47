/** The file store frees the space of deleted chunks, and deletes nothing else. */
import fs from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { fileChunks } from '../../src/backends/data/file/file-chunks.ts';
import type { ChunkRef, ChunkStore } from '../../src/ports/chunk-store.ts';
import { systemClock } from '../../src/ports/clock.ts';
import { ChunkMissing } from '../../src/ports/object-bytes.ts';
import { systemRandom } from '../../src/ports/random.ts';
import {
  contentOf,
  expectIntact,
  idsOf,
  inPieces,
  listAll,
  owner,
  put,
  readWhole,
  whole,
} from './chunk-store.ts';
import { bytesIn, compactAll, type FileFixture, fileFixture, filesIn, laterBy } from './file-fixture.ts';

const hour = 60 * 60_000;

let fixture: FileFixture;
let store: ChunkStore;
beforeEach(async () => {
  fixture = await fileFixture();
  store = fixture.store;
});
afterEach(() => fixture.dispose());

describe('space', () => {
  test('comes back when chunks are removed, and locators stay right', async () => {
    const chunks = await Promise.all(Array.from({ length: 500 }, (_, n) => put(store, `c${n}.0`, 4096)));
    const before = await bytesIn(fixture.directory);
    await store.remove(chunks.filter((_, n) => n % 5 !== 0));
    const kept = chunks.filter((_, n) => n % 5 === 0);
    await compactAll(store);
    expect(await bytesIn(fixture.directory)).toBeLessThan(before * 0.25);
    for (const chunk of kept) await expectIntact(store, chunk);
    expect(idsOf(await listAll(store))).toEqual(idsOf(kept).sort());
    expect(await listAll(store, 'c10.')).toEqual([{ ...chunks[10], owner }]);

    // The segment is packed a second time, and then removed.
    await store.remove(kept.slice(10));
    await compactAll(store);
    expect(await bytesIn(fixture.directory)).toBeLessThan(before * 0.05);
    for (const chunk of kept.slice(0, 10)) await expectIntact(store, chunk);
    await store.remove(kept);
    await compactAll(store);
    expect(await bytesIn(fixture.directory)).toBe(0);
    await expectIntact(store, await put(store, 'new.0', 100));
  });

  test('a reader in the middle of a chunk reads on while its segment is packed or its file removed', async () => {
    for (const size of [250_000, 1_000_000]) {
      const chunk = await put(store, `r${size}.0`, size);
      const reading = store.read(chunk, whole(chunk))[Symbol.asyncIterator]();
      const first = await reading.next();
      const pieces = [Buffer.from(first.value as Uint8Array)];
      await store.remove([chunk]);
      await compactAll(store);
      for (let step = await reading.next(); !step.done; step = await reading.next()) {
        pieces.push(Buffer.from(step.value));
      }
      expect(Buffer.compare(Buffer.concat(pieces), contentOf(chunk.id, size))).toBe(0);
    }
  });

  test('another process that has the segment open closes it in time', async () => {
    let now = 0;
    const reader = fixture.reopen({ clock: { ...systemClock, elapsed: () => now } });
    const chunk = await put(store, 'a.0', 100);
    await expectIntact(reader, chunk);
    await store.remove([chunk]);
    await compactAll(store);
    await expectIntact(reader, chunk);
    now += 60_000;
    await expect(readWhole(reader.read(chunk, whole(chunk)))).rejects.toThrow(ChunkMissing);
  });

  test('a segment that another process sealed, taking its owner for dead, loses nothing', async () => {
    const before = await put(store, 'before.0', 100);
    const other = fixture.reopen({ clock: laterBy(2 * hour) });
    await other.remove([before]);
    await compactAll(other);
    const after = await Promise.all([put(store, 'after.0', 100), put(store, 'after.1', 4096)]);
    for (const chunk of after) await expectIntact(store, chunk);
    await compactAll(store);
    await compactAll(other);
    for (const chunk of after) await expectIntact(fixture.reopen(), chunk);
    expect(idsOf(await listAll(other))).toEqual(['after.0', 'after.1']);
  });

  test('what was written to a segment sealed meanwhile is written again, and is there once', async () => {
    const before = await put(store, 'before.0', 100);
    for (const path of await filesIn(fixture.directory)) if (path.endsWith('.open')) fs.rmSync(path);
    const after = await put(store, 'after.0', 100);
    expect(after.at?.split('.')[0]).not.toBe(before.at?.split('.')[0]);
    expect(idsOf(await listAll(store))).toEqual(['after.0', 'before.0']);
    expect(idsOf(await listAll(store, 'after'))).toEqual(['after.0']);
  });

  test('an idle segment is sealed by its maker before anyone else does it', async () => {
    let ahead = 0;
    const idle = fixture.reopen({ clock: { ...systemClock, now: () => systemClock.now() + ahead } });
    const first = await put(idle, 'first.0', 100);
    ahead = hour / 2;
    const second = await put(idle, 'second.0', 100);
    expect(first.at?.split('.')[0]).not.toBe(second.at?.split('.')[0]);
    expect(idsOf(await listAll(idle))).toEqual(['first.0', 'second.0']);
  });

  test('only old temporary files are taken for leavings', async () => {
    const temporary = join(fixture.directory, 'temporary');
    fs.writeFileSync(join(temporary, 'young'), 'x');
    await compactAll(store);
    expect(fs.readdirSync(temporary)).toEqual(['young']);
    await compactAll(fixture.reopen({ clock: laterBy(2 * hour) }));
    expect(fs.readdirSync(temporary)).toEqual([]);
  });

  test('the lock of a killed compaction expires', async () => {
    const chunks = await Promise.all(Array.from({ length: 10 }, (_, n) => put(store, `c${n}.0`, 4096)));
    await store.remove(chunks.slice(1));
    await store.close();
    const segment = chunks[0]?.at?.split('.')[0];
    fs.writeFileSync(join(fixture.directory, 'segments', `${segment}.lock`), 'somebody');
    const before = await bytesIn(fixture.directory);
    await compactAll(fixture.reopen());
    expect(await bytesIn(fixture.directory)).toBe(before);
    await compactAll(fixture.reopen({ clock: laterBy(hour / 2) }));
    expect(await bytesIn(fixture.directory)).toBeLessThan(before / 2);
    await expectIntact(fixture.reopen(), chunks[0] as ChunkRef);
  });

  test('a compaction that sleeps behind its last look at the lock brings no segment back that another one has removed', async () => {
    const chunks = await Promise.all(Array.from({ length: 10 }, (_, n) => put(store, `c${n}.0`, 4096)));
    await store.remove(chunks.slice(1));
    const read = fs.readFileSync;
    let slept = 0;
    const spy = vi.spyOn(fs, 'readFileSync').mockImplementation(((...call: Parameters<typeof read>) => {
      const mark = read(...call);
      const path = String(call[0]);
      if (!path.endsWith('.lock')) return mark;
      if (slept++ > 0) return mark;
      // Meanwhile the last chunk is removed, and another process takes over and finds the segment wholly dead.
      for (const file of ['seg', 'sum', 'dead']) fs.rmSync(path.replace(/lock$/, file), { force: true });
      fs.writeFileSync(path, 'another');
      return mark;
    }) as typeof read);
    try {
      await compactAll(store).catch(() => {});
    } finally {
      spy.mockRestore();
    }
    expect(slept).toBeGreaterThan(0);
    expect(await listAll(store)).toEqual([]);
    expect((await filesIn(fixture.directory)).filter((name) => /\.(seg|sum|dead)$/.test(name))).toEqual([]);
  });

  test('a torn entry in the list of removals does not shift the entries after it', async () => {
    const chunks = await Promise.all(Array.from({ length: 4 }, (_, n) => put(store, `c${n}.0`, 100)));
    await store.remove(chunks.slice(0, 1));
    const [path = ''] = (await filesIn(fixture.directory)).filter((each) => each.endsWith('.dead'));
    fs.appendFileSync(path, Buffer.from([1, 2, 3]));
    await store.remove(chunks.slice(1, 2));
    expect(idsOf(await listAll(store))).toEqual(['c2.0', 'c3.0']);
  });
});

test('writes continue in a new segment when one is full', async () => {
  const directory = join(fixture.directory, 'small');
  const parts = { directory, clock: systemClock, random: systemRandom(), durable: false };
  const small = fileChunks({ ...parts, segmentBytesMax: 20_000 });
  const chunks: ChunkRef[] = [];
  for (let n = 0; n < 20; n++) chunks.push(await put(small, `c${n}.0`, 4096));
  expect(new Set(chunks.map(({ at }) => at?.split('.')[0])).size).toBe(5);
  for (const chunk of chunks) await expectIntact(small, chunk);
  for (const id of ['c0.0', 'c19.0']) expect(idsOf(await listAll(small, id))).toEqual([id]);
  await small.close();
  expect(await readWhole(inPieces(new Uint8Array(3), 2))).toHaveLength(3);
});

test('a removal is taken back until the segment is packed: the chunk is listed again and survives the packing', async () => {
  const chunks = await Promise.all(Array.from({ length: 10 }, (_, n) => put(store, `c${n}.0`, 4096)));
  const [first, second] = chunks as [ChunkRef, ChunkRef];
  await store.remove(chunks.slice(0, 9));
  await store.close();
  const other = fixture.reopen();
  expect(await other.removals?.isMarked(first)).toBe(true);
  await other.removals?.unmark(first);
  expect(await other.removals?.isMarked(first)).toBe(false);
  expect(await other.removals?.isMarked(second)).toBe(true);
  expect(idsOf(await listAll(other))).toEqual(['c0.0', 'c9.0']);
  await compactAll(other);
  await expectIntact(other, first);
  expect(await bytesIn(fixture.directory)).toBeLessThan(4 * 4096);
  // For one chunk the last entry counts.
  await other.remove([first]);
  expect(idsOf(await listAll(other))).toEqual(['c9.0']);
});
