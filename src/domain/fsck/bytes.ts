/** fsck from the bytes to the rows: checks that all stored bytes have an owner or are queued for deletion. */

import { toBase64 } from '../../base/text/base64.ts';
import { toHex } from '../../base/text/hex.ts';
import { allRows, queueSlots } from '../../metadata/background/queues.ts';
import { everyBucket, findBucket } from '../../metadata/buckets/buckets.ts';
import { manifestParts } from '../../metadata/objects/objects.ts';
import type { GarbageTask } from '../../metadata/records/queues.ts';
import type { Checksum, ManifestPart, ObjectRow, UploadPart } from '../../metadata/tables.ts';
import type { Hash, Hasher } from '../../ports/cryptography.ts';
import { MetadataDamaged, type MetadataStore } from '../../ports/metadata-store.ts';
import {
  ChunkDamaged,
  ChunkMissing,
  type Extent,
  type FoundExtent,
  type ObjectBytes,
} from '../../ports/object-bytes.ts';
import { isOwned, type Ownership, openOwnership } from '../common/ownership.ts';
import { compositeChecksum, hashNames } from '../content/digests.ts';
import type { FsckFinding, FsckRun, Repaired } from './findings.ts';
import { queueExtent } from './repairs.ts';

type Ctx = { readonly metadata: MetadataStore; readonly bytes: ObjectBytes };

/** How many extents without an owner are looked up in the deletion queue together. */
const suspectsMax = 10_000;

/** Walks over the extents of a cluster, some at a time. It cannot resume in the middle. */
export class StoredWalk {
  readonly cluster: string;
  readonly #extents: AsyncIterator<FoundExtent>;
  readonly #suspects = new Map<string, FoundExtent>();
  /** Read once. An extent whose owner it does not have is a suspect, which is checked again. */
  #ownership: Ownership | undefined;

  constructor({ bytes }: Ctx, cluster: string) {
    this.cluster = cluster;
    this.#extents = bytes.find(cluster, '')[Symbol.asyncIterator]();
  }

