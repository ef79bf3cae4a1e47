/** The settings table: every `SVC_*` variable once; flags, checks and the reference page derive from it. */

import { metadataBackendNames } from './config/metadata/backends.ts';
import { orderedKvSettings } from './config/metadata/ordered-kv.ts';
import { wideColumnSettings } from './config/metadata/wide-column.ts';
import { bytes, choice, duration, integer, powerOfTwo, text, toggle } from './config/read/kinds.ts';
import { fault, optional, type Setting, secret, type ValueOf, value } from './config/read/setting.ts';
import { clusters } from './config/values/clusters.ts';
import { credentials } from './config/values/credentials.ts';
import { cidrs, domains, filePath, listen, pathIn } from './config/values/network.ts';
import { notifyTargets } from './config/values/notify-targets.ts';
import { processes } from './config/values/processes.ts';
import { storageClasses } from './config/values/storage-classes.ts';
import { isEndpoint, keyPattern, regionPattern, upstreams } from './config/values/upstreams.ts';
import { workers } from './config/values/workers.ts';

const withDataDir = <T>(setting: Setting<T>, name: string): Setting<T> => ({
  ...setting,
  fallbackFrom: {
    doc: `${name} when SVC_DATA_DIR is set`,
    read: (given) => (given('SVC_DATA_DIR') === undefined ? undefined : name),
  },
});

/** Its default is a file in the data directory, where there is one. */
const inDataDir = (setting: Setting<string | undefined>, name: string): Setting<string | undefined> => ({
  ...setting,
  fallbackFrom: {
    doc: `\`${name}\` in SVC_DATA_DIR`,
    read: (given) => {
      const directory = given('SVC_DATA_DIR');
      return directory === undefined ? undefined : pathIn(directory, name);
    },
  },
});

