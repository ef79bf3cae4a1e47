/**
 * The layouts of partitions, as this process caches them (docs/adr/0010). No row moves before an announced split is older than two leases,
 * so a reader that read the layout within the last lease misses no row.
 */
import type { Clock } from '../../../ports/clock.ts';
import { type AnyTable, type At, StoreUnavailable } from '../../../ports/metadata-store.ts';
import { buildOrder } from '../rows/order.ts';
import type { Note } from './shards.ts';
import { type Layout, listPlaces } from './state.ts';

/** Longer than most requests live, so that the layout of a busy bucket is rarely read. */
export const defaultLeaseMs = 5_000;
const rememberedMax = 10_000;
const triesMax = 3;

export interface Believed {
  /** The number of shards that may have rows; 0 where the partition was never split. */
  readonly to: number;
  /** By `elapsed` of the clock. */
  readonly until: number;
}

export interface LayoutPorts {
  readonly clock: Clock;
  readonly leaseMs: number;
  read(at: At<AnyTable>): Promise<Note<Layout> | undefined>;
}

export const partitionText = ({ table, in: partition }: At<AnyTable>): string =>
  String.fromCharCode(...buildOrder(table).partitionKey(partition));

export class Layouts {
  readonly #ports: LayoutPorts;
  readonly #believed = new Map<string, Believed>();

  constructor(ports: LayoutPorts) {
    this.#ports = ports;
  }

  async of(at: At<AnyTable>): Promise<Believed> {
    const { clock, leaseMs, read } = this.#ports;
    const key = partitionText(at);
    const known = this.#believed.get(key);
    if (known !== undefined && this.isGood(known)) return known;
    const until = clock.elapsed() + leaseMs;
    const note = await read(at);
    const believed = { to: note?.value.to ?? 0, until };
    this.#believed.delete(key);
    this.#believed.set(key, believed);
    const [oldest] = this.#believed.size > rememberedMax ? this.#believed.keys() : [];
    if (oldest !== undefined) this.#believed.delete(oldest);
    return believed;
  }

  isGood({ until }: Believed): boolean {
    return this.#ports.clock.elapsed() < until;
  }

  /** Reads under a layout, and again should the lease have run out meanwhile. */
  async under<Result>(at: At<AnyTable>, read: (to: number) => Promise<Result>): Promise<Result> {
    for (let tries = 0; tries < triesMax; tries += 1) {
      const believed = await this.of(at);
      const result = await read(believed.to);
      if (this.isGood(believed)) return result;
    }
    throw new StoreUnavailable(`reading ${at.table.name} takes longer than its layout may be believed`);
  }
}

/**
 * Follows a row that is not in the expected shard, because it may have moved on: shards are searched in the order in which rows move, so a
 * row cannot be missed.
 */
export function followed<Row>(
  layouts: Layouts,
  { at, text }: { readonly at: At<AnyTable>; readonly text: string },
  read: (shard: number) => Promise<Row | undefined>,
): Promise<Row | undefined> {
  const ways = at.ways ?? 1;
  // The first one was just searched.
  let skipped = 1;
  return layouts.under(at, async (to) => {
    const places = listPlaces(text, { ways, to }).slice(skipped);
    skipped = 0;
    for (const shard of places) {
      const row = await read(shard);
      if (row !== undefined) return row;
    }
    return undefined;
  });
}
