/** Rows about the audit log. */
import {
  jsonAny,
  jsonBoolean,
  jsonChoice,
  jsonInteger,
  jsonObject,
  jsonOptional,
  jsonRows,
  jsonText,
} from '../formats/json.ts';
import {
  type AdminRows,
  auditAbout,
  count,
  following,
  isoTime,
  longText,
  mention,
  moment,
  next,
  noResource,
  paging,
  scope,
} from './row.ts';

/** `settings`: about a bucket, an account or the installation itself; `writes` and `deletions`: of objects. */
const auditKinds = ['settings', 'writes', 'deletions'] as const;

const filter = {
  bucket: jsonOptional(jsonText({ max: 1024 })),
  action: jsonOptional(jsonText({ max: 128 })),
  identity: jsonOptional(jsonText({ max: 2048, doc: 'An ARN, an access key id or an account.' })),
  status: jsonOptional(
    jsonText({
      max: 3,
      pattern: /^[1-5](?:\d\d|xx)$/,
      must: 'a status such as 403, or a class of them such as 4xx',
    }),
  ),
  requestId: jsonOptional(jsonText({ max: 128 })),
  key: jsonOptional(jsonText({ doc: 'Rows about this key, also among the keys of a DeleteObjects.' })),
  keyPrefix: jsonOptional(jsonText({ doc: 'Rows about keys that begin so.' })),
  changed: jsonOptional(
    jsonText({ max: 128, doc: 'A field that the request changed, such as `weight` or `placement.b`.' }),
  ),
  kind: jsonOptional(jsonChoice(auditKinds)),
};
const gap = jsonObject({
  kind: jsonChoice([
    'seal-missing',
    'seal-damaged',
    'seal-altered',
    'chain-broken',
    'sealed-early',
    'rows-removed',
    'rows-added',
    'rows-altered',
    'rows-damaged',
  ]),
  hour: isoTime,
  sealedRows: jsonOptional(count),
  foundRows: jsonOptional(count),
});
const span = { start: jsonOptional(moment), end: jsonOptional(moment) };

/** Of temporary credentials: what limited them. Neither the session policy nor the tags of a session are stored. */
export const auditedSession = jsonObject({
  isOfLogin: jsonOptional(jsonBoolean),
  parentKey: jsonOptional(jsonText()),
  policySha256: jsonOptional(jsonText()),
  managed: jsonOptional(jsonRows(jsonText())),
  isMfa: jsonOptional(jsonBoolean),
  isTagged: jsonOptional(jsonBoolean),
});

const row = jsonObject({
  time: isoTime,
  requestId: jsonText(),
  action: jsonText(),
  resource: longText,
  key: jsonOptional(longText),
  status: count,
  error: jsonOptional(jsonText()),
  principal: jsonOptional(longText),
  accessKey: jsonOptional(jsonText()),
  account: jsonOptional(jsonText()),
  source: jsonText(),
  count: jsonOptional(count),
  page: jsonOptional(count),
  keys: jsonOptional(
    jsonRows(
      jsonObject({
        key: jsonText(),
        versionId: jsonOptional(jsonText()),
        status: jsonOptional(count),
        error: jsonOptional(jsonText()),
      }),
    ),
  ),
  changes: jsonOptional(
    jsonRows(jsonObject({ field: jsonText(), old: jsonOptional(jsonAny), new: jsonOptional(jsonAny) })),
  ),
  session: jsonOptional(auditedSession),
});

const filtered = {
  identity: mention('accounts/{identity.account}/audit'),
  requestId: noResource('Rows of denied resources are left out.'),
  key: noResource('The key of an object.'),
};

export const auditRows = {
  ListAudit: {
    on: 'GET /audit',
    names: { ...filtered, bucket: scope('buckets/{bucket}/audit') },
    lists: { rows: auditAbout },
    doc: 'Lists rows of the audit log, the newest first. A page may be short although more follow: searchedTo says how far back it searched.',
    query: { ...span, ...filter, ...paging },
    reply: jsonObject({ rows: jsonRows(row), searchedTo: jsonOptional(isoTime), next }),
  },
  GetAuditHistogram: {
    on: 'GET /audit/histogram',
    names: { ...filtered, bucket: scope('buckets/{bucket}/audit/histogram') },
    lists: { rows: auditAbout },
    doc: 'Counts the requests of the audit log over time, by result; the last day unless start is given. It reads a bounded part of the log: countedFrom says how far back.',
    query: {
      ...span,
      ...filter,
      points: jsonOptional(jsonInteger({ min: 1, max: 200, doc: '48 unless given.' })),
    },
    reply: jsonObject({
      stepSeconds: count,
      countedFrom: isoTime,
      points: jsonRows(jsonObject({ at: isoTime, done: count, refused: count, failed: count })),
    }),
  },
  FollowAudit: {
    on: 'GET /audit/follow',
    names: { ...filtered, bucket: scope('buckets/{bucket}/audit/follow') },
    lists: { rows: auditAbout },
    doc: 'Lists rows of the audit log as they come, of all gateways, the oldest first. `after` continues; a row of a long request comes when the request has ended. `lateFrom` says how far back rows were compared that may have come late.',
    query: { ...filter, ...following },
    reply: jsonObject({
      rows: jsonRows(row),
      lateFrom: isoTime,
      hasMore: jsonBoolean,
      next: jsonText({ max: 16_384 }),
    }),
  },
  ExportAudit: {
    on: 'GET /audit/export',
    names: { ...filtered, bucket: scope('buckets/{bucket}/audit/export') },
    lists: { rows: auditAbout },
    doc: 'Streams rows of the audit log, the oldest first, as JSON Lines, records of CloudTrail or events of OCSF.',
    query: { ...span, ...filter, format: jsonOptional(jsonChoice(['jsonl', 'cloudtrail', 'ocsf'])) },
    media: ['application/x-ndjson', 'application/json'],
    status: 200,
  },
  VerifyAudit: {
    on: 'GET /audit/verify',
    doc: 'Verifies the hash chain of the audit log and the rows of its sealed hours, and names the gaps.',
    query: {
      from: jsonOptional(moment),
      seal: jsonOptional(
        jsonText({
          max: 64,
          doc: 'A seal that was noted elsewhere, such as in the log: it must be in the chain.',
        }),
      ),
      sealedHour: jsonOptional(moment),
    },
    reply: jsonObject({
      isIntact: jsonBoolean,
      since: jsonOptional(isoTime),
      sealedThrough: jsonOptional(isoTime),
      seal: jsonOptional(jsonText()),
      hours: count,
      rows: count,
      expired: count,
      removedEarly: count,
      unauthenticated: count,
      sealedLate: count,
      sealedLateFrom: jsonOptional(isoTime),
      gap: jsonOptional(gap),
      gaps: jsonOptional(jsonRows(gap)),
      furtherGaps: jsonOptional(count),
      nextFrom: jsonOptional(isoTime),
    }),
  },
} as const satisfies AdminRows;
