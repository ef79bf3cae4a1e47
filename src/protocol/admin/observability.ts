/** Rows about requests, traces and the log. */
import {
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
import {
  type AdminRows,
  bucketName,
  count,
  following,
  isoTime,
  longText,
  mention,
  noResource,
  scope,
} from './row.ts';

const level = jsonChoice(['DEBUG', 'INFO', 'WARN', 'ERROR']);

const summary = {
  requestId: jsonText(),
  traceId: jsonText(),
  kept: jsonChoice(['failed', 'refused', 'slow', 'sample', 'running']),
  operation: jsonText(),
  bucket: jsonText(),
  key: jsonText(),
  status: jsonOptional(count),
  code: jsonOptional(jsonText()),
  startedAt: isoTime,
  durationMs: jsonNumber,
  stage: jsonOptional(jsonText()),
  process: jsonText(),
};

const span = jsonObject({
  name: jsonText(),
  about: jsonText(),
  id: jsonText(),
  parent: jsonText(),
  startMs: jsonNumber,
  durationMs: jsonOptional(jsonNumber),
  error: jsonOptional(jsonText()),
});

const requestCounts = {
  requests: count,
  refused: count,
  failed: count,
  perSecond: jsonNumber,
  p50Ms: jsonOptional(jsonNumber),
  p99Ms: jsonOptional(jsonNumber),
};

const status = jsonText({
  max: 64,
  doc: 'A status such as 503, a class such as 5xx, or an error code such as AccessDenied.',
});
const operation = jsonText({ max: 128, doc: 'Such as PutObject.' });
const minMs = jsonInteger({
  min: 0,
  max: Number.MAX_SAFE_INTEGER,
  doc: 'The least duration in milliseconds.',
});
const belowMs = jsonInteger({
  min: 0,
  max: Number.MAX_SAFE_INTEGER,
  doc: 'The duration in milliseconds is less than this.',
});

/** What requests, and log lines about them, are filtered by. */
const filter = {
  bucket: jsonOptional(bucketName),
  account: jsonOptional(jsonText({ max: 128 })),
  operation: jsonOptional(operation),
  status: jsonOptional(status),
  minMs: jsonOptional(minMs),
};

export const logLine = jsonObject({
  time: isoTime,
  level: jsonText(),
  message: longText,
  bucket: jsonOptional(longText),
  account: jsonOptional(longText),
  fields: jsonMap(jsonAny),
  process: jsonText(),
});
const followed = { lost: count, processes: count, next: jsonText({ max: 16_384 }) };
const ofBucketAndAccount = ['buckets/{bucket}', 'accounts/{account}'];

export const observabilityRows = {
  ListRequests: {
    on: 'GET /requests',
    names: { bucket: scope('buckets/{bucket}/requests'), account: mention('accounts/{account}/requests') },
    lists: { requests: ofBucketAndAccount },
    doc: 'Lists the last requests of the storage protocol to this node, the oldest first. `after` continues; `lost` counts requests that were overwritten before this reader came.',
    query: {
      ...filter,
      ...following,
    },
    reply: jsonObject({
      requests: jsonRows(
        jsonObject({
          time: isoTime,
          requestId: jsonText(),
          operation: jsonText(),
          method: jsonText(),
          status: count,
          code: jsonOptional(jsonText()),
          durationMs: jsonNumber,
          bucket: jsonText(),
          key: jsonText(),
          account: jsonText(),
          remote: jsonText(),
          receivedBytes: count,
          process: jsonText(),
        }),
      ),
      ...followed,
    }),
  },
  ListLogs: {
    on: 'GET /logs',
    names: { bucket: scope('buckets/{bucket}/logs'), account: mention('accounts/{account}/logs') },
    lists: { lines: ofBucketAndAccount },
    doc: 'Lists the last lines of the log of this node, the oldest first. `after` continues; `lost` counts lines that were overwritten before this reader came.',
    query: {
      level: jsonOptional(level),
      ...filter,
      ...following,
    },
    reply: jsonObject({
      lines: jsonRows(logLine),
      ...followed,
    }),
  },
  GetRequestHistory: {
    on: 'GET /requests/history',
    doc: 'Shows requests of the storage protocol to this node over the last minutes: how many, refused (4xx), failed (5xx), and the time until their replies began.',
    query: {
      minutes: jsonOptional(
        jsonInteger({ min: 1, max: 1_440, doc: 'How far back; 15 unless given. More than 288 are summed.' }),
      ),
    },
    reply: jsonObject({
      stepSeconds: count,
      processes: count,
      total: jsonObject(requestCounts),
      points: jsonRows(jsonObject({ at: isoTime, ...requestCounts })),
    }),
  },
  ListTraces: {
    on: 'GET /traces',
    names: {
      bucket: scope('buckets/{bucket}/traces'),
      id: noResource('Traces of denied buckets are left out.'),
    },
    lists: { traces: ['buckets/{bucket}'] },
    doc: 'Lists the traces that the processes of all gateways keep, the latest first: failed and refused requests, the slowest, a sample, and what runs now. `silent` counts processes of other gateways that have not answered.',
    query: {
      id: jsonOptional(jsonText({ max: 64, doc: 'A request id or a trace id.' })),
      operation: jsonOptional(operation),
      bucket: jsonOptional(bucketName),
      status: jsonOptional(status),
      minMs: jsonOptional(minMs),
      belowMs: jsonOptional(belowMs),
      running: jsonOptional(jsonBoolean),
      limit: jsonOptional(jsonInteger({ min: 1, max: 500, doc: 'Entries; 50 unless given.' })),
    },
    reply: jsonObject({ traces: jsonRows(jsonObject(summary)), processes: count, silent: count }),
  },
  GetTrace: {
    on: 'GET /traces/:id',
    lists: { traces: ['buckets/{bucket}'] },
    doc: 'Shows the spans of a request, by its request id or trace id, and of the deliveries that it caused.',
    reply: jsonObject({
      traces: jsonRows(
        jsonObject({
          ...summary,
          kind: jsonChoice(['server', 'producer', 'consumer']),
          headMs: jsonOptional(jsonNumber),
          attributes: jsonMap(jsonAny),
          spanId: jsonText(),
          parent: jsonOptional(jsonText()),
          links: jsonRows(jsonText()),
          spans: jsonRows(span),
          leftOut: count,
        }),
      ),
    }),
  },
  GetSupportBundle: {
    on: 'GET /support-bundle',
    doc: 'Writes an archive to attach to a problem report: settings without secrets, versions, health, workers, last errors, metrics and traces.',
    media: ['application/x-tar'],
    audited: true,
  },
  GetLogLevel: {
    on: 'GET /log-level',
    doc: 'Shows the level of the log.',
    reply: jsonObject({ level }),
  },
  PutLogLevel: {
    on: 'PUT /log-level',
    records: ['level'],
    doc: 'Changes the level of the log in every process of this node, until the node is restarted.',
    body: jsonObject({ level }),
    reply: jsonObject({ level, processes: jsonChoice(['all', 'some']) }),
  },
} as const satisfies AdminRows;
