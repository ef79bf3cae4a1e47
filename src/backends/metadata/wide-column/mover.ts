/**
 * Moves the rows of a shard that splits, a batch of neighbouring texts at a time (docs/adr/0010). First a note, which each commit checks,
 * keeps writers off the batch. Then the new shard opens for the batch, its rows are copied there and removed here, the new shard closes,
 * and the note tells writers that the batch is there. Every step is safe to repeat, for any process, at any later time: a closed batch
 * never opens again.
 */

import { hashToShard } from '../../../base/shard.ts';
import type { Clock } from '../../../ports/clock.ts';
import {
  type AnyTable,
  type At,
  commitLimits,
  type SplitStep,
  StoreUnavailable,
} from '../../../ports/metadata-store.ts';
import { beyond, buildOrder, type Columns, passed, type Span } from '../key-order.ts';
import {
  isUpTo,
  leaves,
  locateText,
  type MovingRow,
  type Note,
  type Place,
  type Progress,
  partitionText,
  type Shards,
} from './layouts.ts';

/** How many rows of a shard are read for one batch: about half of them move. */
const defaultBatchRows = 128;
/** A commit of a store is larger than the rows that it puts. */
const commitRows = commitLimits.changes - 8;
const commitBytes = commitLimits.bytes / 2;
/** Rows move only after every cached copy of the former layout has expired, with a lease to spare. */
const settlingLeases = 2;
const rememberedMax = 1_000;

interface MoverPorts<Row extends MovingRow> {
  readonly shards: Shards<Row>;
  readonly clock: Clock;
  readonly leaseMs: number;
  readonly batchRows?: number;
}

/** A split of one shard into another. */
interface Split {
  readonly from: Place;
  readonly into: Place;
  readonly to: number;
}

const faster: SplitStep = { is: 'moving', rows: 0 };

export class Mover<Row extends MovingRow> {
  readonly #ports: MoverPorts<Row>;
  /** When this process first saw a split announced, by `elapsed`. */
  readonly #seen = new Map<string, { readonly to: number; readonly at: number }>();

  constructor(ports: MoverPorts<Row>) {
    this.#ports = ports;
  }

  async step(at: At<AnyTable>, shard: number): Promise<SplitStep> {
    const { ways = 1, splittingTo: to } = at;
    if (to !== ways * 2 || shard >= ways)
      throw new Error(`shard ${shard} of ${ways} cannot split into ${to}`);
    const ms = await this.#announced(at, to);
    if (ms > 0) return { is: 'waiting', ms };
    const split: Split = { from: { at, shard }, into: { at, shard: shard + ways }, to };
    const note = await this.#ports.shards.note(split.from, 'progress');
    if (note !== undefined && (note.value.to > to || (note.value.to === to && note.value.isDone)))
      return { is: 'done', rows: 0 };
    const frozen = note?.value.moving === undefined ? await this.#freeze(split, note) : note;
    return frozen === undefined ? faster : this.#move(split, frozen);
  }

  /** Finishes an open batch, if there is one, so that a waiting writer does not depend on the mover. */
  async finish(at: At<AnyTable>, shard: number): Promise<void> {
    const { ways = 1, splittingTo: to = ways } = at;
    const from = { at, shard };
    const note = await this.#ports.shards.note(from, 'progress');
    if (note?.value.to !== to || note.value.moving === undefined) return;
    await this.#move({ from, into: { at, shard: shard + ways }, to }, note);
  }

