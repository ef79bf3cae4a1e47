/** Object bytes as the domain sees them (design §6): extents of bytes on a cluster, whatever stores them. */

/**
 * A contiguous piece of an object's content, written under one op. A chunked backend keeps it as the
 * chunks `<id>.0`, `<id>.1`, … of 4 MiB each (the last one shorter); ids are never reused nor shared.
 */
export interface Extent {
  readonly cluster: string;
  readonly id: string;
  /** `unknownSize` for what a torn write may have left: such an extent can be removed, not read. */
  readonly size: number;
  /**
   * The store's own note of where the last chunk lies (docs/adr, file chunk store). Opaque, at most
   * 40 ASCII characters; whoever keeps the extent keeps it too.
   */
  readonly at?: string;
}

/** The size of an extent whose write failed or whose chunks do not add up. */
export const unknownSize = -1;

/** The back-reference kept with the bytes: whose they were meant to be. */
export interface Owner {
  readonly bucketId: string;
  readonly key: string;
  /** The multipart session, when the bytes are a part of one. */
  readonly uploadId?: string;
  readonly part?: number;
}

/** Inclusive byte positions inside an extent. */
export interface ByteRange {
  readonly start: number;
  readonly end: number;
}

export interface WriteOptions {
  readonly cluster: string;
  /** Names the extent; derived from an op id. */
  readonly id: string;
  readonly owner: Owner;
  /** The size, when it is known before the body is read. */
  readonly size?: number;
  readonly signal?: AbortSignal;
}

/** Bytes found under an intent's prefix, with the back-reference that was stored beside them. */
export interface FoundExtent {
  readonly extent: Extent;
  readonly owner: Owner;
}

export interface ClusterHealth {
  readonly cluster: string;
  readonly state: string;
  readonly bytesUsed: number;
  readonly chunkCount: number;
  readonly warnings: readonly string[];
}

export interface ObjectBytes {
  readonly clusters: readonly string[];
  /**
   * Stores a source; durable on return. When the source throws or the signal aborts, what was stored is
   * removed as far as possible and the error is rethrown: the caller queues the extent all the same,
   * as `{ cluster, id, size: unknownSize }`. A source's array need be valid only until the next but one.
   */
  write(source: AsyncIterable<Uint8Array>, options: WriteOptions): Promise<Extent>;
  /**
   * Reads a range (the whole extent when absent). A yielded array is valid until the next but one is
   * asked for: buffers are pooled, so a consumer that keeps bytes copies them. One that holds the whole range
   * is the consumer's to keep.
   * Throws `ChunkDamaged` before a byte of a damaged block is yielded, `ChunkMissing` when it is gone.
   */
  read(extent: Extent, range?: ByteRange, signal?: AbortSignal): AsyncIterable<Uint8Array>;
  /**
   * Removes; what is already gone is fine. Durable on return. A removed extent may still be read until
   * its space is given back: a reader that came just before is not cut off.
   */
  remove(extents: readonly Extent[]): Promise<void>;
  /** The extents stored under a prefix of ids, complete or torn, on one cluster. */
  find(cluster: string, prefix: string): AsyncIterable<FoundExtent>;
  /** Gives the space of removed extents back: one bounded unit of work; true when there is more to do. */
  compact?(signal: AbortSignal): Promise<boolean>;
  health(): Promise<readonly ClusterHealth[]>;
  close(): Promise<void>;
}

/** Every chunk holds this much of an extent, the last one the rest (spec "Limits"). */
export const chunkBytes = 4 * 1024 * 1024;

/** The stored bytes do not match their checksum. */
export class ChunkDamaged extends Error {}
/** The chunk is not in the store. */
export class ChunkMissing extends Error {}
