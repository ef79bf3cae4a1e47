/** The contract of chunk stores (src/ports/chunk-store.ts), as laws over a fresh store for each case. */
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { findExtents } from '../../src/backends/data/chunked/chunked.ts';
import { loanedRing } from '../../src/base/loaned-buffers.ts';
import type { ChunkRef, ChunkStore, StoredChunk } from '../../src/ports/chunk-store.ts';
import {
  type ByteRange,
  ChunkMissing,
  chunkBytes,
  DataUnavailable,
  type Owner,
  unknownSize,
} from '../../src/ports/object-bytes.ts';

export interface ChunkStoreFixture {
  readonly store: ChunkStore;
  /** Another store over the same data, as after a restart; absent where nothing outlives the process. */
  readonly reopen?: () => ChunkStore;
  readonly dispose: () => Promise<void>;
  /** Ways in which the store goes away; each returns what brings it back. Absent where it cannot, or has suites of its own. */
  readonly outages?: Readonly<Record<string, () => Promise<() => Promise<void>>>>;
}

export const owner: Owner = { bucketId: 'b1', key: 'a/key' };

/** Bytes that differ from block to block and from id to id. */
export function contentOf(id: string, size: number): Uint8Array {
  let state = [...id].reduce((sum, letter) => (sum * 31 + letter.charCodeAt(0)) >>> 0, 7);
  const words = new Uint32Array(Math.ceil(size / 4));
  for (let at = 0; at < words.length; at++) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    words[at] = state;
  }
  return new Uint8Array(words.buffer, 0, size);
}

/** Yields bytes in pieces from two alternating buffers, which is the shortest validity that the port allows a source. */
export async function* inPieces(bytes: Uint8Array, pieceBytes: number): AsyncGenerator<Uint8Array> {
  const buffers = [new Uint8Array(pieceBytes), new Uint8Array(pieceBytes)];
  for (let at = 0, turn = 0; at < bytes.length; at += pieceBytes, turn = 1 - turn) {
    const buffer = buffers[turn] as Uint8Array;
    const piece = bytes.subarray(at, at + pieceBytes);
    buffer.fill(0xee);
    buffer.set(piece);
    yield buffer.subarray(0, piece.length);
  }
}

export async function readWhole(source: AsyncIterable<Uint8Array>): Promise<Uint8Array> {
  const pieces: Uint8Array[] = [];
  // `slice` would return a view of the reused memory if a piece is a Buffer.
  for await (const piece of source) pieces.push(new Uint8Array(piece));
  return Buffer.concat(pieces);
}

export const whole = ({ size }: { readonly size: number }): ByteRange => ({ start: 0, end: size - 1 });

export async function listAll(store: ChunkStore, ...prefixes: readonly string[]): Promise<StoredChunk[]> {
  const found: StoredChunk[] = [];
  for await (const chunk of store.list(...prefixes)) found.push(chunk);
  return found.sort((a, b) => (a.id < b.id ? -1 : 1));
}

export const idsOf = (chunks: readonly { readonly id: string }[]): string[] => chunks.map(({ id }) => id);

export async function put(
  store: ChunkStore,
  id: string,
  size: number,
  pieceBytes = 50_000,
): Promise<ChunkRef> {
  return store.write(id, inPieces(contentOf(id, size), pieceBytes), { owner, size });
}

export async function expectIntact(store: ChunkStore, chunk: ChunkRef): Promise<void> {
  const bytes = await readWhole(store.read(chunk, whole(chunk)));
  expect(Buffer.compare(bytes, contentOf(chunk.id, chunk.size)), `${chunk.id} is intact`).toBe(0);
}

/** Sizes on both sides of every boundary that a store is likely to have. */
const sizes = [0, 1, 4096, 65_535, 65_536, 65_537, 131_073, 262_144, 262_145, 1_000_000, 4_194_304];

export interface ChunkStoreOptions {
  /** The reason why the store does not report how much it holds. */
  readonly unknownUsage?: string;
}