  /**
   * Announces the split to readers.
   * @returns how long they may still use the former layout, by a monotonic clock; a new
   * mover waits again
   */
  async #announced(at: At<AnyTable>, to: number): Promise<number> {
    const { shards, clock, leaseMs } = this.#ports;
    const partition = partitionText(at);
    let seen = this.#seen.get(partition);
    if (seen?.to !== to) {
      const place = { at, shard: 0 };
      const note = await shards.note(place, 'layout');
      if (note === undefined || note.value.to < to) {
        const change = { value: { to }, expect: note?.revision };
        // Another mover was first: the next step sees that.
        if ((await shards.setNote(place, 'layout', change)) === undefined) return leaseMs;
      }
      seen = { to, at: clock.elapsed() };
      this.#seen.delete(partition);
      this.#seen.set(partition, seen);
      const [oldest] = this.#seen.size > rememberedMax ? this.#seen.keys() : [];
      if (oldest !== undefined) this.#seen.delete(oldest);
    }
    return seen.at + settlingLeases * leaseMs - clock.elapsed();
  }

  /** From its return no writer changes the rows of the next batch. */
  async #freeze(split: Split, note: Note<Progress> | undefined): Promise<Note<Progress> | undefined> {
    const { from, to } = split;
    const moved = note?.value.to === to ? note.value.moved : undefined;
    const moving = await this.#endOfBatch(from, moved);
    const value = { to, batch: (note?.value.batch ?? 0) + 1, moving, isDone: false };
    return this.#ports.shards.setNote(from, 'progress', {
      value: moved === undefined ? value : { ...value, moved },
      expect: note?.revision,
    });
  }

  /** The last text of the batch: the end of the next rows in order. */
  async #endOfBatch(from: Place, moved: string | undefined): Promise<string | null> {
    const { spreadBy } = from.at.table;
    const { shards, batchRows = defaultBatchRows } = this.#ports;
    let end: string | null = null;
    for await (const lead of this.#leads(from)) {
      const span = spanBehind(from.at, lead, { moved, moving: null });
      const rows = await shards.rows(from, span, batchRows);
      const last = rows.length < batchRows ? undefined : (rows.at(-1)?.key[spreadBy] as string);
      if (last !== undefined && (end === null || isUpTo(last, end))) end = last;
    }
    return end;
  }

  /** The values of the sort columns before the spread one: under each of them texts ascend. */
  async *#leads({ at, shard }: Place): AsyncGenerator<Columns> {
    const order = buildOrder(at.table);
    const whole = order.partitionKey(at.in);
    let span: Span = { low: whole, high: beyond(whole), reverse: false };
    for (;;) {
      const [first] = await this.#ports.shards.rows({ at, shard }, span, 1);
      if (first === undefined) return;
      const lead: Record<string, unknown> = {};
      for (const column of order.sortColumns) {
        if (column === at.table.spreadBy) break;
        lead[column] = first.key[column];
      }
      yield lead;
      span = { ...span, low: beyond(order.prefix(at.in, lead)) };
    }
  }

  async #move(split: Split, frozen: Note<Progress>): Promise<SplitStep> {
    const { shards } = this.#ports;
    const { moving, batch } = frozen.value;
    let moved = 0;
    for await (const lead of this.#leads(split.from))
      for await (const rows of this.#leaving(split, lead, frozen.value)) {
        if (!(await this.#open(split.into, batch))) return faster;
        const arrivals = await shards.note(split.into, 'arrivals');
        if (arrivals?.value.batch !== batch || !arrivals.value.isOpen) return faster;
        if (!(await shards.take(split.into, rows, arrivals.revision))) return faster;
        await shards.drop(split.from, rows);
        moved += rows.length;
      }
    if (!(await this.#close(split.into, batch))) return faster;
    const isDone = moving === null;
    const value = { to: split.to, batch, isDone, ...(typeof moving === 'string' ? { moved: moving } : {}) };
    await shards.setNote(split.from, 'progress', { value, expect: frozen.revision });
    return { is: isDone ? 'done' : 'moving', rows: moved };
  }

  /** The rows of a batch, as many as one commit takes. */
  async *#leaving(split: Split, lead: Columns, batch: Progress): AsyncGenerator<readonly Row[]> {
    const { at } = split.from;
    const order = buildOrder(at.table);
    let span = spanBehind(at, lead, batch);
    for (;;) {
      const found = await this.#ports.shards.rows(split.from, span, defaultBatchRows);
      const last = found.at(-1);
      if (last === undefined) return;
      const text = (row: Row): string => row.key[at.table.spreadBy] as string;
      yield* inCommits(found.filter((row) => leaves(text(row), split.to / 2)));
      span = passed(span, order.rowKey(at.in, last.key));
    }
  }

  /** @returns false where the batch is over */
  async #open(into: Place, batch: number): Promise<boolean> {
    const { shards } = this.#ports;
    const note = await shards.note(into, 'arrivals');
    if (note?.value.batch === batch) return note.value.isOpen;
    if (note !== undefined && note.value.batch > batch) return false;
    const change = { value: { batch, isOpen: true }, expect: note?.revision };
    return (await shards.setNote(into, 'arrivals', change)) !== undefined;
  }

  /** @returns false where another mover is further */
  async #close(into: Place, batch: number): Promise<boolean> {
    const { shards } = this.#ports;
    const note = await shards.note(into, 'arrivals');
    if (note === undefined || note.value.batch < batch) return true;
    if (note.value.batch > batch) return false;
    if (!note.value.isOpen) return true;
    const change = { value: { batch, isOpen: false }, expect: note.revision };
    return (await shards.setNote(into, 'arrivals', change)) !== undefined;
  }
}

