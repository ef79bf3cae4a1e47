/** Object bytes as the domain uses them: extents of bytes on a cluster, in any store. */
import type { CallUse } from './trace.ts';

/**
 * A contiguous piece of an object's content, written under one op. A chunked backend keeps it as the
 * chunks `<id>.0`, `<id>.1`, … of 4 MiB each (the last one shorter); ids are never reused nor shared.
 */
export interface Extent {
  readonly cluster: string;
  readonly id: string;
  /** In bytes. `unknownSize` for an extent that a torn write may have left: it can be removed, not read. */
  readonly size: number;
  /**
   * The store's own note of the last chunk's location (docs/adr, file chunk store). Opaque, at most 40 ASCII characters; stored with the
   * extent.
   */
  readonly at?: string;
  /** The id that its encryption is bound to, when the extent was copied to another id since, byte for byte. */
  readonly sealedAs?: string;
  /** The bytes are an object that a client put into the store itself. It is read, and never removed (ADR 15). */
  readonly foreign?: { readonly key: string; readonly etag: string };
}

/** The size of an extent whose write failed or whose chunks do not add up. */
export const unknownSize = -1;

/**
 * The back-reference that is stored with the bytes: the intended owner, and the facts for rebuilding a lost row
 * (`sluice fsck --rebuild`). It is written before the commit, so it does not prove ownership.
 */
export interface Owner {
  readonly bucketId: string;
  readonly key: string;
  /** The version id that the write has drawn; after a race the version may have a later one. On parts: of replicas only. */
  readonly version?: string;
  /** The multipart session, when the bytes are a part of one. */
  readonly uploadId?: string;
  readonly part?: number;
  /** The size of the extent, where it was known beforehand: fewer bytes mean an interrupted write. */
  readonly size?: number;
  /** Absent: STANDARD. */
  readonly storageClass?: string;
  /** The bytes are encrypted: without their row they cannot be read. */
  readonly encrypted?: true;
  /** Never stored: the owner record is unreadable; treat the extent as neither owned nor orphaned. */
  readonly unreadable?: true;
}

/** Inclusive byte positions inside an extent. */
export interface ByteRange {
  readonly start: number;
  readonly end: number;
}

export interface WriteOptions extends CallUse {
  readonly cluster: string;
  /** Names the extent; derived from an op id. */
  readonly id: string;
  readonly owner: Owner;
  /** The storage class of the public API; a cluster may have a separate pool for each. */
  readonly storageClass?: string | undefined;
  /** The size, where it is known before the body is read. */
  readonly size?: number;
  /** Called with the hexadecimal MD5 of the stored bytes, by a store that computes it; throws on a mismatch with the sender's. */
  readonly confirm?: ((md5: string) => void) | undefined;
  /** Only where the store `verifies`. @throws ContentMismatch when the content differs: none of it is stored then */
  readonly claimed?: ClaimedDigests | undefined;
  readonly signal?: AbortSignal;
}

/** The digests that the sender of a content declared. */
export interface ClaimedDigests {
  /** Hexadecimal, in lower case. */
  readonly sha256: string;
  /** Base64. */
  readonly md5?: string | undefined;
}

/** Bytes found under an intent's prefix, with the back-reference that was stored beside them. */
export interface FoundExtent {
  readonly extent: Extent;
  readonly owner: Owner;
  /**
   * For a torn extent: the end of the last piece that was found. Removing an extent of this size removes all of it, whatever is missing
   * before; with `unknownSize`, the pieces that are found from its beginning.
   */
  readonly reach?: number;
}

/** One place for chunks that a cluster accounts for: a pool and namespace of Ceph, a bucket of an upstream. */
export interface PoolHealth {
  /** The name of the backend where it has no pools. */
  readonly pool: string;
  /** '' when the backend has no namespaces. */
  readonly namespace: string;
  /** `reachable`: an upstream that answers; it does not report its usage. */
  readonly state: 'ok' | 'reachable' | 'error';
  /** Both are estimates, at most a minute old; 0 when they are unknown. */
  readonly bytesUsed: number;
  readonly chunkCount: number;
  /**
   * How many more bytes of content fit, replication counted; absent where the backend does not report it. The domain
   * adds that of local disks.
   */
  readonly bytesFree?: number;
  /** The reason for the state `error`. The other pools of the cluster are reported nevertheless. */
  readonly error?: string;
}

/** The raw status of a cluster; `domain/storage/storage-health.ts` makes the texts of warnings from it. */
export interface ClusterStatus {
  /** `ok`, or the cluster's own word, such as `HEALTH_OK` or `HEALTH_WARN`. */
  readonly status: string;
  /** The cluster's health warnings, without muted ones; in no defined order. */
  readonly problems: readonly string[];
  readonly pools: readonly PoolHealth[];
}

export interface ClusterHealth extends ClusterStatus {
  readonly cluster: string;
}

/** The status of a cluster that cannot be reached; its one problem is the reason. */
export const unreachable = 'unreachable';

