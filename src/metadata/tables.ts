/** The records: every metadata table, declared once; layouts and docs derive from here. */
import { table } from '../ports/metadata-store.ts';
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

/** One row per bucket name. `generation` is the fence that every write to its objects must state. */
export interface BucketRow {
  readonly name: string;
  /** Never reused: a bucket created again under the same name is another partition of objects. */
  readonly id: string;
  readonly owner: string;
  readonly ownerName: string;
  /** The user who created it; the account's id for its root, `<role id>:<session>` for a session. */
  readonly creator: string;
  /** The unique id of the IAM user who created the bucket; absent where none did, and once the bucket has another owner. */
  readonly creatorId?: string;
  readonly created: number;
  readonly region: string;
  readonly generation: number;
  /** '' until versioning is first set. */
  readonly versioning: '' | 'Enabled' | 'Suspended';
  /** Deleting a version permanently, and changing this or `versioning`, requires MFA; absent until it was first set. */
  readonly mfaDelete?: boolean;
  readonly objectLock: boolean;
  /** The storage class of writes that name none; absent means STANDARD. */
  readonly defaultClass?: string;
  /** The placement of new objects: cluster id to weight. Absent: by the weights of the clusters. */
  readonly placement?: Readonly<Record<string, number>>;
  /** When all of these clusters are draining: `weighted` uses the weights of the clusters, `strict` refuses the write. */
  readonly placementMode?: 'weighted' | 'strict' | '';
  /** The number of shards. */
  readonly shards: number;
  /** Twice `shards` while the shards split. A row that moves is then in its old or its new shard. */
  readonly splittingTo?: number;
  /** The configurations that are set, by family; each is an immutable document, so an id always refers to the same text. */
  readonly documents: Readonly<Record<string, string>>;
  /**
   * The number of slots of the bucket's age index. Absent: its versions are not indexed, because it never had a lifecycle configuration.
   */
  readonly ageSlots?: number;
  /** Store time at which a DeleteBucket closed the bucket; 0 while it is open. */
  readonly closedAt: number;
  readonly quota?: BucketQuota;
  /** The epoch of the quota of the owner's account, to whose counters each commit adds too. Absent: the account has no quota. */
  readonly accountQuota?: string;
  /** The same of the IAM user who created the bucket. */
  readonly userQuota?: string;
  /** Requests about the bucket are signed with this key in place of the secrets of access keys. */
  readonly signingKey?: SigningKey;
}

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
export const buckets = table<BucketRow>()({
  name: 'buckets',
  kind: 'conditional',
  partition: ['name'],
  sort: [],
  columns: {
    name: 'text',
    id: 'text',
    owner: 'text',
    ownerName: 'text',
    creator: 'text',
    created: 'int',
    region: 'text',
    generation: 'int',
    versioning: 'text',
    mfaDelete: 'bool',
    objectLock: 'bool',
    defaultClass: 'text',
    placement: 'json',
    placementMode: 'text',
    shards: 'int',
    splittingTo: 'int',
    documents: 'json',
    closedAt: 'int',
    ageSlots: 'int',
    quota: 'json',
    accountQuota: 'text',
    userQuota: 'text',
    creatorId: 'text',
    signingKey: 'json',
  },
});

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
      /** The offset in the content at which each segment begins. */
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
export interface ObjectRow {
  readonly bucketId: string;
  readonly space: number;
  readonly key: string;
  /** `headSlot` for a head, else the version id. */
  readonly slot: string;
  /** Ordered by time; the id that the client sees, unless `isNull`. */
  readonly version: string;
  readonly isNull: boolean;
  readonly marker: boolean;
  /** In a head: the version id of the null version, if that is in the history. */
  readonly nullVersion?: string;
  readonly modified: number;
  readonly size: number;
  /** Hex, without quotes; `<md5>-<n>` for n parts. */
  readonly etag: string;
  /** Of a replica: the ETag is the source's, and could not be computed from the content. */
  readonly etagUnverified?: boolean;
  readonly storageClass: string;
  readonly manifest: Manifest;
  readonly headers: ObjectHeaders;
  readonly checksum?: Checksum;
  /** The account that owns the version. */
  readonly owner: string;
  /** Absent: the owner alone has full control. */
  readonly acl?: readonly Grant[];
  readonly lock?: Lock;
  readonly restore?: Restore;
  /** Absent: the content is stored unencrypted. */
  readonly encryption?: Encryption;
  /** The multipart session that created it. */
  readonly uploadId?: string;
  readonly requestId: string;
  /** The replication status; REPLICA was created by replication. */
  readonly replication?: 'PENDING' | 'COMPLETED' | 'FAILED' | 'REPLICA';
  /** In the history: when a newer version replaced it as the head. Absent in rows that were written before November 2026. */
  readonly noncurrentSince?: number;
  /**
   * Set when the write depended on the present content of the key (a condition, or a copy of the key onto itself), or when that is
   * unknown. No concurrent write can be ordered directly before it. Absent: an unconditional write.
   */
  readonly conditional?: boolean;
  /** Orders the changes of tags, ACL and lock across sites; absent when there was none (`domain/objects/stamp.ts`). */
  readonly stamp?: string;
  /** Of a replica: the sites that are known to have the version, its origin first. */
  readonly trace?: readonly string[];
  /** Of a replica: it is queued for the next site, which does not have it yet. */
  readonly unsent?: boolean;
}
export const objects = table<ObjectRow>()({
  name: 'objects',
  kind: 'conditional',
  partition: ['bucketId'],
  sort: ['space', 'key', '-slot'],
  spreadBy: 'key',
  columns: {
    bucketId: 'text',
    space: 'int',
    key: 'text',
    slot: 'text',
    // The columns of listings come first, so that a listing need not skip the others.
    version: 'text',
    isNull: 'bool',
    marker: 'bool',
    modified: 'int',
    size: 'int',
    etag: 'text',
    storageClass: 'text',
    owner: 'text',
    checksum: 'json',
    restore: 'json',
    nullVersion: 'text',
    manifest: 'json',
    headers: 'json',
    acl: 'json',
    lock: 'json',
    encryption: 'json',
    uploadId: 'text',
    requestId: 'text',
    replication: 'text',
    conditional: 'bool',
    noncurrentSince: 'int',
    stamp: 'text',
    trace: 'json',
    unsent: 'bool',
    etagUnverified: 'bool',
  },
});

