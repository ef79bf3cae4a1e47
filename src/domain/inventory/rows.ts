/** The versions that an inventory lists, a page at a time, from a position on. */

import { fail } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import { findBucket } from '../../metadata/buckets/buckets.ts';
import {
  type BucketRow,
  type Grant,
  headSlot,
  listedColumns,
  listedVersionColumns,
  liveSpace,
  type ObjectRow,
} from '../../metadata/tables.ts';
import { groupUris, toUser } from '../access/acl.ts';
import { formatVersionId } from '../common/ids.ts';
import { everyVersion, openSpace, seekTo } from '../common/listed-rows.ts';
import type { Inventory, InventoryField } from '../configurations/inventory.ts';
import { findExpiration, type Lifecycle } from '../configurations/lifecycle-rules.ts';

/** The last version that was listed. */
export interface InventoryPlace {
  readonly key: string;
  /** Absent where only current versions are listed. */
  readonly version?: string;
}

/** Few, so that the rows of a page are garbage before they are copied to the old generation of the heap. */
const pageRows = 200;
/** Pages that are read by one row of the bucket. */
const reopenPages = 50;

interface Walk {
  readonly inventory: Inventory;
  readonly after: InventoryPlace | undefined;
  /** The largest number of rows. */
  readonly max: number;
  /** Called after each page with its rows; the requests of this process get a turn. */
  pause(rows: number): Promise<void>;
  readonly signal: AbortSignal;
}

/** @throws the reason of the signal */
export async function* inventoryRows(
  ctx: Pick<Context, 'metadata'>,
  bucket: BucketRow,
  { inventory, after, max, pause, signal }: Walk,
): AsyncGenerator<readonly ObjectRow[]> {
  let place = after;
  let next = openRows(ctx, bucket, { inventory, after: place });
  let pages = 0;
  for (let left = max; left > 0; ) {
    signal.throwIfAborted();
    // The bucket may split its shards meanwhile: read on by its present row.
    if (++pages % reopenPages === 0)
      next = openRows(ctx, await sameBucket(ctx, bucket), { inventory, after: place });
    const rows = await next(Math.min(pageRows, left));
    const last = rows.at(-1);
    if (last === undefined) return;
    place = toPlace(inventory, last);
    left -= rows.length;
    yield rows;
    // Reads of an embedded store and encoding never wait, so without this pause no request of this process would be served.
    await pause(rows.length);
  }
}

/** The place of a row, from which a walk continues behind it. */
export const toPlace = (
  { IncludedObjectVersions }: Inventory,
  { key, version }: Pick<ObjectRow, 'key' | 'version'>,
): InventoryPlace => ({ key, ...(IncludedObjectVersions === 'All' ? { version } : {}) });

/** @throws NoSuchBucket when the bucket was deleted, and perhaps made again */
async function sameBucket(ctx: Pick<Context, 'metadata'>, { id, name }: BucketRow): Promise<BucketRow> {
  const row = (await findBucket(ctx.metadata, name))?.row;
  if (row?.id !== id) throw fail('NoSuchBucket', { elements: { BucketName: name } });
  return row;
}

type Next = (count: number) => Promise<readonly ObjectRow[]>;

/** The casts: a row has the columns that the fields of the inventory read, and no field reads another one. */
function openRows(
  ctx: Pick<Context, 'metadata'>,
  bucket: BucketRow,
  { inventory, after }: Pick<Walk, 'inventory' | 'after'>,
): Next {
  const prefix = inventory.Filter?.Prefix ?? '';
  const reads = listColumns(inventory).flatMap((column) => column.reads);
  if (inventory.IncludedObjectVersions === 'All') {
    const columns = [...new Set([...listedVersionColumns, ...reads])];
    const start = after === undefined ? undefined : { key: after.key, version: after.version ?? '' };
    const versions = everyVersion(ctx, bucket, { prefix, start, columns });
    return async (count) => (await versions.next(count)) as readonly ObjectRow[];
  }
  const columns = [...new Set([...listedColumns, ...reads])];
  const cursor = openSpace(ctx, bucket, { space: liveSpace, prefix, columns });
  if (after !== undefined) seekTo(cursor, liveSpace, { after: after.key });
  return async (count) => (await cursor.next(count)).map(({ row }) => row as ObjectRow);
}

// The columns of an inventory: https://docs.aws.amazon.com/AmazonS3/latest/userguide/storage-inventory.html#storage-inventory-contents

/** What fields read beside the version; it is the same for all versions of a run. */
export interface InventoryFacts {
  readonly bucket: BucketRow;
  readonly lifecycle: Lifecycle | undefined;
  /** The bucket's owner owns all objects, and ACLs have no effect. */
  readonly isOwnerEnforced: boolean;
}

/** A moment is in ms since the epoch. */
export type Value = string | number | boolean | undefined;

interface Field {
  /** The names in the schemas of CSV and Parquet files. */
  readonly csv: string;
  readonly parquet: string;
  readonly type: 'text' | 'integer' | 'boolean' | 'moment';
  /** The columns of an object's row that the value is made of, beside those that every listing reads. */
  readonly reads: readonly (keyof ObjectRow)[];
  /** Values rarely repeat: to look for repetitions costs a Parquet file more than the rest of its encoding. */
  readonly isMostlyDistinct: boolean;
  read(row: ObjectRow, facts: InventoryFacts): Value;
}
export type InventoryColumn = Field;

