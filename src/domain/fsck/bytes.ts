/** fsck from the bytes to the rows: checks that all stored bytes have an owner or are queued for deletion. */

import { allRows, queueSlots } from '../../metadata/background/queues.ts';
import { everyBucket, findBucket } from '../../metadata/buckets/buckets.ts';
import { manifestParts } from '../../metadata/objects/objects.ts';
import type { GarbageTask } from '../../metadata/records/queues.ts';
import type { MetadataStore } from '../../ports/metadata-store.ts';
import {
  ChunkDamaged,
  ChunkMissing,
  type Extent,
  type FoundExtent,
  type ObjectBytes,
} from '../../ports/object-bytes.ts';
import { unlessDamaged } from '../common/damaged-buckets.ts';
import { findWhetherOwned, type Ownership, openOwnership, ownershipIn } from '../common/ownership.ts';
import { KeyChanging } from '../common/version-search.ts';
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

/**
 * An owner whose row is damaged counts as an owner, because the check of the metadata has reported the row. So does one
 * that cannot be found while writers change the key: the next run looks again.
 */
const mayBeOwned = async (ctx: Ctx, ownership: Ownership, found: FoundExtent): Promise<boolean> =>
  (await unlessDamaged(() => findWhetherOwned(ctx, ownership, found))) !== 'unowned';

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
  /** Extents that an open op may still commit, or whose key writers change all the time. */
  readonly underway: number;
}

/**
 * Extents that have no owner, cannot get one, are not queued for deletion, and still exist.
 * @param includesSwept also those that the sweep would examine. A backup of the metadata has the ops of the gateways that ran beside it:
 * after its restore they cover all that these gateways have stored since.
 */
export async function sift(
  ctx: Ctx,
  suspects: ReadonlyMap<string, FoundExtent>,
  { includesSwept = false }: { readonly includesSwept?: boolean } = {},
): Promise<Sifted> {
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
    if (!isOpen && (!isSwept || includesSwept)) continue;
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
    const answer = await findWhetherOwned(ctx, ownership, found);
    // The next run looks again.
    if (answer instanceof KeyChanging) underway += 1;
    else if (answer === 'unowned' && (await ctx.bytes.isStored(asFarAsMet(found)))) unowned.push(found);
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
    left:
      found.owner.unreadable === true
        ? 'its owner cannot be read: see docs/recovery.md'
        : 'its bucket may be another gateway’s, or be lost: see --rebuild',
  });
  const finding = unownedFinding(found, { isBucketKnown: bucket !== undefined });
  await run.find(finding, bucket === undefined ? leave : () => repair(run, found, bucket));
}

/** Looks once more with the bucket's current row, because the bucket may have been resharded since all of them were read. */
async function repair(run: FsckRun, found: FoundExtent, bucket: string): Promise<Repaired> {
  const row = (await findBucket(run.metadata, bucket))?.row;
  if (row?.id !== found.owner.bucketId) return { left: 'its bucket went meanwhile' };
  const answer = await findWhetherOwned(run, ownershipIn(row), found);
  if (answer instanceof KeyChanging)
    return { left: 'its key changes all the time: the next run looks again' };
  if (answer === 'owned') return { left: 'a row owns it by now' };
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
