/** The connection to one cluster: opened on demand, and again after it was lost. */
import type { Clock } from '../../../ports/clock.ts';
import { ChunkMissing, DataUnavailable } from '../../../ports/object-bytes.ts';
import {
  type ClusterAddress,
  errno,
  isMissing,
  type RadosCluster,
  type RadosDriver,
  RadosFailure,
  type RadosPool,
} from './driver.ts';

/** A cluster that was not reached is not tried again sooner. */
const retryMs = 1000;

export interface ConnectionParts {
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
export const poolPlace = (poolId: number, namespace: string): string =>
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
