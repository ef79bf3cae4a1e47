/** One cluster of chunks (design §6): opaque values of at most 4 MiB under names that are never reused. */
import type { ByteRange, Owner } from './object-bytes.ts';

/** What it takes to find a chunk again. */
export interface ChunkRef {
  /** `<extent id>.<index>`; letters, digits, `.`, `_` and `-`. */
  readonly id: string;
  readonly size: number;
  /** The store's own note of where the chunk lies, as `write` and `list` gave it. */
  readonly at?: string;
}

export interface StoredChunk extends ChunkRef {
  readonly owner: Owner;
}

export interface ChunkStoreHealth {
  readonly state: string;
  /** Both are estimates, at most a minute old. */
  readonly bytesUsed: number;
  readonly chunkCount: number;
  readonly warnings: readonly string[];
}

/**
 * The buffers of one stream of reads: `next` hands out three in turn, so that an array is overwritten
 * only when the next but one is asked for, also across the chunks that the stream goes through.
 */
export interface BufferRing {
  next(length: number): Uint8Array<ArrayBuffer>;
}

/**
 * Promises, tested by `test/contract/chunk-store.ts`:
 * - a chunk is durable and readable when `write` returns, and `list` does not show it before (where
 *   several processes share a store, another one's `list` may show it a moment before);
 * - a write whose source throws, or that fails, leaves nothing behind that `list` would show;
 * - a read verifies the checksum of every 64 KiB block that it touches, before it yields that block;
 * - `remove` is idempotent and durable, and `list` no longer shows the chunk. A read may still find it
 *   until its space is given back: a reader that came just before is not cut off.
 */
export interface ChunkStore {
  /**
   * A source's array need be valid only until the next but one is asked for; once the source is done,
   * the store may look at the last one only before it awaits anything.
   * @param options.size known length of the source; a source of another length is refused
   */
  write(
    id: string,
    source: AsyncIterable<Uint8Array>,
    options: { readonly owner: Owner; readonly size?: number; readonly signal?: AbortSignal },
  ): Promise<ChunkRef>;
  /**
   * A yielded array is valid until the next but one is asked for.
   * Throws `ChunkDamaged` before a byte of a damaged block is yielded, `ChunkMissing` when it is gone.
   */
  read(
    chunk: ChunkRef,
    range: ByteRange,
    options?: { readonly signal?: AbortSignal | undefined; readonly buffers?: BufferRing },
  ): AsyncIterable<Uint8Array>;
  remove(chunks: readonly ChunkRef[]): Promise<void>;
  /** Every chunk whose id starts with `prefix` (all without), in no set order. */
  list(prefix?: string): AsyncIterable<StoredChunk>;
  /** Gives space back: one bounded unit of work; true when there is more to do. */
  compact?(signal: AbortSignal): Promise<boolean>;
  health(): Promise<ChunkStoreHealth>;
  close(): Promise<void>;
}
