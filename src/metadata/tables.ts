/** The records: every metadata table, declared once; layouts and docs derive from here. */
import { bool, int, json, optional, type RowOf, table, text } from '../ports/metadata-store.ts';
import type { Extent } from '../ports/object-bytes.ts';
import { bucketsAll, bucketsByOwner, documents } from './buckets/records.ts';
import { idempotencyKeys, idempotencyKeysByAccount } from './idempotency.ts';
import { logins } from './logins.ts';
import type {
  Checksum,
  Encryption,
  Grant,
  Lock,
  ObjectHeaders,
  ReplicaDocument,
} from './objects/properties.ts';
import { removedVersions } from './objects/removed-versions.ts';
import { accessPointAliases, accessPoints } from './records/access-points.ts';
import { ageTables } from './records/ages.ts';
import { audit } from './records/audit.ts';
import { clusterState, importReleased, rebalance } from './records/clusters.ts';
import { iamTables } from './records/iam.ts';
import { quotaDefaults, rateLimits } from './records/limits.ts';
import { gateways, heartbeats, leases, nodeMessages } from './records/processes.ts';
import { hourlyQueues, queueHours, queues } from './records/queues.ts';
import { replicationPeers } from './records/replication-peers.ts';
import { tasks } from './records/tasks.ts';
import { usageTables } from './records/usage.ts';

export type { Checksum, Grant, Lock, ObjectHeaders };

/** A key of 32 bytes that the key provider has wrapped. */
export interface SigningKey {
  /** The first `wrapped` of the key, once it was wrapped again. Its secret is the same. */
  readonly id?: string;
  readonly keyId: string;
  /** Base64. */
  readonly wrapped: string;
  /** ms since the epoch. */
  readonly createdAt: number;
  /** The account that knows the secret, once the bucket was given to another one. Absent: the owner of the bucket. */
  readonly knownTo?: string;
}

/** 0 is unlimited. */
export interface BucketQuota {
  readonly maxBytes: number;
  readonly maxObjects: number;
  readonly maxBytesPerObject: number;
  /** It is the default that was in force when the bucket was created. */
  readonly isDefault?: true;
}

/** One row per bucket name. `generation` is the fence that every write to its objects must state. */
export const buckets = table({
  name: 'buckets',
  kind: 'conditional',
  isExported: true,
  partition: ['name'],
  sort: [],
  columns: {
    name: text(),
    /** Never reused: a bucket created again under the same name is another partition of objects. */
    id: text(),
    owner: text(),
    ownerName: text(),
    /** The user who created it; the account's id for its root, `<role id>:<session>` for a session. */
    creator: text(),
    created: int(),
    region: text(),
    generation: int(),
    /** '' until versioning is first set. */
    versioning: text<'' | 'Enabled' | 'Suspended'>(),
    /** Deleting a version permanently, and changing this or `versioning`, requires MFA; absent until it was first set. */
    mfaDelete: optional(bool()),
    objectLock: bool(),
    /** The storage class of writes that name none; absent means STANDARD. */
    defaultClass: optional(text()),
    /** The placement of new objects: cluster id to weight. Absent: by the weights of the clusters. */
    placement: optional(json<Readonly<Record<string, number>>>()),
    /** When all of these clusters are draining: `weighted` uses the weights of the clusters, `strict` refuses the write. */
    placementMode: optional(text<'weighted' | 'strict' | ''>()),
    /** The number of shards. */
    shards: int(),
    /** Twice `shards` while the shards split. A row that moves is then in its old or its new shard. */
    splittingTo: optional(int()),
    /** The configurations that are set, by family; each is an immutable document, so an id always refers to the same text. */
    documents: json<Readonly<Record<string, string>>>(),
    /** Store time at which a DeleteBucket closed the bucket; 0 while it is open. */
    closedAt: int(),
    /**
     * The number of slots of the bucket's age index. Absent: its versions are not indexed, because it never had a lifecycle configuration.
     */
    ageSlots: optional(int()),
    quota: optional(json<BucketQuota>()),
    /** The epoch of the quota of the owner's account, to whose counters each commit adds too. Absent: the account has no quota. */
    accountQuota: optional(text()),
    /** The same of the IAM user who created the bucket. */
    userQuota: optional(text()),
    /** The unique id of the IAM user who created the bucket; absent where none did, and once the bucket has another owner. */
    creatorId: optional(text()),
    /** Requests about the bucket are signed with this key in place of the secrets of access keys. */
    signingKey: optional(json<SigningKey>()),
    /** Store time at which an operator gave it to its owner; absent: it has had one owner, or an older release changed it. */
    ownedSince: optional(int()),
  },
});
export interface BucketRow extends RowOf<typeof buckets> {}

