/** Bucket rows and their indexes (design §5). */
import type { At, MetadataStore, Outcome, SideChange, Stored } from '../ports/metadata-store.ts';
import { documentRemovals } from './documents.ts';
import { prefixRange } from './prefix.ts';
import { spread } from './spread.ts';
import { type BucketRow, buckets, bucketsAll, bucketsByOwner, type OwnedBucketRow } from './tables.ts';

type Metadata = Pick<MetadataStore, 'get' | 'scan' | 'commit'>;

const bucketAt = (name: string): At<typeof buckets> => ({ table: buckets, in: { name } });
const ownedBy = (owner: string): At<typeof bucketsByOwner> => ({ table: bucketsByOwner, in: { owner } });

/** Buckets are listed for the background in this many slots, so that no partition holds them all. */
export const bucketSlots = 16;
const slotOf = (name: string): number => spread(name, bucketSlots);
const inSlot = (slot: number): At<typeof bucketsAll> => ({ table: bucketsAll, in: { slot } });

export const findBucket = (metadata: Metadata, name: string): Promise<Stored<BucketRow> | undefined> =>
  metadata.get(bucketAt(name), {});

export const insertBucket = (
  metadata: Metadata,
  row: BucketRow,
  then: readonly SideChange[] = [],
): Promise<Outcome<typeof buckets>> =>
  metadata.commit(bucketAt(row.name), [{ put: row, expect: 'absent' }], {
    then: [
      {
        at: ownedBy(row.owner),
        put: { owner: row.owner, name: row.name, created: row.created, region: row.region },
      },
      { at: inSlot(slotOf(row.name)), put: { slot: slotOf(row.name), name: row.name } },
      ...then,
    ],
  });

export const replaceBucket = (
  metadata: Metadata,
  found: Stored<BucketRow>,
  next: BucketRow,
  then: readonly SideChange[] = [],
): Promise<Outcome<typeof buckets>> =>
  metadata.commit(bucketAt(next.name), [{ put: next, expect: found.revision }], { then });

export const removeBucket = (
  metadata: Metadata,
  found: Stored<BucketRow>,
  then: readonly SideChange[] = [],
): Promise<Outcome<typeof buckets>> =>
  metadata.commit(bucketAt(found.row.name), [{ remove: {}, expect: found.revision }], {
    then: [
      { at: ownedBy(found.row.owner), remove: { name: found.row.name } },
      { at: inSlot(slotOf(found.row.name)), remove: { name: found.row.name } },
      ...Object.values(found.row.documents).flatMap(documentRemovals),
      ...then,
    ],
  });

/** The buckets of an account by name, after a name, at most `limit`. */
export async function bucketsOf(
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

/** Every bucket name, slot by slot, in pages. */
export async function* everyBucket(metadata: Metadata): AsyncGenerator<string> {
  for (let slot = 0; slot < bucketSlots; slot += 1) {
    const cursor = metadata.scan(inSlot(slot));
    for (let page = await cursor.next(100); page.length > 0; page = await cursor.next(100)) {
      for (const { row } of page) yield row.name;
    }
  }
}
