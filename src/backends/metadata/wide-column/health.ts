/** The cluster's own report: two queries to one host, and one to each for the size of the keyspace there, cached for ten seconds. */
import type { MetadataHealth, NodeHealth } from '../../../ports/metadata-store.ts';
import type { RawRow } from './rows.ts';
import { codeOf, describeError, responseErrorCodes, type Session } from './session.ts';

const keptMs = 10_000;
const keptBy = new WeakMap<Session, { readonly health: Promise<MetadataHealth>; readonly at: number }>();

export function clusterHealth(session: Session, keyspace: string): Promise<MetadataHealth> {
  const kept = keptBy.get(session);
  if (kept !== undefined && performance.now() - kept.at < keptMs) return kept.health;
  const health = probe(session, keyspace);
  keptBy.set(session, { health, at: performance.now() });
  health.catch(() => keptBy.delete(session));
  return health;
}

async function probe(session: Session, keyspace: string): Promise<MetadataHealth> {
  const columns = 'data_center, rack, release_version, schema_version';
  const [{ local, peers, down }, usages] = await Promise.all([
    session.probe(
      `SELECT broadcast_address, ${columns} FROM system.local`,
      `SELECT peer, ${columns} FROM system.peers_v2`,
    ),
    session.askEach(`SELECT keyspace_name, mebibytes FROM ${usageTable}`),
  ]);
  const toNode = (address: string) => (row: RawRow) => {
    const node = toNodeHealth(row, address, down);
    return { ...node, ...readSize(usages.get(node.name), { keyspace, role: session.role }) };
  };
  const nodes = [...local.map(toNode('broadcast_address')), ...peers.map(toNode('peer'))];
  const [found] = await session.run(
    `SELECT replication FROM system_schema.keyspaces WHERE keyspace_name = '${keyspace}'`,
  );
  return summarizeHealth(nodes, found?.['replication'], { keyspace, localDc: session.localDc });
}

/** Of Cassandra 4 and later: the size of each table on the node that answers, in MiB. */
const usageTable = 'system_views.disk_usage';
const mebibyte = 1024 * 1024;

/**
 * The bytes that the tables of the keyspace have on a node. No table of Cassandra has the free bytes of its disks.
 * @param usage absent: this process has no connection to the node, as to those of other data centers
 */
function readSize(
  usage: readonly RawRow[] | Error | undefined,
  { keyspace, role }: { readonly keyspace: string; readonly role: string | undefined },
): Pick<NodeHealth, 'usedBytes' | 'sizeUnknown'> {
  if (usage === undefined) return {};
  if (codeOf(usage) === responseErrorCodes.unauthorized)
    return {
      sizeUnknown: `the role ${role ?? 'of the gateway'} may not read ${usageTable}: GRANT SELECT ON KEYSPACE system_views TO ${role ?? '<role>'}`,
    };
  if (usage instanceof Error) return { sizeUnknown: `${usageTable} cannot be read: ${describeError(usage)}` };
  const sizes = usage
    .filter((row) => row['keyspace_name'] === keyspace)
    .map((row) => Number(row['mebibytes']));
  return { usedBytes: sizes.reduce((sum, size) => sum + size, 0) * mebibyte };
}

const text = (row: RawRow, column: string): string => String(row[column] ?? 'unknown');

function toNodeHealth(row: RawRow, address: string, down: ReadonlySet<string>): NodeHealth {
  const name = text(row, address);
  return {
    name,
    dataCenter: text(row, 'data_center'),
    rack: text(row, 'rack'),
    releaseVersion: text(row, 'release_version'),
    schemaVersion: text(row, 'schema_version'),
    state: down.has(name) ? 'DOWN' : 'UP',
  };
}

/** @param replication the map of the keyspace's row; absent where there is no row */
export function summarizeHealth(
  nodes: readonly NodeHealth[],
  replication: unknown,
  { keyspace, localDc }: { readonly keyspace: string; readonly localDc: string },
): MetadataHealth {
  const versions = [...new Set(nodes.map(({ schemaVersion }) => schemaVersion))].sort();
  const factor = readReplicationFactor(replication, localDc);
  const warnings = [
    ...(versions.length > 1 ? [`schema versions disagree: ${versions.join(', ')}`] : []),
    ...(replication ? [] : [`keyspace not found: ${keyspace}`]),
    ...(factor === undefined ? ['replication factor unknown'] : []),
  ];
  return { nodes, ...(factor === undefined ? {} : { replicationFactor: factor }), warnings };
}

/** How many nodes of the local data center have a copy of a row; NetworkTopologyStrategy has a factor for each data center. */
function readReplicationFactor(replication: unknown, localDc: string): number | undefined {
  if (typeof replication !== 'object' || replication === null) return undefined;
  const said = replication as Readonly<Record<string, unknown>>;
  const factor = Number.parseInt(String(said[localDc] ?? said['replication_factor']), 10);
  return Number.isInteger(factor) ? factor : undefined;
}