/** Immutable segments of large manifests, written before the head that names them. */
interface ManifestRow {
  readonly id: string;
  readonly segment: number;
  readonly parts: readonly ManifestPart[];
}
export const manifests = table<ManifestRow>()({
  name: 'manifests',
  kind: 'plain',
  partition: ['id'],
  sort: ['segment'],
  columns: { id: 'text', segment: 'int', parts: 'json' },
});
export const manifestSegmentParts = 64;

/** A multipart session: row 0 of its partition. */
export interface UploadSession {
  readonly bucketId: string;
  readonly bucket: string;
  readonly key: string;
  readonly state: 'uploading' | 'completing' | 'completed' | 'aborted';
  /** NUL-separated cluster, bucket, key and backend upload id. */
  readonly backendUploadId: string;
  /** The extent that the store assembles from the parts, when the store holds the parts itself. */
  readonly extentId?: string;
  readonly initiated: number;
  readonly storageClass: string;
  readonly headers: ObjectHeaders;
  readonly acl?: readonly Grant[];
  readonly lock?: Lock;
  /** The encryption of every part, and of the object. */
  readonly encryption?: Encryption;
  readonly checksumAlgorithm?: Checksum['algorithm'];
  readonly checksumType?: Checksum['type'];
  /** Headers of CreateMultipartUpload by bare name. Parts do not repeat them, but policy conditions read them at every part. */
  readonly begunAs?: Readonly<Record<string, string>>;
  /** The upload of a replicated version: what its completion commits. */
  readonly replica?: ReplicaDocument;
  readonly owner: string;
  readonly initiator: string;
  /** While `completing`: the op under which the object is committed, and the digest of the part list. */
  readonly completing?: { readonly op: string; readonly digest: string };
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
export interface UploadRow {
  readonly uploadId: string;
  /** 0 is the session, 1…10000 are parts. */
  readonly part: number;
  readonly session?: UploadSession;
  readonly stored?: UploadPart;
  readonly requestId: string;
}
export const uploads = table<UploadRow>()({
  name: 'uploads',
  kind: 'conditional',
  partition: ['uploadId'],
  sort: ['part'],
  columns: { uploadId: 'text', part: 'int', session: 'json', stored: 'json', requestId: 'text' },
});

/** The open sessions of a bucket, for ListMultipartUploads. */
export interface UploadIndexRow {
  readonly bucketId: string;
  readonly key: string;
  readonly uploadId: string;
  readonly initiated: number;
  readonly storageClass: string;
  readonly owner: string;
  readonly initiator: string;
  readonly checksumAlgorithm?: string;
  readonly checksumType?: string;
}
export const uploadIndex = table<UploadIndexRow>()({
  name: 'upload_index',
  kind: 'plain',
  partition: ['bucketId'],
  sort: ['key', 'uploadId'],
  spreadBy: 'key',
  columns: {
    bucketId: 'text',
    key: 'text',
    uploadId: 'text',
    initiated: 'int',
    storageClass: 'text',
    owner: 'text',
    initiator: 'text',
    checksumAlgorithm: 'text',
    checksumType: 'text',
  },
});

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
