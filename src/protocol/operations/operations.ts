/**
 * The operation table: every storage operation, as the request that asks for it.
 *
 * A row reads like a request: `PUT object ?partNumber ?uploadId +copy-source` is a PUT at object scope with
 * both query names and the dialect's `copy-source` header. The row with the most marks that matches wins
 * (see `select.ts`), so order never matters. What a row does not say derives: the policy action is
 * `s3:<Name>`, anything but GET, HEAD and OPTIONS is audited, and the metric label is the name.
 */
import { iamOperations } from './iam.ts';
import { leftOutOperations } from './left-out.ts';
import type { RequestLine } from './parameters.ts';

// Which dialect headers are accepted in the query, where presigners move them.

/** Headers of the signature itself, about a body that is unknown when the URL is signed, or with a secret that must not be in a URL. */
const notHoisted =
  /^(algorithm|credential|date|expires|signedheaders|signature|security-token|content-sha256|user-agent|sdk-checksum-algorithm|(copy-source-)?server-side-encryption-customer-key)$/;

/** Headers about checksums that contain no checksum. */
const aboutChecksums: readonly string[] = ['checksum-algorithm', 'checksum-mode', 'checksum-type'];
/** Whether a header contains a checksum of a content, also of an unknown algorithm. */
export const isChecksumHeader = (bareName: string): boolean =>
  bareName.startsWith('checksum-') && !aboutChecksums.includes(bareName);

export const isHoisted = (bareName: string): boolean =>
  !notHoisted.test(bareName) && !isChecksumHeader(bareName);

// The operations between sites: a site brings its versions to another with their ids (docs/adr/0020-replicated-versions-keep-their-ids.md).

/** The largest document (`src/metadata/objects/properties.ts`). */
const bodyMax = 256 * 1024;

export const replicaOperations = {
  GetReplicaSite: { on: 'GET bucket ?replica', action: 's3:ReplicateObject', judges: 'each' },
  ReplicateObject: {
    adds: true,
    on: 'PUT object ?replica',
    streams: true,
    events: ['ObjectCreated:Put'],
  },
  ReplicateUpload: { adds: true, on: 'POST object ?uploads ?replica', action: 's3:ReplicateObject', bodyMax },
  ReplicateState: {
    adds: true,
    on: 'PUT object ?replica-state',
    action: 's3:ReplicateObject',
    bodyMax,
    events: ['ObjectRemoved'],
  },
  ReplicateDelete: { on: 'DELETE object ?replica', events: ['ObjectRemoved'] },
} as const;

/**
 * The operations on access points, as rows of the operation table. They are action queries; requests in the public API's own form
 * (`/v20180820/accesspoint/…`, see `protocol/address.ts`) select the same rows.
 */
interface Row<Name extends string> {
  readonly on: `ANY service ?Action=${Name}`;
  readonly action: `s3:${Name}`;
  readonly audited: boolean;
  readonly judges: 'each';
}

const row = <const Name extends string>(name: Name): Row<Name> => ({
  on: `ANY service ?Action=${name}`,
  action: `s3:${name}`,
  audited: !/^(Get|List)/.test(name),
  judges: 'each',
});

export const accessPointOperations = {
  CreateAccessPoint: row('CreateAccessPoint'),
  GetAccessPoint: row('GetAccessPoint'),
  DeleteAccessPoint: row('DeleteAccessPoint'),
  ListAccessPoints: row('ListAccessPoints'),
  PutAccessPointPolicy: row('PutAccessPointPolicy'),
  GetAccessPointPolicy: row('GetAccessPointPolicy'),
  DeleteAccessPointPolicy: row('DeleteAccessPointPolicy'),
  GetAccessPointPolicyStatus: row('GetAccessPointPolicyStatus'),
};

