/** The settings of `SVC_META_BACKEND=wide-column`. */
import { choice, integer, text, toggle } from '../read/kinds.ts';
import { optional, secret } from '../read/setting.ts';
import { filePath, hosts } from '../values/network.ts';

export const wideColumnSettings = {
  SVC_WIDECOL_HOSTS: optional(
    hosts(
      'Contact points in Cassandra, for SVC_META_BACKEND=wide-column; other nodes are discovered, with the port of the first.',
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
    doc: 'The replicas whose quorum decides commits: those of SVC_WIDECOL_LOCAL_DC (every gateway must then name the same one), or those of all data centers. `auto` uses what the first gateway recorded in the keyspace; for a new keyspace, local if it is replicated in one data center, otherwise global.',
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
  SVC_WIDECOL_TLS: toggle(
    'off',
    'Connects to the nodes by TLS; an authority of the system must have signed their certificates.',
  ),
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
