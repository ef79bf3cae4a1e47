/** Rows about quotas, rate limits, usage and traffic. */
import {
  type JsonFields,
  type JsonReader,
  jsonBoolean,
  jsonBytes,
  jsonChoice,
  jsonCount,
  jsonInteger,
  jsonNullable,
  jsonNumber,
  jsonObject,
  jsonOptional,
  jsonRows,
  jsonText,
} from '../formats/json.ts';
import { bucketsPageDefault } from './objects.ts';
import { type AdminRows, alias, bucketName, count, mention, next, paging, pagingBy, scope } from './row.ts';

// Rows about quotas, usage and traffic.

// Rows about rate limits.

const limitCount = (doc: string, max: number) => jsonOptional(jsonInteger({ min: 1, max, doc }));
const fields = {
  requestsPerSecond: limitCount('Absent: unlimited.', 1_000_000),
  bytesPerSecond: jsonOptional(
    jsonBytes({
      min: 1,
      max: 2 ** 50,
      doc: 'Bytes of bodies in both directions together. Absent: unlimited.',
    }),
  ),
  concurrentRequests: limitCount('Requests whose reply has not ended. Absent: unlimited.', 1_000_000),
  burstSeconds: limitCount('How many seconds of an unused allowance add up; 1 where it is absent.', 3_600),
};
const limit = jsonObject(fields);
const records = Object.keys(fields);

const rowsFor = <const Path extends string>(path: Path, whose: string) =>
  ({
    get: { on: `GET ${path}`, tagged: true, doc: `Shows the rate limit of ${whose}.`, reply: limit },
    put: {
      on: `PUT ${path}`,
      conditional: true,
      records,
      doc: `Replaces the whole rate limit of ${whose}: what the body does not name is unlimited. A body without any limit is refused. A request beyond it is refused with 503 SlowDown and Retry-After; open bodies wait.`,
      body: limit,
    },
    remove: { on: `DELETE ${path}`, conditional: true, records, doc: `Removes the rate limit of ${whose}.` },
  }) as const;

const ofAccount = rowsFor('/accounts/:account/limits', 'an account');
const ofBucket = rowsFor('/buckets/:name/limits', 'a bucket');
const ofAnonymous = rowsFor('/limits/anonymous', 'each address that sends anonymous requests');

export const limitRows = {
  ListLimits: {
    on: 'GET /limits',
    doc: 'Lists all rate limits: each is of the named account or bucket, or, with `isAnonymous`, of each address that sends anonymous requests.',
    lists: { rows: ['accounts/{account}', 'buckets/{bucket}'] },
    reply: jsonObject({
      rows: jsonRows(
        jsonObject({
          account: jsonOptional(jsonText()),
          bucket: jsonOptional(jsonText()),
          isAnonymous: jsonOptional(jsonBoolean),
          ...fields,
        }),
      ),
    }),
  },
  GetAccountLimit: ofAccount.get,
  PutAccountLimit: ofAccount.put,
  DeleteAccountLimit: ofAccount.remove,
  GetBucketLimit: ofBucket.get,
  PutBucketLimit: ofBucket.put,
  DeleteBucketLimit: ofBucket.remove,
  GetAnonymousLimit: ofAnonymous.get,
  PutAnonymousLimit: ofAnonymous.put,
  DeleteAnonymousLimit: ofAnonymous.remove,
} as const satisfies AdminRows;

const most = Number.MAX_SAFE_INTEGER;
const bucketLimits = { maxBytes: count, maxObjects: count, maxBytesPerObject: count };
const userLimits = { maxBuckets: count, totalMaxBytes: count };
/** Present where no quota was set since the bucket, account or user was created with the default. */
const isDefault = jsonOptional(jsonBoolean);
const bucketQuota = jsonObject({ ...bucketLimits, isDefault });
const userQuota = jsonObject({ ...userLimits, isDefault });

/** A limit in a request: what is absent stays, and null removes it. */
const bytesLimit = jsonOptional(
  jsonNullable(jsonBytes({ min: 0, max: most, doc: '0 and null are unlimited; absent: unchanged.' })),
);
const countLimit = (max: number) =>
  jsonOptional(
    jsonNullable(jsonInteger({ min: 0, max, doc: '0 and null are unlimited; absent: unchanged.' })),
  );
