/** Rows about single objects, open uploads, and the buckets of all accounts. */
import {
  jsonBoolean,
  jsonChoice,
  jsonInteger,
  jsonMap,
  jsonObject,
  jsonOptional,
  jsonRows,
  jsonText,
} from '../formats/json.ts';
import {
  type AdminRows,
  bucketName,
  count,
  isoTime,
  longText,
  mention,
  next,
  noResource,
  pagingBy,
  scope,
} from './row.ts';
import { weight } from './storage.ts';

// Rows about single objects and open uploads, as operators see them.

export const versionsPageDefault = 20;
export const uploadsPageDefault = 100;

const key = jsonText({ max: 4_096, doc: 'The key of the object.' });
const texts = jsonMap(longText, { max: 4_096 });

const version = jsonObject({
  versionId: jsonText(),
  isLatest: jsonBoolean,
  isDeleteMarker: jsonBoolean,
  modified: isoTime,
  size: count,
  etag: jsonText(),
  storageClass: jsonText(),
  owner: jsonText(),
  metadata: texts,
  headers: texts,
  tags: texts,
  checksum: jsonOptional(jsonObject({ algorithm: jsonText(), type: jsonText(), value: jsonText() })),
  encryption: jsonOptional(jsonObject({ algorithm: jsonText(), keyId: jsonOptional(longText) })),
  retention: jsonOptional(jsonObject({ mode: jsonText(), until: isoTime })),
  legalHold: jsonBoolean,
  replication: jsonOptional(jsonText()),
  restoredUntil: jsonOptional(isoTime),
  expires: jsonOptional(jsonObject({ at: isoTime, rule: jsonText() })),
  parts: count,
  extents: jsonRows(jsonObject({ cluster: jsonText(), id: jsonText(), bytes: count, chunks: count })),
  extentsLeftOut: jsonOptional(count),
});

export const objectRows = {
  StatObject: {
    on: 'GET /buckets/:name/object',
    names: { key: noResource('the key of an object; policies of operators name buckets') },
    lists: { versions: ['accounts/{owner}'] },
    doc: 'Shows the versions of a key, the newest first: where their bytes are, locks, encryption, replication, and the lifecycle rule that expires the latest one. A page is shorter where its versions have many parts.',
    query: { key, ...pagingBy(versionsPageDefault) },
    reply: jsonObject({ versions: jsonRows(version), next }),
  },
  ListOpenUploads: {
    on: 'GET /buckets/:name/uploads',
    tenants: { bucket: 'name' },
    lists: { rows: ['accounts/{owner}'] },
    doc: 'Lists the open multipart uploads of a bucket by key, with their age, parts and bytes. A page is shorter where its uploads have many parts.',
    query: { prefix: jsonOptional(jsonText({ max: 1_024 })), ...pagingBy(uploadsPageDefault) },
    reply: jsonObject({
      rows: jsonRows(
        jsonObject({
          key,
          uploadId: jsonText(),
          initiated: isoTime,
          ageSeconds: count,
          owner: jsonText(),
          initiator: jsonText(),
          storageClass: jsonText(),
          parts: count,
          bytes: count,
        }),
      ),
      next,
    }),
  },
  AbortUploads: {
    on: 'POST /buckets/:name/uploads/abort',
    doc: 'Aborts the open uploads of a bucket that are older than this, at most 1,000 in a request: repeat it while `isTruncated`.',
    body: jsonObject({
      olderThanSeconds: jsonInteger({ min: 0, max: 10 ** 9 }),
      prefix: jsonOptional(jsonText({ max: 1_024 })),
    }),
    reply: jsonObject({ aborted: count, isTruncated: jsonBoolean }),
  },
} as const satisfies AdminRows;

// Rows about the buckets of all accounts.

/** Each entry needs reads of its own. */
export const bucketsPageDefault = 100;
const versioning = jsonChoice(['Enabled', 'Suspended', 'unset']);

