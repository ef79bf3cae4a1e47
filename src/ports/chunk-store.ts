/** One cluster of chunks (design §6): opaque values of at most 4 MiB under names that are never reused. */
import type { ByteRange, Owner } from './object-bytes.ts';

export interface StoredChunk {
  /** `<extent id>.<index>` */
  readonly id: string;
  readonly size: number;
  readonly owner: Owner;
}

export interface ChunkStoreHealth {
  readonly state: string;
  readonly bytesUsed: number;
  readonly chunkCount: number;
  readonly warnings: readonly string[];
}

/**
 * Promises, tested by `test/contract/chunk-store.ts`:
 * - a chunk is durable and readable when `write` returns, and invisible to `read` and `list` before;
 * - a write whose source throws leaves nothing behind that `list` would show;
 * - a read verifies the checksum of every 64 KiB block that it touches, before it yields that block;
 * - `remove` is idempotent and durable no later than a crash may undo it harmlessly.
 */
export interface ChunkStore {
  /** @param size known length of the source, or undefined. Returns the number of bytes stored. */
  write(
    id: string,
    source: AsyncIterable<Uint8Array>,
    options: { readonly owner: Owner; readonly size?: number; readonly signal?: AbortSignal },
  ): Promise<number>;
  /** A yielded array is valid until the next but one is asked for. */
  read(id: string, range: ByteRange, signal?: AbortSignal): AsyncIterable<Uint8Array>;
  remove(ids: readonly string[]): Promise<void>;
  /** Every chunk whose id starts with `prefix` (all without), in no set order. */
  list(prefix?: string): AsyncIterable<StoredChunk>;
  /** Gives space back: one bounded unit of work; true when there is more to do. */
  compact?(signal: AbortSignal): Promise<boolean>;
  health(): Promise<ChunkStoreHealth>;
  close(): Promise<void>;
}
