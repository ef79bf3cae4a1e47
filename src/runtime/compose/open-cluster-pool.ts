/** Opens a Ceph cluster from settings. A wrong setting ends the start, a cluster that cannot be reached does not. */
import { type ClusterPool, clusterPool } from '../../backends/data/cluster-pool/cluster-pool.ts';
import {
  DriverMissing,
  errno,
  type RadosDriver,
  RadosFailure,
} from '../../backends/data/cluster-pool/driver.ts';
import { koffiDriver } from '../../backends/data/cluster-pool/koffi-pool.ts';
import type { PoolName, PoolNames } from '../../backends/data/cluster-pool/pools.ts';
import type { ReadBudget } from '../../backends/data/cluster-pool/read-budget.ts';
import type { ClusterSetting } from '../../config/clusters.ts';
import type { Config } from '../../config.ts';
import type { Clock } from '../../ports/clock.ts';
import type { Telemetry } from '../../ports/telemetry.ts';
import { StartRefusal } from '../start-refusal.ts';

const defaultUser = 'client.sluice';
const defaultPool = 'sluice';

/** All clusters of a process share its threads, and so the driver. */
let driver: Promise<RadosDriver> | undefined;

interface Parts {
  readonly config: Config;
  readonly clock: Clock;
  readonly telemetry: Telemetry;
  /** Shared by the readers of all clusters. */
  readonly readBudget: ReadBudget;
}

export async function openClusterPool(
  cluster: ClusterSetting,
  { config, clock, telemetry, readBudget }: Parts,
): Promise<ClusterPool> {
  const { id, conf, monHosts, user = defaultUser, keyring } = cluster;
  try {
    driver ??= koffiDriver();
    const store = clusterPool({
      driver: await driver,
      address: {
        id,
        conf: conf ?? (monHosts === undefined ? defaultConfPath(id) : undefined),
        monHosts,
        user,
        keyring,
        opTimeoutMs: config.SVC_POOL_OP_TIMEOUT,
        monTimeoutMs: config.SVC_POOL_MON_TIMEOUT,
      },
      pools: readPoolNames(cluster, config),
      clock,
      inFlightBytesMax: config.SVC_POOL_IN_FLIGHT,
      readBudget,
    });
    await store.check().catch(async (cause: unknown) => {
      if (!isAway(cause)) {
        await store.close();
        throw cause;
      }
      telemetry.log(
        'WARN',
        'a data cluster is unavailable; requests that need it are refused until it answers',
        {
          cluster: id,
          cause,
        },
      );
    });
    return store;
  } catch (cause) {
    throw new StartRefusal(whyNot(cause, { id, user }), 2, { cause });
  }
}

/** The default path of Ceph's own tools for a cluster's name. */
const defaultConfPath = (id: string): string => `/etc/ceph/${id === 'default' ? 'ceph' : id}.conf`;

const isAway = (cause: unknown): boolean => cause instanceof RadosFailure && cause.code === errno.timedOut;

function whyNot(cause: unknown, { id, user }: { readonly id: string; readonly user: string }): string {
  const why = cause instanceof Error ? cause.message : String(cause);
  if (cause instanceof DriverMissing) return `SVC_DATA_BACKEND=cluster-pool cannot be used: ${why}`;
  const hint =
    cause instanceof RadosFailure ? `; the keyring must be readable and hold the key of ${user}` : '';
  return `SVC_POOL_CLUSTERS: cluster "${id}" cannot be used: ${why}${hint}`;
}

/** A class without a pool of its own uses the pool of chunks without a class. */
function readPoolNames(cluster: ClusterSetting, { SVC_STORAGE_CLASSES: classes }: Config): PoolNames {
  const byClass: Record<string, PoolName> = {};
  for (const { storageClass, pool, namespace = '', cluster: pin = cluster.id } of classes) {
    if (pool !== undefined && pin === cluster.id) byClass[storageClass] = { pool, namespace };
  }
  const own = { pool: cluster.pool ?? defaultPool, namespace: cluster.namespace ?? '' };
  return { fallback: cluster.pool === undefined ? (byClass['STANDARD'] ?? own) : own, byClass };
}