  /** @returns whether there is more */
  async check(run: FsckRun, count: number): Promise<boolean> {
    this.#ownership ??= await openOwnership(run);
    const ownership = this.#ownership;
    for (let seen = 0; seen < count; seen += 1) {
      run.signal.throwIfAborted();
      const { done, value: found } = await this.#extents.next();
      if (done === true) {
        await examine(run, this.#suspects);
        return false;
      }
      run.count('stored');
      if (!(await mayBeOwned(run, ownership, found))) this.#suspects.set(found.extent.id, found);
      if (this.#suspects.size >= suspectsMax) await examine(run, this.#suspects);
    }
    return true;
  }
}

/** An owner whose row is damaged counts as an owner, because the check of the metadata has reported the row. */
async function mayBeOwned(run: FsckRun, ownership: Ownership, found: FoundExtent): Promise<boolean> {
  try {
    return await isOwned(run, ownership, found);
  } catch (cause) {
    if (cause instanceof MetadataDamaged) return true;
    throw cause;
  }
}

async function examine(run: FsckRun, suspects: Map<string, FoundExtent>): Promise<void> {
  const { unowned, leaving, underway } = await sift(run, suspects);
  run.count('leaving', leaving);
  run.count('underway', underway);
  const names = unowned.length === 0 ? new Map<string, string>() : await bucketNames(run);
  for (const found of unowned) await tell(run, found, names.get(found.owner.bucketId));
  suspects.clear();
}

interface Sifted {
  readonly unowned: readonly FoundExtent[];
  /** Extents that gc or the sweeper are going to delete or judge. */
  readonly leaving: number;
  /** Extents that an open op may still commit. */
  readonly underway: number;
}

/** Extents that have no owner, cannot get one, are not queued for deletion, and still exist. */
export async function sift(ctx: Ctx, suspects: ReadonlyMap<string, FoundExtent>): Promise<Sifted> {
  if (suspects.size === 0) return { unowned: [], leaving: 0, underway: 0 };
  const left = new Map(suspects);
  // The sweep examines these next. Chunks are named `<extent>.<n>`, and a prefix may name one extent whole.
  const abandoned = await ctx.metadata.abandoned();
  let leaving = 0;
  let underway = 0;
  for (const id of suspects.keys()) {
    const isSwept = abandoned.some(({ prefix }) => `${id}.`.startsWith(prefix));
    // Ask before the last look-up of an owner: an op that is closed now cannot commit after that.
    const isOpen = !isSwept && (await isUnderway(ctx, id));
    if (!isSwept && !isOpen) continue;
    left.delete(id);
    if (isOpen) underway += 1;
    else leaving += 1;
  }
  // A row is queued in the commit that removes the owner, so read the queue after the owner.
  for await (const id of queuedExtents(ctx)) if (left.delete(id)) leaving += 1;
  // Buckets may have been created since the first look-up.
  const ownership = await openOwnership(ctx);
  const unowned: FoundExtent[] = [];
  for (const found of left.values()) {
    // Check again: a commit may have given the extent an owner, or gc may have deleted it.
    if (!(await isOwned(ctx, ownership, found)) && (await ctx.bytes.isStored(asFarAsMet(found))))
      unowned.push(found);
  }
  return { unowned, leaving, underway };
}

/** The rest of a torn extent may begin anywhere. */
const asFarAsMet = ({ extent, reach }: FoundExtent): Extent =>
  reach === undefined ? extent : { ...extent, size: reach };

/** An extent's id begins with the id of its op. */
async function isUnderway({ metadata }: Ctx, extentId: string): Promise<boolean> {
  for (let name = extentId; name !== ''; name = name.slice(0, Math.max(0, name.lastIndexOf('.'))))
    if (await metadata.isOpen(name)) return true;
  return false;
}

/** The names of the buckets by their ids. */
async function bucketNames({ metadata }: Ctx): Promise<ReadonlyMap<string, string>> {
  const names = new Map<string, string>();
  for await (const name of everyBucket(metadata)) {
    const found = await findBucket(metadata, name);
    if (found !== undefined) names.set(found.row.id, name);
  }
  return names;
}

function unownedFinding(
  { extent, owner }: FoundExtent,
  { isBucketKnown }: { readonly isBucketKnown: boolean },
): FsckFinding {
  const { bucketId, key, uploadId, part, unreadable } = owner;
  const unknown = unreadable ? 'what says whose it is cannot be read' : 'no bucket of its id is known';
  return {
    kind: 'unowned',
    detail: isBucketKnown ? 'no row owns it, and nothing will ever delete it' : unknown,
    cluster: extent.cluster,
    extent: extent.id,
    ...(isBucketKnown ? {} : { bucketId }),
    key,
    ...(uploadId === undefined ? {} : { uploadId }),
    ...(part === undefined ? {} : { part }),
  };
}

async function tell(run: FsckRun, found: FoundExtent, bucket: string | undefined): Promise<void> {
  // The bytes may belong to another gateway on a shared cluster, or be all that is left of a bucket: do not delete them.
  const leave = async (): Promise<Repaired> => ({
    left: 'its bucket may be another gateway’s, or be lost: see --rebuild',
  });
  const finding = unownedFinding(found, { isBucketKnown: bucket !== undefined });
  await run.find(finding, bucket === undefined ? leave : () => repair(run, found, bucket));
}

/** Looks once more with the bucket's current row, because the bucket may have been resharded since all of them were read. */
async function repair(run: FsckRun, found: FoundExtent, bucket: string): Promise<Repaired> {
  const row = (await findBucket(run.metadata, bucket))?.row;
  if (row?.id !== found.owner.bucketId) return { left: 'its bucket went meanwhile' };
  const ownership = { shards: new Map([[row.id, row.shards]]), seen: new Set<string>() };
  if (await isOwned(run, ownership, found)) return { left: 'a row owns it by now' };
  return queueExtent(run, { extent: asFarAsMet(found), owner: found.owner });
}

/** Everything that waits to be deleted, due or not. */
async function* queuedExtents({ metadata }: Ctx): AsyncGenerator<string> {
  for (let slot = 0; slot < queueSlots; slot += 1) {
    const cursor = allRows(metadata, 'gc', slot);
    for (let page = await cursor.next(100); page.length > 0; page = await cursor.next(100)) {
      for (const { row } of page) {
        const { extents, manifestId } = row.task as GarbageTask;
        for (const { id } of extents) yield id;
        if (manifestId === undefined) continue;
        for await (const parts of manifestParts(metadata, manifestId)) {
          for (const part of parts) yield part.extent.id;
        }
      }
    }
  }
}

// Reads the content of a version or part, and compares it with its ETag and checksums.

const md5Form = /^[0-9a-f]{32}$/;
const compositeForm = /^[0-9a-f]{32}-\d{1,5}$/;

/** In the form of the protocol: the digest of digests with `-<parts>` appended. */
const isComposite = (checksum: Expected['checksum']): boolean =>
  checksum?.type === 'COMPOSITE' || /-\d+$/.test(checksum?.value ?? '');

/** The digests in the row of a content that is stored unencrypted. */
interface Expected {
  readonly etag: string;
  readonly checksum?: Pick<Checksum, 'algorithm' | 'value'> & Partial<Pick<Checksum, 'type'>>;
  readonly isMultipart: boolean;
}

export class ContentDigests {
  readonly #hasher: Hasher;
  readonly #expected: Expected;
  readonly #partMd5s: Uint8Array[] = [];
  readonly #partSums: Uint8Array[] = [];
  #md5: Hash | undefined;
  #sum: Hash | undefined;
  #partSum: Hash | undefined;
  #fault: string | undefined;

  constructor(hasher: Hasher, expected: Expected) {
    this.#hasher = hasher;
    this.#expected = expected;
    if (!isComposite(expected.checksum)) this.#sum = this.#newSum();
    this.#begin();
  }

  #newSum(): Hash | undefined {
    const { checksum } = this.#expected;
    return checksum && this.#hasher.create(hashNames[checksum.algorithm]);
  }

  #begin(): void {
    const { etag, isMultipart } = this.#expected;
    const isComparable = isMultipart ? compositeForm.test(etag) : md5Form.test(etag);
    this.#md5 = isComparable ? this.#hasher.create('md5') : undefined;
    this.#partSum = isMultipart ? this.#newSum() : undefined;
  }