export interface Operation {
  readonly on: RequestLine;
  /** The policy action, where it is not `s3:<Name>`. */
  readonly action?: `${'s3' | 'iam' | 'sts'}:${string}`;
  /** The policy action of the same request about a version, where it differs. */
  readonly versionAction?: `s3:${string}`;
  /**
   * Further policy actions that the caller must be allowed when the request has a dialect header. The key is a bare name, or
   * `name=value` or `name!=value` where not every value requires them.
   */
  readonly also?: Readonly<Record<string, `s3:${string}` | readonly `s3:${string}`[]>>;
  /**
   * `version`: an existing object version, which is read once before the authorization; `versionId` selects it. `head`: the head of a
   * key; on distant metadata it is requested beforehand (`gateway/find-bucket.ts`). `upload`: an upload, which its
   * initiator may list and abort. `parts`: its parts, which policies judge by the headers that began the upload.
   */
  readonly about?: 'version' | 'head' | 'upload' | 'parts';
  /** `each`: the handler authorizes every object that it accesses. `none`: every caller is allowed. */
  readonly judges?: 'each' | 'none';
  /** For an operation on a bucket: access points serve it too. They serve every operation on an object. */
  readonly accessPoints?: true;
  /** The events that it causes; see `domain/events/events.ts`. */
  readonly events?: readonly string[];
  /** Audited or not, where the method does not tell. */
  readonly audited?: boolean;
  /** The handler reads `payload.content` itself, as a stream. All other bodies are read whole and verified first. */
  readonly streams?: true;
  /** The largest body in bytes of an operation that does not stream; 64 KiB unless it says more. */
  readonly bodyMax?: number;
  /** The checksum header is about the resulting object, not about the body of the request. */
  readonly checksumOf?: 'object';
  /** It stores data, so it is refused while a disk is below its reserve. Deletions, revocations and completions are not refused. */
  readonly adds?: true;
  /** Why it is not served: see `protocol/operations/left-out.ts`. */
  readonly leftOut?: string;
  /** Sub-resource names that may accompany the request without choosing another row. */
  readonly with?: readonly string[] | 'anything';
}

const KiB = 1024;
const MiB = 1024 * KiB;
/** Enough for every small body. */
export const bodyMaxDefault = 64 * KiB;

/** Further permissions of a write, for what the request may set beside the content. */
const alongWrites = {
  acl: 's3:PutObjectAcl',
  'grant-read': 's3:PutObjectAcl',
  'grant-write': 's3:PutObjectAcl',
  'grant-read-acp': 's3:PutObjectAcl',
  'grant-write-acp': 's3:PutObjectAcl',
  'grant-full-control': 's3:PutObjectAcl',
  tagging: 's3:PutObjectTagging',
  'object-lock-mode': 's3:PutObjectRetention',
  'object-lock-retain-until-date': 's3:PutObjectRetention',
  'object-lock-legal-hold': 's3:PutObjectLegalHold',
} as const;

const bypass = { 'bypass-governance-retention=true': 's3:BypassGovernanceRetention' } as const;