export function chunkStoreContract(
  name: string,
  make: () => Promise<ChunkStoreFixture>,
  { unknownUsage }: ChunkStoreOptions = {},
): void {
  describe(`chunk store: ${name}`, () => {
    let fixture: ChunkStoreFixture;
    let store: ChunkStore;
    beforeEach(async () => {
      fixture = await make();
      store = fixture.store;
    });
    afterEach(() => fixture.dispose());

    test('throws DataUnavailable while it is away, and has lost nothing afterwards', async ({ skip }) => {
      const { outages } = fixture;
      if (outages === undefined) return skip('it cannot go away, or its suite does that on the real engine');
      const small = await put(store, 'small.0', 100);
      const large = await put(store, 'large.0', 500_000);
      const next = (signal = new AbortController().signal) => store.compact?.(signal);
      for (const [how, begin] of Object.entries(outages)) {
        const end = await begin();
        const refused: Readonly<Record<string, () => Promise<unknown> | undefined>> = {
          'a small write': () => put(store, `${how}-small.0`, 100),
          'a large write': () => put(store, `${how}-large.0`, 500_000),
          'a removal of a small chunk': () => store.remove([small]),
          'a removal of a large chunk': () => store.remove([large]),
          'a removal of a chunk whose place is unknown': () => store.remove([{ id: 'small.0', size: 100 }]),
          'a list': () => listAll(store),
          'a list by prefix': () => listAll(store, 'large'),
          'a read': () => readWhole(store.read(large, whole(large))),
          'the health': () => store.health(),
          'a compaction': () => next(),
          'a removal mark': () => store.removals?.isMarked(small),
        };
        for (const [call, run] of Object.entries(refused))
          expect(await run()?.catch((cause: unknown) => cause), `${how}: ${call}`).toBeInstanceOf(
            DataUnavailable,
          );
        // Its file may still be open.
        const read = await expectIntact(store, small).catch((cause: unknown) => cause);
        if (read !== undefined) expect(read, how).toBeInstanceOf(DataUnavailable);
        await end();
        // The outcome of the writes was unknown.
        const listed = (await listAll(store)).filter(({ id }) => !id.startsWith(`${how}-`));
        expect(idsOf(listed), how).toEqual(['large.0', 'small.0']);
        for (const chunk of [small, large]) await expectIntact(store, chunk);
        await expectIntact(store, await put(store, `${how}-after.0`, 100));
        await store.remove(await listAll(store, how));
      }
    });

    test.each(sizes)('returns %i bytes unchanged, with or without a known length', async (size) => {
      const told = await put(store, 'told.0', size);
      const content = contentOf('untold.0', size);
      const untold = await store.write('untold.0', inPieces(content, 30_000), { owner });
      for (const chunk of [told, untold]) {
        expect(chunk.size).toBe(size);
        if (size > 0) await expectIntact(store, chunk);
      }
      expect(idsOf(await listAll(store))).toEqual(['told.0', 'untold.0']);
    });

    test('gives back any range of what was stored in any pieces', async () => {
      let count = 0;
      const sizeArbitrary = fc.oneof(fc.integer({ min: 1, max: 2000 }), fc.integer({ min: 1, max: 700_000 }));
      await fc.assert(
        fc.asyncProperty(
          sizeArbitrary,
          fc.nat(),
          fc.nat(),
          fc.integer({ min: 500, max: 300_000 }),
          async (size, a, b, piece) => {
            const chunk = await put(store, `r${count++}.0`, size, piece);
            const [start, end] = [a % size, b % size].sort((x, y) => x - y) as [number, number];
            const buffers = loanedRing(3);
            for (const options of [{}, { buffers }]) {
              const bytes = await readWhole(store.read(chunk, { start, end }, options));
              const expected = contentOf(chunk.id, size).subarray(start, end + 1);
              expect(Buffer.compare(bytes, expected)).toBe(0);
            }
          },
        ),
        { numRuns: 40 },
      );
    });

    test('leaves an array that holds the whole range to its consumer', async () => {
      const chunk = await put(store, 'kept.0', 1_000_000);
      const range = { start: 65_536, end: 65_536 + 99_999 };
      const arrays: Uint8Array[] = [];
      for await (const bytes of store.read(chunk, range)) arrays.push(bytes);
      for (let n = 0; n < 3; n++) await expectIntact(store, chunk);
      const expected = contentOf('kept.0', 1_000_000).subarray(range.start, range.end + 1);
      if (arrays.length === 1) expect(Buffer.compare(arrays[0] as Uint8Array, expected)).toBe(0);
    });

    test('leaves the last array of a range to its consumer while other ranges are read', async () => {
      const size = 700_000;
      const [chunk, others] = [await put(store, 'last.0', size), await put(store, 'other.0', size)];
      const iterator = store.read(chunk, { start: 0, end: size - 1 })[Symbol.asyncIterator]();
      let last: Uint8Array = new Uint8Array();
      for (let step = await iterator.next(); step.done !== true; step = await iterator.next())
        last = step.value;
      for (let n = 0; n < 3; n++) await expectIntact(store, others);
      expect(Buffer.compare(last, contentOf('last.0', size).subarray(size - last.length))).toBe(0);
    });

    test('keeps a chunk that is one array, on the shorter way where there is one', async () => {
      for (const size of [1, 4096, 65_536]) {
        const id = `one-array-${size}.0`;
        const bytes = contentOf(id, size);
        const writing = store.small?.write(id, bytes, owner) ?? put(store, id, size, size);
        // The store has copied a single array before it first awaits, so the caller may overwrite it.
        bytes.fill(0xee);
        await expectIntact(store, await writing);
        expect(await listAll(store, id)).toMatchObject([{ id, size, owner }]);
      }
    });

    test('keeps a yielded array until the next but one is requested', async () => {
      const chunk = await put(store, 'a.0', 1_300_000);
      const expected = contentOf('a.0', chunk.size);
      let before: { readonly bytes: Uint8Array; readonly at: number } | undefined;
      let at = 0;
      for await (const bytes of store.read(chunk, whole(chunk))) {
        if (before) {
          expect(
            Buffer.compare(before.bytes, expected.subarray(before.at, before.at + before.bytes.length)),
          ).toBe(0);
        }
        before = { bytes, at };
        at += bytes.length;
      }
      expect(at).toBe(chunk.size);
    });

    test.each([1000, 300_000])('shows nothing of %i bytes before the write returns', async (size) => {
      const reached = Promise.withResolvers<void>();
      const held = Promise.withResolvers<void>();
      const content = contentOf('a.0', size);
      const source = async function* () {
        yield content.subarray(0, size - 1);
        reached.resolve();
        await held.promise;
        yield content.subarray(size - 1);
      };
      const writing = store.write('a.0', source(), { owner });
      await reached.promise;
      expect(await listAll(store)).toEqual([]);
      held.resolve();
      await expectIntact(store, await writing);
      expect(await listAll(store)).toEqual([{ ...(await writing), owner }]);
    });

    describe.each([10, 200_000, 1_000_000])('a write of %i bytes leaves nothing behind', (size) => {
      const content = contentOf('a.0', size);

      test('when its source throws, and passes the error on', async () => {
        const source = async function* () {
          yield* inPieces(content, 50_000);
          throw new Error('torn');
        };
        await expect(store.write('a.0', source(), { owner })).rejects.toThrow('torn');
        expect(await listAll(store)).toEqual([]);
      });

      test('when its source has another length than the given one', async () => {
        for (const told of [size - 1, size + 1]) {
          const write = store.write('a.0', inPieces(content, 50_000), { owner, size: told });
          await expect(write).rejects.toThrow(`${told} bytes`);
        }
        expect(await listAll(store)).toEqual([]);
      });

      test('when its signal aborts, and tells the source to stop', async () => {
        const stop = new AbortController();
        let isStopped = false;
        const source = async function* () {
          try {
            yield* inPieces(content, 50_000);
            stop.abort(new Error('enough'));
            yield Uint8Array.of(1);
            yield Uint8Array.of(2);
          } finally {
            isStopped = true;
          }
        };
        await expect(store.write('a.0', source(), { owner, signal: stop.signal })).rejects.toThrow('enough');
        expect(isStopped).toBe(true);
        expect(await listAll(store)).toEqual([]);
      });
    });

    test('stops a read whose signal aborts', async () => {
      const chunk = await put(store, 'a.0', 1_000_000);
      const stop = new AbortController();
      const read = async () => {
        for await (const _ of store.read(chunk, whole(chunk), { signal: stop.signal }))
          stop.abort(new Error('enough'));
      };
      await expect(read()).rejects.toThrow('enough');
    });

    test('has a hundred writers at once store a hundred chunks', async () => {
      const chunks = await Promise.all(
        Array.from({ length: 100 }, (_, n) => put(store, `w${n}.0`, (n % 10) * 40_000 + n + 1, 7000)),
      );
      await Promise.all(chunks.map((chunk) => expectIntact(store, chunk)));
      expect(await listAll(store)).toHaveLength(100);
    });

    test('lists by prefix, with owners', async () => {
      const other: Owner = { bucketId: 'b2', key: 'é/😀\n"\u0001', uploadId: 'u', part: 3 };
      for (const id of ['aaaaaaa1.0', 'aaaaaaa1.1', 'aaaaaaa11.0', 'aaaaaaa2.0', 'b.0']) {
        for (const [letter, size] of [
          ['s', 100],
          ['l', 300_000],
        ] as const) {
          await store.write(`${id}${letter}`, inPieces(contentOf(id, size), 100_000), { owner: other });
        }
      }
      const under = async (prefix: string) => idsOf(await listAll(store, prefix));
      expect(await under('aaaaaaa1.')).toEqual(['aaaaaaa1.0l', 'aaaaaaa1.0s', 'aaaaaaa1.1l', 'aaaaaaa1.1s']);
      expect(await under('aaaaaaa1')).toHaveLength(6);
      expect(await under('aa')).toHaveLength(8);
      expect(await under('b.0s')).toEqual(['b.0s']);
      expect(await under('c')).toEqual([]);
      for (const chunk of await listAll(store)) {
        expect(chunk.owner).toEqual(other);
        expect(chunk.size).toBe(chunk.id.endsWith('s') ? 100 : 300_000);
      }
    });

    test('exactly the requested chunks are found by their names, in the requested order', async (context) => {
      if (store.named === undefined) return context.skip('a list finds them as fast');
      for (const id of ['e.0', 'e.1', 'e.10', 'e.20']) await put(store, id, 100);
      const found = await store.named(['e.20', 'e.2', 'e.1']);
      expect(idsOf(found)).toEqual(['e.20', 'e.1']);
      for (const chunk of found) await expectIntact(store, chunk);
      expect(found).toEqual(
        (await listAll(store, 'e.1', 'e.20')).filter(({ id }) => id !== 'e.10').reverse(),
      );
    });

    test('each extent is found once, torn or whole, for any number of extents in memory', async () => {
      const whole = Array.from({ length: 5 }, (_, n) => `whole${n}`);
      const torn = Array.from({ length: 12 }, (_, n) => `torn${n}`);
      const size = chunkBytes + 100;
      const write = (id: string, bytes: number) =>
        store.write(id, inPieces(contentOf(id, bytes), 1 << 20), { owner: { ...owner, size }, size: bytes });
      for (const id of whole) await write(`${id}.0`, chunkBytes);
      for (const id of torn) await write(`${id}.${id.length % 2 === 0 ? 1 : 20}`, 100);
      for (const id of whole) await write(`${id}.1`, 100);
      for (const atOnce of [1, 4, 100]) {
        const found = new Map<string, number>();
        for await (const { extent } of findExtents(store, { cluster: 'a', prefixes: [''], atOnce })) {
          expect(found.has(extent.id), `${extent.id} is found once`).toBe(false);
          found.set(extent.id, extent.size);
        }
        expect(found).toEqual(
          new Map([
            ...whole.map((id) => [id, size] as const),
            ...torn.map((id) => [id, unknownSize] as const),
          ]),
        );
      }
    });

    test('reads what a list found', async () => {
      await put(store, 'small.0', 4096);
      await put(store, 'large.0', 500_000);
      const found = await listAll(store);
      expect(found).toHaveLength(2);
      for (const chunk of found) await expectIntact(store, chunk);
    });

    test.each([4096, 500_000])('removes %i bytes, once or twice, and what never was', async (size) => {
      const gone = await put(store, 'gone.0', size);
      const kept = await put(store, 'kept.0', size);
      await store.remove([gone, { id: 'never.0', size }]);
      await store.remove([gone]);
      expect(idsOf(await listAll(store))).toEqual(['kept.0']);
      await expectIntact(store, kept);
      while (await store.compact?.(new AbortController().signal));
      await expect(readWhole(store.read(gone, whole(gone)))).rejects.toThrow(ChunkMissing);
      await expectIntact(store, kept);
      expect(idsOf(await listAll(store, 'kept.'))).toEqual(['kept.0']);
    });

    test.each([4096, 500_000])('removes %i bytes whose place was forgotten', async (size) => {
      await put(store, 'gone.0', size);
      await put(store, 'kept.0', size);
      await store.remove([{ id: 'gone.0', size }]);
      expect(idsOf(await listAll(store))).toEqual(['kept.0']);
    });

    test('says that a chunk is missing', async () => {
      for (const size of [100, 500_000]) {
        await expect(readWhole(store.read({ id: 'no.0', size }, { start: 0, end: 9 }))).rejects.toThrow(
          ChunkMissing,
        );
      }
    });

    test('compacts while others read, write and remove, and loses nothing', async () => {
      const live = new Map<string, ChunkRef>();
      let count = 0;
      const worker = async () => {
        for (let round = 0; round < 60; round++) {
          const id = `c${count++}.0`;
          live.set(id, await put(store, id, 1000 + ((count * 7919) % 20_000)));
          const [first] = live.values();
          if (first && round % 4 !== 0) {
            live.delete(first.id);
            await store.remove([first]);
          }
          const some = [...live.values()][round % live.size];
          if (some && live.has(some.id)) {
            const bytes = await readWhole(store.read(some, whole(some))).catch((error: unknown) => {
              if (!live.has(some.id)) return undefined;
              throw error;
            });
            if (bytes) expect(Buffer.compare(bytes, contentOf(some.id, some.size))).toBe(0);
          }
        }
      };
      let isDone = false;
      const compacting = (async () => {
        while (!isDone) {
          await store.compact?.(new AbortController().signal);
          await new Promise((resolve) => setTimeout(resolve, 1));
        }
      })();
      await Promise.all(Array.from({ length: 8 }, worker));
      isDone = true;
      await compacting;
      while (await store.compact?.(new AbortController().signal));
      expect(idsOf(await listAll(store))).toEqual([...live.keys()].sort());
      for (const chunk of live.values()) await expectIntact(store, chunk);
    });

    test('is unchanged when it is opened again', async (context) => {
      if (!fixture.reopen) return context.skip('nothing outlives the process');
      const chunks = [await put(store, 'small.0', 4096), await put(store, 'large.0', 500_000)];
      const gone = [await put(store, 'x.0', 4096), await put(store, 'y.0', 500_000)];
      await store.remove(gone);
      await store.close();
      const again = fixture.reopen();
      for (const chunk of chunks) await expectIntact(again, chunk);
      expect(await listAll(again)).toEqual([
        { ...chunks[1], owner },
        { ...chunks[0], owner },
      ]);
      await again.close();
    });

    test('tells its health', async (context) => {
      if (unknownUsage !== undefined) return context.skip(unknownUsage);
      await put(store, 'small.0', 4096);
      await put(store, 'large.0', 500_000);
      const check = async () => {
        const { problems, pools } = await store.health();
        expect(problems).toEqual([]);
        expect(pools.every(({ pool, state }) => pool !== '' && state === 'ok')).toBe(true);
        expect(pools.reduce((sum, { chunkCount }) => sum + chunkCount, 0)).toBe(2);
        expect(pools.reduce((sum, { bytesUsed }) => sum + bytesUsed, 0)).toBeGreaterThanOrEqual(504_096);
      };
      // A store may cache its figures for a minute.
      await vi.waitFor(check, { timeout: 120_000, interval: 500 });
    });
  });
}
