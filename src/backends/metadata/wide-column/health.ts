/** What the cluster says of itself (spec "Storage health details"): two questions at one host, kept for ten seconds. */
import type { MetadataHealth, NodeHealth } from '../../../ports/metadata-store.ts';
import type { RawRow } from './rows.ts';
import type { Session } from './session.ts';

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

const text = (row: RawRow, column: string): string => String(row[column] ?? 'unknown');

const nodeOf = (row: RawRow, address: string): NodeHealth => ({
  name: text(row, address),
  dataCenter: text(row, 'data_center'),
  rack: text(row, 'rack'),
  releaseVersion: text(row, 'release_version'),
  schemaVersion: text(row, 'schema_version'),
  state: 'UP',
});

async function probe(session: Session, keyspace: string): Promise<MetadataHealth> {
  const columns = 'data_center, rack, release_version, schema_version';
  const { local, peers } = await session.probe(
    `SELECT broadcast_address, ${columns} FROM system.local`,
    `SELECT peer, ${columns} FROM system.peers_v2`,
  );
  const nodes = [
    ...local.map((row) => nodeOf(row, 'broadcast_address')),
    ...peers.map((row) => nodeOf(row, 'peer')),
  ];
  const versions = [...new Set(nodes.map(({ schemaVersion }) => schemaVersion))].sort();
  const warnings = versions.length > 1 ? [`schema versions disagree: ${versions.join(', ')}`] : [];
  const [found] = await session.run(
    `SELECT replication FROM system_schema.keyspaces WHERE keyspace_name = '${keyspace}'`,
  );
  if (found === undefined) warnings.push(`keyspace not found: ${keyspace}`);
  else if (!found['replication']) warnings.push('replication factor unknown');
  return { nodes, warnings };
}
