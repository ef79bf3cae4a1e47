/** The health of a cluster: its own status, and the figures of each pool. */
import type { ClusterStatus, PoolHealth } from '../../../ports/storage/object-bytes.ts';
import { type Connection, poolPlace } from './connection.ts';
import type { PoolName, Pools } from './pools.ts';

/** The fields of `ceph status` that are used. */
interface Status {
  readonly health?: {
    readonly status?: string;
    readonly checks?: Readonly<
      Record<string, { readonly muted?: boolean; readonly summary?: { readonly message?: string } }>
    >;
  };
}

/** The fields of `ceph df` that are used. */
interface Free {
  readonly pools?: readonly { readonly id: number; readonly stats?: { readonly max_avail?: number } }[];
}

/** The answer of `ceph osd lspools`. */
type Listed = readonly { readonly poolnum: number; readonly poolname: string }[];

export async function clusterStatus(connection: Connection, pools: Pools): Promise<ClusterStatus> {
  const cluster = await connection.attempt(() => connection.open());
  const ask = async (prefix: string): Promise<unknown> =>
    JSON.parse(await connection.attempt(() => cluster.command({ prefix, format: 'json' })));
  // In turn: each keeps one of the few threads that may wait for a cluster busy.
  const { health = {} } = (await ask('status')) as Status;
  const listed = (await ask('osd lspools')) as Listed;
  const { pools: sized = [] } = (await ask('df')) as Free;
  const complaints = Object.values(health.checks ?? {})
    .filter(({ muted }) => muted !== true)
    .map(({ summary }) => summary?.message ?? '');
  const ids = new Map(listed.map(({ poolnum, poolname }) => [poolname, poolnum]));
  const free = new Map(sized.map(({ id, stats }) => [id, stats?.max_avail]));
  const healthOf = async (name: PoolName): Promise<PoolHealth> => {
    const id = ids.get(name.pool);
    const bytesFree = id === undefined ? undefined : free.get(id);
    const health = await poolHealth(pools, name, id);
    return bytesFree === undefined || health.state === 'error' ? health : { ...health, bytesFree };
  };
  return {
    status: health.status ?? 'HEALTH_UNKNOWN',
    complaints,
    pools: await Promise.all(pools.configured.map(healthOf)),
  };
}

/** Uses the id that the monitors report, because a client that does not use a pool learns late that it was deleted or recreated. */
async function poolHealth(pools: Pools, name: PoolName, id: number | undefined): Promise<PoolHealth> {
  try {
    if (id === undefined) throw new Error('there is no such pool');
    const { bytesUsed, objects } = await (await pools.at(poolPlace(id, name.namespace))).stats();
    return { ...name, state: 'ok', bytesUsed, chunkCount: objects };
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    return { ...name, state: 'error', bytesUsed: 0, chunkCount: 0, error: why };
  }
}
