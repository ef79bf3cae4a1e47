/** Rows about rate limits. */
import { jsonBytes, jsonInteger, jsonObject, jsonOptional, jsonRows, jsonText } from '../../formats/json.ts';
import type { AdminRows } from './row.ts';

const count = (doc: string, max: number) => jsonOptional(jsonInteger({ min: 1, max, doc }));
const fields = {
  requestsPerSecond: count('Absent: unlimited.', 1_000_000),
  bytesPerSecond: jsonOptional(
    jsonBytes({
      min: 1,
      max: 2 ** 50,
      doc: 'Bytes of bodies in both directions together. Absent: unlimited.',
    }),
  ),
  concurrentRequests: count('Requests whose reply has not ended. Absent: unlimited.', 1_000_000),
  burstSeconds: count('How many seconds of an unused allowance add up; 1 where it is absent.', 3_600),
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
      doc: `Replaces the rate limit of ${whose}. A request beyond it is refused with 503 SlowDown and Retry-After; open bodies wait.`,
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
    doc: 'Lists all rate limits: each is of the named account or bucket, else of each anonymous address.',
    lists: { rows: ['accounts/{account}', 'buckets/{bucket}'] },
    reply: jsonObject({
      rows: jsonRows(
        jsonObject({ account: jsonOptional(jsonText()), bucket: jsonOptional(jsonText()), ...fields }),
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