/** One part of a completed multipart object; `extent` holds its bytes. */
export interface ManifestPart {
  readonly number: number;
  readonly extent: Extent;
  readonly checksum?: string;
  /** The offset of its stored bytes in the `whole` of its manifest. */
  readonly offset?: number;
}

/**
 * Where an object's bytes are: inline extents; the parts of a multipart object; or, for many parts, a reference to `manifests` rows of
 * `manifestSegmentParts` parts each. Where the store assembled the parts, all bytes are in `whole`, and the extents of the parts have
 * sizes and ids only.
 */
export type Manifest =
  | { readonly extents: readonly Extent[] }
  | { readonly parts: readonly ManifestPart[]; readonly whole?: Extent }
  | {
      readonly whole?: Extent;
      readonly manifestId: string;
      readonly partCount: number;
      /** The offset in the content at which each manifest segment begins. */
      readonly offsets: readonly number[];
    };

/** The restored copy of an archived version, and its end (ms since the epoch). */
interface Restore {
  readonly expires: number;
}

/** Live heads sort apart from marker heads and history, so that a listing reads live heads only. */
export const liveSpace = 0;
export const historySpace = 1;
/** The `slot` of a head row; sorts before every version id, because versions sort descending. */
export const headSlot = '~';

/** One object version. The head of a key is its latest version: one read answers a GET. */
export const objects = table({
  name: 'objects',
  kind: 'conditional',
  isExported: true,
  partition: ['bucketId'],
  sort: ['space', 'key', '-slot'],
  spreadBy: 'key',
  columns: {
    bucketId: text(),
    space: int(),
    key: text(),
    /** `headSlot` for a head, else the version id. */
    slot: text(),
    // The columns of listings come first, so that a listing need not skip the others.
    /** Ordered by time; the id that the client sees, unless `isNull`. */
    version: text(),
    isNull: bool(),
    marker: bool(),
    modified: int(),
    size: int(),
    /** Hex, without quotes; `<md5>-<n>` for n parts. */
    etag: text(),
    storageClass: text(),
    /** The account that owns the version. */
    owner: text(),
    checksum: optional(json<Checksum>()),
    restore: optional(json<Restore>()),
    /** In a head: the version id of the null version, if that is in the history. */
    nullVersion: optional(text()),
    manifest: json<Manifest>(),
    headers: json<ObjectHeaders>(),
    /** Absent: the owner alone has full control. */
    acl: optional(json<readonly Grant[]>()),
    lock: optional(json<Lock>()),
    /** Absent: the content is stored unencrypted. */
    encryption: optional(json<Encryption>()),
    /** The multipart session that created it. */
    uploadId: optional(text()),
    requestId: text(),
    /** The replication status; REPLICA was created by replication. */
    replication: optional(text<'PENDING' | 'COMPLETED' | 'FAILED' | 'REPLICA'>()),
    /**
     * Set when the write depended on the present content of the key (a condition, or a copy of the key onto itself), or when that is
     * unknown. No concurrent write can be ordered directly before it. Absent: an unconditional write.
     */
    conditional: optional(bool()),
    /** In the history: when a newer version replaced it as the head. Absent in rows that were written before November 2026. */
    noncurrentSince: optional(int()),
    /** Orders the changes of tags, ACL and lock across sites; absent when there was none (`domain/objects/stamp.ts`). */
    stamp: optional(text()),
    /** Of a replica: the sites that are known to have the version, its origin first. */
    trace: optional(json<readonly string[]>()),
    /** Of a replica: it is queued for the next site, which does not have it yet. */
    unsent: optional(bool()),
    /** Of a replica: the ETag is the source's, and could not be computed from the content. */
    etagUnverified: optional(bool()),
    /** Of a version that waits to be replicated: the stamp of its last task, where changes that no rule selected followed it. */
    pendingStamp: optional(text()),
  },
});
export interface ObjectRow extends RowOf<typeof objects> {}

