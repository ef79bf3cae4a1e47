/** Rows about replication: peers, what waits, failures and resyncs. */
import {
  jsonBoolean,
  jsonChoice,
  jsonInteger,
  jsonList,
  jsonNumber,
  jsonObject,
  jsonOptional,
  jsonRows,
  jsonText,
} from '../formats/json.ts';
import { keyIdMax } from '../schemas/replication.ts';
import {
  type AdminRows,
  bucketName,
  count,
  isoTime,
  longText,
  mention,
  moment,
  next,
  noResource,
  paging,
  scope,
  seconds,
} from './row.ts';

const text = (pattern: RegExp, must: string, max = 1024) => jsonText({ pattern, must, max });
const pemMax = 65_536;
const certificates = text(/^-----BEGIN CERTIFICATE-----\n/, 'PEM certificates', pemMax);
/** With less, a part would take longer than peers wait for it. */
const bandwidthMin = 65_536;
const address = (example: string) => `an address such as ${example}, without a path and without credentials`;

const accountPattern = /^(?:\*|[A-Za-z0-9][A-Za-z0-9._@-]{0,127})$/;
/** Who may name the peer in replication rules. */
const peerAccounts = jsonList(
  jsonObject({
    account: text(accountPattern, 'the id of an account, or * for every account', 128),
    bucketOwner: jsonOptional(text(/^[\x21-\x7e]{1,256}$/, 'the id of an account at the peer', 256)),
    buckets: jsonOptional(
      jsonList(
        text(/^[A-Za-z0-9._-]{0,255}\*?$/, 'the name of a bucket, or a prefix with * at its end', 256),
        {
          max: 100,
        },
      ),
    ),
    keys: jsonOptional(
      jsonList(text(/^[\x21-\x7e]+$/, 'the id of a key, or a prefix with * at its end', keyIdMax), {
        max: 100,
      }),
    ),
  }),
  { max: 256 },
);

