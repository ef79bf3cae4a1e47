/** The pool for the chunks of a class, and the pools of chunks that were written before. */
import { DataUnavailable } from '../../../ports/storage/object-bytes.ts';
import { type Connection, poolPlace } from './connection.ts';
import { isMissing, type RadosPool } from './librados/driver.ts';

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
