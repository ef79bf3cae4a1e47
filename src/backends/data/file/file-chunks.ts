/**
 * Chunks in a directory: small ones in segments with group commit, large ones in separate files. Any number of processes may share
 * the directory.
 */
import fs from 'node:fs';
import { statfs } from 'node:fs/promises';
import { dirname } from 'node:path';
import { BoundedCache } from '../../../base/bounded-cache.ts';
import type { ChunkRef, ChunkStore, StoredChunk } from '../../../ports/chunk-store.ts';
import type { Clock } from '../../../ports/clock.ts';
import { ChunkDamaged, type ClusterStatus, type Owner } from '../../../ports/object-bytes.ts';
import type { Random } from '../../../ports/random.ts';
import { decodeHeader, deriveSeed, type Header, headerBytesMax } from '../chunked/record.ts';
import { Compactor } from './compactor.ts';
import { appendDead, deadBytes, entryBytes, readDead, removalMarks } from './dead.ts';
import {
  assertPresent,
  type Disk,
  formatPlace,
  isOfOneFile,
  isThere,
  type Layout,
  makeLayout,
  newName,
  nodeDisk,
  parsePlace,
  rethrowFailure,
  segmentNames,
  segmentPath,
  unreadableOwner,
} from './disk.ts';
import {
  borrowPiece,
  type LargeParts,
  listLarge,
  namesIn,
  pieceBytes,
  readLarge,
  removeLarge,
  returnPiece,
  writeLarge,
} from './large-chunks.ts';
import { cleanUpAfterDead, makerSuffix, openSegment } from './maker.ts';
import { locate } from './packed.ts';
import { type IndexedRecord, mayHold, readSummary, SegmentIndex, type Summary } from './segment-index.ts';
import { SegmentReader } from './segment-reader.ts';
import { readSegment } from './segment-scan.ts';
import { type Current, SegmentWriter } from './segment-writer.ts';

/** Segments whose removals are written concurrently, each with a flush. */
const removalsAtOnce = 8;

export interface FileChunksOptions {
  readonly directory: string;
  readonly clock: Clock;
  readonly random: Random;
  /** `SVC_FSYNC=always`: what is acknowledged survives a power cut. */
  readonly durable: boolean;
  /** Lower in tests, so that they see several segments. */
  readonly segmentBytesMax?: number;
  /** Lower in tests, so that they exceed them. */
  readonly listerLimits?: ListerLimits;
  /** The system calls; a test's that fail, by default the real ones. */
  readonly disk?: Disk;
}

export function fileChunks(options: FileChunksOptions): ChunkStore {
  const { clock, random } = options;
  const disk = options.disk ?? nodeDisk(options);
  const layout = makeLayout(options.directory);
  if (options.durable) flushNewDirectories(layout);
  cleanUpAfterDead(layout);
  const { segmentBytesMax } = options;
  const parts = { layout, disk, clock, random, segmentBytesMax, durableGroups: new Set<string>() };
  const writer = new SegmentWriter(parts);
  const reader = new SegmentReader(parts);
  const lister = new Lister({ layout, disk, limits: options.listerLimits }, () => writer.current);
  const health = new HealthEstimate({ layout, clock, current: () => writer.current });
  const compactor = new Compactor({
    ...parts,
    current: () => writer.current?.segment,
    replaced: (segment) => reader.drop(segment),
  });

  return withAvailabilityChecks(layout, {
    write: (id, source, { owner, size, signal }) =>
      takeFrom(source, async (iterator) => {
        const large = (whole: AsyncIterator<Uint8Array>): Promise<ChunkRef> => {
          const temporary = `${layout.temporary}/${newName(parts)}${makerSuffix()}`;
          return writeLarge(parts, whole, { id, owner, size, signal, temporary });
        };
        signal?.throwIfAborted();
        if (size !== undefined && size > smallBytesMax) return large(iterator);
        return tellApart(iterator, (beginning) => {
          if ('large' in beginning) return large(beginning.large);
          const { small } = beginning;
          signal?.throwIfAborted();
          if (size === undefined || small.length === size) return writer.add(id, owner, small);
          throw new Error(`a source of ${size} bytes gave ${small.length}`);
        });
      }),

    small: { bytesMax: smallBytesMax, write: (id, bytes, owner) => writer.add(id, owner, bytes) },

    read(chunk, range, { signal, buffers } = {}) {
      const { id, size, at } = chunk;
      if (at !== undefined) return reader.read({ id, size, at }, range, { signal, buffers });
      return readLarge(parts, chunk, range, { signal, buffers });
    },

    remove: async (chunks) => removeAll(parts, await sortOut(chunks, lister)),

    removals: removalMarks(parts),

    list: (...prefixes) => lister.list(prefixes),

    async compact(signal) {
      writer.sealIfDead();
      reader.dropReplaced();
      return compactor.compact(signal);
    },

    pools: [filePool],
    health() {
      reader.dropReplaced();
      return health.get();
    },

    async close() {
      await writer.close();
      reader.close();
    },
  });
}

