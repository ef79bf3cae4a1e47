/**
 * The console's gateways on Cassandra and Ceph instead of embedded metadata and files, where `SLUICE_CONSOLE_ENGINES` names a node and a
 * cluster. `node test/run.ts --routines` starts both and runs the routines of operators there.
 */
import { createHash, randomBytes } from 'node:crypto';
import { replicatedOver } from '../support/engines/cassandra.ts';
import type { StartOptions } from '../support/server.ts';

export const consoleEngines = 'SLUICE_CONSOLE_ENGINES';

export interface ConsoleEngines {
  /** Of Cassandra. */
  readonly hosts: readonly string[];
  /** The configuration file of a Ceph cluster with a pool `chunks`. */
  readonly conf: string;
}

const text = process.env[consoleEngines];
const engines = text === undefined ? undefined : (JSON.parse(text) as ConsoleEngines);
/** A start creates a schema. */
const startMs = 240_000;

/** For tests about what only embedded metadata and files have. */
export const isOnEngines = engines !== undefined;

/** The options of a server with a keyspace of its own, and a RADOS namespace for each cluster; those of one data directory are the same. */
export function onEngines(options: StartOptions): StartOptions {
  if (engines === undefined || options.dataDir === 'memory') return options;
  const { dataDir = randomBytes(8).toString('hex'), env } = options;
  const name = `console_${createHash('sha256').update(dataDir).digest('hex').slice(0, 8)}`;
  const clusters = (env?.['SVC_POOL_CLUSTERS'] ?? 'a')
    .split(',')
    .map((id) => ({ id, conf: engines.conf, pool: 'chunks', namespace: `${name}-${id}` }));
  return {
    startMs,
    ...options,
    env: {
      ...env,
      SVC_META_BACKEND: 'wide-column',
      SVC_WIDECOL_HOSTS: engines.hosts.join(','),
      SVC_WIDECOL_REPLICATION: replicatedOver(engines.hosts),
      SVC_WIDECOL_KEYSPACE: name,
      SVC_DATA_BACKEND: 'cluster-pool',
      SVC_POOL_CLUSTERS: JSON.stringify(clusters),
    },
  };
}
