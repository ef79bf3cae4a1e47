/** Stores of `cluster-pool` on a real cluster, each in its own namespace. */
import { type ClusterPool, clusterPool } from '../../src/backends/data/cluster-pool/cluster-pool.ts';
import type { RadosDriver } from '../../src/backends/data/cluster-pool/driver.ts';
import { koffiDriver } from '../../src/backends/data/cluster-pool/koffi-pool.ts';
import { ReadBudget } from '../../src/backends/data/cluster-pool/read-budget.ts';
import { systemClock } from '../../src/ports/clock.ts';
import { listAll } from '../contract/chunk-store.ts';
import type { CephCluster } from './engines/ceph.ts';

export interface PoolStore {
  readonly store: ClusterPool;
  /** Another store over the same pool and namespace. */
  reopen(): ClusterPool;
  /** Removes all objects, because the counts of a pool include all its namespaces. */
  dispose(): Promise<void>;
}

const readAheadBytes = 4 << 20;

export async function poolStores({ conf, user }: CephCluster) {
  const options = {
    driver: await koffiDriver(),
    address: { id: 'a', conf, user, opTimeoutMs: 30_000, monTimeoutMs: 10_000 },
    clock: systemClock,
    inFlightBytesMax: 64 << 20,
    readBudget: new ReadBudget({ bytesMax: 64 << 20, aheadBytes: readAheadBytes }),
  };
  let count = 0;
  return {
    options,
    readAheadBytes,
    /** @param driver the real driver or a wrapper of it */
    open(pool: string, driver: RadosDriver = options.driver): PoolStore {
      count += 1;
      const pools = { fallback: { pool, namespace: `case-${count}` }, byClass: {} };
      const reopen = () => clusterPool({ ...options, driver, pools });
      const store = reopen();
      return {
        store,
        reopen,
        async dispose() {
          await store.close();
          const again = reopen();
          await again.remove(await listAll(again));
          await again.close();
        },
      };
    },
  };
}
export type PoolStores = Awaited<ReturnType<typeof poolStores>>;