type FileStore = ChunkStore & Required<Pick<ChunkStore, 'small' | 'removals' | 'compact'>>;

/**
 * Checks that the directory of the store is mounted, before and after each call that may report missing chunks. Without this, gc would
 * drop the rows of chunks that come back with the disk.
 * @throws DataUnavailable
 */
function withAvailabilityChecks(layout: Layout, store: FileStore): ChunkStore {
  const { small, removals } = store;
  const fail = (error: unknown): never => rethrowFailure(layout, error);
  const whilePresent = async <T>(run: () => Promise<T>): Promise<T> => {
    assertPresent(layout);
    const result = await run().catch(fail);
    assertPresent(layout);
    return result;
  };
  return {
    ...store,
    write: (id, source, options) => store.write(id, source, options).catch(fail),
    small: { ...small, write: (id, bytes, owner) => small.write(id, bytes, owner).catch(fail) },
    read(chunk, range, options) {
      const source = store.read(chunk, range, options);
      return {
        [Symbol.asyncIterator]() {
          const pieces = source[Symbol.asyncIterator]();
          return {
            next: () => pieces.next().catch(fail),
            async return() {
              await pieces.return?.();
              return { done: true, value: undefined };
            },
          };
        },
      };
    },
    remove: (chunks) => whilePresent(() => store.remove(chunks)),
    removals: {
      isMarked: (chunk) => whilePresent(() => removals.isMarked(chunk)),
      unmark: (chunk) => whilePresent(() => removals.unmark(chunk)),
    },
    async *list(...prefixes) {
      try {
        yield* store.list(...prefixes);
      } catch (error) {
        fail(error);
      }
      assertPresent(layout);
    },
    compact: (signal) => whilePresent(() => store.compact(signal)),
    health: () => whilePresent(() => store.health()),
  };
}

/** The directories' own names must last, too, before anything in them is called durable. */
function flushNewDirectories(layout: Layout): void {
  const store = dirname(layout.segments);
  // In a data directory three levels may be new: `chunks`, the cluster's and the store's own.
  for (const path of [store, dirname(store), dirname(dirname(store))]) {
    const fd = fs.openSync(path, 'r');
    try {
      fs.fsyncSync(fd);
    } finally {
      fs.closeSync(fd);
    }
  }
}

/** Stops a source whose bytes are not needed any more. */
async function takeFrom<T>(
  source: AsyncIterable<Uint8Array>,
  take: (iterator: AsyncIterator<Uint8Array>) => Promise<T>,
): Promise<T> {
  const iterator = source[Symbol.asyncIterator]();
  try {
    return await take(iterator);
  } catch (error) {
    await iterator.return?.().catch(() => {
      // The first error is the one to report.
    });
    throw error;
  }
}

interface ToRemove {
  /** Segments and the offsets in them. */
  readonly dead: Map<string, number[]>;
  readonly large: string[];
}

