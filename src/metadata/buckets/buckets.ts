/** Bucket rows, their indexes, and the documents that they name. */

import { BoundedCache, type Caches } from '../../base/bounded-cache.ts';
import { hashToShard } from '../../base/shard.ts';
import type {
  At,
  Change,
  MetadataDamaged,
  MetadataStore,
  Outcome,
  SideChange,
  Stored,
} from '../../ports/metadata-store.ts';
import { mergeRows, prefixRange } from '../objects/objects.ts';
import { announcing, subscribeToChanges } from '../shared-changes.ts';
import { nextSound, soundPages } from '../sound-rows.ts';
import { type BucketRow, buckets } from '../tables.ts';
import { bucketsAll, bucketsByOwner, documents, type OwnedBucketRow } from './records.ts';

// Bucket rows and their indexes.

type Metadata = Pick<MetadataStore, 'get' | 'scan' | 'commit'>;

const bucketAt = (name: string): At<typeof buckets> => ({ table: buckets, in: { name } });
const ownedBy = (owner: string): At<typeof bucketsByOwner> => ({ table: bucketsByOwner, in: { owner } });

/** Buckets are listed for the background in this many slots, so that no partition holds them all. */
export const bucketSlots = 16;
export const bucketSlotOf = (name: string): number => hashToShard(name, bucketSlots);
const inSlot = (slot: number): At<typeof bucketsAll> => ({ table: bucketsAll, in: { slot } });

export const findBucket = (metadata: Metadata, name: string): Promise<Stored<BucketRow> | undefined> =>
  metadata.get(bucketAt(name), {});

/** The bucket's rows in the lists of buckets. */
const indexBucket = ({ name, owner, created, region }: BucketRow): SideChange[] => [
  { at: ownedBy(owner), put: { owner, name, created, region } },
  { at: inSlot(bucketSlotOf(name)), put: { slot: bucketSlotOf(name), name } },
];

/** Every change of a bucket's row. Whatever its outcome, each process of this node reads the row again. */
const changeRow = (
  metadata: Metadata,
  name: string,
  change: Change<typeof buckets>,
  then: readonly SideChange[],
): Promise<Outcome<typeof buckets>> =>
  announcing(metadata, { topic: 'bucket', about: name }, metadata.commit(bucketAt(name), [change], { then }));

export const insertBucket = (
  metadata: Metadata,
  row: BucketRow,
  then: readonly SideChange[] = [],
): Promise<Outcome<typeof buckets>> =>
  changeRow(metadata, row.name, { put: row, expect: 'absent' }, [...indexBucket(row), ...then]);

/** Whether the owner's list has the bucket. In stores that apply side changes after their commit it may be missing for a while. */
export const isListed = async (metadata: Metadata, { owner, name }: BucketRow): Promise<boolean> =>
  (await metadata.get(ownedBy(owner), { name })) !== undefined;

/** Adds the bucket to the lists if its row has not changed. */
export const listBucket = (metadata: Metadata, found: Stored<BucketRow>): Promise<Outcome<typeof buckets>> =>
  replaceBucket(metadata, found, found.row, indexBucket(found.row));

export const replaceBucket = (
  metadata: Metadata,
  found: Stored<BucketRow>,
  next: BucketRow,
  then: readonly SideChange[] = [],
): Promise<Outcome<typeof buckets>> =>
  changeRow(metadata, next.name, { put: next, expect: found.revision }, then);

/** Writes the row of a bucket that has another owner now, and moves it to that owner's list. */
export const moveBucket = (
  metadata: Metadata,
  found: Stored<BucketRow>,
  next: BucketRow,
  then: readonly SideChange[],
): Promise<Outcome<typeof buckets>> =>
  replaceBucket(metadata, found, next, [
    { at: ownedBy(found.row.owner), remove: { name: next.name } },
    ...indexBucket(next),
    ...then,
  ]);

