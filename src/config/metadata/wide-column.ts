/** The settings of `SVC_META_BACKEND=wide-column`. */
import { choice, integer, text, toggle } from '../read/kinds.ts';
import { optional, secret } from '../read/setting.ts';
import { filePath, hosts } from '../values/network.ts';

export const wideColumnSettings = {
  SVC_WIDECOL_HOSTS: optional(
    hosts(
      'Some nodes of Cassandra, for SVC_META_BACKEND=wide-column; the others are found by them, at the port of the first.',
    ),
  ),
  SVC_WIDECOL_KEYSPACE: text({
    kind: 'keyspace name',
    fallback: 'sluice',
    pattern: /^[a-z][a-z0-9_]{0,47}$/,
    otherwise: 'is not a lower-case name of at most 48 letters, digits and "_"',
    doc: 'The keyspace of the metadata; made when it is missing.',
  }),
  SVC_WIDECOL_LOCAL_DC: text({
    kind: 'data center',
    fallback: 'dc1',
    pattern: /^[\w.-]{1,64}$/,
    otherwise: 'is not the name of a data center',
    doc: 'The data center whose nodes this gateway asks; where SVC_WIDECOL_SERIAL is local, quorums are taken of its replicas alone.',
  }),
  SVC_WIDECOL_SERIAL: choice({
    of: ['auto', 'local', 'global'],
    fallback: 'auto',
    doc: 'Among which replicas commits are decided: a quorum of SVC_WIDECOL_LOCAL_DC (then every gateway must name the same one), or of all data centers. `auto` is what the first gateway of the keyspace recorded; for a new one, local where it is replicated in one data center and global where it is in several.',
  }),
  SVC_WIDECOL_REPLICATION: text({
    kind: 'replication as CQL has it',
    fallback: "{'class': 'NetworkTopologyStrategy', 'replication_factor': 3}",
    pattern: /^\{[\w\s':,.-]{1,256}\}$/,
    otherwise: "is not a map such as {'class': 'NetworkTopologyStrategy', 'dc1': 3}",
    doc: 'How the keyspace is replicated where the gateway makes it. A single node needs replication_factor 1.',
  }),
  SVC_WIDECOL_USERNAME: optional(text({ kind: 'name', doc: 'Who logs in to the cluster.' })),
  SVC_WIDECOL_PASSWORD: secret(
    optional(text({ kind: 'password', doc: 'The password of SVC_WIDECOL_USERNAME.' })),
  ),
  SVC_WIDECOL_TLS: toggle(
    'off',
    'Speaks TLS to the nodes, whose certificates one of the authorities of the system must have signed.',
  ),
  SVC_WIDECOL_CA_FILE: optional(
    filePath(
      'PEM authorities of the certificates of the nodes, instead of those of the system; it turns TLS on.',
    ),
  ),
  SVC_WIDECOL_CERT_FILE: optional(
    filePath('PEM certificate chain that the nodes know this gateway by, where they ask for one.'),
  ),
  SVC_WIDECOL_KEY_FILE: optional(filePath('PEM private key of SVC_WIDECOL_CERT_FILE.')),
  SVC_WIDECOL_SERVER_NAME: optional(
    text({
      kind: 'host name',
      pattern: /^[\w.-]{1,253}$/,
      otherwise: 'is not a host name',
      doc: 'The name that the certificate of every node must bear; its IP address unless given.',
    }),
  ),
  SVC_WIDECOL_SLOW_MS: integer({
    fallback: '500',
    range: ['0', '600000'],
    doc: 'Statements that take longer (ms) are logged at WARN; 0 logs none.',
  }),
} as const;
