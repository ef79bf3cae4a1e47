/** Which store serves a key: a cache of PD's regions, dropped piece by piece when a store says that it moved. */

import type { Tls } from './channel.ts';
import { encodeKey } from './encoded-key.ts';
import { Unreachable } from './errors.ts';
import { fromWide, type RegionContext, type WirePeer, type WireRegion } from './messages.ts';
import type { PlacementDriver } from './placement-driver.ts';
import { StoreConnection } from './store-connection.ts';

export interface Region {
  readonly context: RegionContext;
  /** Encoded; '' sorts before everything. */
  readonly start: Buffer;
  /** Encoded, exclusive; empty means without end. */
  readonly end: Buffer;
  readonly peers: readonly WirePeer[];
}

const regionsMax = 100_000;

export class Regions {
  readonly #pd: PlacementDriver;
  readonly #tls: Tls | undefined;
  /** In order of their starts, never overlapping. */
  #known: Region[] = [];
  readonly #stores = new Map<bigint, Promise<StoreConnection>>();

  constructor(pd: PlacementDriver, tls: Tls | undefined) {
    this.#pd = pd;
    this.#tls = tls;
  }

  /** The region that a key lies in; with 'before', the one that the keys ahead of it lie in. */
  async locate(key: Uint8Array, side: 'at' | 'before' = 'at'): Promise<Region> {
    const encoded = encodeKey(key);
    const known = this.#find(encoded, side);
    if (known !== undefined) return known;
    let found = await this.#pd.region(encoded, 'at');
    if (
      found !== undefined &&
      side === 'before' &&
      encoded.compare(found.region?.start_key ?? Buffer.alloc(0)) === 0
    )
      found = await this.#pd.region(encoded, 'before');
    if (!found?.region || !found.leader) throw new Unreachable('PD knows no region with a leader for a key');
    return this.#remember(found.region, found.leader);
  }

  async storeOf({ context }: Region): Promise<StoreConnection> {
    const id = fromWide(context.peer.store_id);
    let store = this.#stores.get(id);
    if (store === undefined) {
      store = this.#connect(context.peer);
      this.#stores.set(id, store);
      store.catch(() => this.#stores.delete(id));
    }
    return store;
  }

  /** The region is not as it was: whoever asks next looks it up. */
  forget(region: Region): void {
    this.#known = this.#known.filter((each) => each !== region);
  }

  /** Another peer of the region leads. */
  lead(region: Region, peer: WirePeer): void {
    const at = this.#known.indexOf(region);
    if (at >= 0) this.#known[at] = { ...region, context: { ...region.context, peer } };
  }

  async close(): Promise<void> {
    for (const store of this.#stores.values())
      await store.then((connection) => connection.close()).catch(() => undefined);
  }

  async #connect(peer: WirePeer): Promise<StoreConnection> {
    const address = await this.#pd.storeAddress(peer.store_id);
    if (address === undefined)
      throw new Unreachable(`PD knows no address of store ${fromWide(peer.store_id)}`);
    return new StoreConnection(address, this.#tls);
  }

  #find(encoded: Buffer, side: 'at' | 'before'): Region | undefined {
    let low = 0;
    let high = this.#known.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      const order = (this.#known[middle] as Region).start.compare(encoded);
      if (order < 0 || (order === 0 && side === 'at')) low = middle + 1;
      else high = middle;
    }
    const region = this.#known[low - 1];
    if (region === undefined) return undefined;
    const order = region.end.length === 0 ? -1 : encoded.compare(region.end);
    return order < 0 || (order === 0 && side === 'before') ? region : undefined;
  }

  #remember(found: WireRegion, leader: WirePeer): Region {
    const region: Region = {
      context: { region_id: found.id, region_epoch: found.region_epoch, peer: leader },
      start: Buffer.from(found.start_key ?? []),
      end: Buffer.from(found.end_key ?? []),
      peers: found.peers,
    };
    const isApart = (each: Region): boolean =>
      (each.end.length > 0 && each.end.compare(region.start) <= 0) ||
      (region.end.length > 0 && region.end.compare(each.start) <= 0);
    const others = this.#known.length < regionsMax ? this.#known.filter(isApart) : [];
    const at = others.findIndex((each) => each.start.compare(region.start) > 0);
    others.splice(at < 0 ? others.length : at, 0, region);
    this.#known = others;
    return region;
  }
}
