/** Finds the owner of stored bytes. The sweeper, gc, fsck and the clean-up of a failed write look it up before they delete bytes. */
import type { Context } from '../../context.ts';
import { everySoundBucket, findBucket } from '../../metadata/buckets/buckets.ts';
import { manifestParts } from '../../metadata/objects/objects.ts';
import { findSession } from '../../metadata/objects/uploads.ts';
import {
  type BucketRow,
  type Manifest,
  type ManifestPart,
  manifestSegmentParts,
  type ObjectRow,
  uploads,
} from '../../metadata/tables.ts';
import { MetadataDamaged } from '../../ports/metadata-store.ts';
import type { Extent, FoundExtent, Owner } from '../../ports/object-bytes.ts';
import { unlessDamaged } from './damaged-buckets.ts';
import { inlineExtents } from './garbage.ts';
import { findAmongVersions, KeyChanging } from './version-search.ts';

type Ctx = Pick<Context, 'metadata'>;

/** Extents that were found to be owned while the owner of another one was looked up. */
const seenMax = 20_000;
/** Keys that are remembered because writers change them all the time; further ones are searched each time. */
const changingMax = 1_000;

/** The state of one run over many extents; `shards` holds the shard counts by bucket id. */
export interface Ownership {
  readonly shards: ReadonlyMap<string, number>;
  /** A damaged row of a bucket, or of the list of buckets: bytes of a bucket that is missing in `shards` may have an owner. */
  readonly damage?: MetadataDamaged | undefined;
  /** Extents that were owned when they were found. A change that removes an owner queues the bytes itself, so this never gets stale. */
  readonly seen: Set<string>;
  /** Keys that writers changed during a search, by bucket and key. Each search costs many reads, so a run makes one. */
  readonly changing: Map<string, KeyChanging>;
}

/** For bytes of one bucket. */
export const ownershipIn = ({ id, shards }: Pick<BucketRow, 'id' | 'shards'>): Ownership => ({
  shards: new Map([[id, shards]]),
  seen: new Set(),
  changing: new Map(),
});

/**
 * The shard counts of all buckets by id. A bucket that is missing was deleted, which requires that it had no objects, or is not in the
 * lists yet (`hasUnlistedBuckets`). A bucket that is created later owns nothing that was stored before.
 */
export async function openOwnership({ metadata }: Ctx): Promise<Ownership> {
  const shards = new Map<string, number>();
  let damage: MetadataDamaged | undefined;
  const onDamaged = (damaged: MetadataDamaged): void => {
    damage ??= damaged;
  };
  for await (const name of everySoundBucket(metadata, onDamaged)) {
    const found = await unlessDamaged(() => findBucket(metadata, name));
    if (found instanceof MetadataDamaged) onDamaged(found);
    else if (found !== undefined) shards.set(found.row.id, found.row.shards);
  }
  return { shards, damage, seen: new Set(), changing: new Map() };
}

/**
 * Whether a row owns these bytes. Only for bytes that no commit can name any more: those of an open write have no owner yet. A read
 * that fails throws, because nothing may be deleted without an answer.
 * @throws MetadataDamaged, KeyChanging where nothing is known about these bytes now; other bytes can still be examined
 */
export async function isOwned(ctx: Ctx, ownership: Ownership, found: FoundExtent): Promise<boolean> {
  const { extent, owner } = found;
  if (ownership.seen.delete(extent.id)) return true;
  if (owner.uploadId !== undefined && owner.part === undefined) return isOwnedUpload(ctx, ownership, found);
  // Completing an upload moves its parts from the session to the object: read the session first.
  return (await isUploadPart(ctx, owner, extent)) || (await isInVersions(ctx, ownership, found));
}

/**
 * The answer of `isOwned`, for work on many bytes: it goes on with those of keys that stand still.
 * @throws MetadataDamaged
 */
