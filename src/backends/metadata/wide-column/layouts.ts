/**
 * The layouts of partitions, as this process caches them (docs/adr/0010). No row moves before an announced split is older than two leases,
 * so a reader that read the layout within the last lease misses no row.
 */

import { hashToShard } from '../../../base/shard.ts';
import type { Clock } from '../../../ports/clock.ts';
import { type AnyTable, type At, StoreUnavailable } from '../../../ports/metadata-store.ts';
import { buildOrder, type Columns, compareBytes, type Span } from '../key-order.ts';

/** Longer than most requests live, so that the layout of a busy bucket is rarely read. */
export const defaultLeaseMs = 5_000;
const rememberedMax = 10_000;
const triesMax = 3;

interface CachedLayout {
  /** The number of shards that may have rows; 0 where the partition was never split. */
  readonly to: number;
  /** By `elapsed` of the clock. */
  readonly until: number;
}

interface LayoutPorts {
  readonly clock: Clock;
  readonly leaseMs: number;
  read(at: At<AnyTable>): Promise<Note<Layout> | undefined>;
}

export const partitionText = ({ table, in: partition }: At<AnyTable>): string =>
  String.fromCharCode(...buildOrder(table).partitionKey(partition));

export class Layouts {
  readonly #ports: LayoutPorts;
  readonly #cached = new Map<string, CachedLayout>();

  constructor(ports: LayoutPorts) {
    this.#ports = ports;
  }

  async of(at: At<AnyTable>): Promise<CachedLayout> {
    const { clock, leaseMs, read } = this.#ports;
    const key = partitionText(at);
    const known = this.#cached.get(key);
    if (known !== undefined && this.isGood(known)) return known;
    const until = clock.elapsed() + leaseMs;
    const note = await read(at);
    const cached = { to: note?.value.to ?? 0, until };
    this.#cached.delete(key);
    this.#cached.set(key, cached);
    const [oldest] = this.#cached.size > rememberedMax ? this.#cached.keys() : [];
    if (oldest !== undefined) this.#cached.delete(oldest);
    return cached;
  }

  isGood({ until }: CachedLayout): boolean {
    return this.#ports.clock.elapsed() < until;
  }

  /** Reads under a layout, and again should the lease have run out meanwhile. */
  async under<Result>(at: At<AnyTable>, read: (to: number) => Promise<Result>): Promise<Result> {
    for (let tries = 0; tries < triesMax; tries += 1) {
      const cached = await this.of(at);
      const result = await read(cached.to);
      if (this.isGood(cached)) return result;
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

// The port of a sharded store for splitting, one shard at a time. Each call is atomic and idempotent.

/** The notes of a shard beside its rows; no scan returns them. */
export interface NoteValues {
  readonly layout: Layout;
  readonly progress: Progress;
  readonly arrivals: Arrivals;
}
export type NoteName = keyof NoteValues;

export interface Note<Value> {
  readonly value: Value;
  readonly revision: string;
}

export interface Place {
  readonly at: At<AnyTable>;
  readonly shard: number;
}

/** A row on its way, as the store keeps it. */
export interface MovingRow {
  /** Its sort columns. */
  readonly key: Columns;
  readonly bytes: number;
}

export interface Shards<Row extends MovingRow> {
  note<N extends NoteName>(place: Place, name: N): Promise<Note<NoteValues[N]> | undefined>;
  /** Undefined where the note was not as expected. */
  setNote<N extends NoteName>(
    place: Place,
    name: N,
    change: { readonly value: NoteValues[N]; readonly expect: string | undefined },
  ): Promise<Note<NoteValues[N]> | undefined>;
  rows(place: Place, span: Span, count: number): Promise<readonly Row[]>;
  /**
   * Puts the rows that do not exist yet, in one commit.
   * @returns false where the note of arrivals has changed: then none was put
   */
  take(place: Place, rows: readonly Row[], arrivals: string): Promise<boolean>;
  /** Removes the rows at the revisions that were read; rows that are gone or have changed are not touched. */
  drop(place: Place, rows: readonly Row[]): Promise<void>;
}

// The rules of a split (docs/adr/0010), pure: where readers may find a row, and where writers put it.

/** The layout of a partition, stored in its first shard. */
interface Layout {
  /** Rows are in one of this many shards, or in the half of them that existed before. */
  readonly to: number;
}

/**
 * The progress of a shard: of the texts that leave it, those up to `moved` have left, and those after it up to `moving` are leaving now, in
 * this batch; `null` stands for all that remain.
 */
export interface Progress {
  readonly to: number;
  readonly batch: number;
  readonly moved?: string;
  readonly moving?: string | null;
  readonly isDone: boolean;
}

/** The batch whose rows a new shard accepts. An older batch never opens again. */
interface Arrivals {
  readonly batch: number;
  readonly isOpen: boolean;
}

const encoder = new TextEncoder();

/** In the order of rows: by UTF-8 bytes. */
export const isUpTo = (text: string, last: string): boolean =>
  text === last || compareBytes(encoder.encode(text), encoder.encode(last)) <= 0;

/** Whether a row leaves its shard when `ways` doubles. */
export const leaves = (text: string, ways: number): boolean =>
  hashToShard(text, ways) !== hashToShard(text, ways * 2);

/** Where a leaving text is written: in its old shard, in its new one, or nowhere for a moment. */
export function locateText(text: string, progress: Progress | undefined): 'old' | 'leaving' | 'new' {
  if (progress === undefined) return 'old';
  const { moved, moving, isDone } = progress;
  if (isDone || (moved !== undefined && isUpTo(text, moved))) return 'new';
  if (moving !== undefined && (moving === null || isUpTo(text, moving))) return 'leaving';
  return 'old';
}

/** The shards that may have a row, in the order in which it moves; each doubling moves it once or not at all. */
export function listPlaces(
  text: string,
  { ways, to }: { readonly ways: number; readonly to: number },
): number[] {
  const places = new Set<number>();
  for (let count = ways; count <= Math.max(ways, to); count *= 2) places.add(hashToShard(text, count));
  return [...places];
}
