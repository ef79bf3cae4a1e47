/**
 * The removed records of a segment: offsets that any process appends to `<segment>.dead`. The file only grows, also across a
 * compaction, because offsets stay valid; so a crash or a second compactor cannot lose anything. Each entry has a checksum, because a
 * torn one must not shift those after it. An entry with the other checksum revokes a removal: for one offset the last entry counts.
 */
import fs from 'node:fs';
import { BoundedCache } from '../../../base/bounded-cache.ts';
import { type ChunkRef, type RemovalMarks, StorageFull } from '../../../ports/chunk-store.ts';
import { type Disk, fileMode, isMissing, type Layout, parsePlace, segmentPath } from './disk.ts';

export const entryBytes = 8;
const deadMask = 0x5ea1dead;
const liveMask = 0x6eeb4c15;

interface DeadParts {
  readonly layout: Layout;
  readonly disk: Disk;
}

/** Returns whether the file is new: its name is then to be made durable, too. */
export const appendDead = (parts: DeadParts, segment: string, offsets: readonly number[]): Promise<boolean> =>
  append(parts, segment, { offsets, mask: deadMask });

/** Revokes removals. A compaction that has read the file before reclaims their space all the same. */
const appendLive = async (parts: DeadParts, segment: string, offsets: readonly number[]): Promise<void> =>
  void (await append(parts, segment, { offsets, mask: liveMask }));

async function append(
  { layout, disk }: DeadParts,
  segment: string,
  { offsets, mask }: { readonly offsets: readonly number[]; readonly mask: number },
): Promise<boolean> {
  const entries = Buffer.alloc(offsets.length * entryBytes);
  for (const [at, offset] of offsets.entries()) {
    entries.writeUInt32LE(offset, at * entryBytes);
    entries.writeUInt32LE((offset ^ mask) >>> 0, at * entryBytes + 4);
  }
  const fd = fs.openSync(segmentPath(layout, segment, 'dead'), 'a', fileMode);
  try {
    const isNew = fs.fstatSync(fd).size === 0;
    // One call, so that appends of several processes do not mix. What a full disk cuts off is repeated by gc.
    if (fs.writeSync(fd, entries) !== entries.length)
      throw new StorageFull(`no space to remove from ${segment}`);
    await disk.flush(fd);
    return isNew;
  } finally {
    fs.closeSync(fd);
  }
}

interface Dead {
  readonly offsets: ReadonlySet<number>;
  /** The file's length when it was read. */
  readonly seen: number;
}

export function readDead(layout: Layout, segment: string): Dead {
  let bytes: Buffer;
  try {
    bytes = fs.readFileSync(segmentPath(layout, segment, 'dead'));
  } catch (error) {
    if (isMissing(error)) return { offsets: new Set(), seen: 0 };
    throw error;
  }
  const offsets = new Set<number>();
  for (let at = 0; at + entryBytes <= bytes.length; ) {
    const offset = bytes.readUInt32LE(at);
    const mask = (bytes.readUInt32LE(at + 4) ^ offset) >>> 0;
    const isSound = mask === deadMask || mask === liveMask;
    if (mask === deadMask) offsets.add(offset);
    if (mask === liveMask) offsets.delete(offset);
    at += isSound ? entryBytes : 1;
  }
  return { offsets, seen: bytes.length };
}

/** The length of the `.dead` file: a cheap hint at how much a packing would give back. */
export function deadBytes(layout: Layout, segment: string): number {
  return fs.statSync(segmentPath(layout, segment, 'dead'), { throwIfNoEntry: false })?.size ?? 0;
}

// The removal marks of small chunks: until its segment is packed, a removed chunk can be read, and its mark taken back.

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
      if (offsetsIn(segment).has(offset)) await appendLive(parts, segment, [offset]);
    },
  };
}