/** An upload by the names of the store that holds its parts. */
export interface ForwardedUpload {
  readonly cluster: string;
  readonly bucket: string;
  readonly key: string;
  readonly uploadId: string;
}

/** A part that such a store holds. */
export interface ForwardedPart {
  readonly part: number;
  readonly size: number;
  /** The receipt that the store requires at the completion; it identifies this content of the part. */
  readonly receipt: string;
}

interface ForwardedPartWrite
  extends Pick<WriteOptions, 'account' | 'size' | 'confirm' | 'claimed' | 'signal' | 'cause'> {
  readonly upload: ForwardedUpload;
  readonly part: number;
}

interface CompletionUse extends CallUse {
  /** No other list of parts was ever requested: an extent that the store has was assembled from these. */
  readonly isOnlyList?: boolean;
}

/**
 * Uploads whose parts the store itself holds, and assembles into one extent. Until then `find` returns the extent with unknown size,
 * and its owner has nothing but the id of the session, which the extent's id ends with.
 */
export interface UploadBytes {
  /** Opens an upload that is to become the extent `id`. */
  begin(
    options: Pick<WriteOptions, 'account' | 'cluster' | 'id' | 'owner' | 'cause'>,
  ): Promise<ForwardedUpload>;
  /** Stores a part; the same number again replaces it. A source that throws replaces nothing. @throws UploadGone */
  writePart(source: AsyncIterable<Uint8Array>, options: ForwardedPartWrite): Promise<ForwardedPart>;
  /**
   * Assembles the extent from these parts; durable on return, and idempotent for the same parts.
   * @throws PartsChanged, UploadGone
   */
  complete(upload: ForwardedUpload, parts: readonly ForwardedPart[], use?: CompletionUse): Promise<void>;
  /** Removes the parts and the extent, as far as there are any. Idempotent. */
  discard(upload: ForwardedUpload, use?: CallUse): Promise<void>;
}

export interface StoredMark {
  readonly text: string;
  /** Distinguishes this mark from one that another gateway writes over it; '' when the store has no revisions. */
  readonly revision: string;
}

/** A part of a store that belongs to one installation, and the mark there that names the installation. */
export interface MarkedPlace {
  readonly cluster: string;
  /** The metadata lists the places that were marked by these ids. */
  readonly id: string;
  /** For messages. */
  readonly path: string;
  /** Undefined when there is none. @throws when the store does not answer within a few seconds */
  read(): Promise<StoredMark | undefined>;
  /** Replaces the `former` mark, or none; a mark that another gateway wrote meanwhile stays. */
  write(text: string, former: StoredMark | undefined): Promise<void>;
}

/** An object in a store that the gateway did not write. */
export interface UnmanagedObject {
  readonly key: string;
  readonly size: number;
  /** Without quotes. */
  readonly etag: string;
  /** ms since the epoch. */
  readonly modified: number;
}

export interface UnmanagedPage {
  readonly objects: readonly UnmanagedObject[];
  /** Keys of this page that are left out, because the gateway stores its own objects there, or because they cannot be read. */
  readonly skipped: number;
  /** Keys of this page that are no UTF-8, as the store wrote them. */
  readonly unreadable: readonly string[];
  /** The last key of the page that can be read; the next page starts after it. Undefined: this is the last page. */
  readonly last: string | undefined;
  /** Names the next page where unreadable keys are behind `last`. */
  readonly token?: string | undefined;
}

/** What the store reports about one foreign object. */
export interface UnmanagedDetails extends UnmanagedObject {
  /** By their names in lower case. */
  readonly system: Readonly<Record<string, string>>;
  readonly user: Readonly<Record<string, string>>;
}

/** Objects that clients put into a store themselves. */
export interface UnmanagedObjects {
  /** The reason why objects cannot be imported from a cluster; undefined when they can. */
  refusal(cluster: string): string | undefined;
  /** Objects after a key, in the byte order of their keys. */
  list(
    cluster: string,
    page: {
      readonly after: string;
      /** Of the page before. */
      readonly token?: string | undefined;
      readonly max: number;
      readonly signal: AbortSignal;
    },
  ): Promise<UnmanagedPage>;
  /** Undefined for an object that does not exist, that a gateway stored, or that its HEAD does not describe. */
  describe(cluster: string, key: string, signal: AbortSignal): Promise<UnmanagedDetails | undefined>;
}

/** Removed bytes that can still be read, because their space has not been reclaimed. */
export interface RemovalMarks<Ref> {
  isMarked(ref: Ref): Promise<boolean>;
  /** Durable on return. If the space is being reclaimed at that moment, the bytes may be lost nevertheless. */
  unmark(ref: Ref): Promise<void>;
}