const listed = {
  name: bucketName,
  owner: jsonText(),
  ownerName: jsonText(),
  created: isoTime,
  region: jsonText(),
  bytes: count,
  objects: count,
  updatedAt: jsonOptional(isoTime),
  versioning,
  objectLock: jsonBoolean,
  quota: jsonOptional(jsonObject({ maxBytes: count, maxObjects: count, maxBytesPerObject: count })),
  placement: jsonOptional(jsonMap(weight, { max: 256 })),
  defaultClass: jsonText(),
  shards: count,
  configurations: jsonRows(jsonText()),
  policyIsPublic: jsonBoolean,
  aclIsPublic: jsonBoolean,
  hasSigningKey: jsonBoolean,
};

export const allBucketRows = {
  ListBuckets: {
    on: 'GET /buckets',
    tenants: { account: 'owner' },
    names: { owner: mention('accounts/{owner}/buckets') },
    lists: { rows: ['buckets/{name}', 'accounts/{owner}'] },
    doc: 'Lists the buckets of all accounts by name, with what each holds. A page may be short although more follow.',
    query: {
      prefix: jsonOptional(bucketName),
      owner: jsonOptional(jsonText({ max: 128 })),
      versioning: jsonOptional(versioning),
      hasQuota: jsonOptional(jsonBoolean),
      hasPlacement: jsonOptional(jsonBoolean),
      hasObjectLock: jsonOptional(jsonBoolean),
      configuration: jsonOptional(
        jsonText({ max: 64, doc: 'A configuration that is set, such as `policy`.' }),
      ),
      ...pagingBy(bucketsPageDefault),
    },
    reply: jsonObject({ rows: jsonRows(jsonObject(listed)), next }),
  },
  GetBucket: {
    on: 'GET /buckets/:name',
    tenants: { bucket: 'name' },
    doc: 'Shows what operators need to know of a bucket.',
    reply: jsonObject({
      ...listed,
      id: jsonText(),
      creator: jsonText(),
      mfaDelete: jsonBoolean,
      placementMode: jsonOptional(jsonText()),
      splittingTo: jsonOptional(count),
      classes: jsonRows(jsonObject({ storageClass: jsonText(), bytes: count, objects: count })),
      countedAt: isoTime,
      objectOwnership: jsonText(),
      encryption: jsonOptional(jsonObject({ algorithm: jsonText(), keyId: jsonOptional(jsonText()) })),
      website: jsonBoolean,
      signingKey: jsonOptional(jsonObject({ keyId: jsonText(), createdAt: isoTime, isExpired: jsonBoolean })),
    }),
  },
  CreateBucket: {
    on: 'POST /buckets',
    names: { name: scope('buckets/{name}'), owner: mention('accounts/{owner}/buckets') },
    records: ['owner', 'region', 'versioning', 'objectLock'],
    doc: 'Creates a bucket of an account. Object Lock brings versioning with it.',
    body: jsonObject({
      name: bucketName,
      owner: jsonText({ max: 128, doc: 'The id of the account.' }),
      region: jsonOptional(jsonText({ max: 64 })),
      objectLock: jsonOptional(jsonBoolean),
      versioning: jsonOptional(jsonBoolean),
    }),
    reply: jsonObject({
      name: bucketName,
      owner: jsonText(),
      region: jsonText(),
      created: isoTime,
      versioning,
      objectLock: jsonBoolean,
    }),
    status: 201,
  },
  DeleteBucket: {
    on: 'DELETE /buckets/:name',
    records: ['owner', 'region', 'versioning', 'objectLock'],
    doc: 'Deletes an empty bucket; the refusal of another says what is in it. Open uploads are aborted.',
  },
  PutBucketOwner: {
    on: 'PUT /buckets/:name/owner',
    records: ['owner'],
    names: {
      owner: mention('accounts/{owner}/buckets'),
      policy: noResource('Whether the policy of the bucket stays.'),
    },
    doc: 'Gives a bucket to another account, with its objects unless `objects` is `stay`. The policy stays and goes on to grant what it granted, unless `policy` is `drop`.',
    query: { policy: jsonOptional(jsonChoice(['keep', 'drop'])) },
    body: jsonObject({ owner: jsonText({ max: 128 }), objects: jsonOptional(jsonChoice(['move', 'stay'])) }),
    reply: jsonObject({
      policy: jsonChoice(['none', 'kept', 'dropped']),
      policyText: jsonOptional(jsonText()),
    }),
  },
} as const satisfies AdminRows;