/** The rows after those that have moved, up to the end of the moving batch. */
function spanBehind(
  { in: partition, table }: At<AnyTable>,
  lead: Columns,
  { moved, moving }: { readonly moved?: string | undefined; readonly moving?: string | null },
): Span {
  const order = buildOrder(table);
  const of = (text: string): Uint8Array =>
    beyond(order.prefix(partition, { ...lead, [table.spreadBy]: text }));
  const all = order.prefix(partition, lead);
  return {
    low: moved === undefined ? all : of(moved),
    high: typeof moving === 'string' ? of(moving) : beyond(all),
    reverse: false,
  };
}

function* inCommits<Row extends MovingRow>(rows: readonly Row[]): Generator<readonly Row[]> {
  let some: Row[] = [];
  let bytes = 0;
  for (const row of rows) {
    if (some.length > 0 && (some.length === commitRows || bytes + row.bytes > commitBytes)) {
      yield some;
      [some, bytes] = [[], 0];
    }
    some.push(row);
    bytes += row.bytes;
  }
  if (some.length > 0) yield some;
}

// The shard of a commit about a text while its shard splits, and the condition that keeps a mover from interfering.

const lookMs = 20;
/** A batch takes some tenths of a second. If it takes longer, the mover's lease has expired, and a waiting writer resumes the batch. */
const patientLooks = 25;
const looksMax = 500;

export interface Placed {
  readonly shard: number;
  /** The note of progress as the commit must find it; `revision` undefined: none. */
  readonly guard?: { readonly revision: string | undefined };
}

interface PlacingPorts<Row extends MovingRow> {
  readonly shards: Pick<Shards<Row>, 'note'>;
  readonly mover: Pick<Mover<Row>, 'finish'>;
  readonly clock: Clock;
}

/** Waits while the text is on its way. */
export async function placed<Row extends MovingRow>(
  { shards, mover, clock }: PlacingPorts<Row>,
  at: At<AnyTable>,
  text: string,
): Promise<Placed> {
  const { ways = 1, splittingTo = ways } = at;
  const shard = hashToShard(text, ways);
  if (splittingTo === ways || !leaves(text, ways)) return { shard };
  for (let look = 1; look <= looksMax; look += 1) {
    const note = await shards.note({ at, shard }, 'progress');
    const stand = locateText(text, note?.value.to === splittingTo ? note.value : undefined);
    if (stand === 'new') return { shard: shard + ways };
    if (stand === 'old') return { shard, guard: { revision: note?.revision } };
    if (look % patientLooks === 0) await mover.finish(at, shard);
    else await clock.sleep(lookMs);
  }
  throw new StoreUnavailable(`a shard of ${at.table.name} that splits does not let go of a row`);
}
