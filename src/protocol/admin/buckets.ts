/** Rows about one bucket, and its configurations. */

import type { Json } from '../../base/text/strict-json.ts';
import {
  type JsonReader,
  jsonAny,
  jsonBoolean,
  jsonChoice,
  jsonInteger,
  jsonMap,
  jsonNumber,
  jsonObject,
  jsonOptional,
  jsonRows,
  jsonText,
} from '../formats/json.ts';
import { configurationFamilies, configurationShapes } from '../schemas/families.ts';
import {
  type AdminRows,
  bucketName,
  configurationFields,
  count,
  isoTime,
  longText,
  mention,
  next,
  noResource,
  paging,
  seconds,
} from './row.ts';
import { weight } from './storage.ts';

// Rows about one bucket: placement, default class, signing key, quota, and what runs on it in the background.

const placement = jsonMap(weight, { max: 256 });
const mode = jsonChoice(['weighted', 'strict']);
const placementReply = jsonObject({ bucket: bucketName, placement, mode });
const defaultClass = jsonText();
const defaultClassReply = jsonObject({ bucket: bucketName, defaultClass, isSet: jsonBoolean });

export const placementRows = {
  GetBucketPlacement: {
    on: 'GET /buckets/:name/placement',
    tagged: true,
    doc: 'Shows to which clusters the objects of a bucket go.',
    reply: placementReply,
  },
  PutBucketPlacement: {
    on: 'PUT /buckets/:name/placement',
    records: ['placement', 'mode'],
    names: { placement: mention('clusters/{placement.keys}/placement') },
    conditional: true,
    doc: 'Sets to which clusters the objects of a bucket go, by weight.',
    body: jsonObject({ placement, mode: jsonOptional(mode) }),
    reply: placementReply,
  },
  DeleteBucketPlacement: {
    on: 'DELETE /buckets/:name/placement',
    records: ['placement', 'mode'],
    conditional: true,
    doc: 'Lets the weights of the clusters decide about a bucket again.',
  },
  GetBucketDefaultClass: {
    on: 'GET /buckets/:name/default-class',
    tagged: true,
    doc: 'Shows the storage class that a write to a bucket gets when it names none.',
    reply: defaultClassReply,
  },
  PutBucketDefaultClass: {
    on: 'PUT /buckets/:name/default-class',
    records: ['defaultClass'],
    conditional: true,
    doc: 'Sets the storage class that a write to a bucket gets when it names none.',
    body: jsonObject({ defaultClass }),
    reply: defaultClassReply,
  },
  DeleteBucketDefaultClass: {
    on: 'DELETE /buckets/:name/default-class',
    records: ['defaultClass'],
    conditional: true,
    doc: 'Makes STANDARD the default storage class of a bucket again.',
  },
} as const satisfies AdminRows;

const keyId = jsonText({
  max: 512,
  pattern: /^[\x21-\x7e]+$/,
  must: 'a key id: 1 to 512 printable ASCII characters without spaces',
});

export const signingKeyRows = {
  RotateBucketSigningKey: {
    on: 'POST /buckets/:name/signing-key/rotate',
    records: ['signingKey'],
    names: { key_id: mention('keys/{key_id}/rotate') },
    secret: true,
    doc: 'Gives a bucket a new signing key; its secret is shown in this reply only.',
    body: jsonObject({ key_id: jsonOptional(keyId) }),
    reply: jsonObject({
      key_id: jsonText(),
      secret_access_key: jsonText(),
      created_at: seconds,
      wrapped_dek_length: count,
    }),
  },
  GetBucketSigningKeyStatus: {
    on: 'GET /buckets/:name/signing-key/status',
    tenants: { bucket: 'name' },
    doc: 'Shows the age of the signing key of a bucket.',
    reply: jsonObject({
      key_id: jsonText(),
      created_at: seconds,
      age_days: jsonNumber,
      max_age_days: jsonNumber,
      expired: jsonBoolean,
    }),
    audited: true,
  },
  DeleteBucketSigningKey: {
    on: 'DELETE /buckets/:name/signing-key',
    records: ['signingKey'],
    doc: 'Makes the secrets of the access keys valid for a bucket again.',
  },
} as const satisfies AdminRows;