type Options = Partial<Omit<Field, 'csv' | 'read'>> & Pick<Field, 'read'>;

const field = (csv: string, options: Options): Field => ({
  csv,
  parquet: snakeCase(csv),
  type: 'text',
  reads: [],
  isMostlyDistinct: false,
  ...options,
});

const snakeCase = (name: string): string =>
  name.replace(/(?<=[a-z])[A-Z]/g, (letter) => `_${letter}`).toLowerCase();

/** A delete marker has no content, so fields about content are empty. */
const ofContent =
  (read: Field['read']): Field['read'] =>
  (row, facts) =>
    row.marker ? undefined : read(row, facts);

/** Of what does not exist here: event holds, and moves between access tiers. */
const empty: Options = { read: () => undefined };

const bucketColumn = field('Bucket', { read: (_, { bucket }) => bucket.name });
const keyColumn = field('Key', { isMostlyDistinct: true, read: ({ key }) => key });
const ofVersions = [
  field('VersionId', {
    isMostlyDistinct: true,
    read: (row, { bucket }) => (bucket.versioning === '' ? undefined : formatVersionId(row)),
  }),
  field('IsLatest', { type: 'boolean', read: ({ slot }) => slot === headSlot }),
  field('IsDeleteMarker', { type: 'boolean', read: ({ marker }) => marker }),
];

/** In the order of the public service's files. */
const optional: Readonly<Record<InventoryField, Options>> = {
  Size: { type: 'integer', read: ofContent(({ size }) => size) },
  LastModifiedDate: {
    type: 'moment',
    // Whole seconds, as in the replies to clients.
    read: ({ modified }) => Math.floor(modified / 1000) * 1000,
  },
  ETag: { parquet: 'e_tag', isMostlyDistinct: true, read: ofContent(({ etag }) => etag) },
  StorageClass: { read: ofContent(({ storageClass }) => storageClass) },
  IsMultipartUploaded: {
    type: 'boolean',
    read: ofContent(({ etag }) => etag.includes('-')),
  },
  ReplicationStatus: {
    reads: ['replication'],
    read: ({ replication }) => replication,
  },
  EncryptionStatus: {
    reads: ['encryption'],
    read: ofContent(({ encryption }) =>
      encryption === undefined
        ? 'NOT-SSE'
        : ({ service: 'SSE-S3', provider: 'SSE-KMS', customer: 'SSE-C' } as const)[encryption.by],
    ),
  },
  ObjectLockRetainUntilDate: {
    type: 'moment',
    reads: ['lock'],
    read: ({ lock }) => lock?.retainUntil,
  },
  ObjectLockMode: { reads: ['lock'], read: ({ lock }) => lock?.mode },
  ObjectLockLegalHoldStatus: {
    reads: ['lock'],
    read: ({ lock }) => (lock?.legalHold === undefined ? undefined : lock.legalHold ? 'On' : 'Off'),
  },
  ObjectLockEventHoldStatus: empty,
  ObjectLockEventHoldDuration: empty,
  IntelligentTieringAccessTier: empty,
  BucketKeyStatus: {
    reads: ['encryption'],
    read: ({ encryption }) =>
      encryption?.by !== 'provider' ? undefined : encryption.bucketKey === true ? 'ENABLED' : 'DISABLED',
  },
  ChecksumAlgorithm: { read: ({ checksum }) => checksum?.algorithm },
  ObjectAccessControlList: {
    reads: ['acl'],
    read: ofContent((row, facts) =>
      aclText(facts.isOwnerEnforced ? undefined : row.acl, ownerIn(row, facts)),
    ),
  },
  ObjectOwner: { read: (row, facts) => ownerIn(row, facts) },
  LifecycleExpirationDate: {
    type: 'moment',
    reads: ['headers'],
    read: ofContent((row, { lifecycle }) => {
      if (lifecycle === undefined || row.slot !== headSlot) return undefined;
      const { key, size, modified, headers } = row;
      return findExpiration(lifecycle, { key, size, modified, tags: headers.tags })?.at;
    }),
  },
  IntelligentTieringReferenceDate: empty,
};
const optionalFields: readonly Field[] = Object.entries(optional).map(([name, options]) =>
  field(name, options),
);

/** The columns of the files of a configuration, in order. */
export function listColumns({ IncludedObjectVersions, OptionalFields = [] }: Inventory): readonly Field[] {
  const requested = new Set<string>(OptionalFields);
  return [
    bucketColumn,
    keyColumn,
    ...(IncludedObjectVersions === 'All' ? ofVersions : []),
    ...optionalFields.filter(({ csv }) => requested.has(csv)),
  ];
}

const ownerIn = ({ owner }: ObjectRow, { bucket, isOwnerEnforced }: InventoryFacts): string =>
  isOwnerEnforced ? bucket.owner : owner;

/** Base64 of the JSON that the public service describes. */
function aclText(acl: readonly Grant[] | undefined, owner: string): string {
  const grants = (acl ?? [toUser(owner, 'FULL_CONTROL')]).map(({ grantee, permission }) =>
    grantee.is === 'user'
      ? { canonicalId: grantee.id, type: 'CanonicalUser', permission }
      : { uri: groupUris[grantee.group], type: 'Group', permission },
  );
  // The texts are ids and URIs of ASCII characters.
  return btoa(JSON.stringify({ version: '2022-11-10', status: 'AVAILABLE', grants }));
}
