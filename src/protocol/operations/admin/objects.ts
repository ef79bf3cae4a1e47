/** Rows about single objects and open uploads, as operators see them. */
import {
  jsonBoolean,
  jsonInteger,
  jsonMap,
  jsonObject,
  jsonOptional,
  jsonRows,
  jsonText,
} from '../../formats/json.ts';
import { noResource } from './resources.ts';
import { type AdminRows, count, isoTime, longText, next, pagingBy } from './row.ts';

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
    doc: 'Shows the versions of a key, the newest first: where their bytes are, locks, encryption, replication, and the lifecycle rule that expires the latest one.',
    query: { key, ...pagingBy(versionsPageDefault) },
    reply: jsonObject({ versions: jsonRows(version), next }),
  },
  ListOpenUploads: {
    on: 'GET /buckets/:name/uploads',
    tenants: { bucket: 'name' },
    lists: { rows: ['accounts/{owner}'] },
    doc: 'Lists the open multipart uploads of a bucket by key, with their age, parts and bytes.',
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