export async function findWhetherOwned(
  ctx: Ctx,
  ownership: Ownership,
  found: FoundExtent,
): Promise<'owned' | 'unowned' | KeyChanging> {
  try {
    return (await isOwned(ctx, ownership, found)) ? 'owned' : 'unowned';
  } catch (cause) {
    if (cause instanceof KeyChanging) return cause;
    throw cause;
  }
}

/** An extent that a store assembled belongs to its session until the session ends, and then to the version. */
async function isOwnedUpload(
  ctx: Ctx,
  ownership: Ownership,
  { extent, owner }: FoundExtent,
): Promise<boolean> {
  const session = (await findSession(ctx.metadata, owner.uploadId ?? ''))?.row.session;
  if (session?.extentId !== extent.id) return isInVersions(ctx, ownership, { extent, owner });
  if (session.state === 'uploading' || session.state === 'completing') return true;
  const { bucketId, key } = session;
  return isInVersions(ctx, ownership, { extent, owner: { ...owner, bucketId, key } });
}

async function isUploadPart({ metadata }: Ctx, owner: Owner, extent: Extent): Promise<boolean> {
  const { uploadId, part } = owner;
  if (uploadId === undefined || part === undefined) return false;
  const found = await metadata.get({ table: uploads, in: { uploadId } }, { part });
  return found?.row.stored?.extent.id === extent.id;
}

async function isInVersions(ctx: Ctx, ownership: Ownership, found: FoundExtent): Promise<boolean> {
  const { bucketId, key } = found.owner;
  const shards = ownership.shards.get(bucketId);
  if (shards === undefined && ownership.damage !== undefined) throw ownership.damage;
  if (shards === undefined) return false;
  const { changing } = ownership;
  const place = `${bucketId}/${key}`;
  const known = changing.get(place);
  if (known !== undefined) throw known;
  const bucket = { id: bucketId, shards, generation: 0 };
  try {
    return (await findAmongVersions(ctx, bucket, key, ownsIn(ctx, ownership, found))) !== undefined;
  } catch (cause) {
    if (cause instanceof KeyChanging && changing.size < changingMax) changing.set(place, cause);
    throw cause;
  }
}

function ownsIn(ctx: Ctx, { seen }: Ownership, { extent, owner }: FoundExtent) {
  return async (row: ObjectRow): Promise<boolean> => {
    const { manifest } = row;
    const isSegmented = 'manifestId' in manifest && manifest.whole === undefined;
    if (isSegmented) return isInSegments(ctx, manifest, { extent, part: owner.part });
    const named = inlineExtents(manifest);
    let owns = false;
    for (const each of named) {
      if (each.id === extent.id) owns = true;
      else if (seen.size < seenMax) seen.add(each.id);
    }
    return owns;
  };
}

type Segmented = Extract<Manifest, { manifestId: string }>;

/** A binary search, because parts ascend by number over the segments. */
async function isInSegments(
  { metadata }: Ctx,
  manifest: Segmented,
  requested: { readonly extent: Extent; readonly part: number | undefined },
): Promise<boolean> {
  const holds = (parts: readonly ManifestPart[]) =>
    parts.some(({ extent }) => extent.id === requested.extent.id);
  let low = 0;
  let high = Math.ceil(manifest.partCount / manifestSegmentParts) - 1;
  while (requested.part !== undefined && low <= high) {
    const middle = (low + high) >> 1;
    const { value: parts } = await manifestParts(metadata, manifest.manifestId, middle).next();
    const [first, last] = [parts?.[0], parts?.at(-1)];
    if (parts === undefined || first === undefined || last === undefined) break;
    if (requested.part < first.number) high = middle - 1;
    else if (requested.part > last.number) low = middle + 1;
    else if (holds(parts)) return true;
    else break;
  }
  // The part number was only a hint. Read every part before the answer "not owned".
  for await (const parts of manifestParts(metadata, manifest.manifestId)) if (holds(parts)) return true;
  return false;
}
