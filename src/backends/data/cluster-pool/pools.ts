/** The pool for the chunks of a class, and the pools of chunks that were written before. */
import type { Clock } from '../../../ports/clock.ts';
import {
  ChunkMissing,
  type ClusterStatus,
  DataUnavailable,
  type PoolHealth,
} from '../../../ports/object-bytes.ts';
import {
  type ClusterAddress,
  errno,
  isMissing,
  type RadosCluster,
  type RadosDriver,
  RadosFailure,
  type RadosPool,
} from './driver.ts';

export interface PoolName {
  readonly pool: string;
  /** '' where there is none. */
  readonly namespace: string;
}

export interface PoolNames {
  /** For classes without a pool of their own. */
  readonly fallback: PoolName;
  readonly byClass: Readonly<Record<string, PoolName>>;
}

export interface OpenPool {
  readonly place: string;
  readonly pool: RadosPool;
}

export class Pools {
  readonly #connection: Connection;
  readonly #names: PoolNames;
  readonly #ids = new Map<string, number>();

  constructor(connection: Connection, names: PoolNames) {
    this.#connection = connection;
    this.#names = names;
  }

  /** Every pool and namespace of the settings, once. */
  get configured(): readonly PoolName[] {
    const { fallback, byClass } = this.#names;
    const all = new Map([fallback, ...Object.values(byClass)].map((name) => [poolText(name), name]));
    return [...all.values()];
  }

  forClass(storageClass: string | undefined): Promise<OpenPool> {
    const { fallback, byClass } = this.#names;
    const own = storageClass !== undefined && Object.hasOwn(byClass, storageClass);
    return this.named((own ? byClass[storageClass] : undefined) ?? fallback);
  }

  /** The pool of a chunk, wherever the settings send new ones. */
  at(place: string): Promise<RadosPool> {
    return this.#connection.pool(place);
  }

  async all(): Promise<readonly OpenPool[]> {
    return Promise.all(this.configured.map((name) => this.named(name)));
  }

  async named({ pool: name, namespace }: PoolName): Promise<OpenPool> {
    const known = this.#ids.get(name);
    if (known === undefined) return this.#lookUp({ pool: name, namespace });
    const place = poolPlace(known, namespace);
    return { place, pool: await this.#connection.pool(place) };
  }

  async #lookUp({ pool: name, namespace }: PoolName): Promise<OpenPool> {
    const id = await (await this.#connection.open()).poolId(name);
    if (id === undefined) {
      throw new DataUnavailable(`cluster ${this.#connection.id} has no pool ${name}`);
    }
    this.#ids.set(name, id);
    const place = poolPlace(id, namespace);
    return { place, pool: await this.#connection.pool(place) };
  }

  /** Writes to a pool by name. One that was deleted and made again is found again. */
  async write(
    storageClass: string | undefined,
    write: (pool: RadosPool) => Promise<void>,
  ): Promise<{ readonly place: string }> {
    try {
      const { place, pool } = await this.forClass(storageClass);
      await write(pool);
      return { place };
    } catch (error) {
      if (!isMissing(error)) throw error;
      this.#ids.clear();
      throw new DataUnavailable(`cluster ${this.#connection.id} has lost a pool`, { cause: error });
    }
  }
}

const poolText = ({ pool, namespace }: PoolName): string => `${pool}/${namespace}`;

// The health of a cluster: its own status, and the figures of each pool.

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
  const problems = Object.values(health.checks ?? {})
    .filter(({ muted }) => muted !== true)
    .map(({ summary }) => summary?.message ?? '');
  const ids = new Map(listed.map(({ poolnum, poolname }) => [poolname, poolnum]));
  const free = new Map(sized.map(({ id, stats }) => [id, stats?.max_avail]));
  const readHealth = async (name: PoolName): Promise<PoolHealth> => {
    const id = ids.get(name.pool);
    const bytesFree = id === undefined ? undefined : free.get(id);
    const health = await poolHealth(pools, name, id);
    return bytesFree === undefined || health.state === 'error' ? health : { ...health, bytesFree };
  };
  return {
    status: health.status ?? 'HEALTH_UNKNOWN',
    problems,
    pools: await Promise.all(pools.configured.map(readHealth)),
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

// The connection to one cluster: opened on demand, and again after it was lost.

/** A cluster that was not reached is not tried again sooner. */
const retryMs = 1000;

interface ConnectionParts {
  readonly driver: RadosDriver;
  readonly address: ClusterAddress;
  readonly clock: Pick<Clock, 'elapsed'>;
}

interface Open {
  readonly cluster: RadosCluster;
  /** By place: `<pool id>` or `<pool id>/<namespace>`. */
  readonly pools: Map<string, Promise<RadosPool>>;
}

/** Chunks are found by the id of their pool, because a pool's name may be given to another one. */
const poolPlace = (poolId: number, namespace: string): string =>
  namespace === '' ? String(poolId) : `${poolId}/${namespace}`;

const placeForm = /^(\d{1,9})(?:\/(.+))?$/;

export class Connection {
  readonly #parts: ConnectionParts;
  #opening: Promise<Open> | undefined;
  #failedAt = Number.NEGATIVE_INFINITY;
  #isClosed = false;

  constructor(parts: ConnectionParts) {
    this.#parts = parts;
  }

  get id(): string {
    return this.#parts.address.id;
  }

  /** Rejects with the driver's own error, for a start that reports it. */
  async open(): Promise<RadosCluster> {
    return (await this.#open()).cluster;
  }

  async pool(place: string): Promise<RadosPool> {
    const { cluster, pools } = await this.#open();
    const known = pools.get(place);
    if (known !== undefined) return known;
    const [, id, namespace = ''] = placeForm.exec(place) ?? [];
    if (id === undefined) throw new ChunkMissing(`${place} is no place on cluster ${this.id}`);
    const opening = cluster.pool(Number(id), namespace);
    pools.set(place, opening);
    // A failure may be temporary, so it is not cached.
    opening.catch(() => pools.delete(place));
    return opening;
  }

  async attempt<T>(run: () => Promise<T>): Promise<T> {
    try {
      return await run();
    } catch (error) {
      throw this.explained(error);
    }
  }

  /** Any failure, except that something exists or does not, means that the cluster is unavailable. */
  explained(error: unknown): unknown {
    if (!(error instanceof RadosFailure) || isMissing(error) || error.code === errno.exists) return error;
    if (error.code === errno.shutDown) this.#forget();
    return new DataUnavailable(`cluster ${this.id}: ${error.message}`, { cause: error });
  }

  #open(): Promise<Open> {
    if (this.#opening !== undefined) return this.#opening;
    const { clock, driver, address } = this.#parts;
    if (this.#isClosed) return Promise.reject(new DataUnavailable(`cluster ${this.id} is closed`));
    if (clock.elapsed() - this.#failedAt < retryMs) {
      return Promise.reject(new DataUnavailable(`cluster ${this.id} was not reached a moment ago`));
    }
    this.#opening = driver.connect(address).then((cluster) => ({ cluster, pools: new Map() }));
    this.#opening.catch(() => {
      this.#opening = undefined;
      this.#failedAt = clock.elapsed();
    });
    return this.#opening;
  }

  /** A client that was put on the blocklist stays there; a new one is not. */
  #forget(): void {
    const lost = this.#opening;
    this.#opening = undefined;
    void lost?.then(({ cluster }) => cluster.close()).catch(() => {});
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    const open = await this.#opening?.catch(() => undefined);
    this.#opening = undefined;
    await open?.cluster.close();
  }
}
