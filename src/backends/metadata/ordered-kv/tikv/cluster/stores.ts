/** A connection to each store, made when it is first needed. */
import type { Backoff } from '../backoff.ts';
import { Unreachable } from '../errors.ts';
import type { Tls } from './channel.ts';
import { fromWide, type WirePeer } from './messages.ts';
import type { PlacementDriver } from './placement-driver.ts';
import { StoreConnection } from './store-connection.ts';

export class Stores {
  readonly #pd: PlacementDriver;
  readonly #tls: Tls | undefined;
  readonly #known = new Map<bigint, Promise<StoreConnection>>();
  readonly #doubted = new Set<bigint>();

  constructor(pd: PlacementDriver, tls: Tls | undefined) {
    this.#pd = pd;
    this.#tls = tls;
  }

  /** @throws Unreachable when PD does not tell in time where the store is */
  of(peer: WirePeer, backoff: Backoff): Promise<StoreConnection> {
    const id = fromWide(peer.store_id);
    let store = this.#known.get(id);
    if (store === undefined) {
      store = this.#connect(peer, backoff);
      this.#known.set(id, store);
      store.catch(() => this.#known.delete(id));
    }
    return store;
  }

  /** A store did not answer: if it has moved to another address, PD knows that. */
  async doubt(peer: WirePeer, backoff: Backoff): Promise<void> {
    const id = fromWide(peer.store_id);
    const known = this.#known.get(id);
    if (known === undefined || this.#doubted.has(id)) return;
    this.#doubted.add(id);
    try {
      const address = await this.#pd.storeAddress(peer.store_id, backoff);
      const former = await known;
      if (address === undefined || address === former.address || this.#known.get(id) !== known) return;
      this.#known.set(id, Promise.resolve(new StoreConnection(address, this.#tls)));
      former.close();
    } finally {
      this.#doubted.delete(id);
    }
  }

  async close(): Promise<void> {
    for (const store of this.#known.values())
      await store.then((connection) => connection.close()).catch(() => undefined);
  }

  async #connect(peer: WirePeer, backoff: Backoff): Promise<StoreConnection> {
    const address = await this.#pd.storeAddress(peer.store_id, backoff);
    if (address === undefined)
      throw new Unreachable(`PD knows no address of store ${fromWide(peer.store_id)}`);
    return new StoreConnection(address, this.#tls);
  }
}
