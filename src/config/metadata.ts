/**
 * The metadata backends. To add one: a row and its settings here, their checks in `checks.ts`, and its opening in
 * `runtime/compose/open-metadata.ts`, where the compiler asks for it.
 */
import type { OptionalPackage } from '../base/optional-packages.ts';
import { bytes, choice, duration, integer, text, toggle } from './kinds.ts';
import { endpoints, filePath, hosts } from './network.ts';
import { optional, secret } from './setting.ts';

interface MetadataBackend {
  /** Who can share the metadata: one process, the processes of a machine, or several machines. */
  readonly scope: 'process' | 'machine' | 'network';
  /** The setting that names its servers. */
  readonly servers?: 'SVC_WIDECOL_HOSTS' | 'SVC_KV_PD_ENDPOINTS';
  readonly needsDataDir?: true;
  readonly packages?: readonly OptionalPackage[];
  /** What traces call it, where that is not its name here. */
  readonly system?: string;
  /** Where it stores, for the words of `SVC_META_BACKEND`. */
  readonly place: string;
}

const rows = {
  memory: { scope: 'process', place: 'in the memory of this process' },
  embedded: { scope: 'machine', needsDataDir: true, system: 'lmdb', place: 'in the data directory' },
  'wide-column': {
    scope: 'network',
    servers: 'SVC_WIDECOL_HOSTS',
    packages: ['cassandra-driver'],
    system: 'cassandra',
    place: 'in Cassandra',
  },
  'ordered-kv': {
    scope: 'network',
    servers: 'SVC_KV_PD_ENDPOINTS',
    packages: ['@grpc/grpc-js', 'protobufjs'],
    system: 'tikv',
    place: 'in TiKV',
  },
} as const satisfies Readonly<Record<string, MetadataBackend>>;

export type MetadataBackendName = keyof typeof rows;

export const metadataBackends: Readonly<Record<MetadataBackendName, MetadataBackend>> = rows;
// The cast: the keys of a literal.
export const metadataBackendNames = Object.keys(rows) as readonly MetadataBackendName[];

const places = Object.values(rows).map(({ place }) => place);
// Without Intl.ListFormat, which would load ICU at each start.
export const metadataPlaces = `${places.slice(0, -1).join(', ')}, or ${places.at(-1)}`;

// The settings of `SVC_META_BACKEND=ordered-kv`.

export const orderedKvSettings = {
  SVC_KV_PD_ENDPOINTS: optional(
    endpoints('The placement drivers of SVC_META_BACKEND=ordered-kv; tried in this order.'),
  ),
  SVC_KV_PREFIX: text({
    kind: 'prefix',
    fallback: 'sluice/',
    pattern: /^[\x21-\x7e]{1,64}$/,
    otherwise: 'is not 1 to 64 printable ASCII characters',
    doc: 'The prefix of every key in TiKV, so that a cluster can be shared.',
  }),
  SVC_KV_TIMEOUT: duration({
    fallback: '15s',
    range: ['500ms', '2m'],
    doc: 'How long a read, or one phase of a write, is retried before the request gets 503; a whole write is retried for four times as long.',
  }),
  SVC_KV_GC_AGE: duration({
    fallback: '1h',
    range: ['0s', '7d'],
    doc: 'How old versions of rows must be before TiKV may drop them; 0s leaves that to a TiDB in the same cluster.',
  }),
  SVC_KV_CA_FILE: optional(filePath('PEM authority of the certificates of PD and TiKV; turns TLS on.')),
  SVC_KV_CERT_FILE: optional(filePath('PEM client certificate for PD and TiKV; needs SVC_KV_CA_FILE.')),
  SVC_KV_KEY_FILE: optional(filePath('PEM private key of SVC_KV_CERT_FILE.')),
};

/** Of metadata in Durable Objects. */
export const durableObjectSettings = {
  SVC_METADATA_SPLIT_SIZE: bytes({
    fallback: '7600MiB',
    range: ['64KiB', '8100MiB'],
    doc: 'On Cloudflare Workers: the size at which a Durable Object of the metadata begins to split. It grows until the split has ended, and refuses writes at 9 GB.',
  }),
};

// The settings of `SVC_META_BACKEND=wide-column`.

export const wideColumnSettings = {
  SVC_WIDECOL_HOSTS: optional(
    hosts(
      'Contact points of SVC_META_BACKEND=wide-column; other nodes are discovered, with the port of the first.',
    ),
  ),
  SVC_WIDECOL_KEYSPACE: text({
    kind: 'keyspace name',
    fallback: 'sluice',
    pattern: /^[a-z][a-z0-9_]{0,47}$/,
    otherwise: 'is not a lower-case name of at most 48 letters, digits and "_"',
    doc: 'The keyspace of the metadata; created when it is missing.',
  }),
  SVC_WIDECOL_LOCAL_DC: text({
    kind: 'data center',
    fallback: 'dc1',
    pattern: /^[\w.-]{1,64}$/,
    otherwise: 'is not the name of a data center',
    doc: 'The data center whose nodes coordinate the requests of this gateway; with SVC_WIDECOL_SERIAL=local, quorums consist of its replicas only.',
  }),
  SVC_WIDECOL_SERIAL: choice({
    of: ['auto', 'local', 'global'],
    fallback: 'auto',
    doc: 'The replicas whose quorum decides commits: those of SVC_WIDECOL_LOCAL_DC (the same one for every gateway), or of all data centers. `auto` uses what the first gateway recorded; in a new keyspace, local if it is replicated in one data center, otherwise global.',
  }),
  SVC_WIDECOL_REPLICATION: text({
    kind: 'replication as CQL has it',
    fallback: "{'class': 'NetworkTopologyStrategy', 'replication_factor': 3}",
    pattern: /^\{[\w\s':,.-]{1,256}\}$/,
    otherwise: "is not a map such as {'class': 'NetworkTopologyStrategy', 'dc1': 3}",
    doc: 'The replication of a keyspace that the gateway creates. A single node needs replication_factor 1.',
  }),
  SVC_WIDECOL_USERNAME: optional(text({ kind: 'name', doc: 'The user that logs in to the cluster.' })),
  SVC_WIDECOL_PASSWORD: secret(
    optional(text({ kind: 'password', doc: 'The password of SVC_WIDECOL_USERNAME.' })),
  ),
  SVC_WIDECOL_TLS: toggle('off', 'Connects to the nodes by TLS, with certificates that the system trusts.'),
  SVC_WIDECOL_CA_FILE: optional(
    filePath(
      'PEM authorities of the certificates of the nodes, in place of those of the system; turns TLS on.',
    ),
  ),
  SVC_WIDECOL_CERT_FILE: optional(
    filePath('PEM certificate chain of this gateway, for nodes that require client certificates.'),
  ),
  SVC_WIDECOL_KEY_FILE: optional(filePath('PEM private key of SVC_WIDECOL_CERT_FILE.')),
  SVC_WIDECOL_SERVER_NAME: optional(
    text({
      kind: 'host name',
      pattern: /^[\w.-]{1,253}$/,
      otherwise: 'is not a host name',
      doc: 'The name in the certificate of every node; if unset, the IP address of the node.',
    }),
  ),
  SVC_WIDECOL_SLOW_MS: integer({
    fallback: '500',
    range: ['0', '600000'],
    doc: 'Statements that take longer (ms) are logged at WARN; 0 logs none.',
  }),
} as const;