export const removeBucket = (
  metadata: Metadata,
  found: Stored<BucketRow>,
  then: readonly SideChange[] = [],
): Promise<Outcome<typeof buckets>> =>
  changeRow(metadata, found.row.name, { remove: {}, expect: found.revision }, [
    { at: ownedBy(found.row.owner), remove: { name: found.row.name } },
    { at: inSlot(bucketSlotOf(found.row.name)), remove: { name: found.row.name } },
    ...Object.values(found.row.documents).flatMap(documentRemovals),
    ...then,
  ]);

/** The buckets of an account by name, after a name, at most `limit`. */
export async function pageBuckets(
  metadata: Metadata,
  owner: string,
  range: { readonly prefix: string; readonly after?: string | undefined; readonly limit: number },
): Promise<readonly OwnedBucketRow[]> {
  const within = prefixRange('name', range.prefix);
  const cursor = metadata.scan(ownedBy(owner), within);
  if (range.after !== undefined && range.after >= range.prefix)
    cursor.seek({ name: range.after }, { past: true });
  return (await cursor.next(range.limit)).map(({ row }) => row);
}

/** Every bucket name of a slot by name, from one on or after it. Damaged rows of the list are passed over. */
export async function* bucketsInSlot(
  metadata: Metadata,
  slot: number,
  range: { readonly from?: { readonly name: string }; readonly after?: { readonly name: string } } = {},
  onDamaged?: (damaged: MetadataDamaged) => void,
): AsyncGenerator<string> {
  const cursor = metadata.scan(inSlot(slot), range);
  for await (const page of soundPages(cursor, 100, onDamaged)) for (const { row } of page) yield row.name;
}

/**
 * Every bucket name, slot by slot, in pages.
 * @throws MetadataDamaged, because a caller that deletes bytes without an owner must not miss a bucket
 */
export async function* everyBucket(metadata: Metadata): AsyncGenerator<string> {
  for (let slot = 0; slot < bucketSlots; slot += 1) {
    const cursor = metadata.scan(inSlot(slot));
    for (let page = await cursor.next(100); page.length > 0; page = await cursor.next(100))
      for (const { row } of page) yield row.name;
  }
}

/** The same for work on one bucket after the other: damaged rows of the list are passed over. */
export async function* everySoundBucket(
  metadata: Metadata,
  onDamaged?: (damaged: MetadataDamaged) => void,
): AsyncGenerator<string> {
  for (let slot = 0; slot < bucketSlots; slot += 1) yield* bucketsInSlot(metadata, slot, {}, onDamaged);
}

/** Every bucket name by name, after a name: the slots merged. */
export async function* bucketNames(
  metadata: Pick<MetadataStore, 'scan'>,
  { prefix, after }: { readonly prefix: string; readonly after: string | undefined },
): AsyncGenerator<string> {
  const cursors = Array.from({ length: bucketSlots }, (_, slot) => {
    const cursor = metadata.scan(inSlot(slot), prefixRange('name', prefix));
    if (after !== undefined && after >= prefix) cursor.seek({ name: after }, { past: true });
    return cursor;
  });
  for await (const { name } of mergeRows(cursors, (a, b) => a.name < b.name)) yield name;
}

/** Whether a new bucket may be missing in the lists, because its creator died or has not finished. */
export const hasUnlistedBuckets = async (metadata: Pick<MetadataStore, 'hasPendingPuts'>): Promise<boolean> =>
  (await metadata.hasPendingPuts?.(bucketsAll)) ?? false;

/** The next bucket in the order of `everyBucket`, for a walk that resumes. Damaged rows of the list are passed over. */
export async function nextBucket(
  metadata: Pick<MetadataStore, 'scan'>,
  from: { readonly slot: number; readonly after?: string | undefined },
  onDamaged?: (damaged: MetadataDamaged) => void,
): Promise<{ readonly slot: number; readonly name: string } | undefined> {
  for (let { slot, after } = from; slot < bucketSlots; slot += 1) {
    const range = after === undefined ? {} : { after: { name: after } };
    const [found] = await nextSound(metadata.scan(inSlot(slot), range), 1, onDamaged);
    if (found !== undefined) return { slot, name: found.row.name };
    after = undefined;
  }
  return undefined;
}

