/**
 * The formats in which operators export the audit log: JSON Lines, records of CloudTrail
 * (https://docs.aws.amazon.com/awscloudtrail/latest/userguide/cloudtrail-event-reference-record-contents.html, version 1.11), and the class
 * API Activity of OCSF (https://schema.ocsf.io/1.3.0/classes/api_activity).
 */
import type { Context } from '../../context.ts';
import { auditRowsBetween, requestOfRow } from '../../metadata/audit.ts';
import type { AuditRow } from '../../metadata/records/audit.ts';

type Ctx = Pick<Context, 'config' | 'hasher'>;

interface AuditFormat {
  readonly mediaType: string;
  /** The text around the rows, and between two of them. */
  readonly around: readonly [string, string];
  readonly between: string;
  readonly toText: (ctx: Ctx, row: AuditRow) => string;
}

/** A row as the operator API shows it. `handlers/admin/audit.ts` compares its fields with the schema of the reply. */
export const toAuditJson = ({ hour: _, slot: __, time, id, ...row }: AuditRow) => ({
  time: new Date(time).toISOString(),
  ...requestOfRow({ id }),
  ...row,
});

const lines = { mediaType: 'application/x-ndjson', around: ['', '\n'], between: '\n' } as const;

export const auditFormats = {
  jsonl: { ...lines, toText: (_ctx: Ctx, row: AuditRow) => JSON.stringify(toAuditJson(row)) },
  cloudtrail: {
    mediaType: 'application/json',
    around: ['{"Records":[', ']}'],
    between: ',\n',
    toText: (ctx: Ctx, row: AuditRow) => JSON.stringify(toCloudTrail(ctx, row)),
  },
  ocsf: { ...lines, toText: (_ctx: Ctx, row: AuditRow) => JSON.stringify(toOcsf(row)) },
} as const satisfies Readonly<Record<string, AuditFormat>>;

const readBucketName = ({ resource }: AuditRow): string | undefined =>
  resource.startsWith('bucket:') ? resource.slice('bucket:'.length) : undefined;

/** The service of an action, and its name there: `admin:PutBucketQuota` is PutBucketQuota of the operator API. */
function actionNames({ action, resource }: AuditRow): { readonly service: string; readonly name: string } {
  const [prefix = '', name] = action.split(':');
  if (name !== undefined) return { service: `${prefix}.sluice`, name };
  const service = resource.startsWith('arn:aws:iam:') ? 'iam' : 's3';
  return { service: `${service}.amazonaws.com`, name: action };
}

const isRead = (name: string): boolean => /^(Get|List|Head)/.test(name);

/** A UUID that the row always gets. */
function toEventId({ hasher }: Ctx, { time, id }: AuditRow): string {
  const hex = hasher.sha256Hex(`${time} ${id}`);
  return [
    hex.slice(0, 8),
    hex.slice(8, 12),
    `8${hex.slice(13, 16)}`,
    `8${hex.slice(17, 20)}`,
    hex.slice(20, 32),
  ].join('-');
}

function toCloudTrail(ctx: Ctx, row: AuditRow) {
  const { service, name } = actionNames(row);
  const isData = row.key !== undefined || row.keys !== undefined;
  return {
    eventVersion: '1.11',
    userIdentity: toUserIdentity(row),
    eventTime: `${new Date(row.time).toISOString().slice(0, 19)}Z`,
    eventSource: service,
    eventName: name,
    awsRegion: ctx.config.SVC_REGION,
    sourceIPAddress: row.source,
    ...(row.error === undefined ? {} : { errorCode: row.error }),
    requestParameters: describeParameters(row),
    responseElements: null,
    additionalEventData: {
      httpStatus: row.status,
      ...(row.count === undefined ? {} : { count: row.count }),
      ...(row.changes === undefined ? {} : { changes: row.changes }),
      ...describeLimits(row),
    },
    requestID: requestOfRow(row).requestId,
    eventID: toEventId(ctx, row),
    readOnly: isRead(name),
    resources: listResources(row)
      .filter(({ id }) => id.startsWith('arn:'))
      .map(({ id, type }) => ({ type, ARN: id })),
    eventType: 'AwsApiCall',
    managementEvent: !isData,
    ...(row.account === undefined ? {} : { recipientAccountId: row.account }),
    eventCategory: isData ? 'Data' : 'Management',
  };
}

/** https://docs.aws.amazon.com/awscloudtrail/latest/userguide/cloudtrail-event-reference-user-identity.html */
function toUserIdentity({ principal, accessKey, account, session }: AuditRow) {
  if (principal === undefined)
    return { type: 'AWSAccount', principalId: '', accountId: 'ANONYMOUS_PRINCIPAL' };
  if (!principal.startsWith('arn:')) return { type: 'AWSService', invokedBy: principal };
  const user = principal.includes(':user/') ? principal.split('/').at(-1) : undefined;
  const type = principal.endsWith(':root')
    ? 'Root'
    : principal.includes(':assumed-role/')
      ? 'AssumedRole'
      : 'IAMUser';
  return {
    type,
    principalId: account ?? '',
    arn: principal,
    accountId: account ?? '',
    accessKeyId: accessKey ?? '',
    ...(user === undefined ? {} : { userName: user }),
    ...(session === undefined
      ? {}
      : { sessionContext: { attributes: { mfaAuthenticated: session.isMfa === true ? 'true' : 'false' } } }),
  };
}