// Rows about access points of a bucket: those of the account that owns it.

const blockSettings = ['blockPublicAcls', 'ignorePublicAcls', 'blockPublicPolicy', 'restrictPublicBuckets'];
const accessPoint = {
  /** Its name. */
  accessPoint: jsonText(),
  account: jsonText(),
  arn: longText,
  alias: jsonText(),
  created: isoTime,
  blockPublicAcls: jsonBoolean,
  ignorePublicAcls: jsonBoolean,
  blockPublicPolicy: jsonBoolean,
  restrictPublicBuckets: jsonBoolean,
  /** Statements of its policy; 0 where it has none. `isPublic`: the policy gives something to everyone. */
  statements: count,
  isPublic: jsonBoolean,
};
const onAccessPoint = '/buckets/:name/access-points/:accessPoint';

export const accessPointRows = {
  ListBucketAccessPoints: {
    on: 'GET /buckets/:name/access-points',
    lists: { rows: ['buckets/{name}/access-points/{accessPoint}', 'accounts/{account}'] },
    doc: 'Lists the access points of a bucket that the account of the bucket has.',
    query: paging,
    reply: jsonObject({ rows: jsonRows(jsonObject(accessPoint)), next }),
  },
  GetBucketAccessPoint: {
    on: `GET ${onAccessPoint}`,
    doc: 'Shows an access point of a bucket, with its policy.',
    reply: jsonObject({ ...accessPoint, document: jsonOptional(longText) }),
  },
  CreateBucketAccessPoint: {
    on: 'POST /buckets/:name/access-points',
    records: ['accessPoint', ...blockSettings],
    names: {
      accessPoint: mention('buckets/{name}/access-points/{accessPoint}'),
      blockPublicPolicy: noResource('A setting of the access point.'),
      restrictPublicBuckets: noResource('A setting of the access point.'),
    },
    doc: 'Creates an access point of a bucket for the account of the bucket. It blocks public access, unless the request says otherwise.',
    body: jsonObject({
      accessPoint: jsonText({
        max: 50,
        pattern: /^[a-z0-9][a-z0-9-]{1,48}[a-z0-9]$/,
        must: '3 to 50 of a-z, 0-9 and -, with no - at either end',
      }),
      blockPublicAcls: jsonOptional(jsonBoolean),
      ignorePublicAcls: jsonOptional(jsonBoolean),
      blockPublicPolicy: jsonOptional(jsonBoolean),
      restrictPublicBuckets: jsonOptional(jsonBoolean),
    }),
    reply: jsonObject(accessPoint),
    status: 201,
  },
  DeleteBucketAccessPoint: {
    on: `DELETE ${onAccessPoint}`,
    records: ['accessPoint', ...blockSettings],
    doc: 'Deletes an access point of a bucket: requests by its alias and ARN are refused at once.',
  },
  PutBucketAccessPointPolicy: {
    on: `PUT ${onAccessPoint}/policy`,
    digests: ['document'],
    doc: 'Sets the policy of an access point, with the checks of the storage protocol and as the account of the bucket.',
    body: jsonObject({ document: jsonText({ max: 65_536, doc: 'The text of a policy document.' }) }),
  },
  DeleteBucketAccessPointPolicy: {
    on: `DELETE ${onAccessPoint}/policy`,
    digests: ['document'],
    doc: 'Removes the policy of an access point.',
  },
} as const satisfies AdminRows;

