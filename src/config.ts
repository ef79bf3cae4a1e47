/**
 * The settings table: every `SVC_*` variable once; flags, checks and the reference page derive from it. Settings are read once, at the
 * start. While a process runs only the log level (`runtime/processes/node-log-level.ts`) and the TLS files change.
 */

import { clusters, storageClasses } from './config/clusters.ts';
import { credentials } from './config/credentials.ts';
import { dataBackendNames } from './config/data.ts';
import { keySettings } from './config/keys.ts';
import { bytes, choice, duration, integer, powerOfTwo, text, toggle } from './config/kinds.ts';
import {
  durableObjectSettings,
  metadataBackendNames,
  metadataPlaces,
  orderedKvSettings,
  wideColumnSettings,
} from './config/metadata.ts';
import { cidrs, domains, filePath, listen, pathIn } from './config/network.ts';
import { consoleSettings, notifySettings, replicationSettings, tracingSettings } from './config/services.ts';
import { fault, onlyServer, optional, type Setting, secret, type ValueOf, value } from './config/setting.ts';
import { isEndpoint, keyPattern, regionPattern, upstreams } from './config/upstreams.ts';
import { lifecycleSettings, processes, quotaSettings, usageSettings, workers } from './config/workers.ts';

const withDataDir = <T>(setting: Setting<T>, name: string): Setting<T> => ({
  ...setting,
  fallbackFrom: {
    doc: `${name} when SVC_DATA_DIR is set`,
    read: (input) => (input('SVC_DATA_DIR') === undefined ? undefined : name),
  },
});

/** Its default is a file in the data directory, where there is one. */
const inDataDir = (setting: Setting<string | undefined>, name: string): Setting<string | undefined> => ({
  ...setting,
  fallbackFrom: {
    doc: `\`${name}\` in SVC_DATA_DIR`,
    read: (input) => {
      const directory = input('SVC_DATA_DIR');
      return directory === undefined ? undefined : pathIn(directory, name);
    },
  },
});