async function removeAll(parts: LargeParts, { dead, large }: ToRemove): Promise<void> {
  const { layout, disk } = parts;
  let isNew = false;
  const segments = dead.entries();
  const work = async (): Promise<void> => {
    for (const [segment, offsets] of segments) {
      if (!isThere(segmentPath(layout, segment, 'seg'))) continue;
      if (await appendDead(parts, segment, offsets)) isNew = true;
    }
  };
  await Promise.all(Array.from({ length: removalsAtOnce }, work));
  if (isNew) await disk.flushDirectory(layout.segments);
  await removeLarge(parts, large);
}

async function sortOut(chunks: readonly ChunkRef[], lister: Lister): Promise<ToRemove> {
  const result: ToRemove = { dead: new Map(), large: [] };
  const add = ({ id, at }: ChunkRef | StoredChunk): void => {
    if (at === undefined) {
      result.large.push(id);
      return;
    }
    const { segment, offset } = parsePlace(at);
    const offsets = result.dead.get(segment);
    if (offsets) offsets.push(offset);
    else result.dead.set(segment, [offset]);
  };
  for (const chunk of chunks) {
    if (chunk.at !== undefined || chunk.size > smallBytesMax) {
      add(chunk);
      continue;
    }
    // Search for a small chunk whose place is unknown.
    for await (const found of lister.list([chunk.id])) if (found.id === chunk.id) add(found);
  }
  return result;
}

// Reads the beginning of a source of unknown length, to tell whether it is a small chunk or a large one.

/** The buffer that a large write needs anyway: up to here, to hold a chunk in memory costs nothing more. */
export const smallBytesMax = pieceBytes;

export type Beginning =
  | { readonly small: Uint8Array }
  /** The whole source again, its beginning included. */
  | { readonly large: AsyncIterator<Uint8Array> };

/**
 * @param use gets the beginning; what is small is valid only until `use` first awaits anything.
 */
export async function tellApart<T>(
  source: AsyncIterator<Uint8Array>,
  use: (beginning: Beginning) => Promise<T>,
): Promise<T> {
  const first = await source.next();
  if (first.done) return use({ small: new Uint8Array(0) });
  const second = await source.next();
  if (second.done && first.value.length <= smallBytesMax) return use({ small: first.value });
  if (second.done) return use({ large: again([first.value], source) });
  if (first.value.length + second.value.length > smallBytesMax) {
    return use({ large: again([first.value, second.value], source) });
  }
  const piece = borrowPiece();
  try {
    piece.set(first.value);
    piece.set(second.value, first.value.length);
    let filled = first.value.length + second.value.length;
    for (let step = await source.next(); !step.done; step = await source.next()) {
      if (filled + step.value.length > pieceBytes) {
        return await use({ large: again([piece.subarray(0, filled), step.value], source) });
      }
      piece.set(step.value, filled);
      filled += step.value.length;
    }
    return await use({ small: piece.subarray(0, filled) });
  } finally {
    returnPiece(piece);
  }
}

function again(
  beginning: readonly Uint8Array[],
  source: AsyncIterator<Uint8Array>,
): AsyncIterator<Uint8Array> {
  let turn = 0;
  return {
    async next() {
      const value = beginning[turn++];
      return value ? { done: false, value } : source.next();
    },
  };
}

const freshMs = 60_000;
/** Large files whose size is read; the others are assumed to be like them. */
const samplesMax = 1000;
const fullAt = 0.95;

const filePool = { pool: 'file', namespace: '' } as const;

/** An estimate of how full the store is: an exact count would read every directory each time. */
class HealthEstimate {
  readonly #layout: Layout;
  readonly #clock: Clock;
  #last: { readonly at: number; readonly health: Promise<ClusterStatus> } | undefined;
  readonly #current: () => Current | undefined;

  constructor(parts: {
    readonly layout: Layout;
    readonly clock: Clock;
    readonly current: () => Current | undefined;
  }) {
    this.#layout = parts.layout;
    this.#clock = parts.clock;
    this.#current = parts.current;
  }

  get(): Promise<ClusterStatus> {
    const now = this.#clock.elapsed();
    if (!this.#last || now - this.#last.at > freshMs) {
      const health = this.#estimate();
      this.#last = { at: now, health };
      health.catch(() => {
        this.#last = undefined;
      });
    }
    return this.#last.health;
  }

