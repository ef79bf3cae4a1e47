/**
 * The operation table: every storage operation, as the request that asks for it; and the choice of the operation of a request.
 *
 * A row reads like a request: `PUT object ?partNumber ?uploadId +copy-source` is a PUT at object scope with
 * both query names and the dialect's `copy-source` header. The row with the most marks that matches wins
 * (see `select`), so order never matters. What a row does not say derives: the policy action is
 * `s3:<Name>`, anything but GET, HEAD and OPTIONS is audited, and the metric label is the name.
 */
import { fail, type Refusal } from '../../base/errors.ts';
import { dialects } from '../dialect.ts';
import type { Query } from '../wire.ts';
import { iamOperations } from './iam.ts';
import { leftOutOperations } from './left-out.ts';
import type { RequestLine, Scope } from './parameters.ts';

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
  GetReplicaSite: { on: 'GET bucket ?replica', action: 's3:ReplicateObject', authorization: 'each' },
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
  readonly authorization: 'each';
}

const row = <const Name extends string>(name: Name): Row<Name> => ({
  on: `ANY service ?Action=${name}`,
  action: `s3:${name}`,
  audited: !/^(Get|List)/.test(name),
  authorization: 'each',
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
  readonly authorization?: 'each' | 'none';
  /** For an operation on a bucket: access points serve it too. They serve every operation on an object. */
  readonly accessPoints?: true;
  /** The events that it causes; see `domain/events/events.ts`. */
  readonly events?: readonly string[];
  /** Audited or not, where the method does not tell. */
  readonly audited?: boolean;
  /** The handler reads `payload.content` itself, as a stream. All other bodies are read whole and verified first. */
  readonly streams?: true;
  /** The handler reads its content from an object, which may take as long as a body: `request.stillAuthorized` is there. */
  readonly copies?: true;
  /** The largest body in bytes of an operation that does not stream; 64 KiB unless it says more. */
  readonly bodyMax?: number;
  /** The checksum header is about the resulting object, not about the body of the request. */
  readonly checksumOf?: 'object';
  /** It stores data, so it is refused while a disk is below its reserve. Deletions, revocations and completions are not refused. */
  readonly adds?: true;
  /** Its reply has an entry for each one of its body, so it may be large. */
  readonly answersEach?: true;
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

export const bypassAction = 's3:BypassGovernanceRetention';
const bypass = { 'bypass-governance-retention=true': bypassAction } as const;

export const operations = {
  ListBuckets: { on: 'GET service', action: 's3:ListAllMyBuckets' },
  ListAuditRecords: { on: 'GET service ?audit', authorization: 'each' },
  ListNotifyDeadLetters: { on: 'GET service ?notify-dlq', authorization: 'each' },

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
    answersEach: true,
    authorization: 'each',
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
    copies: true,
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
  PutObjectRetention: {
    on: 'PUT object ?retention',
    about: 'version',
    also: bypass,
    events: ['ObjectRetention:Put'],
  },
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
    copies: true,
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
  OptionsBucket: { on: 'OPTIONS bucket', authorization: 'none', with: 'anything' },
  OptionsObject: { on: 'OPTIONS object', authorization: 'none', with: 'anything' },

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

// Chooses the operation of a request from the table.

/** A row's request, in parts. */
interface Pattern {
  readonly name: OperationName;
  readonly method: string;
  readonly scope: string;
  readonly at: string;
  readonly query: readonly { readonly name: string; readonly value: string | undefined }[];
  readonly headers: readonly string[];
  /** Sub-resource names that this row accounts for. */
  readonly known: Pick<ReadonlySet<string>, 'has'>;
  /** Why it is not served. */
  readonly leftOut: string | undefined;
}

const anything = { has: () => true };

function parsePattern(name: OperationName): Pattern {
  const operation: Operation = operations[name];
  const [method = '', scope = '', ...marks] = operation.on.split(' ');
  const query = marks
    .filter((mark) => mark.startsWith('?'))
    .map((mark) => {
      const [queryName = '', value] = mark.slice(1).split('=');
      return { name: queryName, value };
    });
  return {
    name,
    method,
    scope,
    at: `${method} ${scope}`,
    leftOut: operation.leftOut,
    query,
    headers: marks.filter((mark) => mark.startsWith('+')).map((mark) => mark.slice(1)),
    known:
      operation.with === 'anything'
        ? anything
        : new Set([
            ...query.map((each) => each.name),
            ...(operation.with ?? []),
            ...(operation.about === 'version' ? ['versionId'] : []),
          ]),
  };
}

const patterns = operationNames.map(parsePattern);
const anyService = 'ANY service';
const weight = (row: Pattern): number => row.query.length + row.headers.length;

/** Rows by `<method> <scope>`, most specific first: a request is compared with a handful at most. */
const table: ReadonlyMap<string, readonly Pattern[]> = Map.groupBy(
  patterns.filter(({ at }) => at !== anyService).sort((a, b) => weight(b) - weight(a)),
  (row) => row.at,
);

const actions: ReadonlyMap<string, OperationName> = new Map(
  patterns.filter(({ at }) => at === anyService).map(({ name, query }) => [query[0]?.value ?? '', name]),
);

/** Pairs of rows that one request could ask for equally well. A test demands that there is none. */
export function ties(): readonly (readonly [OperationName, OperationName])[] {
  const marks = (row: Pattern): string =>
    [
      ...row.query.map(({ name, value }) => `?${name}=${value ?? ''}`),
      ...row.headers.map((name) => `+${name}`),
    ]
      .sort()
      .join(' ');
  return patterns.flatMap((a, i) =>
    patterns
      .slice(i + 1)
      .flatMap((b) => (a.at === b.at && marks(a) === marks(b) ? [[a.name, b.name] as const] : [])),
  );
}

/**
 * The operation of a request. Query parameters that are no sub-resources choose nothing.
 * @param hasHeader whether the request has a header of its dialect, by bare name
 * @throws MethodNotAllowed with the methods of the resource; InvalidArgument and InvalidRequest for sub-resources that do not go
 *   together or belong elsewhere; NotImplemented for those that are left out
 */
export function select(
  method: string,
  scope: Scope,
  query: Query,
  hasHeader: (bareName: string) => boolean,
): OperationName {
  const found = table.get(`${method} ${scope}`)?.find((row) => matches(row, query, hasHeader));
  for (const [name, value] of query.pairs) {
    if (subResources.has(name) && !found?.known.has(name))
      throw refuseSubResource({ method, scope, name, value, found, query });
    if (!isRead(method) && misspelt.has(name.toLowerCase()) && !subResources.has(name))
      throw invalidArgument(name, value, `The name of a sub-resource is in another case: ${name}.`);
  }
  if (found === undefined) {
    const plain = patterns.filter((row) => row.scope === scope && row.query.length === 0);
    throw notAllowed(method, scope.toUpperCase(), plain);
  }
  return found.name;
}

const isRead = (method: string): boolean => method === 'GET' || method === 'HEAD' || method === 'OPTIONS';
/** `DELETE ?Policy` is more likely a mistake than a request to delete the bucket. */
const misspelt: ReadonlySet<string> = new Set([...subResources].map((name) => name.toLowerCase()));

interface Misplaced {
  readonly method: string;
  readonly scope: Scope;
  readonly name: string;
  readonly value: string;
  /** The row that the request matches without this sub-resource. */
  readonly found: Pattern | undefined;
  readonly query: Query;
}

/** Why a sub-resource is not one of the request's operation, in the words of the public service. */
function refuseSubResource({ method, scope, name, value, found, query }: Misplaced): Refusal {
  if (name === 'versionId')
    return invalidArgument(name, value, 'This operation does not accept a version-id.');
  const chosen = found?.query.find((mark) => mark.name !== name)?.name;
  if (chosen !== undefined)
    return invalidArgument(
      'ResourceType',
      chosen,
      `Conflicting query string parameters: ${[chosen, name].sort().join(', ')}`,
    );
  const having = patterns.filter(
    (row) => row.scope === scope && row.query.some((mark) => mark.name === name),
  );
  if (having.length === 0) return fail('InvalidRequest', `A request at ${scope} scope has no ?${name}.`);
  const served = having.filter((row) => row.leftOut === undefined);
  if (served.length === 0)
    return fail('NotImplemented', `?${name} is not implemented: ${having[0]?.leftOut}.`);
  const half = served.find((row) => row.method === method);
  const missing = half?.query.find((mark) => !query.has(mark.name))?.name;
  if (missing !== undefined)
    return invalidArgument('ResourceType', name, `?${name} is accepted only with ?${missing}.`);
  return notAllowed(method, name.toUpperCase(), served);
}

const invalidArgument = (name: string, value: string, message: string): Refusal =>
  fail('InvalidArgument', {
    message,
    elements: { ArgumentName: name.slice(0, 128), ArgumentValue: value.slice(0, 128) },
  });

function notAllowed(method: string, resource: string, having: readonly Pattern[]): Refusal {
  const allowed = new Set(having.map((row) => row.method));
  return fail('MethodNotAllowed', {
    headers: { Allow: [...allowed].join(', ') },
    elements: { Method: method, ResourceType: resource },
  });
}

/** The methods that access points serve at the resource of an operation, for `Allow`; '' where they serve none. */
export function accessPointMethods(operation: OperationName): string {
  const { scope, query } = parsePattern(operation);
  const isSame = (row: Pattern): boolean => row.scope === scope && row.query[0]?.name === query[0]?.name;
  const served = patterns
    .filter(({ name }) => (operations[name] as Operation).accessPoints === true)
    .filter(isSame);
  return [...new Set(served.map(({ method }) => method))].join(', ');
}

/** The first names of parameters that had no effect on an answered request: for the log, so cut, and without values. */
export const ignoredParameters = (query: Query): string[] =>
  query
    .unread()
    .filter((name) => !isFree(name))
    .slice(0, ignoredMax)
    // A longer text may be a secret that stands in the place of a name.
    .map((name) => (/^[\w.-]{1,32}$/.test(name) ? name : '…'));
const ignoredMax = 10;

/**
 * The operation of an action query.
 * @throws MissingAction, InvalidAction, MethodNotAllowed
 */
export function selectAction(method: string, action: string | undefined): OperationName {
  if (method !== 'GET' && method !== 'POST')
    throw fail('MethodNotAllowed', {
      message: `${method} is not a method of action queries`,
      headers: { Allow: 'GET, POST' },
    });
  if (action === undefined) throw fail('MissingAction');
  const found = actions.get(action);
  if (found === undefined) throw fail('InvalidAction', `Could not find operation ${action.slice(0, 128)}.`);
  return found;
}

/** Parameters that sign a request or name its operation, and mean nothing more. */
const isFree = (name: string): boolean =>
  signing.has(name) || dialects.some(({ headerPrefix }) => name.toLowerCase().startsWith(headerPrefix));
const signing = new Set(['AWSAccessKeyId', 'Signature', 'Expires', 'x-id']);

/** In plain loops: a request for an object is held against every row of its method. */
function matches(row: Pattern, query: Query, hasHeader: (name: string) => boolean): boolean {
  for (const { name, value } of row.query) {
    const input = query.get(name);
    if (input === undefined || (value !== undefined && input !== value)) return false;
  }
  for (const name of row.headers) if (!hasHeader(name)) return false;
  return true;
}