/** What makes new versions. Each names the columns that it sets, through `checkColumns`. */
type VersionMaker = 'write' | 'marker' | 'replica' | 'rebuild' | 'import';

/** Where else in `src` a column of a version has to be named. The compiler asks for each of these places. */
interface ColumnUse {
  /**
   * `write`: PutObject, copies and completions (`write-object.ts`); `marker`: `delete-object.ts`; `replica`:
   * `commit-replica.ts`; `rebuild`:
   * `fsck/rebuild.ts`, from what is stored beside the bytes; `import`: `storage/import.ts`. None: later changes of the version set it.
   */
  readonly setBy: readonly VersionMaker[];
  /** CreateMultipartUpload takes it, and the session keeps it until the completion (`UploadSession`, `complete-upload.ts`). */
  readonly inSession: boolean;
  /** It travels to other gateways: `ReplicaDocument`, written by `send-replica.ts`, read by `protocol/schemas/replica.ts`. */
  readonly isSent: boolean;
  /** `objects`: every listing reads it; `versions`: those of versions do, because the rows of ListObjects are live heads. */
  readonly listed: 'objects' | 'versions' | false;
  /** The field of StatObject that shows it to operators (`handlers/admin/objects.ts`, `protocol/admin/objects.ts`). */
  readonly displayedAs: string | false;
}

const everyMaker = ['write', 'marker', 'replica', 'rebuild', 'import'] as const;
const nowhere = { setBy: [], inSession: false, isSent: false, listed: false, displayedAs: false } as const;

/** A row for each column of `objects`: a new column has to choose. */
export const versionColumns = {
  bucketId: { ...nowhere, setBy: everyMaker },
  key: { ...nowhere, setBy: everyMaker },
  // `domain/objects/versions.ts` chooses the place of a version; only the rebuilder chooses it itself.
  space: { ...nowhere, setBy: ['rebuild'] },
  slot: { ...nowhere, setBy: ['rebuild'] },
  nullVersion: nowhere,
  noncurrentSince: nowhere,
  version: {
    setBy: ['rebuild'],
    inSession: false,
    isSent: true,
    listed: 'versions',
    displayedAs: 'versionId',
  },
  isNull: {
    setBy: ['rebuild'],
    inSession: false,
    isSent: true,
    listed: 'versions',
    displayedAs: 'versionId',
  },
  marker: {
    setBy: everyMaker,
    inSession: false,
    isSent: true,
    listed: 'versions',
    displayedAs: 'isDeleteMarker',
  },
  modified: { setBy: everyMaker, inSession: false, isSent: true, listed: 'objects', displayedAs: 'modified' },
  size: { setBy: everyMaker, inSession: false, isSent: true, listed: 'objects', displayedAs: 'size' },
  etag: { setBy: everyMaker, inSession: false, isSent: true, listed: 'objects', displayedAs: 'etag' },
  storageClass: {
    setBy: everyMaker,
    inSession: true,
    isSent: true,
    listed: 'objects',
    displayedAs: 'storageClass',
  },
  owner: { setBy: everyMaker, inSession: true, isSent: true, listed: 'objects', displayedAs: 'owner' },
  // That of an object in parts follows from its parts.
  checksum: {
    setBy: ['write', 'replica'],
    inSession: false,
    isSent: true,
    listed: 'objects',
    displayedAs: 'checksum',
  },
  restore: { ...nowhere, listed: 'objects', displayedAs: 'restoredUntil' },
  manifest: { ...nowhere, setBy: everyMaker, displayedAs: 'extents' },
  headers: { setBy: everyMaker, inSession: true, isSent: true, listed: false, displayedAs: 'headers' },
  acl: { setBy: ['write', 'replica'], inSession: true, isSent: true, listed: false, displayedAs: false },
  lock: {
    setBy: ['write', 'replica', 'import'],
    inSession: true,
    isSent: true,
    listed: false,
    displayedAs: 'retention',
  },
  encryption: {
    setBy: ['write', 'replica'],
    inSession: true,
    isSent: true,
    listed: false,
    displayedAs: 'encryption',
  },
  uploadId: { ...nowhere, setBy: ['write', 'replica', 'rebuild'] },
  requestId: { ...nowhere, setBy: everyMaker },
  // Those of other versions are set by the commit that queues them (`domain/common/recorder.ts`).
  replication: { ...nowhere, setBy: ['replica'], displayedAs: 'replication' },
  conditional: { ...nowhere, setBy: ['write', 'replica', 'rebuild', 'import'] },
  stamp: { ...nowhere, setBy: ['replica'], isSent: true },
  trace: { ...nowhere, setBy: ['replica'], isSent: true },
  unsent: nowhere,
  etagUnverified: { ...nowhere, setBy: ['replica'] },
  pendingStamp: nowhere,
} as const satisfies Readonly<Record<keyof ObjectRow, ColumnUse>>;

