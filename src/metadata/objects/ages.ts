/** Entries of the age index, for the commits of the versions and uploads that they describe. */
import { hashToShard } from '../../base/shard.ts';
import type { At, Cursor, MetadataStore, SideChange } from '../../ports/metadata-store.ts';
import {
  type AgeKind,
  type AgeRow,
  ages,
  type LifecycleBucketRow,
  lifecycleBuckets,
} from '../records/ages.ts';
import { soundPages } from '../sound-rows.ts';
import { type BucketRow, headSlot, type ObjectRow, type UploadSession } from '../tables.ts';

export const dayMs = 86_400_000;
/** The day that ends at this time or after it: a midnight belongs to the day before, as where rules round up to midnight. */
export const ageDay = (ms: number): number => Math.ceil(ms / dayMs) - 1;

type Place = Pick<AgeRow, 'bucketId' | 'kind' | 'day' | 'slot'>;
export const agesAt = ({ bucketId, kind, day, slot }: Place): At<typeof ages> => ({
  table: ages,
  in: { bucketId, kind, day, slot },
});

type IndexedBucket = Pick<BucketRow, 'id' | 'created' | 'ageSlots'>;

/**
 * The entries of a version. Days before the bucket was created count as that day, so that a reader knows the first day that can have
 * entries.
 */
export function listAges({ id, created, ageSlots = 1 }: IndexedBucket, row: ObjectRow): readonly AgeRow[] {
  const { key, version, restore } = row;
  const slot = hashToShard(key, ageSlots);
  const at = (kind: AgeKind, time: number): AgeRow => ({
    bucketId: id,
    kind,
    day: Math.max(ageDay(time), ageDay(created)),
    slot,
    key,
    version,
  });
  const own =
    row.slot !== headSlot
      ? at('noncurrent', row.noncurrentSince ?? row.modified)
      : at(row.marker ? 'marker' : 'current', row.modified);
  return restore === undefined ? [own] : [own, at('restored', restore.expires)];
}

/** A change of the index. */
type AgeChange =
  | { readonly at: At<typeof ages>; readonly put: AgeRow }
  | { readonly at: At<typeof ages>; readonly remove: Pick<AgeRow, 'key' | 'version'> };

export const putAge = (row: AgeRow): AgeChange => ({ at: agesAt(row), put: row });
export const removeAge = (row: AgeRow): AgeChange => ({
  at: agesAt(row),
  remove: { key: row.key, version: row.version },
});

/**
 * The changes of the index for a commit.
 * @param before the versions that the commit replaces or removes, as they were
 * @param after the versions that it writes
 */
export function ageChanges(
  bucket: IndexedBucket,
  { before, after }: { readonly before: readonly ObjectRow[]; readonly after: readonly ObjectRow[] },
): readonly AgeChange[] {
  if (bucket.ageSlots === undefined) return [];
  const name = ({ kind, day, version }: AgeRow): string => `${kind} ${day} ${version}`;
  const gone = new Map(before.flatMap((row) => listAges(bucket, row)).map((row) => [name(row), row]));
  const added: AgeChange[] = [];
  for (const row of after)
    for (const age of listAges(bucket, row)) if (!gone.delete(name(age))) added.push(putAge(age));
  return [...added, ...[...gone.values()].map(removeAge)];
}

/** Whether changes add an entry to a day before the one of a time. */
export function addBefore(changes: readonly AgeChange[], time: number): boolean {
  const day = ageDay(time);
  return changes.some((each) => 'put' in each && each.put.day < day);
}

/** The entry of an upload. */
export const uploadAge = (
  uploadId: string,
  { bucketId, key, initiated }: Pick<UploadSession, 'bucketId' | 'key' | 'initiated'>,
): AgeRow => ({ bucketId, kind: 'upload', day: ageDay(initiated), slot: 0, key, version: uploadId });

/** The slot of the list of buckets with a lifecycle configuration, and that of buckets that got an entry on an old day of the age index. */
const listSlot = 0;
const lateSlot = 1;
const listAt = (slot: number): At<typeof lifecycleBuckets> => ({ table: lifecycleBuckets, in: { slot } });

export const listLifecycleBucket = (
  { id, name }: Pick<BucketRow, 'id' | 'name'>,
  token: string,
): SideChange => {
  const put: LifecycleBucketRow = { slot: listSlot, bucketId: id, bucket: name, token };
  return { at: listAt(listSlot), put };
};

/** The worker may be beyond the day of an entry that is new. The next pass begins with the first day again. */
export const announceLateVersion = ({ id, name }: Pick<BucketRow, 'id' | 'name'>): SideChange => {
  const put: LifecycleBucketRow = { slot: lateSlot, bucketId: id, bucket: name, token: '' };
  return { at: listAt(lateSlot), put };
};

export const withoutLateVersions = (bucketId: string): SideChange => ({
  at: listAt(lateSlot),
  remove: { bucketId },
});

/** Whether such an entry came since the last pass that began with the first day. */
export const hasLateVersions = async (
  metadata: Pick<MetadataStore, 'get'>,
  bucketId: string,
): Promise<boolean> => (await metadata.get(listAt(lateSlot), { bucketId })) !== undefined;

/** The ids of buckets with such entries in order, in pages, from the first one after `after`. */
export async function* lateBuckets(
  metadata: Pick<MetadataStore, 'scan'>,
  after?: string,
): AsyncGenerator<string> {
  const cursor = metadata.scan(listAt(lateSlot), after === undefined ? {} : { after: { bucketId: after } });
  for await (const page of soundPages(cursor, 500)) for (const { row } of page) yield row.bucketId;
}

export const unlistLifecycleBucket = ({ slot, bucketId }: LifecycleBucketRow): SideChange => ({
  at: listAt(slot),
  remove: { bucketId },
});

/** The buckets with a lifecycle configuration, by id, from one on. */
export const scanLifecycleBuckets = (
  metadata: Pick<MetadataStore, 'scan'>,
  bucketId = '',
): Cursor<typeof lifecycleBuckets> =>
  metadata.scan(listAt(listSlot), bucketId === '' ? {} : { from: { bucketId } });
