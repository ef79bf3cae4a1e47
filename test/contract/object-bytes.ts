/** The contract of object bytes (src/ports/object-bytes.ts), as laws over fresh stores for each case. */
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import {
  ChunkMissing,
  chunkBytes,
  type Extent,
  type FoundExtent,
  type ObjectBytes,
  unknownSize,
} from '../../src/ports/object-bytes.ts';
import { contentOf, inPieces, owner, readWhole } from './chunk-store.ts';

export interface ObjectBytesFixture {
  /** Has the clusters `default` and `other`. */
  readonly bytes: ObjectBytes;
  readonly dispose: () => Promise<void>;
}

const cluster = 'default';
const sizes = [0, 1, 5000, 300_000, chunkBytes - 1, chunkBytes, chunkBytes + 1, 2 * chunkBytes + 100_000];

export function objectBytesContract(name: string, make: () => Promise<ObjectBytesFixture>): void {
  describe(`object bytes: ${name}`, () => {
    let fixture: ObjectBytesFixture;
    let bytes: ObjectBytes;
    beforeEach(async () => {
      fixture = await make();
      bytes = fixture.bytes;
    });
    afterEach(() => fixture.dispose());

    const put = (id: string, size: number, pieceBytes = 200_000): Promise<Extent> =>
      bytes.write(inPieces(contentOf(id, size), pieceBytes), { cluster, id, owner, size });

    const find = async (prefix: string | readonly string[], where = cluster): Promise<FoundExtent[]> => {
      const found: FoundExtent[] = [];
      for await (const each of bytes.find(where, ...[prefix].flat())) found.push(each);
      return found.sort((a, b) => (a.extent.id < b.extent.id ? -1 : 1));
    };

    const expectIntact = async (extent: Extent): Promise<void> => {
      const read = await readWhole(bytes.read(extent));
      expect(Buffer.compare(read, contentOf(extent.id, extent.size)), `${extent.id} is intact`).toBe(0);
    };

    test.each(sizes)('returns %i bytes unchanged, with or without a known length', async (size) => {
      const told = await put('told', size);
      const untold = await bytes.write(inPieces(contentOf('untold', size), 1_000_000), {
        cluster,
        id: 'untold',
        owner,
      });
      for (const extent of [told, untold]) {
        expect(extent).toMatchObject({ cluster, size });
        await expectIntact(extent);
      }
      const found = await find('');
      expect(found).toEqual(size === 0 ? [] : [told, untold].map((extent) => ({ extent, owner })));
    });

    test('an extent is small, plain JSON', async () => {
      for (const size of sizes) {
        const extent = await put(`0123456789abcdefghij-${size}`, size);
        expect(JSON.parse(JSON.stringify(extent))).toEqual(extent);
        expect(extent.at ?? '').toMatch(/^[ -~]{0,40}$/);
      }
    });

    test('stores a source of one array, and one with empty arrays', async () => {
      for (const size of [10, 9_000_000]) {
        const content = contentOf(`s${size}`, size);
        const source = async function* () {
          yield new Uint8Array(0);
          yield content;
          yield new Uint8Array(0);
        };
        await expectIntact(await bytes.write(source(), { cluster, id: `s${size}`, owner }));
      }
    });

    test('gives back any range, across chunks too, and keeps an array until the next but one', async () => {
      const size = 3 * chunkBytes + 70_000;
      const extent = await put('e', size);
      const content = contentOf('e', size);
      const edge = fc.oneof(
        fc.nat(size - 1),
        fc
          .tuple(fc.nat(3), fc.integer({ min: -2, max: 2 }))
          .map(([n, by]) => Math.max(0, n * chunkBytes + by)),
      );
      await fc.assert(
        fc.asyncProperty(edge, edge, async (a, b) => {
          const [start, end] = [Math.min(a, b), Math.max(a, b)];
          let at = start;
          let before: { readonly piece: Uint8Array; readonly at: number } | undefined;
          for await (const piece of bytes.read(extent, { start, end })) {
            for (const each of before ? [before, { piece, at }] : [{ piece, at }]) {
              const expected = content.subarray(each.at, each.at + each.piece.length);
              expect(Buffer.compare(each.piece, expected)).toBe(0);
            }
            before = { piece, at };
            at += piece.length;
          }
          expect(at).toBe(end + 1);
        }),
        { numRuns: 25 },
      );
    });

    test.each([100, 1_000_000, 2 * chunkBytes + 5])(
      'a source of %i bytes that throws leaves nothing, and its error is passed on',
      async (size) => {
        const torn = new Error('torn');
        const source = async function* () {
          yield* inPieces(contentOf('t', size), 100_000);
          throw torn;
        };
        await expect(bytes.write(source(), { cluster, id: 't', owner })).rejects.toBe(torn);
        expect(await find('t')).toEqual([]);
        await bytes.remove([{ cluster, id: 't', size: unknownSize }]);
      },
    );

    test('an array that holds the whole range stays as it is, whatever is read after it', async () => {
      const first = await put('first', 50_000);
      const second = await put('second', 60_000);
      const large = await put('large', 300_000);
      const ranges = [
        { extent: first, range: { start: 0, end: 49_999 } },
        { extent: second, range: { start: 100, end: 4195 } },
        { extent: large, range: { start: 70_000, end: 74_095 } },
      ];
      const kept: Uint8Array[] = [];
      for (const { extent, range } of [...ranges, ...ranges]) {
        for await (const piece of bytes.read(extent, range)) kept.push(piece);
      }
      for (const [i, { extent, range }] of [...ranges, ...ranges].entries()) {
        const wanted = contentOf(extent.id, extent.size).subarray(range.start, range.end + 1);
        expect(kept[i]?.length).toBe(wanted.length);
        expect(Buffer.compare(kept[i] ?? new Uint8Array(), wanted)).toBe(0);
      }
    });

    test('refuses a source whose length differs from the given one, and leaves nothing', async () => {
      const size = chunkBytes + 10;
      for (const told of [size - 1, size + 1, 10, 3 * chunkBytes, chunkBytes]) {
        const write = bytes.write(inPieces(contentOf('l', size), 500_000), {
          cluster,
          id: 'l',
          owner,
          size: told,
        });
        await expect(write).rejects.toThrow(/ bytes gave /);
        expect(await find('l')).toEqual([]);
      }
    });

    test('an aborted write stops its source and leaves nothing', async () => {
      const stop = new AbortController();
      let isStopped = false;
      const source = async function* () {
        try {
          yield* inPieces(contentOf('a', chunkBytes + 100), 500_000);
          stop.abort(new Error('enough'));
          for (;;) yield new Uint8Array(100_000);
        } finally {
          isStopped = true;
        }
      };
      const options = { cluster, id: 'a', owner, signal: stop.signal };
      await expect(bytes.write(source(), options)).rejects.toThrow('enough');
      expect(isStopped).toBe(true);
      expect(await find('a')).toEqual([]);
    });

    test('a reader may leave at any time', async () => {
      const extent = await put('e', 2 * chunkBytes + 5);
      // Stop reading inside the first chunk, around its end, and at the end of the extent.
      for (const leaveAfter of [1, chunkBytes - 1, chunkBytes, chunkBytes + 1, extent.size]) {
        let got = 0;
        for await (const piece of bytes.read(extent)) {
          got += piece.length;
          if (got >= leaveAfter) break;
        }
        expect(got).toBeGreaterThanOrEqual(leaveAfter);
      }
      await expectIntact(extent);
    });

    test('a read whose signal aborts ends with its reason', async () => {
      const extent = await put('e', 2 * chunkBytes);
      const stop = new AbortController();
      const read = async () => {
        for await (const _ of bytes.read(extent, undefined, stop.signal)) stop.abort(new Error('enough'));
      };
      await expect(read()).rejects.toThrow('enough');
    });

    test('removes extents of every size, twice, and no others', async () => {
      const gone = await Promise.all(sizes.map((size, n) => put(`gone${n}`, size)));
      const kept = await Promise.all(sizes.map((size, n) => put(`kept${n}`, size)));
      await bytes.remove(gone);
      await bytes.remove(gone);
      expect((await find('')).map(({ extent }) => extent)).toEqual(kept.filter(({ size }) => size > 0));
      await Promise.all(kept.map(expectIntact));
      while (await bytes.compact?.(new AbortController().signal));
      for (const extent of gone) {
        if (extent.size > 0) await expect(readWhole(bytes.read(extent))).rejects.toThrow(ChunkMissing);
      }
      await Promise.all(kept.map(expectIntact));
    });

    test('removes an extent of unknown size', async () => {
      const kept = await put('x1', 4000);
      for (const size of sizes) {
        await put('x', size);
        await bytes.remove([{ cluster, id: 'x', size: unknownSize }]);
        expect(await find('')).toEqual([{ extent: kept, owner }]);
      }
      expect(() => bytes.read({ cluster, id: 'x', size: unknownSize })).toThrow(ChunkMissing);
    });

    test('tells whether a cluster holds anything, however large it is', async () => {
      const holds = () => Promise.all(bytes.clusters.map((each) => bytes.holdsAnything(each)));
      expect(await holds()).toEqual([false, false]);
      const extent = await put('large', 2 * chunkBytes + 5);
      expect(await holds()).toEqual(bytes.clusters.map((each) => each === cluster));
      await bytes.remove([extent]);
      expect(await holds()).toEqual([false, false]);
    });

    test('tells whether anything of an extent is left, and takes no other for it', async () => {
      const kept = await Promise.all([10, 2 * chunkBytes + 5].map((size) => put(`kept${size}`, size)));
      await put('x.1', 10);
      for (const extent of kept) expect(await bytes.isStored(extent)).toBe(true);
      const gone = { cluster, id: 'x', size: 10 };
      expect(await bytes.isStored(gone)).toBe(false);
      expect(await bytes.isStored({ ...gone, size: unknownSize })).toBe(false);
      expect(await bytes.isStored({ ...gone, id: 'x.1', cluster: 'other' })).toBe(false);
      await bytes.remove(kept);
      for (const extent of kept) expect(await bytes.isStored(extent)).toBe(false);
    });

    test('finds by prefixes on one cluster only, with owners', async () => {
      const other = { bucketId: 'b2', key: 'k', uploadId: 'u', part: 7 };
      const here = await put('ab1', chunkBytes + 1);
      const last = await put('b', 10);
      const there = await bytes.write(inPieces(contentOf('ab2', 10), 10), {
        cluster: 'other',
        id: 'ab2',
        owner: other,
      });
      expect(await find('ab')).toEqual([{ extent: here, owner }]);
      expect(await find('ab', 'other')).toEqual([{ extent: there, owner: other }]);
      expect(await find('ab2')).toEqual([]);
      expect(await find(['ab', 'b', 'c'])).toEqual([here, last].map((extent) => ({ extent, owner })));
      expect(await find(['c', 'd'])).toEqual([]);
    });

    test('a hundred writers at once store a hundred extents', async () => {
      const extents = await Promise.all(
        Array.from({ length: 100 }, (_, n) => put(`w${n}`, n * 3000 + 1, 5000)),
      );
      await Promise.all(extents.map(expectIntact));
    });

    test('tells the health of every cluster, and knows no others', async () => {
      expect((await bytes.health()).map((each) => each.cluster).sort()).toEqual([...bytes.clusters].sort());
      for (const cluster of bytes.clusters)
        expect((await bytes.health(cluster)).map((each) => each.cluster)).toEqual([cluster]);
      expect(await bytes.health('no')).toEqual([]);
      await expect(async () =>
        bytes.write(inPieces(new Uint8Array(1), 1), { cluster: 'no', id: 'i', owner }),
      ).rejects.toThrow('cluster no ');
    });
  });
}
