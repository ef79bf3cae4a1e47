/** The settings as options of `openGateway`. Generated from src/config.ts by `npm run docs`; edit that file instead. */
import type { Config } from './config.ts';

export interface SettingOptions {
  /** Where browsers reach the storage protocol, if not at the address of the console. With SVC_ADMIN_LISTEN the default is that host with the port of SVC_LISTEN. */
  readonly consoleStorageUrl?: string | undefined;
  /** Origins of consoles that may read replies of the storage protocol, beside the one of SVC_ADMIN_LISTEN. */
  readonly consoleOrigins?: string | readonly string[] | undefined;
  /** The directory of the embedded and file backends; created when it is missing. */
  readonly dataDir?: string | undefined;
  /** The master keys that encrypt secrets at rest: base64 of 32 bytes on each line, the current one first. A missing file is created only in the data directory. */
  readonly masterKeyFile?: string | undefined;
  /** The provider of the keys for SSE-KMS and for signing keys of buckets: a file, a transit engine (OpenBao, Vault), the AWS KMS API, or a security module (PKCS#11). Unset: requests that need one are refused. */
  readonly keyProvider?: 'local-hsm' | 'transit' | 'cloud-kms' | 'pkcs11' | undefined;
  /** The keys of `local-hsm`: a JSON object of `{"key": "<base64 of 32 bytes>", "accounts": ["<account>"]}` by key id, and of key ids by `alias/<name>`. `accounts` lists who may use the key, `"*"` means every account. A key without `accounts`, or as its base64 alone, encrypts only if all credentials belong to one account. */
  readonly hsmKeysFile?: string | undefined;
  /** The address of OpenBao or Vault, such as https://bao.example.com:8200. */
  readonly transitAddr?: string | undefined;
  /** Where the transit engine is mounted. Default `transit`. */
  readonly transitMount?: string | undefined;
  /** The namespace of the engine and of the login. */
  readonly transitNamespace?: string | undefined;
  /** How this service logs in: with a token from a file, as an AppRole, or as a Kubernetes service account. Default `token`. */
  readonly transitAuth?: 'token' | 'approle' | 'kubernetes' | undefined;
  /** Where the auth method is mounted; if unset, `approle` or `kubernetes`. */
  readonly transitAuthMount?: string | undefined;
  /** A file with the token of `transitAuth=token`; it is read again when the token ends. */
  readonly transitTokenFile?: string | undefined;
  /** The role id of `transitAuth=approle`. */
  readonly transitRoleId?: string | undefined;
  /** A file with the secret id of `transitAuth=approle`; it is read at each login. */
  readonly transitSecretIdFile?: string | undefined;
  /** The role of `transitAuth=kubernetes`. */
  readonly transitRole?: string | undefined;
  /** The token of the service account, for `transitAuth=kubernetes`; it is read at each login. Default `/var/run/secrets/kubernetes.io/serviceaccount/token`. */
  readonly transitJwtFile?: string | undefined;
  /** PEM certificates that are trusted for transitAddr, not the built-in ones. */
  readonly transitCaFile?: string | undefined;
  /** The endpoint of the AWS KMS API, such as https://kms.eu-central-1.amazonaws.com. */
  readonly kmsEndpoint?: string | undefined;
  /** The region that requests to the key-management service are signed for. Default `us-east-1`. */
  readonly kmsRegion?: string | undefined;
  /** Where the credentials for the AWS KMS API come from: settings, a profile of a credentials file, the metadata service of the machine, or a role that a token of a workload assumes. Default `static`. */
  readonly kmsCredentials?: 'static' | 'profile' | 'imds' | 'web-identity' | undefined;
  /** The access key of `kmsCredentials=static`. */
  readonly kmsAccessKey?: string | undefined;
  /** A file with the secret key of kmsAccessKey. */
  readonly kmsSecretKeyFile?: string | undefined;
  /** The profile of `kmsCredentials=profile`. Default `default`. */
  readonly kmsProfile?: string | undefined;
  /** The credentials file of `kmsCredentials=profile`; it is read again every five minutes. */
  readonly kmsProfileFile?: string | undefined;
  /** The metadata service of `kmsCredentials=imds`; egressAllow must contain it. Default `http://169.254.169.254`. */
  readonly kmsImdsEndpoint?: string | undefined;
  /** The role of `kmsCredentials=web-identity`. */
  readonly kmsRoleArn?: string | undefined;
  /** The token of `kmsCredentials=web-identity`; it is read whenever the role is assumed. */
  readonly kmsWebIdentityTokenFile?: string | undefined;
  /** The STS endpoint of `kmsCredentials=web-identity`, such as https://sts.eu-central-1.amazonaws.com. */
  readonly kmsStsEndpoint?: string | undefined;
  /** PEM certificates that are trusted for kmsEndpoint and kmsStsEndpoint, not the built-in ones. */
  readonly kmsCaFile?: string | undefined;
  /** The PKCS#11 module of the security module, such as /usr/lib/softhsm/libsofthsm2.so. */
  readonly pkcs11Module?: string | undefined;
  /** The tokens with the keys; a key is used in the first that is present and has it. */
  readonly pkcs11Tokens?: string | readonly string[] | undefined;
  /** A file with the user PIN of the tokens. */
  readonly pkcs11PinFile?: string | undefined;
  /** How many sessions a process opens with each token: as many calls run at a time, on threads that Node has for files too (UV_THREADPOOL_SIZE). Default `2`. In [1, 64]. */
  readonly pkcs11Sessions?: number | undefined;
  /** The accounts that may use each key of a provider that is not `local-hsm`, by its id: `{"payroll": ["alice"], "shared": ["*"]}`. A key that is not listed encrypts only if all credentials belong to one account, or as kmsDefaultKeyId. Default `{}`. */
  readonly keyAccounts?: object | undefined;
  /** How long a call to a key provider outside of this process may take, with its retries and probes. A duration such as `90s`. Default `5s`. In [100ms, 60s]. */
  readonly keyTimeout?: string | undefined;
  /** The id, alias or ARN of the key for requests that name none; unset: the key whose id is the bucket name. Without `accounts`, every account may encrypt with it. */
  readonly kmsDefaultKeyId?: string | undefined;
  /** How long a process caches a key that the provider unwrapped: signing keys of buckets, and object keys if the provider is outside of this process. A duration such as `90s`. Default `5m`. In [30s, 1h]. */
  readonly dekCacheTtl?: string | undefined;
  /** The age at which the signing key of a bucket expires: requests are refused with KeyExpired until it is rotated. A duration such as `90s`. Default `2160h`. In [24h, 8760h]. */
  readonly keyMaxAge?: string | undefined;
  /** Former master keys that masterKeyFile lacks, each by the name that a refused start prints. What they sealed cannot be opened. */
  readonly masterKeysRetired?: string | undefined;
  /** Refuses customer keys (SSE-C) that are sent over plain HTTP. Default `true`. */
  readonly sseCRequireTls?: boolean | undefined;
  /** Where metadata is stored: in the memory of this process, in the data directory, in Cassandra, or in TiKV. Default `memory`. */
  readonly metaBackend?: 'memory' | 'embedded' | 'wide-column' | 'ordered-kv' | undefined;
  /** Where object bytes are stored: in the memory of this process, in the data directory, in pools of Ceph, or on another S3 service; `noop` discards them and answers zeros, for benchmarks. Default `memory`. */
  readonly dataBackend?: 'memory' | 'file' | 'cluster-pool' | 'upstream-store' | 'noop' | undefined;
  /** Contact points of metaBackend=wide-column; other nodes are discovered, with the port of the first. */
  readonly widecolHosts?: string | readonly string[] | undefined;
  /** The keyspace of the metadata; created when it is missing. Default `sluice`. */
  readonly widecolKeyspace?: string | undefined;
  /** The data center whose nodes coordinate the requests of this gateway; with widecolSerial=local, quorums consist of its replicas only. Default `dc1`. */
  readonly widecolLocalDc?: string | undefined;
  /** The replicas whose quorum decides commits: those of widecolLocalDc (the same one for every gateway), or of all data centers. `auto` uses what the first gateway recorded; in a new keyspace, local if it is replicated in one data center, otherwise global. Default `auto`. */
  readonly widecolSerial?: 'auto' | 'local' | 'global' | undefined;
  /** The replication of a keyspace that the gateway creates. A single node needs replication_factor 1. Default `{'class': 'NetworkTopologyStrategy', 'replication_factor': 3}`. */
  readonly widecolReplication?: string | undefined;
  /** The user that logs in to the cluster. */
  readonly widecolUsername?: string | undefined;
  /** The password of widecolUsername. */
  readonly widecolPassword?: string | undefined;
  /** Connects to the nodes by TLS, with certificates that the system trusts. Default `off`. */
  readonly widecolTls?: boolean | undefined;
  /** PEM authorities of the certificates of the nodes, in place of those of the system; turns TLS on. */
  readonly widecolCaFile?: string | undefined;
  /** PEM certificate chain of this gateway, for nodes that require client certificates. */
  readonly widecolCertFile?: string | undefined;
  /** PEM private key of widecolCertFile. */
  readonly widecolKeyFile?: string | undefined;
  /** The name in the certificate of every node; if unset, the IP address of the node. */
  readonly widecolServerName?: string | undefined;
  /** Statements that take longer (ms) are logged at WARN; 0 logs none. Default `500`. In [0, 600000]. */
  readonly widecolSlowMs?: number | undefined;
  /** The placement drivers of metaBackend=ordered-kv; tried in this order. */
  readonly kvPdEndpoints?: string | readonly string[] | undefined;
  /** The prefix of every key in TiKV, so that a cluster can be shared. Default `sluice/`. */
  readonly kvPrefix?: string | undefined;
  /** How long a read, or one phase of a write, is retried before the request gets 503; a whole write is retried for four times as long. A duration such as `90s`. Default `15s`. In [500ms, 2m]. */
  readonly kvTimeout?: string | undefined;
  /** How old versions of rows must be before TiKV may drop them; 0s leaves that to a TiDB in the same cluster. A duration such as `90s`. Default `1h`. In [0s, 7d]. */
  readonly kvGcAge?: string | undefined;
  /** PEM authority of the certificates of PD and TiKV; turns TLS on. */
  readonly kvCaFile?: string | undefined;
  /** PEM client certificate for PD and TiKV; needs kvCaFile. */
  readonly kvCertFile?: string | undefined;
  /** PEM private key of kvCertFile. */
  readonly kvKeyFile?: string | undefined;
  /** On Cloudflare Workers: the size at which a Durable Object of the metadata begins to split. It grows until the split has ended, and refuses writes at 9 GB. Bytes, or a size such as `512MiB`. Default `7600MiB`. In [64KiB, 8100MiB]. */
  readonly metadataSplitSize?: string | number | undefined;
  /** How long users, keys and policies, and buckets for GET and HEAD of objects, are cached on metadata that other machines share. Other gateways obey a change within this time, processes of the same gateway at once. A duration such as `90s`. Default `2s`. In [0s, 1m]. */
  readonly configCacheTtl?: string | undefined;
  /** The clusters that store chunks. Default `default`. */
  readonly poolClusters?: string | readonly object[] | undefined;
  /** How long a read or write of a pool may take before its request gets 503. A placement group that changes its OSD takes up to half a minute. A duration such as `90s`. Default `30s`. In [1s, 10m]. */
  readonly poolOpTimeout?: string | undefined;
  /** How long the monitors of a pool cluster may take to answer, also at start. A duration such as `90s`. Default `10s`. In [1s, 10m]. */
  readonly poolMonTimeout?: string | undefined;
  /** How many bytes of writes are in flight to one pool cluster, of the memory that memoryMax gives to writes; further writes wait. Bytes, or a size such as `512MiB`. Default `64MiB`. In [4MiB, 4GiB]. */
  readonly poolInFlight?: string | number | undefined;
  /** How many bytes of an object are read ahead from a pool; less with many concurrent reads. Bytes, or a size such as `512MiB`. Default `4MiB`. In [64KiB, 64MiB]. */
  readonly poolReadAhead?: string | number | undefined;
  /** The S3 services of dataBackend=upstream-store; each is a cluster. Fields that one lacks come from the settings below. */
  readonly upstreams?: string | readonly object[] | undefined;
  /** The endpoint of upstreams that name none, such as https://s3.example.com. */
  readonly upstreamEndpoint?: string | undefined;
  /** The region that requests to upstreams are signed for. Default `us-east-1`. */
  readonly upstreamRegion?: string | undefined;
  /** The access key of upstreams that name none. */
  readonly upstreamAccessKey?: string | undefined;
  /** The secret key of upstreams that name none. */
  readonly upstreamSecretKey?: string | undefined;
  /** A file with the secret key, in place of upstreamSecretKey. */
  readonly upstreamSecretKeyFile?: string | undefined;
  /** How long an upstream may be silent before a request to it is aborted. A duration such as `90s`. Default `30s`. In [100ms, 10m]. */
  readonly upstreamTimeout?: string | undefined;
  /** Where the bytes of a storage class are: `default`, `standard-ia`, `archive` or a class of the public API, its pool of `cluster-pool`, and the cluster that it is pinned to; a class on several clusters has an item for each. */
  readonly storageClasses?: string | readonly string[] | undefined;
  /** The object ownership of a new bucket; with `BucketOwnerEnforced` it has no ACLs. Default `ObjectWriter`. */
  readonly defaultOwnership?: 'ObjectWriter' | 'BucketOwnerPreferred' | 'BucketOwnerEnforced' | undefined;
  /** How many shards a new bucket has; an operator can increase the number. Default `64`. In [1, 65536]. */
  readonly bucketShards?: number | undefined;
  /** How often the gc worker looks for chunks to delete. A duration such as `90s`. Default `1m`. In [10ms, 24h]. */
  readonly gcInterval?: string | undefined;
  /** How long the chunks of a deleted object stay for requests that still read them. A duration such as `90s`. Default `10m`. In [0s, 30d]. */
  readonly gcGrace?: string | undefined;
  /** How often the lifecycle worker looks for buckets with something due: once a day, as rules count whole days, or when the configuration changes. A duration such as `90s`. Default `1m`. In [10ms, 24h]. */
  readonly lifecycleInterval?: string | undefined;
  /** The length of a day of lifecycle rules, for tests; a shorter day deletes objects early, and is logged as a WARN. A duration such as `90s`. Default `24h`. In [1s, 24h]. */
  readonly lifecycleDay?: string | undefined;
  /** The most lifecycle actions (deletions, transitions, aborts) a second; fewer while clients are active, which keep about 83 % of their throughput. Default `20000`. In [1, 1000000]. */
  readonly lifecycleRate?: number | undefined;
  /** How many bytes a second the transitions of lifecycle rules copy. Bytes, or a size such as `512MiB`. Default `64MiB`. In [64KiB, 1TiB]. */
  readonly lifecycleBytesRate?: string | number | undefined;
  /** The UTC time of day at which the usage of ended days is written. Default `00:00`. */
  readonly usageRollupAt?: string | undefined;
  /** The time between two ticks of the usage-rollup worker, counted from usageRollupAt. A duration such as `90s`. Default `24h`. In [1m, 24h]. */
  readonly usageRollupInterval?: string | undefined;
  /** How many samples of the counters of each bucket are taken in an interval. Default `24`. In [1, 1440]. */
  readonly usageRollupSamplesPerDay?: number | undefined;
  /** How often a process writes the requests and bytes that it counted for each bucket and account; a killed one loses what it counted since. 0: traffic is not counted. A duration such as `90s`. Default `10s`. In [0, 1h]. */
  readonly usageTrafficInterval?: string | undefined;
  /** How often the counters of all buckets are compared with their rows. A duration such as `90s`. Default `6h`. In [1m, 30d]. */
  readonly quotaReconcileInterval?: string | undefined;
  /** A drift of a counter up to this many bytes is not corrected, unless its number of objects is wrong too. Bytes, or a size such as `512MiB`. Default `1MiB`. In [0, 1TiB]. */
  readonly quotaReconcileMinDriftBytes?: string | number | undefined;
  /** A drift up to this part of the counter is not corrected, unless its number of objects is wrong too. Default `0.5%`. */
  readonly quotaReconcileMinDriftRatio?: string | undefined;
  /** The maxBytes of new buckets. 0 is unlimited. Bytes, or a size such as `512MiB`. Default `0`. In [0, 8PiB]. */
  readonly defaultBucketMaxBytes?: string | number | undefined;
  /** The maxObjects of new buckets. 0 is unlimited. Default `0`. In [0, 1000000000000]. */
  readonly defaultBucketMaxObjects?: number | undefined;
  /** The maxBytesPerObject of new buckets. 0 is unlimited. Bytes, or a size such as `512MiB`. Default `0`. In [0, 8PiB]. */
  readonly defaultBucketMaxObjectBytes?: string | number | undefined;
  /** The maxBuckets of new accounts. 0 is unlimited. Default `0`. In [0, 2147483647]. */
  readonly defaultAccountMaxBuckets?: number | undefined;
  /** The totalMaxBytes of new accounts. 0 is unlimited. Bytes, or a size such as `512MiB`. Default `0`. In [0, 8PiB]. */
  readonly defaultAccountMaxBytes?: string | number | undefined;
  /** The maxBuckets of new IAM users. 0 is unlimited. Default `0`. In [0, 2147483647]. */
  readonly defaultUserMaxBuckets?: number | undefined;
  /** The totalMaxBytes of new IAM users. 0 is unlimited. Bytes, or a size such as `512MiB`. Default `0`. In [0, 8PiB]. */
  readonly defaultUserMaxBytes?: string | number | undefined;
  /** How often the worker checks for clusters to evacuate. A duration such as `90s`. Default `1m`. In [10ms, 24h]. */
  readonly rebalanceInterval?: string | undefined;
  /** How many bytes the worker of one process moves in a second. Bytes, or a size such as `512MiB`. Default `64MiB`. In [64KiB, 1TiB]. */
  readonly rebalanceRate?: string | number | undefined;
  /** Moves stored objects to the clusters that the present weights and placements choose; off, weights apply to new writes only. Default `off`. */
  readonly rebalanceWeights?: boolean | undefined;
  /** How long the intent of an unfinished write outlives the process that began it. A duration such as `90s`. Default `60s`. In [1s, 1h]. */
  readonly intentTtl?: string | undefined;
  /** How long the audit rows of state-changing requests are kept. A duration such as `90s`. Default `30d`. In [1h, 3650d]. */
  readonly auditRetention?: string | undefined;
  /** How many refusals of anonymous and unknown callers each process audits one by one in a minute; others are counted by operation and error code. Default `60`. In [0, 1000000]. */
  readonly auditUnknownCallers?: number | undefined;
  /** How many refusals of one account each process audits one by one in a minute. The others are counted by account, operation and error code. Requests that change something always have a row. Default `100`. In [0, 1000000]. */
  readonly auditRefusals?: number | undefined;
  /** How long events, replication tasks and access log lines stay queued; older ones are dropped by the hour, counted (svc_queue_dropped_total) and logged. A duration such as `90s`. Default `7d`. In [1h, 365d]. */
  readonly queueRetention?: string | undefined;
  /** The most tasks of one of these queues, of the dead letters, and of the failed replications. Above it, accounts with more than an equal share lose their oldest tasks, which is counted and logged; one account alone loses its oldest hours. Tasks of the last two hours stay, even above the limit. Default `10000000`. In [1000, 10000000000]. */
  readonly queueRowsMax?: number | undefined;
  /** How often queued lines of access logs are written into their target buckets. A duration such as `90s`. Default `5m`. In [1s, 1h]. */
  readonly accesslogInterval?: string | undefined;
  /** The size at which an access log object is closed; an object has at most 5,000 lines. Bytes, or a size such as `512MiB`. Default `1MiB`. In [4KiB, 16MiB]. */
  readonly accesslogObjectSize?: string | number | undefined;
  /** How often the inventory worker looks for inventories that are due. A duration such as `90s`. Default `15m`. In [1s, 24h]. */
  readonly inventoryInterval?: string | undefined;
  /** How many rows one data file of an inventory has; after a kill at most these are read again. Default `500000`. In [1, 10000000]. */
  readonly inventoryFileRows?: number | undefined;
  /** How often the objects and bytes of all buckets are summed by storage class. A duration such as `90s`. Default `1h`. In [1s, 24h]. */
  readonly bucketstatsInterval?: string | undefined;
  /** How many of the largest buckets have their own gauges; the totals count all. Default `100`. In [0, 10000]. */
  readonly bucketstatsTopn?: number | undefined;
  /** The pause between two runs of the fsck worker. A duration such as `90s`. Default `7d`. In [1m, 365d]. */
  readonly fsckInterval?: string | undefined;
  /** Whether the fsck worker repairs what `sluice fsck --fix` repairs. Default `false`. */
  readonly fsckFix?: boolean | undefined;
  /** How many stored bytes a second the scrub worker checks, in one process of all gateways; 0: none. Unset: 16MiB; none on `upstream-store`, where reads cost money. Bytes, or a size such as `512MiB`. In [0, 10GiB]. */
  readonly scrubRate?: string | number | undefined;
  /** The pause between two passes of the scrub worker. A duration such as `90s`. Default `7d`. In [1m, 365d]. */
  readonly scrubInterval?: string | undefined;
  /** Requests that take longer, without waits for the client, are logged at WARN with their slowest backend calls; 0: none. Default `1000`. In [0, 3600000]. */
  readonly slowMs?: number | undefined;
  /** Keeps up to 16 MiB of traces in the memory of each process, for `sluice admin traces`: failures, the slowest requests, and a sample. Default `on`. */
  readonly traceBrowser?: boolean | undefined;
  /** The targets of bucket notifications; the last field of an ARN is the id of a target. `accounts` lists the accounts whose buckets may name it, `"*"` means every account; a target without `accounts` serves only where all credentials belong to one account. */
  readonly notifyTargets?: Config['SVC_NOTIFY_TARGETS'] | undefined;
  /** How often the notify worker looks for events that are due. A duration such as `90s`. Default `1s`. In [10ms, 1h]. */
  readonly notifyInterval?: string | undefined;
  /** How long a target of events may take to answer before the delivery has failed. A duration such as `90s`. Default `10s`. In [100ms, 5m]. */
  readonly notifyTimeout?: string | undefined;
  /** How long the delivery of an event is retried before it becomes a dead letter. Should be shorter than queueRetention. A duration such as `90s`. Default `24h`. In [1s, 365d]. */
  readonly notifyRetryMax?: string | undefined;
  /** How long events that could not be delivered are kept as dead letters. A duration such as `90s`. Default `30d`. In [1h, 3650d]. */
  readonly notifyDlqRetention?: string | undefined;
  /** Addresses of this machine, its link or a private network that event targets, replication peers and key providers may have, such as 10.0.0.0/8; checked after each DNS answer. */
  readonly egressAllow?: string | readonly string[] | undefined;
  /** How long a replication peer may be silent before the request has failed. A duration such as `90s`. Default `10s`. In [100ms, 5m]. */
  readonly replicationTimeout?: string | undefined;
  /** How often the replicator looks for versions that are due. A duration such as `90s`. Default `1s`. In [10ms, 1h]. */
  readonly replicationInterval?: string | undefined;
  /** How long the replication of a version is retried; then its status is FAILED. Should be shorter than queueRetention. A duration such as `90s`. Default `3d`. In [1s, 365d]. */
  readonly replicationRetryMax?: string | undefined;
  /** How long versions whose replication was given up are listed, and can be retried one by one. Their status stays FAILED; a resync finds them later too. A duration such as `90s`. Default `30d`. In [1h, 3650d]. */
  readonly replicationFailedRetention?: string | undefined;
  /** Replicates delete markers and permanent deletions of lifecycle rules as those of clients. Off, as in the public service: each site has rules of its own. Default `off`. */
  readonly replicationLifecycle?: boolean | undefined;
  /** How long a site remembers that a replicated version was removed permanently, so that no other site brings it back. Should be longer than any site is cut off. A duration such as `90s`. Default `90d`. In [1d, 3650d]. */
  readonly replicationTombstones?: string | undefined;
  /** The region of buckets that name none. Default `default`. */
  readonly region?: string | undefined;
  /** Refuses signatures whose scope names another region than region. Default `false`. */
  readonly regionStrict?: boolean | undefined;
  /** Domains under which `<bucket>.<domain>` is a virtual host. */
  readonly domain?: string | readonly string[] | undefined;
  /** Domains under which `<bucket>.<domain>` is the website of a bucket that has one; they precede those of domain. */
  readonly websiteDomain?: string | readonly string[] | undefined;
  /** Whether a write is on the disk before it is acknowledged; `never` loses writes when the machine fails. Default `always`. */
  readonly fsync?: 'always' | 'never' | undefined;
  /** What an unconditional PUT, Copy or Complete in an unversioned bucket does when another one to the same key commits first: `winner` answers 200 with the ETag of that write, `retry` commits again and answers with its own ETag. Default `winner`. */
  readonly putRace?: 'winner' | 'retry' | undefined;
  /** The disk space of `embedded` and `file` that is reserved for deletions: with less, requests that add data get 507. 0 reserves none. Bytes, or a size such as `512MiB`. Default `256MiB`. In [0, 1TiB]. */
  readonly diskReserve?: string | number | undefined;
  /** The memory target of one process; it bounds the buffers. Bytes, or a size such as `512MiB`. Default `512MiB`. In [64MiB, 1TiB]. */
  readonly memoryMax?: string | number | undefined;
  /** Peers whose X-Forwarded-For and X-Forwarded-Proto are trusted. */
  readonly trustedProxies?: string | readonly string[] | undefined;
  /** A bearer token that may read /metrics, in addition to operators. */
  readonly metricsToken?: string | undefined;
  /** How long a log-in of an operator lasts at the longest. A duration such as `90s`. Default `12h`. In [5m, 30d]. */
  readonly loginTtl?: string | undefined;
  /** After how much time without a request a log-in of an operator ends. A duration such as `90s`. Default `1h`. In [2m, 30d]. */
  readonly loginIdle?: string | undefined;
  /** Accepts version-2 presigned queries. Default `on`. */
  readonly sigv2Presign?: boolean | undefined;
  /** How long a body that is not streamed to storage (configurations, lists, IAM actions, fields of forms) may take from first to last byte; a slower one gets 400 RequestTimeout. A duration such as `90s`. Default `30s`. In [1s, 1h]. */
  readonly bodyTimeout?: string | undefined;
  /** The minimum rate, in bytes a second, of a body that is streamed to storage, over any 30 s of waiting for it; a slower one gets 400 RequestTimeout. 0: none besides SVC_IDLE_TIMEOUT. Bytes, or a size such as `512MiB`. Default `1KiB`. In [0, 1GiB]. */
  readonly bodyRateMin?: string | number | undefined;
}