type Uses = typeof versionColumns;
type ColumnsWith<U extends Partial<ColumnUse>> = {
  [C in keyof Uses]: Uses[C] extends U ? C : never;
}[keyof Uses];
type SetBy<M> = { [C in keyof Uses]: M extends Uses[C]['setBy'][number] ? C : never }[keyof Uses];
interface NamesAt extends Record<VersionMaker, PropertyKey> {
  write: SetBy<'write'>;
  marker: SetBy<'marker'>;
  replica: SetBy<'replica'>;
  rebuild: SetBy<'rebuild'>;
  import: SetBy<'import'>;
  session: ColumnsWith<{ readonly inSession: true }>;
  sent: ColumnsWith<{ readonly isSent: true }>;
  displayed: Exclude<Uses[keyof Uses]['displayedAs'], false>;
}

/** For `satisfies`, on the path of every PUT: what `checkColumns` demands, without a call. */
export type CheckedColumns<P extends keyof NamesAt, T extends object> = T & {
  readonly [C in Exclude<NamesAt[P], keyof T>]: never;
};

/**
 * The same object, which must name every column that `versionColumns` asks for at a place. An optional one that has no value counts as
 * named where it is spread conditionally. Only the compiler checks this: it says which property is missing.
 */
export const checkColumns = <P extends keyof NamesAt, T extends object>(
  _place: P,
  named: CheckedColumns<P, T>,
): T => named;

const columns = Object.entries(versionColumns) as readonly (readonly [string, ColumnUse])[];
const listedAs = (listing: ColumnUse['listed']): string[] =>
  columns.flatMap(([column, { listed }]) => (listed === listing ? [column] : []));

/** The columns that listings return, for an object and for a version. */
export const listedColumns = listedAs('objects') as readonly ColumnsWith<{ readonly listed: 'objects' }>[];
export const listedVersionColumns = [...listedColumns, ...listedAs('versions')] as readonly ColumnsWith<{
  readonly listed: 'objects' | 'versions';
}>[];

/**
 * Manifest segments: the parts of a large manifest, `manifestSegmentParts` in each row. Immutable, and written before
 * the head that names them.
 */
export const manifests = table({
  name: 'manifests',
  kind: 'plain',
  isExported: true,
  partition: ['id'],
  sort: ['segment'],
  columns: { id: text(), segment: int(), parts: json<readonly ManifestPart[]>() },
});
export const manifestSegmentParts = 64;

