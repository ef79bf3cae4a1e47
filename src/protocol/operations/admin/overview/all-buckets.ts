/** Rows about the buckets of all accounts. */
import {
  jsonBoolean,
  jsonChoice,
  jsonMap,
  jsonObject,
  jsonOptional,
  jsonRows,
  jsonText,
} from '../../../formats/json.ts';
import { weight } from '../clusters.ts';
import { mention, noResource, scope } from '../resources.ts';
import { type AdminRows, bucketName, count, isoTime, next, pagingBy } from '../row.ts';

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