const emptying = jsonObject({
  state: jsonChoice(['running', 'done']),
  deleted: jsonObject({ versions: count, markers: count, uploads: count }),
  kept: count,
  /** Rows that were left, because metadata about them is damaged. */
  damaged: jsonOptional(count),
  empty: jsonOptional(jsonBoolean),
  isCancelled: jsonOptional(jsonBoolean),
  startedAt: seconds,
  finishedAt: jsonOptional(seconds),
});
const inventoryRun = jsonObject({
  state: jsonChoice(['running', 'done', 'failed']),
  rows: count,
  files: count,
  manifest: jsonOptional(longText),
  failure: jsonOptional(longText),
  etaSeconds: jsonOptional(count),
  startedAt: seconds,
  finishedAt: jsonOptional(seconds),
});
/** The counts of a pass of the lifecycle. */
const passed = Object.fromEntries(
  ['read', 'expired', 'noncurrent', 'markers', 'aborted', 'transitioned', 'restored', 'held', 'undone'].map(
    (name) => [name, jsonOptional(count)],
  ),
);
const resharding = {
  from: count,
  to: count,
  shardsDone: count,
  shardsTotal: count,
  rowsMoved: count,
  why: jsonOptional(longText),
  startedAt: seconds,
  finishedAt: jsonOptional(seconds),
};

export const bucketTaskRows = {
  ForceEmptyBucket: {
    on: 'POST /buckets/:name/force-empty',
    doc: 'Begins to delete everything in a bucket that no lock holds.',
    reply: emptying,
    status: 202,
  },
  GetForceEmptyBucket: {
    on: 'GET /buckets/:name/force-empty',
    doc: 'Shows how far the emptying of a bucket is.',
    reply: emptying,
  },
  CancelForceEmptyBucket: {
    on: 'DELETE /buckets/:name/force-empty',
    doc: 'Ends the emptying of a bucket; what it has deleted stays deleted.',
    reply: emptying,
    status: 200,
  },
  RunBucketInventory: {
    on: 'POST /buckets/:name/inventory/:id/run',
    doc: 'Begins to write an inventory of a bucket now.',
    reply: inventoryRun,
    status: 202,
  },
  GetBucketInventoryRun: {
    on: 'GET /buckets/:name/inventory/:id/run',
    tenants: { bucket: 'name' },
    doc: 'Shows how far an inventory is, or what the last one wrote.',
    reply: inventoryRun,
  },
  RunLifecycle: {
    on: 'POST /buckets/:name/lifecycle/run',
    doc: 'Asks for a pass of the lifecycle over a bucket, or shows what a pass would do.',
    query: { 'dry-run': jsonOptional(jsonBoolean) },
    reply: jsonObject({
      actions: jsonRows(
        jsonObject({
          action: jsonText(),
          rule: jsonText(),
          key: jsonText(),
          versionId: jsonOptional(jsonText()),
          uploadId: jsonOptional(jsonText()),
          storageClass: jsonOptional(jsonText()),
        }),
      ),
      isComplete: jsonBoolean,
    }),
    status: [200, 202],
  },
  GetLifecycle: {
    on: 'GET /buckets/:name/lifecycle',
    tenants: { bucket: 'name' },
    doc: 'Shows how far the lifecycle of a bucket is, and what is left.',
    reply: jsonObject({
      state: jsonChoice(['waiting', 'none', 'indexing', 'running', 'done']),
      ...passed,
      // The rules of the present configuration, those that acted before it, and '' for the ends of restored copies.
      rules: jsonOptional(
        jsonMap(
          jsonObject({
            done: count,
            backlog: count,
            oldestDueDay: jsonOptional(jsonText()),
            perSecond: jsonOptional(count),
            etaSeconds: jsonOptional(count),
          }),
          { max: 2_001 },
        ),
      ),
      backlog: jsonOptional(count),
      isBacklogCut: jsonOptional(jsonBoolean),
      perSecond: jsonOptional(count),
      etaSeconds: jsonOptional(count),
      oldestDueDay: jsonOptional(jsonText()),
      startedAt: jsonOptional(seconds),
      finishedAt: jsonOptional(seconds),
      nextAt: jsonOptional(seconds),
    }),
  },
  ReshardBucket: {
    on: 'POST /buckets/:name/reshard',
    doc: 'Begins to give the metadata of a bucket more shards.',
    body: jsonObject({ shards: jsonInteger({ min: 1, max: Number.MAX_SAFE_INTEGER }) }),
    reply: jsonObject({ state: jsonChoice(['running', 'done']), ...resharding }),
    status: [202, 200],
  },
  GetReshardBucket: {
    on: 'GET /buckets/:name/reshard',
    doc: 'Shows the shards of a bucket, and how far a resharding is.',
    reply: jsonObject({
      state: jsonChoice(['none', 'running', 'done']),
      shards: count,
      from: jsonOptional(count),
      to: jsonOptional(count),
      shardsDone: jsonOptional(count),
      shardsTotal: jsonOptional(count),
      rowsMoved: jsonOptional(count),
      why: jsonOptional(longText),
      startedAt: jsonOptional(seconds),
      finishedAt: jsonOptional(seconds),
    }),
  },
} as const satisfies AdminRows;