/** A multipart session: row 0 of its partition, with what its completion gives to the object (`versionColumns`). */
export interface UploadSession extends Pick<ObjectRow, NamesAt['session']> {
  readonly bucketId: string;
  readonly bucket: string;
  readonly key: string;
  readonly state: 'uploading' | 'completing' | 'completed' | 'aborted';
  /** NUL-separated cluster, bucket, key and backend upload id. */
  readonly backendUploadId: string;
  /** The extent that the store assembles from the parts, when the store holds the parts itself. */
  readonly extentId?: string;
  readonly initiated: number;
  readonly checksumAlgorithm?: Checksum['algorithm'];
  readonly checksumType?: Checksum['type'];
  /** Headers of CreateMultipartUpload by bare name. Parts do not repeat them, but policy conditions read them at every part. */
  readonly begunAs?: Readonly<Record<string, string>>;
  /** The upload of a replicated version: what its completion commits. */
  readonly replica?: ReplicaDocument;
  readonly initiator: string;
  /** While `completing`: the op under which the object is committed, and the digest of the part list. */
  readonly completing?: { readonly op: string; readonly digest: string };
  /**
   * The digest of the part list that the store may have assembled already, where the answer was lost; '' after several lists. Absent
   * before the first.
   */
  readonly triedDigest?: string;
  /** Once `aborted`: its parts count under no quota any more. */
  readonly isFreed?: true;
  /** Once `completed`: the version that it became, and the answer to a retry with the same part list. */
  readonly result?: UploadResult;
}
export interface UploadResult {
  /** Identifies the part list. */
  readonly digest: string;
  readonly version: string;
  readonly isNull: boolean;
  readonly etag: string;
  readonly checksum?: Checksum;
  readonly encryption?: Encryption;
}
export interface UploadPart {
  readonly extent: Extent;
  /** The receipt that the store requires at the completion, when the store holds the parts itself. */
  readonly receipt?: string;
  readonly etag: string;
  readonly modified: number;
  readonly checksum?: { readonly algorithm: Checksum['algorithm']; readonly value: string };
  /** Absent in rows of earlier versions, which no quota counted. */
  readonly counted?: CountedPart;
}
/** What a part added to the counters of its bucket, and of the account and the IAM user that had a quota: by their epochs. */
export interface CountedPart {
  readonly bytes: number;
  readonly holders?: readonly string[];
}

export const uploads = table({
  name: 'uploads',
  kind: 'conditional',
  isExported: true,
  partition: ['uploadId'],
  sort: ['part'],
  columns: {
    uploadId: text(),
    /** 0 is the session, 1…10000 are parts. */
    part: int(),
    session: optional(json<UploadSession>()),
    stored: optional(json<UploadPart>()),
    requestId: text(),
  },
});
export interface UploadRow extends RowOf<typeof uploads> {}

/** The open sessions of a bucket, for ListMultipartUploads. */
export const uploadIndex = table({
  name: 'upload_index',
  kind: 'plain',
  isExported: true,
  partition: ['bucketId'],
  sort: ['key', 'uploadId'],
  spreadBy: 'key',
  columns: {
    bucketId: text(),
    key: text(),
    uploadId: text(),
    initiated: int(),
    storageClass: text(),
    owner: text(),
    initiator: text(),
    checksumAlgorithm: optional(text()),
    checksumType: optional(text()),
  },
});
export interface UploadIndexRow extends RowOf<typeof uploadIndex> {}

export const tables = {
  buckets,
  documents,
  bucketsByOwner,
  bucketsAll,
  objects,
  manifests,
  uploads,
  uploadIndex,
  queues,
  hourlyQueues,
  queueHours,
  ...usageTables,
  leases,
  tasks,
  ...iamTables,
  audit,
  accessPoints,
  accessPointAliases,
  clusterState,
  rebalance,
  importReleased,
  ...ageTables,
  replicationPeers,
  removedVersions,
  heartbeats,
  gateways,
  nodeMessages,
  logins,
  idempotencyKeys,
  idempotencyKeysByAccount,
  quotaDefaults,
  rateLimits,
} as const;