const peerBody = jsonObject({
  endpoint: text(/^https?:\/\/[^/?#@\s]+\/?$/, address('https://s3.example.com:9000')),
  region: jsonOptional(text(/^[a-z0-9-]{1,64}$/, '1 to 64 characters of a-z, 0-9 and -')),
  accessKey: text(/^[A-Za-z0-9._=+@-]{3,128}$/, '3 to 128 characters of A-Z, a-z, 0-9 and ._=+@-'),
  secretKey: text(/^[\x21-\x7e]{8,256}$/, '8 to 256 printable ASCII characters without spaces'),
  ca: jsonOptional(certificates),
  cert: jsonOptional(certificates),
  key: jsonOptional(
    text(/^-----BEGIN (?:[A-Z]{1,9} )?PRIVATE KEY-----\n/, 'a PEM text of a private key', pemMax),
  ),
  proxy: jsonOptional(text(/^http:\/\/[^/?#@\s]+\/?$/, address('http://proxy.example.com:3128'))),
  bandwidth: jsonOptional(jsonInteger({ min: bandwidthMin, max: 1_000_000_000_000 })),
  accounts: jsonOptional(peerAccounts),
});
/** Never the keys. */
const peer = jsonObject({
  id: jsonText(),
  endpoint: jsonText(),
  region: jsonText(),
  ca: jsonOptional(longText),
  cert: jsonOptional(longText),
  proxy: jsonOptional(jsonText()),
  bandwidth: jsonOptional(count),
  accounts: jsonOptional(peerAccounts),
  changedAt: isoTime,
});

/** Fields of a peer whose changes the audit row shows: none of its secrets. */
const records = ['endpoint', 'region', 'proxy', 'bandwidth', 'accounts'];

export const peerRows = {
  ListReplicationPeers: {
    on: 'GET /replication/peers',
    lists: { peers: ['replication/peers/{id}'] },
    doc: 'Lists the S3 services that versions are replicated to.',
    reply: jsonObject({ peers: jsonRows(peer) }),
  },
  GetReplicationPeer: {
    on: 'GET /replication/peers/:id',
    tagged: true,
    doc: 'Shows a peer, without its keys.',
    // Part of the configuration, and shown with it.
    lists: { accounts: [] },
    reply: peer,
  },
  PutReplicationPeer: {
    on: 'PUT /replication/peers/:id',
    records,
    names: {
      accessKey: noResource('A key of the peer.'),
      secretKey: noResource('A secret of the peer.'),
      key: noResource('A private key in PEM.'),
      accounts: mention('accounts/{accounts.accounts}/replication/peers'),
      account: noResource('Named with its list.'),
      bucketOwner: noResource('An account of the peer.'),
      buckets: noResource('Buckets of the peer.'),
      keys: noResource('Keys of the peer.'),
    },
    // Part of the configuration, and shown with it.
    lists: { accounts: [] },
    conditional: true,
    doc: 'Adds or replaces a peer.',
    body: peerBody,
    reply: peer,
  },
  DeleteReplicationPeer: {
    on: 'DELETE /replication/peers/:id',
    records,
    conditional: true,
    doc: 'Removes a peer that no rule names and for which nothing waits.',
  },
  CheckReplicationPeer: {
    on: 'POST /replication/peers/:id/check',
    names: { bucket: noResource('A bucket of the peer.') },
    doc: 'Tries step by step what replication needs of a peer.',
    body: jsonObject({ bucket: text(/^[a-z0-9.-]{3,63}$/, 'the name of a bucket on the peer') }),
    reply: jsonObject({
      id: jsonText(),
      bucket: bucketName,
      ok: jsonBoolean,
      steps: jsonRows(
        jsonObject({
          step: jsonText(),
          state: jsonChoice(['passed', 'failed', 'skipped']),
          found: jsonOptional(longText),
          advice: jsonOptional(longText),
        }),
      ),
    }),
  },
} as const satisfies AdminRows;

/** Of a target of events or replication. */
export const failingFields = {
  state: jsonChoice(['ok', 'failing']),
  failures: jsonOptional(count),
  lastError: jsonOptional(jsonObject({ at: isoTime, message: longText })),
  /** Objects that wait, because the target refuses one of their events or versions; those of other objects pass. */
  refused: jsonObject({
    objects: count,
    reasons: jsonRows(jsonObject({ error: longText, objects: count })),
  }),
};

const resync = jsonObject({
  bucket: bucketName,
  state: jsonChoice(['running', 'done']),
  status: jsonText(),
  prefix: jsonOptional(jsonText()),
  since: jsonOptional(isoTime),
  until: jsonOptional(isoTime),
  restoreRemoved: jsonOptional(jsonBoolean),
  read: count,
  /** Those of the whole bucket now, where no prefix limits the resync. */
  versions: jsonOptional(count),
  queued: count,
  /** Versions that were left out, because metadata about them is damaged. */
  damaged: jsonOptional(count),
  startedAt: seconds,
  finishedAt: jsonOptional(seconds),
});

const failuresAbout = ['buckets/{bucket}', 'replication/peers/{destination.peer}'];

export const replicationRows = {
  GetReplicationStatus: {
    on: 'GET /replication/status',
    lists: { destinations: ['replication/peers/{destination.peer}'] },
    doc: 'Shows what waits for each destination, and since when.',
    reply: jsonObject({
      destinations: jsonRows(
        jsonObject({
          destination: jsonText(),
          ...failingFields,
          waiting: count,
          waitingBytes: count,
          oldestSeconds: jsonNumber,
          isCut: jsonBoolean,
        }),
      ),
      isCut: jsonBoolean,
    }),
  },
  GetBucketReplication: {
    on: 'GET /buckets/:name/replication',
    tenants: { bucket: 'name' },
    lists: { destinations: ['replication/peers/{destination.peer}'] },
    doc: 'Shows what of a bucket waits for replication to each destination and since when, and how many versions were given up.',
    /** The errors of peers are for those who may list failures. `isCut`: at least so many. */
    reply: jsonObject({
      destinations: jsonRows(
        jsonObject({
          destination: jsonText(),
          waiting: count,
          waitingBytes: count,
          oldestSeconds: jsonNumber,
          failed: count,
        }),
      ),
      isCut: jsonBoolean,
      resync: jsonOptional(resync),
    }),
  },
  ListFailedReplications: {
    on: 'GET /replication/failed',
    names: { bucket: scope('buckets/{bucket}/replication/failed') },
    lists: { failed: failuresAbout },
    doc: 'Lists the versions whose replication was given up.',
    query: { bucket: jsonOptional(bucketName), ...paging },
    reply: jsonObject({
      failed: jsonRows(
        jsonObject({
          id: jsonText(),
          bucket: bucketName,
          key: jsonText(),
          versionId: jsonText(),
          marker: jsonOptional(jsonBoolean),
          destination: jsonText(),
          error: longText,
          since: isoTime,
          failedAt: isoTime,
        }),
      ),
      isTruncated: jsonBoolean,
      next,
    }),
  },
  RetryFailedReplications: {
    on: 'POST /replication/retry',
    names: {
      bucket: scope('buckets/{bucket}/replication/retry'),
      peer: mention('replication/peers/{peer}/retry'),
      id: noResource('The handler asks for the bucket and the peer of the failure.'),
    },
    lists: { failures: failuresAbout },
    doc: 'Queues failed replications again, by bucket, peer or id. One call reads at most 5,000 failures and queues at most 1,000. Pass `last` of the reply as `after` to continue.',
    body: jsonObject({
      bucket: jsonOptional(jsonText()),
      peer: jsonOptional(jsonText()),
      id: jsonOptional(jsonText()),
      after: jsonOptional(jsonText({ max: 4096, doc: 'The `last` of the call before.' })),
    }),
    reply: jsonObject({
      retried: count,
      isTruncated: jsonBoolean,
      last: jsonOptional(
        jsonText({
          max: 4096,
          doc: 'The last failure that this call read; pass it as `after`. Absent where no more follow.',
        }),
      ),
    }),
  },
  StartReplicationResync: {
    on: 'POST /replication/resync/:bucket',
    names: { bucket: scope('buckets/{bucket}/replication/resync') },
    doc: 'Begins to replicate the versions that a bucket has already.',
    body: jsonObject({
      prefix: jsonOptional(jsonText()),
      since: jsonOptional(moment),
      until: jsonOptional(moment),
      status: jsonOptional(jsonChoice(['none', 'failed', 'none-or-failed', 'all'])),
      restoreRemoved: jsonOptional(jsonBoolean),
    }),
    reply: resync,
    status: 202,
  },
  GetReplicationResync: {
    on: 'GET /replication/resync/:bucket',
    names: { bucket: scope('buckets/{bucket}/replication/resync') },
    doc: 'Shows how far a resync of a bucket is.',
    reply: resync,
  },
  CancelReplicationResync: {
    on: 'DELETE /replication/resync/:bucket',
    names: { bucket: scope('buckets/{bucket}/replication/resync') },
    doc: 'Ends a resync; what it has queued stays queued.',
  },
} as const satisfies AdminRows;