export const settings = {
  SVC_LISTEN: onlyServer(
    listen('127.0.0.1:9000', 'The address that the gateway listens on; port 0 chooses a free port.'),
  ),
  SVC_ADMIN_LISTEN: onlyServer(
    optional(listen('', 'A separate address for /admin, /console, /metrics, /healthz, /readyz.')),
  ),
  ...consoleSettings,
  SVC_DATA_DIR: optional(
    filePath('The directory of the embedded and file backends; created when it is missing.'),
  ),
  SVC_CREDENTIALS: secret(
    optional(credentials('The access keys, as a JSON array. Without any, a root key is created.')),
  ),
  SVC_CREDENTIALS_FILE: onlyServer(optional(filePath('A file with the same JSON array as SVC_CREDENTIALS.'))),
  SVC_MASTER_KEY_FILE: inDataDir(
    optional(
      filePath(
        'The master keys that encrypt secrets at rest: base64 of 32 bytes on each line, the current one first. A missing file is created only in the data directory.',
      ),
    ),
    'master.key',
  ),
  ...keySettings,
  SVC_META_BACKEND: withDataDir(
    choice({
      of: metadataBackendNames,
      fallback: 'memory',
      doc: `Where metadata is stored: ${metadataPlaces}.`,
    }),
    'embedded',
  ),
  SVC_DATA_BACKEND: withDataDir(
    choice({
      of: dataBackendNames,
      fallback: 'memory',
      doc: 'Where object bytes are stored: in the memory of this process, in the data directory, in pools of Ceph, or on another S3 service; `noop` discards them and answers zeros, for benchmarks.',
    }),
    'file',
  ),
  ...wideColumnSettings,
  ...orderedKvSettings,
  ...durableObjectSettings,
  SVC_CONFIG_CACHE_TTL: duration({
    fallback: '2s',
    range: ['0s', '1m'],
    doc: 'How long users, keys and policies, and buckets for GET and HEAD of objects, are cached on metadata that other machines share. Other gateways obey a change within this time, processes of the same gateway at once.',
  }),
  SVC_POOL_CLUSTERS: clusters('default', 'The clusters that store chunks.'),
  SVC_POOL_OP_TIMEOUT: duration({
    fallback: '30s',
    range: ['1s', '10m'],
    doc: 'How long a read or write of a pool may take before its request gets 503. A placement group that changes its OSD takes up to half a minute.',
  }),
  SVC_POOL_MON_TIMEOUT: duration({
    fallback: '10s',
    range: ['1s', '10m'],
    doc: 'How long the monitors of a pool cluster may take to answer, also at start.',
  }),
  SVC_POOL_IN_FLIGHT: bytes({
    fallback: '64MiB',
    range: ['4MiB', '4GiB'],
    doc: 'How many bytes of writes are in flight to one pool cluster, of the memory that SVC_MEMORY_MAX gives to writes; further writes wait.',
  }),
  SVC_POOL_READ_AHEAD: bytes({
    fallback: '4MiB',
    range: ['64KiB', '64MiB'],
    doc: 'How many bytes of an object are read ahead from a pool; less with many concurrent reads.',
  }),
  SVC_UPSTREAMS: secret(
    upstreams(
      'The S3 services of SVC_DATA_BACKEND=upstream-store; each is a cluster. Fields that one lacks come from the settings below.',
    ),
  ),
  SVC_UPSTREAM_ENDPOINT: optional({
    ...text({
      kind: 'URL',
      doc: 'The endpoint of upstreams that name none, such as https://s3.example.com.',
    }),
    read: (input) =>
      isEndpoint(input) ? value(input) : fault('is not an http or https address without a path'),
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
        doc: 'The secret key of upstreams that name none.',
      }),
    ),
  ),
  SVC_UPSTREAM_SECRET_KEY_FILE: optional(
    filePath('A file with the secret key, in place of SVC_UPSTREAM_SECRET_KEY.'),
  ),
  SVC_UPSTREAM_TIMEOUT: duration({
    fallback: '30s',
    range: ['100ms', '10m'],
    doc: 'How long an upstream may be silent before a request to it is aborted.',
  }),
  SVC_STORAGE_CLASSES: storageClasses(
    'Where the bytes of a storage class are: `default`, `standard-ia`, `archive` or a class of the public API, its pool of `cluster-pool`, and the cluster that it is pinned to; a class on several clusters has an item for each.',
  ),
  SVC_DEFAULT_OWNERSHIP: choice({
    of: ['ObjectWriter', 'BucketOwnerPreferred', 'BucketOwnerEnforced'],
    fallback: 'ObjectWriter',
    doc: 'The object ownership of a new bucket; with `BucketOwnerEnforced` it has no ACLs.',
  }),
  SVC_BUCKET_SHARDS: powerOfTwo({
    fallback: '64',
    range: ['1', '65536'],
    doc: 'How many shards a new bucket has; an operator can increase the number.',
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
  ...lifecycleSettings,
  ...usageSettings,
  ...quotaSettings,
  SVC_REBALANCE_INTERVAL: duration({
    fallback: '1m',
    range: ['10ms', '24h'],
    doc: 'How often the worker checks for clusters to evacuate.',
  }),
  SVC_REBALANCE_RATE: bytes({
    fallback: '64MiB',
    range: ['64KiB', '1TiB'],
    doc: 'How many bytes the worker of one process moves in a second.',
  }),
  SVC_REBALANCE_WEIGHTS: toggle(
    'off',
    'Moves stored objects to the clusters that the present weights and placements choose; off, weights apply to new writes only.',
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
    doc: 'How many refusals of anonymous and unknown callers each process audits one by one in a minute; others are counted by operation and error code.',
  }),
  SVC_AUDIT_REFUSALS: integer({
    fallback: '100',
    range: ['0', '1000000'],
    doc: 'How many refusals of one account each process audits one by one in a minute. The others are counted by account, operation and error code. Requests that change something always have a row.',
  }),
  SVC_QUEUE_RETENTION: duration({
    fallback: '7d',
    range: ['1h', '365d'],
    doc: 'How long events, replication tasks and access log lines stay queued; older ones are dropped by the hour, counted (svc_queue_dropped_total) and logged.',
  }),
  SVC_QUEUE_ROWS_MAX: integer({
    fallback: '10000000',
    range: ['1000', '10000000000'],
    doc: 'The most tasks of one of these queues, of the dead letters, and of the failed replications. Above it, accounts with more than an equal share lose their oldest tasks, which is counted and logged; one account alone loses its oldest hours. Tasks of the last two hours stay, even above the limit.',
  }),
  SVC_ACCESSLOG_INTERVAL: duration({
    fallback: '5m',
    range: ['1s', '1h'],
    doc: 'How often queued lines of access logs are written into their target buckets.',
  }),
  SVC_ACCESSLOG_OBJECT_SIZE: bytes({
    fallback: '1MiB',
    range: ['4KiB', '16MiB'],
    doc: 'The size at which an access log object is closed; an object has at most 5,000 lines.',
  }),
  SVC_INVENTORY_INTERVAL: duration({
    fallback: '15m',
    range: ['1s', '24h'],
    doc: 'How often the inventory worker looks for inventories that are due.',
  }),
  SVC_INVENTORY_FILE_ROWS: integer({
    fallback: '500000',
    range: ['1', '10000000'],
    doc: 'How many rows one data file of an inventory has; after a kill at most these are read again.',
  }),
  SVC_BUCKETSTATS_INTERVAL: duration({
    fallback: '1h',
    range: ['1s', '24h'],
    doc: 'How often the objects and bytes of all buckets are summed by storage class.',
  }),
  SVC_BUCKETSTATS_TOPN: integer({
    fallback: '100',
    range: ['0', '10000'],
    doc: 'How many of the largest buckets have their own gauges; the totals count all.',
  }),
  SVC_FSCK_INTERVAL: duration({
    fallback: '7d',
    range: ['1m', '365d'],
    doc: 'The pause between two runs of the fsck worker.',
  }),
  SVC_FSCK_FIX: toggle('false', 'Whether the fsck worker repairs what `sluice fsck --fix` repairs.'),
  SVC_SCRUB_RATE: optional(
    bytes({
      fallback: '16MiB',
      range: ['0', '10GiB'],
      doc: 'How many stored bytes a second the scrub worker checks, in one process of all gateways; 0: none. Unset: 16MiB; none on `upstream-store`, where reads cost money.',
    }),
  ),
  SVC_SCRUB_INTERVAL: duration({
    fallback: '7d',
    range: ['1m', '365d'],
    doc: 'The pause between two passes of the scrub worker.',
  }),
  SVC_STORAGE_HEALTH_OVERRIDE: onlyServer(
    optional(
      text({
        kind: 'JSON',
        doc: 'For tests of consoles: the exact answer of `GET /admin/v1/storage/health`.',
      }),
    ),
  ),
  SVC_LOG_LEVEL: onlyServer(
    choice({
      of: ['DEBUG', 'INFO', 'WARN', 'ERROR'],
      fallback: 'INFO',
      doc: 'The least severe log line that is written.',
    }),
  ),
  ...tracingSettings,
  ...notifySettings,
  ...replicationSettings,
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
    'Domains under which `<bucket>.<domain>` is the website of a bucket that has one; they precede those of SVC_DOMAIN.',
  ),
  SVC_PROCESSES: onlyServer(
    processes('auto', 'How many processes serve; `auto`: one per core where the backends can share.'),
  ),
  SVC_FSYNC: choice({
    of: ['always', 'never'],
    fallback: 'always',
    doc: 'Whether a write is on the disk before it is acknowledged; `never` loses writes when the machine fails.',
  }),
  SVC_PUT_RACE: choice({
    of: ['winner', 'retry'],
    fallback: 'winner',
    doc: 'What an unconditional PUT, Copy or Complete in an unversioned bucket does when another one to the same key commits first: `winner` answers 200 with the ETag of that write, `retry` commits again and answers with its own ETag.',
  }),
  SVC_DISK_RESERVE: bytes({
    fallback: '256MiB',
    range: ['0', '1TiB'],
    doc: 'The disk space of `embedded` and `file` that is reserved for deletions: with less, requests that add data get 507. 0 reserves none.',
  }),
  SVC_MEMORY_MAX: bytes({
    fallback: '512MiB',
    range: ['64MiB', '1TiB'],
    doc: 'The memory target of one process; it bounds the buffers.',
  }),
  SVC_TRUSTED_PROXIES: cidrs('Peers whose X-Forwarded-For and X-Forwarded-Proto are trusted.'),
  SVC_TLS_CERT_FILE: onlyServer(
    optional(filePath('PEM certificate chain; turns TLS on, together with SVC_TLS_KEY_FILE.')),
  ),
  SVC_TLS_KEY_FILE: onlyServer(optional(filePath('PEM private key of SVC_TLS_CERT_FILE.'))),
  SVC_METRICS_TOKEN: secret(
    optional(
      text({
        kind: 'token',
        doc: 'A bearer token that may read /metrics, in addition to operators.',
        pattern: /^[\x21-\x7e]{8,256}$/,
        otherwise: 'must be 8 to 256 printable ASCII characters without spaces',
      }),
    ),
  ),
  SVC_LOGIN_TTL: duration({
    fallback: '12h',
    range: ['5m', '30d'],
    doc: 'How long a log-in of an operator lasts at the longest.',
  }),
  SVC_LOGIN_IDLE: duration({
    fallback: '1h',
    range: ['2m', '30d'],
    doc: 'After how much time without a request a log-in of an operator ends.',
  }),
  SVC_SIGV2_PRESIGN: toggle('on', 'Accepts version-2 presigned queries.'),
  SVC_IDLE_TIMEOUT: onlyServer(
    duration({
      fallback: '75s',
      range: ['1s', '1h'],
      doc: 'How long a connection may be silent, between requests and inside one. Reading a reply slowly is not silence; a client that acknowledges nothing is cut after two such times.',
    }),
  ),
  SVC_BODY_TIMEOUT: duration({
    fallback: '30s',
    range: ['1s', '1h'],
    doc: 'How long a body that is not streamed to storage (configurations, lists, IAM actions, fields of forms) may take from first to last byte; a slower one gets 400 RequestTimeout.',
  }),
  SVC_BODY_RATE_MIN: bytes({
    fallback: '1KiB',
    range: ['0', '1GiB'],
    doc: 'The minimum rate, in bytes a second, of a body that is streamed to storage, over any 30 s of waiting for it; a slower one gets 400 RequestTimeout. 0: none besides SVC_IDLE_TIMEOUT.',
  }),
  SVC_HEADER_TIMEOUT: onlyServer(
    duration({
      fallback: '20s',
      range: ['1s', '10m'],
      doc: 'How long a client may take to send the head of a request.',
    }),
  ),
  SVC_SHUTDOWN_TIMEOUT: onlyServer(
    duration({
      fallback: '30s',
      range: ['0s', '1h'],
      doc: 'How long a stopping process waits for the requests in flight.',
    }),
  ),
};

export type SettingName = keyof typeof settings;
export type Config = { readonly [N in SettingName]: ValueOf<(typeof settings)[N]> };
/** Texts by setting name, as an environment gives them; other names are passed over. */
export type Environment = Readonly<Record<string, string | undefined>>;

export const settingNames = Object.keys(settings) as readonly SettingName[];