export const settings = {
  SVC_LISTEN: listen('127.0.0.1:9000', 'Where the gateway listens; port 0 takes a free one.'),
  SVC_ADMIN_LISTEN: optional(
    listen('', 'Moves /admin, /console, /metrics, /healthz and /readyz to a port of their own.'),
  ),
  SVC_DATA_DIR: optional(
    filePath('Where the embedded and file backends keep everything; created when missing.'),
  ),
  SVC_CREDENTIALS: secret(
    optional(credentials('Who may call, inline. Without any credentials a root key is minted.')),
  ),
  SVC_CREDENTIALS_FILE: optional(filePath('A file with the same JSON array as SVC_CREDENTIALS.')),
  SVC_MASTER_KEY_FILE: inDataDir(
    optional(
      filePath(
        'The keys that secrets at rest are sealed under: base64 of 32 bytes on each line, the current one first. Only the one in the data directory is made when it is missing.',
      ),
    ),
    'master.key',
  ),
  SVC_KEY_PROVIDER: optional(
    choice({
      of: ['local-hsm'],
      fallback: 'local-hsm',
      doc: 'Who wraps the keys of objects that are encrypted by SSE-KMS; unset, these are refused.',
      notBuilt: ['cloud-kms', 'transit'],
    }),
  ),
  SVC_HSM_KEYS_FILE: optional(
    filePath(
      'The keys of `local-hsm`: a JSON object of `{"key": "<base64 of 32 bytes>", "accounts": ["<account>"]}` by key id, and of key ids by `alias/<name>`. The accounts may use the key, `"*"` is every account. A key without `accounts`, also written as its base64 alone, encrypts for the only account there is, and for none where there are several.',
    ),
  ),
  SVC_KMS_DEFAULT_KEY_ID: optional(
    text({
      kind: 'key id',
      doc: 'The id, alias or ARN of the key that is used when a request names none; unset, it is the key whose id is the name of the bucket. Without `accounts` of its own it encrypts for every account.',
      pattern: /^[\x21-\x7e]{1,512}$/,
      otherwise: 'is not a key id: 1 to 512 printable ASCII characters without spaces',
    }),
  ),
  SVC_SSE_C_REQUIRE_TLS: toggle(
    'true',
    'Refuses keys of customers (SSE-C) that come over plain HTTP, where they can be read on the way.',
  ),
  SVC_META_BACKEND: withDataDir(
    choice({
      of: metadataBackendNames,
      fallback: 'memory',
      doc: 'Where metadata lives: in this process until it ends, in the data directory, in Cassandra, or in TiKV.',
    }),
    'embedded',
  ),
  SVC_DATA_BACKEND: withDataDir(
    choice({
      of: ['memory', 'file', 'cluster-pool', 'upstream-store', 'noop'],
      fallback: 'memory',
      doc: 'Where object bytes live: in this process until it ends, in the data directory, in pools of Ceph, or on another S3 service; `noop` forgets them and answers zeros, for measuring the gateway alone.',
    }),
    'file',
  ),
  ...wideColumnSettings,
  ...orderedKvSettings,
  SVC_CONFIG_CACHE_TTL: duration({
    fallback: '2s',
    range: ['0s', '1m'],
    doc: 'How long what was read of users, keys and policies is believed, and by GET and HEAD of objects what was read of their bucket, on metadata that other machines share. Other gateways obey a change within this time; every process of the gateway that answered it obeys it at once.',
  }),
  SVC_POOL_CLUSTERS: clusters('default', 'The clusters that chunks are kept on.'),
  SVC_POOL_OP_TIMEOUT: duration({
    fallback: '30s',
    range: ['1s', '10m'],
    doc: 'How long a read or write of a pool may take before its request is answered by 503. A placement group that changes its OSD takes up to half a minute.',
  }),
  SVC_POOL_MON_TIMEOUT: duration({
    fallback: '10s',
    range: ['1s', '10m'],
    doc: 'How long the monitors of a pool cluster may take to answer, also at start.',
  }),
  SVC_POOL_IN_FLIGHT: bytes({
    fallback: '64MiB',
    range: ['4MiB', '4GiB'],
    doc: 'How many bytes of writes one pool cluster has at once, as part of what SVC_MEMORY_MAX gives to writes; further writes wait.',
  }),
  SVC_POOL_READ_AHEAD: bytes({
    fallback: '4MiB',
    range: ['64KiB', '64MiB'],
    doc: 'How much of an object is read from a pool before the client has taken what came before; less where many read.',
  }),
  SVC_UPSTREAMS: secret(
    upstreams(
      'The S3 services that SVC_DATA_BACKEND=upstream-store keeps objects on; each is a cluster. What an entry does not say, the settings below say.',
    ),
  ),
  SVC_UPSTREAM_ENDPOINT: optional({
    ...text({
      kind: 'URL',
      doc: 'The endpoint of upstreams that name none, such as https://s3.example.com.',
    }),
    read: (given) =>
      isEndpoint(given) ? value(given) : fault('is not an http or https address without a path'),
  }),
  SVC_UPSTREAM_REGION: text({
    kind: 'region name',
    fallback: 'us-east-1',
    pattern: regionPattern,
    doc: 'The region that requests to upstreams are signed for.',
  }),
  SVC_UPSTREAM_ACCESS_KEY: optional(
    text({ kind: 'access key', pattern: keyPattern, doc: 'The access key of upstreams that name none.' }),
  ),
  SVC_UPSTREAM_SECRET_KEY: secret(
    optional(
      text({
        kind: 'secret key',
        pattern: keyPattern,
        otherwise: 'is not printable ASCII without spaces',
        doc: 'The secret key of upstreams that have none of their own.',
      }),
    ),
  ),
  SVC_UPSTREAM_SECRET_KEY_FILE: optional(filePath('A file with the secret key, instead.')),
  SVC_UPSTREAM_TIMEOUT: duration({
    fallback: '30s',
    range: ['100ms', '10m'],
    doc: 'How long an upstream may be silent before a request to it is given up.',
  }),
  SVC_STORAGE_CLASSES: storageClasses(
    'Where the bytes of a storage class go: `default`, `standard-ia`, `archive` or a class of the public API, the pool of `cluster-pool` that takes it, and the cluster that it is pinned to; a class that several clusters take has an item for each.',
  ),
  SVC_DEFAULT_OWNERSHIP: choice({
    of: ['ObjectWriter', 'BucketOwnerPreferred', 'BucketOwnerEnforced'],
    fallback: 'ObjectWriter',
    doc: 'Whom the objects of a new bucket belong to; under `BucketOwnerEnforced` it has no ACLs.',
  }),
  SVC_BUCKET_SHARDS: powerOfTwo({
    fallback: '64',
    range: ['1', '65536'],
    doc: 'How many shards a new bucket has; an operator can have more made of them.',
  }),
  SVC_WORKERS: workers('all', 'Background workers of this process; an empty list runs the gateway only.'),
  SVC_GC_INTERVAL: duration({
    fallback: '1m',
    range: ['10ms', '24h'],
    doc: 'How often the gc worker looks for chunks to delete.',
  }),
  SVC_GC_GRACE: duration({
    fallback: '10m',
    range: ['0s', '30d'],
    doc: 'How long the chunks of a deleted object stay for requests that still read them.',
  }),
  SVC_REBALANCE_INTERVAL: duration({
    fallback: '1m',
    range: ['10ms', '24h'],
    doc: 'How often the rebalance worker looks whether a cluster is to be evacuated.',
  }),
  SVC_REBALANCE_RATE: bytes({
    fallback: '64MiB',
    range: ['64KiB', '1TiB'],
    doc: 'How many bytes the rebalance worker of one process moves in a second.',
  }),
  SVC_REBALANCE_WEIGHTS: toggle(
    'off',
    'Moves what is stored to where the weights of clusters and placements would put it today; off, they count for new writes alone.',
  ),
  SVC_INTENT_TTL: duration({
    fallback: '60s',
    range: ['1s', '1h'],
    doc: 'How long the intent of an unfinished write outlives the process that began it.',
  }),
  SVC_AUDIT_RETENTION: duration({
    fallback: '30d',
    range: ['1h', '3650d'],
    doc: 'How long the audit rows of state-changing requests are kept.',
  }),
  SVC_AUDIT_UNKNOWN_CALLERS: integer({
    fallback: '60',
    range: ['0', '1000000'],
    doc: 'How many refusals of anonymous and unknown callers each process audits one by one in a minute. The others are counted: one audit row for each minute, operation and error code.',
  }),
  SVC_AUDIT_REFUSALS: integer({
    fallback: '100',
    range: ['0', '1000000'],
    doc: 'How many refusals of one account each process audits one by one in a minute. The others are counted: one audit row for each minute, account, operation and error code. Requests that change something always have a row.',
  }),
  SVC_QUEUE_RETENTION: duration({
    fallback: '7d',
    range: ['1h', '365d'],
    doc: 'How long events, replication tasks and access log lines wait to be worked off; older ones are dropped by the hour, counted in svc_queue_dropped_total and logged.',
  }),
  SVC_QUEUE_ROWS_MAX: integer({
    fallback: '10000000',
    range: ['1000', '10000000000'],
    doc: 'How many tasks one of these queues holds; beyond that its oldest hours are dropped, counted and logged. The last two hours always stay.',
  }),
  SVC_BUCKETSTATS_INTERVAL: duration({
    fallback: '1h',
    range: ['1s', '24h'],
    doc: 'How often the bucket-stats worker sums what all buckets hold by storage class.',
  }),
  SVC_BUCKETSTATS_TOPN: integer({
    fallback: '100',
    range: ['0', '10000'],
    doc: 'How many of the largest buckets have gauges of their own; the totals count all.',
  }),
  SVC_FSCK_INTERVAL: duration({
    fallback: '7d',
    range: ['1m', '365d'],
    doc: 'How long after a comparison of metadata and data the fsck worker begins the next one.',
  }),
  SVC_FSCK_FIX: toggle('false', 'Whether the fsck worker mends what it may, as `sluice fsck --fix` does.'),
  SVC_SCRUB_RATE: optional(
    bytes({
      fallback: '16MiB',
      range: ['0', '10GiB'],
      doc: 'How many stored bytes a second the scrub worker reads and compares with their checksums, in one process of all gateways; 0: none. Unset: 16MiB; none on `upstream-store`, where reading costs money.',
    }),
  ),
  SVC_SCRUB_INTERVAL: duration({
    fallback: '7d',
    range: ['1m', '365d'],
    doc: 'How long after a pass over all stored bytes the scrub worker begins the next one.',
  }),
  SVC_STORAGE_HEALTH_OVERRIDE: optional(
    text({
      kind: 'JSON',
      doc: 'For tests of consoles: what `GET /admin/v1/storage/health` answers, word for word.',
    }),
  ),
  SVC_LOG_LEVEL: choice({
    of: ['DEBUG', 'INFO', 'WARN', 'ERROR'],
    fallback: 'INFO',
    doc: 'The least severe log line that is written.',
  }),
  SVC_NOTIFY_TARGETS: secret(
    notifyTargets('The sinks that notifications of buckets may point to: the last field of an ARN is an id.'),
  ),
  SVC_REGION: text({
    kind: 'region name',
    fallback: 'default',
    pattern: /^[a-z0-9][a-z0-9-]{0,62}$/,
    otherwise: 'is not a region name of a-z, 0-9 and "-", at most 63 long',
    doc: 'The region of buckets that name none.',
  }),
  SVC_REGION_STRICT: toggle('false', 'Refuses signatures whose scope names another region than SVC_REGION.'),
  SVC_DOMAIN: domains('Domains under which `<bucket>.<domain>` is a virtual host.'),
  SVC_WEBSITE_DOMAIN: domains(
    'Domains under which `<bucket>.<domain>` is the website of a bucket that has one; they come before those of SVC_DOMAIN.',
  ),
  SVC_PROCESSES: processes(
    'auto',
    'How many processes serve; `auto` is one per core where the backends can share.',
  ),
  SVC_FSYNC: choice({
    of: ['always', 'never'],
    fallback: 'always',
    doc: 'Whether a write is on the disk before it is acknowledged; `never` loses writes when the machine fails.',
  }),
  SVC_PUT_RACE: choice({
    of: ['winner', 'retry'],
    fallback: 'winner',
    doc: 'What an unconditional PUT, Copy or Complete does in an unversioned bucket when a concurrent unconditional write to the same key commits first: `winner` answers 200 with the ETag of that write, `retry` commits again, so that the answer has the ETag of its own content.',
  }),
  SVC_DISK_RESERVE: bytes({
    fallback: '256MiB',
    range: ['0', '1TiB'],
    doc: 'How much of the disk of `embedded` and `file` is kept for deletions: below it, requests that add data are refused with 507. 0 keeps nothing.',
  }),
  SVC_MEMORY_MAX: bytes({
    fallback: '512MiB',
    range: ['64MiB', '1TiB'],
    doc: 'The memory that one process aims to stay under; what it buffers is bounded by it.',
  }),
  SVC_TRUSTED_PROXIES: cidrs('Peers whose X-Forwarded-For and X-Forwarded-Proto are believed.'),
  SVC_TLS_CERT_FILE: optional(filePath('PEM certificate chain; with SVC_TLS_KEY_FILE it turns TLS on.')),
  SVC_TLS_KEY_FILE: optional(filePath('PEM private key of SVC_TLS_CERT_FILE.')),
  SVC_METRICS_TOKEN: secret(
    optional(
      text({
        kind: 'token',
        doc: 'The bearer token that reads /metrics, beside operators.',
        pattern: /^[\x21-\x7e]{8,256}$/,
        otherwise: 'must be 8 to 256 printable ASCII characters without spaces',
      }),
    ),
  ),
  SVC_SIGV2_PRESIGN: toggle('on', 'Accepts version-2 presigned queries.'),
  SVC_IDLE_TIMEOUT: duration({
    fallback: '75s',
    range: ['1s', '1h'],
    doc: 'How long a connection may stay silent, between requests and inside one. A client that reads a reply slowly is not silent; one that acknowledges nothing is cut after two such times.',
  }),
  SVC_BODY_TIMEOUT: duration({
    fallback: '30s',
    range: ['1s', '1h'],
    doc: 'How long the body of a request that is not streamed to storage (configurations, lists, IAM actions, the fields of a form) may take from its first byte to its last; then 400 RequestTimeout.',
  }),
  SVC_BODY_RATE_MIN: bytes({
    fallback: '1KiB',
    range: ['0', '1GiB'],
    doc: 'How many bytes a second a body that is streamed to storage brings at least, over any 30 s that the gateway waits for it; then 400 RequestTimeout. 0: as slowly as SVC_IDLE_TIMEOUT lets it.',
  }),
  SVC_HEADER_TIMEOUT: duration({
    fallback: '20s',
    range: ['1s', '10m'],
    doc: 'How long a client may take to send the head of a request.',
  }),
  SVC_SHUTDOWN_TIMEOUT: duration({
    fallback: '30s',
    range: ['0s', '1h'],
    doc: 'How long a stopping process waits for the requests in flight.',
  }),
};

export type SettingName = keyof typeof settings;
export type Config = { readonly [N in SettingName]: ValueOf<(typeof settings)[N]> };
/** Texts by setting name, as an environment gives them; other names are passed over. */
export type Environment = Readonly<Record<string, string | undefined>>;

export const settingNames = Object.keys(settings) as readonly SettingName[];
