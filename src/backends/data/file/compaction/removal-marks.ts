/** The removal marks of small chunks: until its segment is packed, a removed chunk can be read, and its mark taken back. */
import { BoundedCache } from '../../../../base/bounded-cache.ts';
import type { ChunkRef, RemovalMarks } from '../../../../ports/storage/chunk-store.ts';
import type { Disk } from '../disk.ts';
import { type Layout, parsePlace } from '../layout.ts';
import { appendKept, type Dead, deadBytes, readDead } from './dead.ts';

const segmentsMax = 64;
const bytesMax = 4 * 1024 * 1024;
/** An entry of a set of numbers. */
const offsetBytes = 40;

export function removalMarks(parts: {
  readonly layout: Layout;
  readonly disk: Disk;
}): RemovalMarks<ChunkRef> {
  const { layout } = parts;
  const read = new BoundedCache<Dead>({
    name: 'segment-removals',
    entriesMax: segmentsMax,
    bytes: {
      max: bytesMax,
      sizeOf: ({ offsets }, segment) => offsets.size * offsetBytes + segment.length + offsetBytes,
    },
  });
  const offsetsIn = (segment: string): ReadonlySet<number> => {
    const known = read.get(segment);
    // The file only grows.
    if (known !== undefined && known.seen === deadBytes(layout, segment)) return known.offsets;
    const dead = readDead(layout, segment);
    read.set(segment, dead);
    return dead.offsets;
  };
  return {
    async isMarked({ at }) {
      if (at === undefined) return false;
      const { segment, offset } = parsePlace(at);
      return offsetsIn(segment).has(offset);
    },
    async unmark({ at }) {
      if (at === undefined) return;
      const { segment, offset } = parsePlace(at);
      if (offsetsIn(segment).has(offset)) await appendKept(parts, segment, [offset]);
    },
  };
}