export const operations = {
  ListBuckets: { on: 'GET service', action: 's3:ListAllMyBuckets' },
  ListAuditRecords: { on: 'GET service ?audit', judges: 'each' },
  ListNotifyDeadLetters: { on: 'GET service ?notify-dlq', judges: 'each' },

  CreateBucket: {
    adds: true,
    on: 'PUT bucket',
    also: {
      'acl!=private': 's3:PutBucketAcl',
      'grant-read': 's3:PutBucketAcl',
      'grant-write': 's3:PutBucketAcl',
      'grant-read-acp': 's3:PutBucketAcl',
      'grant-write-acp': 's3:PutBucketAcl',
      'grant-full-control': 's3:PutBucketAcl',
      'object-ownership': 's3:PutBucketOwnershipControls',
      'bucket-object-lock-enabled=true': ['s3:PutBucketObjectLockConfiguration', 's3:PutBucketVersioning'],
    },
  },
  DeleteBucket: { on: 'DELETE bucket' },
  HeadBucket: { accessPoints: true, on: 'HEAD bucket', action: 's3:ListBucket' },
  GetBucketLocation: { accessPoints: true, on: 'GET bucket ?location' },
  GetBucketVersioning: { on: 'GET bucket ?versioning' },
  PutBucketVersioning: { on: 'PUT bucket ?versioning' },
  GetBucketTagging: { on: 'GET bucket ?tagging' },
  PutBucketTagging: { on: 'PUT bucket ?tagging' },
  DeleteBucketTagging: { on: 'DELETE bucket ?tagging', action: 's3:PutBucketTagging' },
  GetBucketCors: { accessPoints: true, on: 'GET bucket ?cors', action: 's3:GetBucketCORS' },
  PutBucketCors: { on: 'PUT bucket ?cors', action: 's3:PutBucketCORS' },
  DeleteBucketCors: { on: 'DELETE bucket ?cors', action: 's3:PutBucketCORS' },
  GetBucketLifecycleConfiguration: { on: 'GET bucket ?lifecycle', action: 's3:GetLifecycleConfiguration' },
  PutBucketLifecycleConfiguration: {
    on: 'PUT bucket ?lifecycle',
    action: 's3:PutLifecycleConfiguration',
    bodyMax: MiB,
  },
  DeleteBucketLifecycleConfiguration: {
    on: 'DELETE bucket ?lifecycle',
    action: 's3:PutLifecycleConfiguration',
  },
  GetBucketReplication: { on: 'GET bucket ?replication', action: 's3:GetReplicationConfiguration' },
  PutBucketReplication: { on: 'PUT bucket ?replication', action: 's3:PutReplicationConfiguration' },
  DeleteBucketReplication: { on: 'DELETE bucket ?replication', action: 's3:PutReplicationConfiguration' },
  GetBucketNotificationConfiguration: {
    accessPoints: true,
    on: 'GET bucket ?notification',
    action: 's3:GetBucketNotification',
  },
  PutBucketNotificationConfiguration: { on: 'PUT bucket ?notification', action: 's3:PutBucketNotification' },
  GetBucketInventoryConfiguration: {
    on: 'GET bucket ?inventory ?id',
    action: 's3:GetInventoryConfiguration',
  },
  PutBucketInventoryConfiguration: {
    on: 'PUT bucket ?inventory',
    action: 's3:PutInventoryConfiguration',
    with: ['id'],
  },
  DeleteBucketInventoryConfiguration: {
    on: 'DELETE bucket ?inventory',
    action: 's3:PutInventoryConfiguration',
    with: ['id'],
  },
  ListBucketInventoryConfigurations: { on: 'GET bucket ?inventory', action: 's3:GetInventoryConfiguration' },
  GetBucketLogging: { on: 'GET bucket ?logging' },
  PutBucketLogging: { on: 'PUT bucket ?logging' },
  GetBucketWebsite: { on: 'GET bucket ?website' },
  PutBucketWebsite: { on: 'PUT bucket ?website', bodyMax: 128 * KiB },
  DeleteBucketWebsite: { on: 'DELETE bucket ?website' },
  GetBucketEncryption: { on: 'GET bucket ?encryption', action: 's3:GetEncryptionConfiguration' },
  PutBucketEncryption: { on: 'PUT bucket ?encryption', action: 's3:PutEncryptionConfiguration' },
  DeleteBucketEncryption: { on: 'DELETE bucket ?encryption', action: 's3:PutEncryptionConfiguration' },
  GetBucketOwnershipControls: { on: 'GET bucket ?ownershipControls' },
  PutBucketOwnershipControls: { on: 'PUT bucket ?ownershipControls' },
  DeleteBucketOwnershipControls: {
    on: 'DELETE bucket ?ownershipControls',
    action: 's3:PutBucketOwnershipControls',
  },
  GetPublicAccessBlock: { on: 'GET bucket ?publicAccessBlock', action: 's3:GetBucketPublicAccessBlock' },
  PutPublicAccessBlock: { on: 'PUT bucket ?publicAccessBlock', action: 's3:PutBucketPublicAccessBlock' },
  DeletePublicAccessBlock: {
    on: 'DELETE bucket ?publicAccessBlock',
    action: 's3:PutBucketPublicAccessBlock',
  },
  GetBucketRequestPayment: { on: 'GET bucket ?requestPayment' },
  PutBucketRequestPayment: { on: 'PUT bucket ?requestPayment' },
  GetObjectLockConfiguration: {
    on: 'GET bucket ?object-lock',
    action: 's3:GetBucketObjectLockConfiguration',
  },
  PutObjectLockConfiguration: {
    on: 'PUT bucket ?object-lock',
    action: 's3:PutBucketObjectLockConfiguration',
  },
  GetBucketPolicy: { accessPoints: true, on: 'GET bucket ?policy' },
  PutBucketPolicy: { on: 'PUT bucket ?policy' },
  DeleteBucketPolicy: { on: 'DELETE bucket ?policy' },
  GetBucketPolicyStatus: { on: 'GET bucket ?policyStatus' },
  GetBucketAcl: { accessPoints: true, on: 'GET bucket ?acl' },
  PutBucketAcl: { on: 'PUT bucket ?acl' },
  ListObjects: { accessPoints: true, on: 'GET bucket', action: 's3:ListBucket' },
  ListObjectsV2: { accessPoints: true, on: 'GET bucket ?list-type=2', action: 's3:ListBucket' },
  ListObjectVersions: { accessPoints: true, on: 'GET bucket ?versions', action: 's3:ListBucketVersions' },
  ListMultipartUploads: {
    accessPoints: true,
    on: 'GET bucket ?uploads',
    action: 's3:ListBucketMultipartUploads',
  },
  DeleteObjects: {
    accessPoints: true,
    on: 'POST bucket ?delete',
    action: 's3:DeleteObject',
    bodyMax: 4 * MiB,
    judges: 'each',
    events: ['ObjectRemoved'],
  },

  PutObject: {
    adds: true,
    on: 'PUT object',
    about: 'head',
    streams: true,
    also: alongWrites,
    events: ['ObjectCreated:Put'],
  },
  PostObject: {
    adds: true,
    on: 'POST bucket',
    action: 's3:PutObject',
    streams: true,
    also: alongWrites,
    events: ['ObjectCreated:Post'],
  },
  CopyObject: {
    adds: true,
    on: 'PUT object +copy-source',
    action: 's3:PutObject',
    also: alongWrites,
    events: ['ObjectCreated:Copy'],
  },
  GetObject: {
    on: 'GET object',
    about: 'version',
    versionAction: 's3:GetObjectVersion',
    with: ['partNumber'],
  },
  HeadObject: {
    on: 'HEAD object',
    action: 's3:GetObject',
    about: 'version',
    versionAction: 's3:GetObjectVersion',
    with: ['partNumber'],
  },
  DeleteObject: {
    on: 'DELETE object',
    about: 'head',
    versionAction: 's3:DeleteObjectVersion',
    with: ['versionId'],
    also: bypass,
    events: ['ObjectRemoved'],
  },
  GetObjectAttributes: {
    on: 'GET object ?attributes',
    about: 'version',
    versionAction: 's3:GetObjectVersionAttributes',
  },
  /** The restore completes immediately, so both events are sent. */
  RestoreObject: {
    adds: true,
    on: 'POST object ?restore',
    about: 'version',
    events: ['ObjectRestore:Post', 'ObjectRestore:Completed'],
  },
  GetObjectTagging: {
    on: 'GET object ?tagging',
    about: 'version',
    versionAction: 's3:GetObjectVersionTagging',
  },
  PutObjectTagging: {
    adds: true,
    on: 'PUT object ?tagging',
    about: 'version',
    versionAction: 's3:PutObjectVersionTagging',
    events: ['ObjectTagging:Put'],
  },
  DeleteObjectTagging: {
    on: 'DELETE object ?tagging',
    about: 'version',
    versionAction: 's3:DeleteObjectVersionTagging',
    events: ['ObjectTagging:Delete'],
  },
  GetObjectRetention: { on: 'GET object ?retention', about: 'version' },
  PutObjectRetention: { on: 'PUT object ?retention', about: 'version', also: bypass },
  GetObjectLegalHold: { on: 'GET object ?legal-hold', about: 'version' },
  PutObjectLegalHold: { on: 'PUT object ?legal-hold', about: 'version' },
  UpdateObjectEncryption: { adds: true, on: 'PUT object ?encryption', about: 'version' },

  GetObjectAcl: { on: 'GET object ?acl', about: 'version', versionAction: 's3:GetObjectVersionAcl' },
  PutObjectAcl: {
    adds: true,
    on: 'PUT object ?acl',
    about: 'version',
    versionAction: 's3:PutObjectVersionAcl',
    events: ['ObjectAcl:Put'],
  },

  CreateMultipartUpload: {
    adds: true,
    on: 'POST object ?uploads',
    action: 's3:PutObject',
    also: alongWrites,
  },
  UploadPart: {
    adds: true,
    on: 'PUT object ?uploadId ?partNumber',
    action: 's3:PutObject',
    about: 'parts',
    streams: true,
  },
  UploadPartCopy: {
    adds: true,
    on: 'PUT object ?uploadId ?partNumber +copy-source',
    action: 's3:PutObject',
    about: 'parts',
  },
  CompleteMultipartUpload: {
    on: 'POST object ?uploadId',
    action: 's3:PutObject',
    about: 'parts',
    bodyMax: 4 * MiB,
    checksumOf: 'object',
    events: ['ObjectCreated:CompleteMultipartUpload'],
  },
  AbortMultipartUpload: { on: 'DELETE object ?uploadId', about: 'upload' },
  ListParts: { on: 'GET object ?uploadId', action: 's3:ListMultipartUploadParts', about: 'upload' },

  // A browser sends a preflight before the request with this query, and cannot sign it.
  OptionsBucket: { on: 'OPTIONS bucket', judges: 'none', with: 'anything' },
  OptionsObject: { on: 'OPTIONS object', judges: 'none', with: 'anything' },

  ...replicaOperations,
  ...accessPointOperations,
  ...iamOperations,
  ...leftOutOperations,
} as const satisfies Readonly<Record<string, Operation>>;

