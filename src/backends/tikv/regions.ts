/** Which store serves a key: a cache of regions, from PD and the stores. */
import type { Backoff } from './backoff.ts';
import { encodeKey, fromWide, type RegionContext, type WirePeer, type WireRegion } from './messages.ts';
import type { PlacementDriver } from './placement-driver.ts';

export interface Region {
  readonly context: RegionContext;
  readonly id: bigint;
  readonly version: bigint;
  /** Encoded; '' sorts before everything. */
  readonly start: Buffer;
  /** Encoded, exclusive; empty means without end. */
  readonly end: Buffer;
}

export type Side = 'at' | 'before';

const regionsMax = 100_000;

export class Regions {
  readonly #pd: PlacementDriver;
  /** In order of their starts, never overlapping. */
  #known: Region[] = [];

  constructor(pd: PlacementDriver) {
    this.#pd = pd;
  }

  /**
   * The region of a key; with 'before', the region of the keys directly before it.
   * @throws Unreachable when PD does not answer in time
   */
  async locate(key: Uint8Array, backoff: Backoff, side: Side = 'at'): Promise<Region> {
    const encoded = encodeKey(key);
    for (;;) {
      const known = this.#find(encoded, side);
      if (known !== undefined) return known;
      let found = await this.#pd.region(encoded, 'at', backoff);
      // A key that was not sent is an empty array; ahead of the first region there is none.
      const start = found?.region?.start_key;
      if (side === 'before' && start?.length && encoded.equals(start))
        found = await this.#pd.region(encoded, 'before', backoff);
      const leader = found?.leader ?? found?.region?.peers[0];
      const region = found?.region && leader ? toRegion(found.region, leader) : undefined;
      // Regions may split and merge between the two questions; a region further ahead would hide the keys between.
      if (region !== undefined && covers(region, encoded, side)) {
        this.#remember(region);
        return region;
      }
      await backoff.wait('PD knows no region for a key');
    }
  }

  /** The region has changed: the next `locate` asks PD. */
  forget(region: Region): void {
    const at = this.#known.indexOf(region);
    if (at >= 0) this.#known.splice(at, 1);
  }

  /** Another peer of the region leads. */
  lead(region: Region, peer: WirePeer): void {
    const at = this.#known.indexOf(region);
    if (at >= 0) this.#known[at] = { ...region, context: { ...region.context, peer } };
  }

  /** Uses the regions that the former region's store reports in its place; the store most likely still leads them. */
  replace(former: Region, current: readonly WireRegion[]): void {
    this.forget(former);
    const store = fromWide(former.context.peer.store_id);
    for (const region of current) {
      const leader = region.peers.find(({ store_id }) => fromWide(store_id) === store) ?? region.peers[0];
      if (leader !== undefined) this.#remember(toRegion(region, leader));
    }
  }

  /** The last region that begins at or ahead of a key, or ahead of it only. */
  #indexOf(encoded: Buffer, side: Side): number {
    let low = 0;
    let high = this.#known.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      const order = (this.#known[middle] as Region).start.compare(encoded);
      if (order < 0 || (order === 0 && side === 'at')) low = middle + 1;
      else high = middle;
    }
    return low - 1;
  }

  #find(encoded: Buffer, side: Side): Region | undefined {
    const region = this.#known[this.#indexOf(encoded, side)];
    return region !== undefined && covers(region, encoded, side) ? region : undefined;
  }

  /** Replaces every cached region that it overlaps, unless the cached one is newer. */
  #remember(region: Region): void {
    if (this.#known.length >= regionsMax) this.#known = [];
    const before = this.#indexOf(region.start, 'before');
    const former = this.#known[before];
    const from = former === undefined || isBehind(region.start, former.end) ? before + 1 : before;
    let to = from;
    for (; to < this.#known.length; to += 1) {
      const other = this.#known[to] as Region;
      if (isBehind(other.start, region.end)) break;
      if (other.version > region.version) return;
    }
    this.#known.splice(from, to - from, region);
  }
}

/** Whether a region contains a key; with 'before', the keys directly before it. */
function covers({ start, end }: Region, encoded: Buffer, side: Side): boolean {
  const fromStart = start.compare(encoded);
  const toEnd = end.length === 0 ? -1 : encoded.compare(end);
  return side === 'at' ? fromStart <= 0 && toEnd < 0 : (fromStart < 0 || start.length === 0) && toEnd <= 0;
}

/** Whether a start is at or after an end; the empty end is after everything. */
const isBehind = (start: Buffer, end: Buffer): boolean => end.length > 0 && start.compare(end) >= 0;

const toRegion = (found: WireRegion, leader: WirePeer): Region => ({
  context: { region_id: found.id, region_epoch: found.region_epoch, peer: leader },
  id: fromWide(found.id),
  version: fromWide(found.region_epoch.version),
  start: Buffer.from(found.start_key ?? []),
  end: Buffer.from(found.end_key ?? []),
});