// Documents: texts of any size under ids that are never reused (bucket configurations). A text is stored in segments, so that a row
// stays small; the id contains their number.

/** In UTF-16 units: at most three bytes each, so a segment stays well below the row limit. */
const segmentMax = 6_000;
/** A document is at most this many segments: 3 MB of ASCII, more than any family takes. */
export const segmentsMax = 512;

const documentAt = (id: string): At<typeof documents> => ({ table: documents, in: { id } });

/** @param unique a fresh identifier */
export const documentId = (unique: string, text: string): string =>
  `${unique}.${Math.max(1, Math.ceil(text.length / segmentMax))}`;

const segmentCountIn = (id: string): number => Number(id.slice(id.lastIndexOf('.') + 1));

export async function writeDocument(
  metadata: Pick<MetadataStore, 'apply'>,
  id: string,
  text: string,
): Promise<void> {
  const count = segmentCountIn(id);
  if (count > segmentsMax) throw new Error(`a document of ${text.length} characters is too long`);
  for (let segment = 0; segment < count; segment += 1) {
    const stretch = text.slice(segment * segmentMax, (segment + 1) * segmentMax);
    await metadata.apply([{ at: documentAt(id), put: { id, segment, text: stretch } }]);
  }
}

/** The text, or undefined when the document was removed. */
export async function readText(
  metadata: Pick<MetadataStore, 'scan'>,
  id: string,
): Promise<string | undefined> {
  const rows = await metadata.scan(documentAt(id)).next(segmentsMax);
  return rows.length === segmentCountIn(id) ? rows.map(({ row }) => row.text).join('') : undefined;
}

/** Removes a document, in the commit that removes the reference to it. */
export const documentRemovals = (id: string): SideChange[] =>
  Array.from({ length: segmentCountIn(id) }, (_, segment) => ({ at: documentAt(id), remove: { segment } }));

// A cache of bucket rows, for metadata where a read is a round trip. A change by a process of this node removes the row here, and
// invalidates reads that are under way, before the change is answered. A change by another machine is not seen until the cached
// row expires.

const seenMax = 1000;

/** When the read of a bucket's row began. */
export interface Look {
  /** By the monotonic clock (ms). */
  readonly at: number;
  /** The number of changes that this process had seen when the read began. */
  readonly changes: number;
}
export interface SeenBucket extends Look {
  readonly bucket: BucketRow;
}

class SeenBuckets {
  readonly rows = new BoundedCache<SeenBucket>({ name: 'buckets', entriesMax: seenMax });
  changes = 0;
  isHeeding = false;
}
interface Ctx {
  readonly caches: Caches;
  readonly metadata: Pick<MetadataStore, 'get'>;
}

function openSeen({ caches, metadata }: Ctx): SeenBuckets {
  const seen = caches.of(SeenBuckets);
  if (!seen.isHeeding) {
    seen.isHeeding = true;
    subscribeToChanges(metadata, 'bucket', (name) => forgetBucket(seen, name));
  }
  return seen;
}

/** Call it before reading a bucket for `rememberBucket`. */
export const lookAt = (ctx: Ctx, elapsed: number): Look => ({ at: elapsed, changes: openSeen(ctx).changes });

export function rememberBucket(ctx: Ctx, bucket: BucketRow, { at, changes }: Look): void {
  const seen = openSeen(ctx);
  // A bucket changed during the read, so this row may be stale.
  if (changes === seen.changes) seen.rows.set(bucket.name, { bucket, at, changes });
}

export const seenBucket = (ctx: Ctx, name: string): SeenBucket | undefined => openSeen(ctx).rows.get(name);

function forgetBucket(seen: SeenBuckets, name: string): void {
  seen.changes += 1;
  seen.rows.delete(name);
}