export type OperationName = keyof typeof operations;
export const operationNames = Object.keys(operations) as readonly OperationName[];

export const isOperation = (name: string): name is OperationName => Object.hasOwn(operations, name);

/** A row with what derives filled in. */
export type OperationRow = Operation & Required<Pick<Operation, 'action' | 'audited'>>;

const rows: ReadonlyMap<OperationName, OperationRow> = new Map(
  operationNames.map((name) => {
    const row: Operation = operations[name];
    const readOnly = /^(GET|HEAD|OPTIONS) /.test(row.on);
    return [name, { ...row, action: row.action ?? `s3:${name}`, audited: row.audited ?? !readOnly }];
  }),
);

export function describeOperation(name: OperationName): OperationRow {
  const row = rows.get(name);
  if (row === undefined) throw new Error(`there is no operation ${name}`);
  return row;
}

/**
 * Sub-resource names: the first query name of each row, and those that only accompany it. A request with one that its operation does
 * not have is refused rather than answered as the plain operation: `DELETE ?policy` must never delete the bucket.
 */
export const subResources: ReadonlySet<string> = new Set([
  ...[...rows.values()].flatMap(({ on }) => /^\S+ (?:bucket|object) \?([\w-]+)(?= |$)/.exec(on)?.[1] ?? []),
  'partNumber',
  'versionId',
]);
