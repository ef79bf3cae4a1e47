/** Rows about quotas, usage and traffic. */
import {
  jsonChoice,
  jsonCount,
  jsonInteger,
  jsonNumber,
  jsonObject,
  jsonOptional,
  jsonRows,
  jsonText,
} from '../../formats/json.ts';
import { alias, scope } from './resources.ts';
import { type AdminRows, bucketName, count, next, paging } from './row.ts';

const limit = jsonInteger({ min: 0, max: Number.MAX_SAFE_INTEGER, doc: '0 is unlimited.' });
const bucketQuota = jsonObject({ maxBytes: limit, maxObjects: limit, maxBytesPerObject: limit });
const userQuota = jsonObject({
  maxBuckets: jsonInteger({ min: 0, max: 2 ** 31 - 1, doc: '0 is unlimited.' }),
  totalMaxBytes: limit,
});

const ofUser = {
  account: jsonOptional(
    jsonText({
      max: 128,
      doc: 'The account of the IAM user; without it, `user` is an account, else an IAM user whose name no other account has.',
    }),
  ),
};
const quotaNames = {
  user: alias('accounts/{user}/quota'),
  account: scope('accounts/{account}/users/{user}/quota'),
};

export const quotaRows = {
  GetBucketQuota: {
    on: 'GET /buckets/:name/quota',
    tenants: { bucket: 'name' },
    tagged: true,
    doc: 'Shows the quota of a bucket.',
    reply: bucketQuota,
  },
  PutBucketQuota: {
    on: 'PUT /buckets/:name/quota',
    records: ['maxBytes', 'maxObjects', 'maxBytesPerObject'],
    conditional: true,
    doc: 'Sets the quota of a bucket; 0 is unlimited.',
    body: bucketQuota,
  },
  DeleteBucketQuota: {
    on: 'DELETE /buckets/:name/quota',
    records: ['maxBytes', 'maxObjects', 'maxBytesPerObject'],
    conditional: true,
    doc: 'Removes the quota of a bucket.',
  },
  GetUserQuota: {
    on: 'GET /iam/users/:user/quota',
    tenants: { account: 'user' },
    names: quotaNames,
    query: ofUser,
    tagged: true,
    doc: 'Shows the quota of an account or an IAM user.',
    reply: userQuota,
  },
  PutUserQuota: {
    on: 'PUT /iam/users/:user/quota',
    records: ['maxBuckets', 'totalMaxBytes'],
    names: quotaNames,
    query: ofUser,
    conditional: true,
    doc: 'Sets the quota of an account or an IAM user; 0 is unlimited.',
    body: userQuota,
  },
  DeleteUserQuota: {
    on: 'DELETE /iam/users/:user/quota',
    records: ['maxBuckets', 'totalMaxBytes'],
    names: quotaNames,
    query: ofUser,
    conditional: true,
    doc: 'Removes the quota of an account or an IAM user.',
  },
} as const satisfies AdminRows;

const day = jsonText({
  max: 10,
  pattern: /^\d{4}-\d\d-\d\d$/,
  must: 'a UTC day such as 2026-01-31',
});
const range = { start: jsonOptional(day), end: jsonOptional(day), ...paging };
const stored = {
  day,
  storageClass: jsonText(),
  byteSeconds: jsonNumber,
  objectCountAvg: jsonNumber,
  objectCountMax: jsonNumber,
};
const amounts = {
  requestsA: count,
  requestsB: count,
  requestsFree: count,
  ingressBytes: count,
  egressBytes: count,
};

export const usageRows = {
  GetBucketUsage: {
    on: 'GET /buckets/:name/usage',
    tenants: { bucket: 'name' },
    doc: 'Lists the storage that a bucket used, by closed day and class.',
    query: range,
    reply: jsonObject({ rows: jsonRows(jsonObject(stored)), next }),
  },
  GetUserUsage: {
    on: 'GET /iam/users/:user/usage',
    tenants: { account: 'user' },
    names: { user: alias('accounts/{user}/usage') },
    lists: { rows: ['buckets/{bucket}'] },
    doc: 'Lists the storage that the buckets of an account used, by closed day and class.',
    query: range,
    reply: jsonObject({
      rows: jsonRows(jsonObject({ bucket: bucketName, ...stored })),
      totals: jsonObject({ bytes: jsonCount, objects: jsonCount }),
      next,
    }),
  },
  GetBucketTraffic: {
    on: 'GET /buckets/:name/traffic',
    tenants: { bucket: 'name' },
    doc: 'Lists requests and transferred bytes of a bucket, by day, requester and payer.',
    query: range,
    reply: jsonObject({
      rows: jsonRows(jsonObject({ day, requester: jsonText(), payer: jsonText(), ...amounts })),
      next,
    }),
  },
  GetUserTraffic: {
    on: 'GET /iam/users/:user/traffic',
    tenants: { account: 'user' },
    names: { user: alias('accounts/{user}/traffic') },
    lists: { rows: ['buckets/{bucket}'] },
    doc: 'Lists requests and transferred bytes that an account pays for, by day, bucket and requester.',
    query: range,
    reply: jsonObject({
      rows: jsonRows(jsonObject({ bucket: bucketName, day, requester: jsonText(), ...amounts })),
      next,
    }),
  },
  ExportUsage: {
    on: 'GET /usage/export',
    lists: { rows: ['buckets/{bucket}', 'accounts/{owner}'] },
    doc: 'Exports the storage or the traffic of all buckets on a closed day.',
    query: {
      day,
      of: jsonOptional(jsonChoice(['storage', 'traffic'])),
      format: jsonOptional(jsonChoice(['csv', 'jsonl', 'focus'])),
    },
    media: ['text/csv', 'application/x-ndjson'],
    status: 200,
  },
} as const satisfies AdminRows;
