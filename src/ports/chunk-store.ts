/** One cluster of chunks: opaque values of at most 4 MiB under names that are never reused. */
import type {
  ByteRange,
  ClusterStatus,
  MarkedPlace,
  Owner,
  PoolHealth,
  RemovalMarks,
} from './object-bytes.ts';

/** The reference of a chunk. */
export interface ChunkRef {
  /** `<extent id>.<index>`; letters, digits, `.`, `_` and `-`. */
  readonly id: string;
  readonly size: number;
  /** The store's own note of the chunk's location, as `write` and `list` returned it. */
  readonly at?: string;
  /**
   * The note of the last chunk of the extent, when this is an earlier chunk, because an extent stores only that note. A store that
   * keeps the chunks of an extent in one place finds all of them by it.
   */
  readonly lastAt?: string;
}

/** Its size is `unknownSize` where a torn write left only a beginning of it. */
export interface StoredChunk extends ChunkRef {
  readonly owner: Owner;
}

export interface ChunkPiece {
  readonly chunk: ChunkRef;
  readonly range: ByteRange;
}

/**
 * The buffers of one stream of reads: `next` returns three in turn, so that an array is overwritten only when the array after the next
 * is requested, also across the chunks of the stream.
 */
export interface BufferRing {
  next(length: number): Uint8Array<ArrayBuffer>;
}

export interface SmallWrite {
  readonly bytesMax: number;
  /** @param bytes not empty; read only before the store awaits anything */
  write(id: string, bytes: Uint8Array, owner: Owner): Promise<ChunkRef>;
}

/** How a store reports the memory of one chunk to its caller, which counts the memory of all writes. */
export interface ChunkMemory {
  /**
   * Registers a function that makes the store hold no more than `heldBytes` of the chunk. The caller calls it while the client is slow
   * and other writes need memory.
   * @param spill returns whether bytes are being written out first; `release` reports when they are stored
   */
  spillBy(bufferedBytes: number, spill: () => boolean): void;
  /** Reports that the store holds no more than `heldBytes`, for all readers together. */
  release(): void;
}

export type { RemovalMarks } from './object-bytes.ts';

/**
 * Promises, tested by `test/contract/chunk-store.ts`:
 * - a chunk is durable and readable when `write` returns, and `list` does not show it before (where several processes share a
 *   store, another one's `list` may show it a moment before);
 * - a write whose source throws, or that fails, leaves nothing that `list` would show;
 * - a read verifies the checksum of every 64 KiB block that it overlaps, before it yields that block;
 * - `remove` is idempotent and durable, and `list` no longer shows the chunk. A read may still find it until its space is
 *   reclaimed: a reader that began just before is not interrupted;
 * - while the store is away, each call throws `DataUnavailable`: no chunk is then missing, none is removed, and no list ends
 *   early. A read may still succeed.
 */
export interface ChunkStore {
  /** Absent: the store has no installation mark. */
  readonly marks?: readonly MarkedPlace[];
  /**
   * The memory of a chunk until it is stored, or until the store calls `memory.release`; small where absent.
   */
  readonly bufferedBytesMax?: number;
  /**
   * A source's array need be valid only until the array after the next is requested; once the source has ended, the store may read the
   * last one only before it awaits anything.
   * @param options.size known length of the source; a source of another length is refused
   */
  write(
    id: string,
    source: AsyncIterable<Uint8Array>,
    options: {
      readonly owner: Owner;
      readonly storageClass?: string | undefined;
      readonly size?: number;
      readonly memory?: ChunkMemory;
      readonly signal?: AbortSignal;
    },
  ): Promise<ChunkRef>;
  /** A faster path for a chunk that is one small array, with the promises of `write`; absent when the store has none. */
  readonly small?: SmallWrite;
  /**
   * A yielded array is valid until the array after the next is requested.
   * Throws `ChunkDamaged` before a byte of a damaged block is yielded, `ChunkMissing` when the chunk does not exist.
   */
  read(
    chunk: ChunkRef,
    range: ByteRange,
    options?: { readonly signal?: AbortSignal | undefined; readonly buffers?: BufferRing },
  ): AsyncIterable<Uint8Array>;
  /** Reads the pieces as one stream, with the promises of `read`; absent when that has no advantage. */
  readAcross?(pieces: readonly ChunkPiece[], signal?: AbortSignal): AsyncIterable<Uint8Array>;
  /** Removes in the order given, a few at a time. */
  remove(chunks: readonly ChunkRef[]): Promise<void>;
  /** Absent when the space of a removed chunk is reclaimed immediately. */
  readonly removals?: RemovalMarks<ChunkRef>;
  /** Every chunk whose id starts with one of the prefixes (without prefixes: all), unordered. No prefix may start with another one. */
  list(...prefixes: readonly string[]): AsyncIterable<StoredChunk>;
  /** Those of the chunks that exist, in the order of `ids`; absent when `list` finds them as fast. */
  named?(ids: readonly string[]): Promise<readonly StoredChunk[]>;
  /** Reclaims space: one bounded unit of work; true when there is more to do. */
  compact?(signal: AbortSignal): Promise<boolean>;
  /** Where its chunks are, for the report of a cluster that cannot be reached. */
  readonly pools?: readonly Pick<PoolHealth, 'pool' | 'namespace'>[];
  /** Throws when the cluster cannot be reached; a single pool that cannot be reached is reported as `error`. */
  health(): Promise<ClusterStatus>;
  close(): Promise<void>;
}

// Free disk space. A write is refused below a reserve, so that deletions always find space for their rows.

/** The disk is full, or its reserve has been reached: deletions work, and further data is refused. */
export class StorageFull extends Error {}

/** The file system accepts no writes; stored data can be read. */
export class StorageReadOnly extends Error {}

/** The free space of a component. */
export interface DiskState {
  /** `metadata`, or `data:<cluster>`. */
  readonly component: string;
  readonly freeBytes: number;
  /** Of the whole disk; absent while it is not known. */
  readonly sizeBytes?: number;
  /** The reason why the component takes no more data; absent when it does. */
  readonly warning?: string;
}

export interface StorageSpace {
  /** Every component whose disk this process can measure; none for stores on other machines. */
  states(): readonly DiskState[];
  /** The reason why nothing more can be stored, when metadata or every data cluster has a problem. */
  warning(): string | undefined;
}

/** ENOSPC and EDQUOT, as Node calls them and as lmdb numbers them. */
const fullCodes: ReadonlySet<unknown> = new Set(['ENOSPC', 'EDQUOT', 28, 122]);
/** EROFS, likewise. */
const readOnlyCodes: ReadonlySet<unknown> = new Set(['EROFS', 30]);
/** The largest number of nested causes that are followed. */
const depthMax = 8;

/** Whether an error, or one of its causes, says that a disk is full. */
export const isStorageFull = (error: unknown): boolean => says(error, StorageFull, fullCodes);

/** Whether an error, or one of its causes, says that a file system is read-only. */
export const isStorageReadOnly = (error: unknown): boolean => says(error, StorageReadOnly, readOnlyCodes);

function says(error: unknown, kind: typeof StorageFull, codes: ReadonlySet<unknown>): boolean {
  let cause = error;
  for (let depth = 0; depth < depthMax && cause instanceof Error; depth += 1) {
    if (cause instanceof kind || codes.has((cause as { code?: unknown }).code)) return true;
    cause = cause.cause;
  }
  return false;
}