// Rows about the configurations of a bucket as JSON: one pair of operations for every family.

/** The family, which the path names, decides which schema reads the body: the handler reads it. */
const document: JsonReader<Json> = Object.assign(
  // The cast: the body of a request is always there, if only as `{}`.
  (value: Json | undefined): Json => value as Json,
  {
    schema: {
      anyOf: configurationFamilies.map((family) => ({
        title: family,
        ...configurationShapes[family].schema,
      })),
    },
  },
);

/** As that of the longest XML: a lifecycle of a thousand rules. */
const bodyMax = 1024 * 1024;

const written = jsonObject({
  isStored: jsonBoolean,
  refusals: jsonRows(
    jsonObject({
      path: longText,
      code: jsonText(),
      message: longText,
      right: jsonOptional(longText),
    }),
  ),
});

const recorded = configurationFields;

const query = {
  'dry-run': jsonOptional(jsonBoolean),
};
const entry = { id: noResource('An inventory of the bucket in the path.') };

export const configurationRows = {
  ListBucketConfigurations: {
    on: 'GET /buckets/:name/configurations',
    doc: 'Shows every configuration of a bucket that is set, by family.',
    reply: jsonObject({ configurations: jsonAny }),
  },
  GetBucketConfiguration: {
    on: 'GET /buckets/:name/configurations/:family',
    tagged: true,
    doc: 'Shows a configuration of a bucket, in the form in which PUT takes it; of a family with ids all of them, by id.',
    reply: jsonAny,
  },
  PutBucketConfiguration: {
    on: 'PUT /buckets/:name/configurations/:family',
    doc: 'Sets a configuration of a bucket, with the checks of the storage protocol and as the account of the bucket. With dry-run it stores nothing, and names everything that would be refused.',
    ...recorded,
    query,
    body: document,
    bodyMax,
    reply: written,
  },
  DeleteBucketConfiguration: {
    on: 'DELETE /buckets/:name/configurations/:family',
    ...recorded,
    doc: 'Removes a configuration of a bucket.',
  },
  GetBucketConfigurationEntry: {
    on: 'GET /buckets/:name/configurations/:family/:id',
    names: entry,
    command: 'buckets configurations get-entry',
    tagged: true,
    doc: 'Shows one configuration of a family with ids, such as an inventory.',
    reply: jsonAny,
  },
  PutBucketConfigurationEntry: {
    on: 'PUT /buckets/:name/configurations/:family/:id',
    names: entry,
    command: 'buckets configurations set-entry',
    doc: 'Sets one configuration of a family with ids, such as an inventory.',
    ...recorded,
    query,
    body: document,
    bodyMax,
    reply: written,
  },
  DeleteBucketConfigurationEntry: {
    on: 'DELETE /buckets/:name/configurations/:family/:id',
    names: entry,
    command: 'buckets configurations delete-entry',
    ...recorded,
    doc: 'Removes one configuration of a family with ids.',
  },
} as const satisfies AdminRows;