export interface ObjectBytes {
  readonly clusters: readonly string[];
  /** An extent is kept in pieces of this size, each of which may be missing or damaged alone. */
  readonly pieceBytes: number;
  /** Absent: each part of an upload is a separate extent. */
  readonly uploads?: UploadBytes | undefined;
  /** Absent: the store has no installation mark. */
  readonly marks?: readonly MarkedPlace[] | undefined;
  /** Absent: nothing but the gateway puts objects into the store. */
  readonly foreign?: UnmanagedObjects | undefined;
  /**
   * Whether the store itself compares a content of this size with the digests that its sender `claimed`, and confirms its MD5: then no
   * other component has to hash it. Absent: never.
   */
  readonly verifies?: ((cluster: string, size: number) => Promise<boolean>) | undefined;
  /**
   * Stores a source; durable on return. When the source throws or the signal aborts, the stored bytes are removed as far as possible and
   * the error is rethrown: the caller queues the extent in any case, as `{ cluster, id, size: unknownSize }`. A source's array need be
   * valid only until the next but one.
   */
  write(source: AsyncIterable<Uint8Array>, options: WriteOptions): Promise<Extent>;
  /**
   * Reads a range (the whole extent when absent). A yielded array is valid until the next but one is requested: buffers are pooled, so a
   * consumer that keeps bytes copies them. An array that holds the whole range belongs to the consumer.
   * Throws `ChunkDamaged` before a byte of a damaged block is yielded, `ChunkMissing` when bytes do not exist.
   */
  read(extent: Extent, range?: ByteRange, signal?: AbortSignal, use?: CallUse): AsyncIterable<Uint8Array>;
  /**
   * Removes extents; missing ones are no error. Durable on return. A removed extent may still be readable until its space is reclaimed: a
   * reader that began just before is not interrupted.
   */
  remove(extents: readonly Extent[]): Promise<void>;
  /**
   * The extents on one cluster, complete or torn, whose ids start with any of the prefixes. No prefix may start with another one;
   * without prefixes the result is empty.
   */
  find(cluster: string, ...prefixes: readonly string[]): AsyncIterable<FoundExtent>;
  /** Whether a cluster has any extent, complete or torn; returns as soon as one is found. */
  holdsAnything(cluster: string): Promise<boolean>;
  /** Whether any piece of an extent exists; costs no more than removing it. */
  isStored(extent: Extent): Promise<boolean>;
  /** Absent when the space of removed bytes is reclaimed immediately. */
  readonly removals?: RemovalMarks<Extent> | undefined;
  /** Reclaims the space of removed extents: one bounded unit of work; true when there is more to do. */
  readonly compact?: ((signal: AbortSignal) => Promise<boolean>) | undefined;
  /**
   * Reports every cluster, also if others fail: one that does not answer is `unreachable`.
   * @param cluster the only one to ask, so that the report waits for no other one; an unknown cluster has no report
   */
  health(cluster?: string): Promise<readonly ClusterHealth[]>;
  close(): Promise<void>;
}

/** Every chunk holds this much of an extent, the last one the rest. */
export const chunkBytes = 4 * 1024 * 1024;

/** The stored bytes do not match their checksum. */
export class ChunkDamaged extends Error {}
/** The content does not match the digests that its sender claimed. */
export class ContentMismatch extends Error {
  readonly digest: keyof ClaimedDigests;

  constructor(digest: keyof ClaimedDigests, options: { readonly cause: unknown }) {
    super(`the content has another ${digest} than its sender said`, options);
    this.digest = digest;
  }
}
/** The chunk is not in the store. */
export class ChunkMissing extends Error {}
/** The cluster cannot be reached or does not answer in time: the outcome of the operation is unknown. */
export class DataUnavailable extends Error {}
/** The store lacks parts that a completion names, or has other contents for them. */
export class PartsChanged extends Error {}
/** The store does not have the upload, or no longer. */
export class UploadGone extends Error {}

// The cached view of the data clusters: one snapshot for every write of a process.

export type ClusterState = 'pending' | 'live' | 'draining_readonly' | 'evacuating' | 'removed';

/** A snapshot of the states of all listed clusters. */
export interface ClusterView {
  readonly states: ReadonlyMap<string, ClusterState>;
  /** The default policy: the weight of every live cluster that has one. */
  readonly weights: ReadonlyMap<string, number>;
  /** The exclude set: clusters that take no fresh writes. */
  readonly closed: ReadonlySet<string>;
  /** The only cluster of the default policy, so that no choice is needed; otherwise undefined. */
  readonly only: string | undefined;
  /** Listed clusters whose rows are damaged; they take no writes. */
  readonly damaged: readonly string[];
  /** Clusters that the settings do not list although they may hold chunks. Their objects cannot be read. */
  readonly leftOut: readonly string[];
}

export interface ClusterStates {
  /** The view, at most 30 s old. */
  view(): Promise<ClusterView>;
  /**
   * Call it when a row of a cluster was changed, or may have been. When it resolves, no process of this node places writes by an
   * older view: each has dropped its view, or the view has expired after 30 s. Never rejects.
   */
  changed(): Promise<void>;
}