  take(bytes: Uint8Array): void {
    this.#md5?.update(bytes);
    this.#sum?.update(bytes);
    this.#partSum?.update(bytes);
  }

  /** Call it after the bytes of a part. */
  endPart(number: number, checksum: string | undefined): void {
    if (!this.#expected.isMultipart) return;
    if (this.#md5 !== undefined) this.#partMd5s.push(this.#md5.digest());
    const sum = this.#partSum?.digest();
    if (sum !== undefined) {
      this.#partSums.push(sum);
      if (checksum !== undefined && toBase64(sum) !== checksum)
        this.#fault ??= `part ${number} is not what its ${this.#expected.checksum?.algorithm} ${checksum} says`;
    }
    this.#begin();
  }

  /** Call it after all bytes. @returns a sentence about the first digest that differs, or undefined */
  fault(): string | undefined {
    const { etag, checksum, isMultipart } = this.#expected;
    const found = isMultipart ? this.#compositeEtag() : this.#md5 && toHex(this.#md5.digest());
    if (found !== undefined && found !== etag) return `its content is not what its ETag ${etag} says`;
    if (this.#fault !== undefined || checksum === undefined) return this.#fault;
    const sum = this.#checksum();
    if (sum === undefined || sum === checksum.value) return undefined;
    return `its content is not what its ${checksum.algorithm} ${checksum.value} says`;
  }

  #compositeEtag(): string | undefined {
    if (this.#md5 === undefined) return undefined;
    const md5 = this.#hasher.create('md5');
    for (const digest of this.#partMd5s) md5.update(digest);
    return `${toHex(md5.digest())}-${this.#partMd5s.length}`;
  }

  #checksum(): string | undefined {
    const { checksum, isMultipart } = this.#expected;
    if (checksum === undefined) return undefined;
    if (this.#sum !== undefined) return toBase64(this.#sum.digest());
    return isMultipart
      ? compositeChecksum(this.#hasher, hashNames[checksum.algorithm], this.#partSums)
      : undefined;
  }
}

/** Undefined when the stored bytes are encrypted, or when the store assembled the parts. */
export function digestsOfVersion(hasher: Hasher, row: ObjectRow): ContentDigests | undefined {
  const { manifest, encryption, etag, checksum } = row;
  const isMultipart = !('extents' in manifest);
  if (encryption !== undefined || (isMultipart && manifest.whole !== undefined)) return undefined;
  return new ContentDigests(hasher, { etag, isMultipart, ...(checksum === undefined ? {} : { checksum }) });
}

export function digestsOfPart(hasher: Hasher, { etag, checksum }: UploadPart): ContentDigests {
  return new ContentDigests(hasher, {
    etag,
    isMultipart: false,
    ...(checksum === undefined ? {} : { checksum }),
  });
}

// Whether the bytes that a row names are stored, complete, and unchanged.

export type Fault = Pick<FsckFinding, 'kind' | 'detail' | 'cluster' | 'extent'>;

/** An extent of a version: a part, or a piece of a content that was written as one. */
export type NamedExtent = Pick<ManifestPart, 'extent' | 'checksum'> & Partial<Pick<ManifestPart, 'number'>>;

/** The first fault among the extents. @param digests of the content; given only when all bytes are read */
export async function faultAmong(
  run: FsckRun,
  parts: readonly NamedExtent[],
  digests?: ContentDigests,
): Promise<Fault | undefined> {
  for (const { extent, number, checksum } of parts) {
    run.count('named');
    const fault = (await faultIn(run, extent, digests)) ?? (await readMark(run, extent));
    if (fault !== undefined) return fault;
    if (number !== undefined) digests?.endPart(number, checksum);
  }
  return undefined;
}

/**
 * Reads the last byte of every piece, or all bytes in a deep run: a store verifies the checksum of a block before it returns a
 * byte of it. Reading the last byte is cheap, and fails if the piece is shorter, damaged there, or missing.
 */
async function faultIn(
  run: FsckRun,
  extent: Extent,
  digests: ContentDigests | undefined,
): Promise<Fault | undefined> {
  const { bytes, signal } = run;
  const named = { cluster: extent.cluster, extent: extent.id };
  if (run.mode.deep === true) return readWhole(run, extent, digests);
  for (let start = 0; start < extent.size; start += bytes.pieceBytes) {
    const last = Math.min(start + bytes.pieceBytes, extent.size) - 1;
    try {
      let got = 0;
      for await (const piece of bytes.read(extent, { start: last, end: last }, signal)) got += piece.length;
      if (got !== 1) return { kind: 'missing', detail: `it ends before byte ${last}`, ...named };
    } catch (cause) {
      if (signal.aborted) throw cause;
      return { ...readFault(cause), ...named };
    }
  }
  return undefined;
}

/** The fault of bytes that are marked as removed but still stored: a restored backup of the metadata names them again. */
async function readMark({ bytes }: FsckRun, extent: Extent): Promise<Fault | undefined> {
  if (extent.foreign !== undefined || (await bytes.removals?.isMarked(extent)) !== true) return undefined;
  const detail = 'its bytes are marked as removed, and go when their space is given back';
  return { kind: 'removed', detail, cluster: extent.cluster, extent: extent.id };
}

async function readWhole(
  { bytes, signal }: FsckRun,
  extent: Extent,
  digests: ContentDigests | undefined,
): Promise<Fault | undefined> {
  const named = { cluster: extent.cluster, extent: extent.id };
  try {
    let got = 0;
    for await (const piece of bytes.read(extent, undefined, signal)) {
      got += piece.length;
      digests?.take(piece);
    }
    if (got === extent.size) return undefined;
    return { kind: 'missing', detail: `it has ${got} of ${extent.size} bytes`, ...named };
  } catch (cause) {
    if (signal.aborted) throw cause;
    return { ...readFault(cause), ...named };
  }
}

export interface ReadFault {
  readonly kind: 'missing' | 'damaged' | 'unreadable';
  readonly detail: string;
}

/** What the error of a read says about the bytes. */
export function readFault(cause: unknown): ReadFault {
  const detail = cause instanceof Error ? cause.message : String(cause);
  if (cause instanceof ChunkMissing) return { kind: 'missing', detail };
  return { kind: cause instanceof ChunkDamaged ? 'damaged' : 'unreadable', detail };
}