  async #estimate(): Promise<ClusterStatus> {
    const small = this.#small();
    const large = await this.#large();
    const { blocks, bavail } = await statfs(this.#layout.segments);
    const problems: string[] = [];
    const used = blocks > 0 ? 1 - bavail / blocks : 0;
    if (used > fullAt) problems.push(`the disk is ${Math.floor(used * 100)} % full`);
    if (small.damaged > 0) problems.push(`${small.damaged} segments hold unreadable records`);
    const pool = {
      ...filePool,
      state: 'ok',
      bytesUsed: small.bytes + large.bytes,
      chunkCount: small.count + large.count,
    } as const;
    return { status: problems.length > 0 ? 'warning' : 'ok', problems, pools: [pool] };
  }

  #small(): { bytes: number; count: number; damaged: number } {
    let bytes = 0;
    let count = 0;
    let damaged = 0;
    const current = this.#current();
    for (const segment of segmentNames(this.#layout)) {
      const stat = fs.statSync(segmentPath(this.#layout, segment, 'seg'), { throwIfNoEntry: false });
      const summary = readSummary(this.#layout, segment);
      bytes += stat?.size ?? 0;
      if (summary?.damaged) damaged++;
      const dead = (deadBytes(this.#layout, segment) - (summary?.deadSeen ?? 0)) / entryBytes;
      // The segments that other processes are writing are not counted.
      const records = segment === current?.segment ? current.records : (summary?.records ?? 0);
      count += Math.max(0, records - dead);
    }
    return { bytes, count, damaged };
  }

  async #large(): Promise<{ bytes: number; count: number }> {
    let count = 0;
    let sampled = 0;
    let sampledBytes = 0;
    for (const group of await namesIn(this.#layout.large)) {
      const names = await namesIn(`${this.#layout.large}/${group}`);
      count += names.length;
      for (const name of names.slice(0, samplesMax - sampled)) {
        const path = `${this.#layout.large}/${group}/${name}`;
        sampledBytes += fs.statSync(path, { throwIfNoEntry: false })?.size ?? 0;
        sampled++;
      }
    }
    return { count, bytes: sampled > 0 ? Math.round((sampledBytes / sampled) * count) : 0 };
  }
}

// Lists chunks from disk alone, skipping segments and directories that cannot hold the prefix.

/** With more matches than this, scanning the segment is cheaper than looking each of them up. */
const lookupsMax = 64;
const summariesMax = 64 * 1024;
const summariesBytesMax = 8 * 1024 * 1024;
/** The object of a summary with its numbers, and the heads of its texts. */
const summaryBytes = 160;

/** Limits of the cached ids of segments, and of their summaries. */
interface ListerLimits {
  readonly indexBytesMax?: number;
  readonly summariesBytesMax?: number;
}

class Lister {
  readonly #parts: Pick<LargeParts, 'layout' | 'disk'>;
  readonly #index: SegmentIndex;
  /** The segment that this process appends to, and how far it is acknowledged. */
  readonly #current: () => Current | undefined;
  /** Summaries of sealed segments: a compaction only removes records, so an old summary is still an upper bound. */
  readonly #summaries: BoundedCache<Summary>;

  constructor(
    parts: Pick<LargeParts, 'layout' | 'disk'> & { readonly limits?: ListerLimits | undefined },
    current: () => Current | undefined,
  ) {
    const { layout, limits } = parts;
    this.#parts = parts;
    this.#index = new SegmentIndex(layout, limits?.indexBytesMax);
    this.#current = current;
    this.#summaries = new BoundedCache({
      name: 'segment-summaries',
      entriesMax: summariesMax,
      bytes: {
        max: limits?.summariesBytesMax ?? summariesBytesMax,
        sizeOf: ({ first, last }, segment) => summaryBytes + first.length + last.length + segment.length,
      },
    });
  }

  async *list(prefixes: readonly string[]): AsyncGenerator<StoredChunk> {
    for (const prefix of prefixes.length === 0 ? [''] : prefixes) yield* this.#under(prefix);
  }

  /**
   * A segment that cannot be read is listed as one unreadable chunk with the segment's name, so that fsck reports it and every other file
   * is listed. Ids that it may hold are not told apart: their list fails at its end where the disk failed, and leaves them out where the
   * table is damaged, because then no chunk of the segment can be found again.
   */
  async *#under(prefix: string): AsyncGenerator<StoredChunk> {
    const { layout } = this.#parts;
    let failure: unknown;
    for (const segment of segmentNames(layout)) {
      const standIn = `${segment}.0`;
      const isNamed = standIn.startsWith(prefix);
      try {
        if (isNamed) yield* this.#listSegment(segment, prefix);
        else if (this.#mayHold(segment, prefix)) yield* this.#findInSegment(segment, prefix);
      } catch (error) {
        if (!isOfOneFile(layout, error)) throw error;
        if (isNamed) yield { id: standIn, size: 0, owner: unreadableOwner };
        else if (!(error instanceof ChunkDamaged)) failure ??= error;
      }
    }
    yield* listLarge(this.#parts, prefix);
    if (failure !== undefined) throw failure;
  }

  #mayHold(segment: string, prefix: string): boolean {
    let summary = this.#summaries.get(segment);
    if (!summary) {
      summary = readSummary(this.#parts.layout, segment);
      if (!summary || isThere(segmentPath(this.#parts.layout, segment, 'open'))) return true;
      this.#summaries.set(segment, summary);
    }
    return mayHold(summary, prefix);
  }

  /** For this process's own segment, the list ends at the records that were acknowledged when it reached the segment. */
  #endOf(segment: string): number {
    const current = this.#current();
    return current?.segment === segment ? current.end : Number.POSITIVE_INFINITY;
  }

  async *#listSegment(segment: string, prefix: string): AsyncGenerator<StoredChunk> {
    const end = this.#endOf(segment);
    const { layout } = this.#parts;
    for await (const found of readSegment(layout, segment).batches()) {
      // Read late: what was removed meanwhile is not shown.
      const dead = readDead(layout, segment).offsets;
      for (const { header, offset } of found) {
        if (offset >= end || dead.has(offset) || !header.id.startsWith(prefix)) continue;
        yield stored(segment, offset, header);
      }
    }
  }

  async *#findInSegment(segment: string, prefix: string): AsyncGenerator<StoredChunk> {
    const end = this.#endOf(segment);
    const { layout } = this.#parts;
    const indexed = await this.#index.find(segment, prefix);
    if (indexed?.length === 0) return;
    if (indexed === undefined || indexed.length > lookupsMax)
      return yield* this.#listSegment(segment, prefix);
    const dead = readDead(layout, segment).offsets;
    const live = indexed.filter(({ offset }) => offset < end && !dead.has(offset));
    for (const { offset, header } of readHeaders(layout, segment, live))
      yield stored(segment, offset, header);
  }
}

function* readHeaders(
  layout: Layout,
  segment: string,
  records: readonly IndexedRecord[],
): Generator<{ readonly offset: number; readonly header: Header }> {
  const open = records.length > 0 ? openSegment(layout, segment) : undefined;
  if (!open) return;
  try {
    const bytes = Buffer.alloc(headerBytesMax);
    for (const { offset } of records) {
      const position = open.table ? locate(open.table, offset) : offset;
      if (position === undefined) continue;
      const count = fs.readSync(open.fd, bytes, 0, bytes.length, position);
      const header = decodeHeader(bytes.subarray(0, count), { at: 0, seed: deriveSeed(segment) });
      if (header) yield { offset, header };
    }
  } finally {
    fs.closeSync(open.fd);
  }
}

function stored(segment: string, offset: number, header: Header): StoredChunk {
  const { id, size, headerBytes, ownerJson } = header;
  const at = formatPlace({ segment, offset, headerBytes });
  return { id, size, at, owner: JSON.parse(ownerJson) as Owner };
}