const bucketQuotaChange = jsonObject({
  maxBytes: bytesLimit,
  maxObjects: countLimit(most),
  maxBytesPerObject: bytesLimit,
});
const userQuotaChange = jsonObject({ maxBuckets: countLimit(2 ** 31 - 1), totalMaxBytes: bytesLimit });

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

const source = jsonChoice(['operator', 'settings']);
const defaultRows = <const Kind extends 'bucket' | 'account' | 'user', Limits extends JsonFields, Change>(
  kind: Kind,
  { limits, change }: { readonly limits: Limits; readonly change: JsonReader<Change> },
) => {
  const on = `/quotas/defaults/${kind}` as const;
  const holder = { bucket: 'buckets', account: 'accounts', user: 'IAM users' }[kind];
  return {
    get: {
      on: `GET ${on}`,
      tagged: true,
      doc: `Shows the quota that new ${holder} begin with, and whether an operator or the settings set it.`,
      reply: jsonObject({ ...limits, source }),
    },
    put: {
      on: `PUT ${on}`,
      conditional: true,
      records: Object.keys(limits),
      doc: `Sets limits of the quota that new ${holder} begin with; those that exist keep theirs.`,
      body: change,
    },
    remove: {
      on: `DELETE ${on}`,
      conditional: true,
      records: Object.keys(limits),
      doc: `New ${holder} begin with the quota of the settings again.`,
    },
  } as const;
};
const forBuckets = defaultRows('bucket', { limits: bucketLimits, change: bucketQuotaChange });
const forAccounts = defaultRows('account', { limits: userLimits, change: userQuotaChange });
const forUsers = defaultRows('user', { limits: userLimits, change: userQuotaChange });

export const quotaDefaultRows = {
  GetBucketQuotaDefault: forBuckets.get,
  PutBucketQuotaDefault: forBuckets.put,
  DeleteBucketQuotaDefault: forBuckets.remove,
  GetAccountQuotaDefault: forAccounts.get,
  PutAccountQuotaDefault: forAccounts.put,
  DeleteAccountQuotaDefault: forAccounts.remove,
  GetUserQuotaDefault: forUsers.get,
  PutUserQuotaDefault: forUsers.put,
  DeleteUserQuotaDefault: forUsers.remove,
} as const satisfies AdminRows;

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
    records: Object.keys(bucketLimits),
    conditional: true,
    doc: 'Sets limits of the quota of a bucket; 0 and null are unlimited, and a limit that is not named stays.',
    body: bucketQuotaChange,
  },
  DeleteBucketQuota: {
    on: 'DELETE /buckets/:name/quota',
    records: Object.keys(bucketLimits),
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
    records: Object.keys(userLimits),
    names: quotaNames,
    query: ofUser,
    conditional: true,
    doc: 'Sets limits of the quota of an account or an IAM user; 0 and null are unlimited, and a limit that is not named stays.',
    body: userQuotaChange,
  },
  DeleteUserQuota: {
    on: 'DELETE /iam/users/:user/quota',
    records: Object.keys(userLimits),
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
  ListBucketUsage: {
    on: 'GET /usage/buckets',
    tenants: { account: 'owner' },
    names: { owner: mention('accounts/{owner}/buckets') },
    lists: { rows: ['buckets/{name}', 'accounts/{owner}'] },
    doc: 'Lists the same buckets as ListBuckets, with the average of the stored bytes on each closed day.',
    query: {
      prefix: jsonOptional(bucketName),
      owner: jsonOptional(jsonText({ max: 128 })),
      days: jsonOptional(
        jsonInteger({ min: 2, max: 90, doc: 'Days until the last one that is closed; 30 unless given.' }),
      ),
      ...pagingBy(bucketsPageDefault),
    },
    reply: jsonObject({
      /** The first of the days. */
      start: day,
      rows: jsonRows(
        jsonObject({
          name: bucketName,
          owner: jsonText(),
          // By day; null where there is no row of it.
          bytes: jsonRows(jsonNullable(count)),
        }),
      ),
      next,
    }),
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