/** What limited the temporary credentials of the caller. MFA is left out, because the formats have a field for it. */
function describeLimits({ session: { isMfa: _, ...limits } = {} }: AuditRow) {
  return Object.keys(limits).length === 0 ? {} : { session: limits };
}

function describeParameters(row: AuditRow) {
  const bucketName = readBucketName(row);
  if (bucketName !== undefined)
    return {
      bucketName,
      ...(row.key === undefined ? {} : { key: row.key }),
      ...(row.keys === undefined ? {} : { page: requestOfRow(row).page, keys: row.keys }),
    };
  return row.resource === '' ? null : { resource: row.resource };
}

interface Resource {
  /** An ARN, or a name of this service such as `cluster:b`. */
  readonly id: string;
  readonly type: string;
  readonly name: string;
}

function listResources(row: AuditRow): readonly Resource[] {
  const bucket = readBucketName(row);
  if (bucket === undefined) return row.resource === '' ? [] : [toResource(row.resource)];
  const id = `arn:aws:s3:::${bucket}`;
  const ofBucket = { id, type: 'AWS::S3::Bucket', name: bucket };
  const keys = row.key === undefined ? (row.keys ?? []) : [row];
  return [
    ...keys.map(({ key }) => ({ id: `${id}/${key}`, type: 'AWS::S3::Object', name: `${bucket}/${key}` })),
    ofBucket,
  ];
}

/** By what an ARN names behind its account, or by the word before the colon. */
const resourceTypes: Readonly<Record<string, string>> = {
  user: 'AWS::IAM::User',
  group: 'AWS::IAM::Group',
  role: 'AWS::IAM::Role',
  policy: 'AWS::IAM::ManagedPolicy',
  mfa: 'AWS::IAM::VirtualMFADevice',
  accesspoint: 'AWS::S3::AccessPoint',
  cluster: 'Sluice::Cluster',
  notify: 'Sluice::NotificationTarget',
  'replication-peer': 'Sluice::ReplicationPeer',
};

function toResource(id: string): Resource {
  const rest = id.startsWith('arn:') ? id.split(':').slice(5).join(':') : id;
  const [kind = '', ...names] = rest.split(/[/:]/);
  const type = Object.hasOwn(resourceTypes, kind) ? resourceTypes[kind] : undefined;
  return { id, type: type ?? 'Sluice::Other', name: names.join('/') || rest };
}

/** By the first word of an operation. The others change something that exists. */
const activities: readonly (readonly [RegExp, number, string])[] = [
  [/^(Create|Copy|Upload|Complete|Import|Post|PutObject$)/, 1, 'Create'],
  [/^(Get|List|Head|Check|Export|Verify)/, 2, 'Read'],
  [/^(Delete|Abort|Remove|Discard|ForceEmpty)/, 4, 'Delete'],
  [/^/, 3, 'Update'],
];

const findActivity = (name: string): readonly [number, string] => {
  const [, id = 3, activity = 'Update'] = activities.find(([pattern]) => pattern.test(name)) ?? [];
  return [id, activity];
};

const classUid = 6003;

function toOcsf(row: AuditRow) {
  const { service, name } = actionNames(row);
  const [activity, activityName] = findActivity(name);
  const isSuccess = row.status < 400;
  const resources = listResources(row);
  // What the class has no attribute for.
  const unmapped = {
    ...(row.changes === undefined ? {} : { changes: row.changes }),
    ...describeLimits(row),
  };
  return {
    activity_id: activity,
    activity_name: activityName,
    category_uid: 6,
    category_name: 'Application Activity',
    class_uid: classUid,
    class_name: 'API Activity',
    type_uid: classUid * 100 + activity,
    type_name: `API Activity: ${activityName}`,
    time: row.time,
    severity_id: 1,
    severity: 'Informational',
    status_id: isSuccess ? 1 : 2,
    status: isSuccess ? 'Success' : 'Failure',
    ...(row.error === undefined ? {} : { status_code: row.error }),
    ...(row.count === undefined ? {} : { count: row.count }),
    ...(Object.keys(unmapped).length === 0 ? {} : { unmapped }),
    metadata: {
      version: '1.3.0',
      product: { name: 'sluice', vendor_name: 'sluice' },
      uid: row.id,
      log_name: 'audit',
    },
    actor: { user: toOcsfUser(row), ...toOcsfSession(row) },
    api: {
      operation: name,
      service: { name: service },
      request: { uid: requestOfRow(row).requestId },
      response: { code: row.status, ...(row.error === undefined ? {} : { error: row.error }) },
    },
    // `ip` is an address: workers of this service have none.
    src_endpoint: /^[\d.]+$|:/.test(row.source) ? { ip: row.source } : { svc_name: row.source || 'sluice' },
    ...(resources.length === 0
      ? {}
      : { resources: resources.map(({ id, type, name }) => ({ uid: id, type, name })) }),
  };
}

function toOcsfUser({ principal, accessKey, account }: AuditRow) {
  if (principal === undefined && account === undefined)
    return { name: 'anonymous', type_id: 0, type: 'Unknown' };
  const [typeId, type] =
    principal?.startsWith('arn:') === false
      ? [3, 'System']
      : principal?.endsWith(':root') === true
        ? [2, 'Admin']
        : [1, 'User'];
  return {
    ...(principal === undefined ? {} : { uid: principal }),
    ...(account === undefined ? {} : { account: { uid: account } }),
    ...(accessKey === undefined ? {} : { credential_uid: accessKey }),
    type_id: typeId,
    type,
  };
}

/** https://schema.ocsf.io/1.3.0/objects/session: each session has an access key of its own, which names it. */
const toOcsfSession = ({ session, accessKey }: AuditRow) =>
  session === undefined
    ? {}
    : {
        session: {
          ...(accessKey === undefined ? {} : { uid: accessKey }),
          is_mfa: session.isMfa === true,
        },
      };

// Streams the audit log, the oldest row first. A slow reader slows the reading of rows, and few rows are in memory.

/** The text that is sent together, in characters. */
const pieceSize = 32 * 1024;

interface AuditExport {
  readonly start: number;
  readonly end: number;
  readonly format: AuditFormat;
  /** Of `openTurns`. It also ends an export that has found no row yet: a generator is ended from outside only where it yields. */
  readonly rest: () => Promise<void>;
  matches(row: AuditRow): boolean;
  /** Whether policies let the caller see a row that matches. */
  isVisible(row: AuditRow): Promise<boolean>;
}

export async function* exportAudit(
  ctx: Pick<Context, 'metadata' | 'config' | 'hasher'>,
  { start, end, format, rest, matches, isVisible }: AuditExport,
): AsyncGenerator<Uint8Array> {
  const { around, between, toText } = format;
  const encoder = new TextEncoder();
  let text = around[0];
  let isFirst = true;
  for await (const row of auditRowsBetween(ctx.metadata, { start, end, rest })) {
    if (!matches(row) || !(await isVisible(row))) continue;
    text += (isFirst ? '' : between) + toText(ctx, row);
    isFirst = false;
    if (text.length < pieceSize) continue;
    yield encoder.encode(text);
    text = '';
  }
  // No row makes no line.
  const last = isFirst && around[0] === '' ? '' : text + around[1];
  if (last !== '') yield encoder.encode(last);
}

// Which rows of the audit log are asked for.

/** What a row is about: settings (of a bucket, an account, the installation), or objects. */
export type AuditKind = 'settings' | 'writes' | 'deletions';

/** Absent: any. */
interface AuditFilter {
  readonly bucket?: string | undefined;
  readonly action?: string | undefined;
  /** An ARN, an access key id or an account. */
  readonly identity?: string | undefined;
  /** A status such as `403`, or a class of them such as `4xx`. */
  readonly status?: string | undefined;
  readonly requestId?: string | undefined;
  readonly key?: string | undefined;
  /** The beginning of a key. */
  readonly keyPrefix?: string | undefined;
  /** A field that the request changed, or a map of which it changed an entry. */
  readonly changed?: string | undefined;
  readonly kind?: AuditKind | undefined;
}

export const auditMatcher =
  ({ bucket, action, identity, status, requestId, key, keyPrefix, changed, kind }: AuditFilter) =>
  (row: AuditRow): boolean =>
    (bucket === undefined || row.resource === `bucket:${bucket}`) &&
    (action === undefined || row.action === action) &&
    (identity === undefined || [row.principal, row.accessKey, row.account].includes(identity)) &&
    (status === undefined || isOfStatus(row.status, status)) &&
    (requestId === undefined || requestOfRow(row).requestId === requestId) &&
    (key === undefined || namesKey(row, (each) => each === key)) &&
    (keyPrefix === undefined || namesKey(row, (each) => each.startsWith(keyPrefix))) &&
    (changed === undefined || changesField(row, changed)) &&
    (kind === undefined || classifyRow(row) === kind);

/** By what it is about, and by the first word of the operation. */
function classifyRow(row: AuditRow): AuditKind {
  if (row.key === undefined && row.keys === undefined) return 'settings';
  return findActivity(actionNames(row).name)[1] === 'Delete' ? 'deletions' : 'writes';
}

/** Whether the row has a change of the field, or of an entry of that map. */
const changesField = ({ changes = [] }: AuditRow, changed: string): boolean =>
  changes.some(({ field }) => field === changed || field.startsWith(`${changed}.`));

/** Whether the row is about such a key, alone or among others. */
const namesKey = ({ key, keys = [] }: AuditRow, matches: (key: string) => boolean): boolean =>
  (key !== undefined && matches(key)) || keys.some((each) => matches(each.key));

const isOfStatus = (status: number, asked: string): boolean =>
  asked.endsWith('xx') ? asked.startsWith(String(status).slice(0, 1)) : asked === String(status);
