/**
 * Counter rows: each addition is stored under the attempt that made it, so that repeating it changes nothing. A base is the sum of those
 * that were folded, and records which they are. The base has the empty name.
 */

import { createHash } from 'node:crypto';
import { attemptEach } from '../../../base/concurrency.ts';
import type { AnyTable, At } from '../../../ports/metadata-store.ts';
import { parseEpoch } from '../epochs.ts';
import type { Folded, Intents, Unsettled } from './intents.ts';
import { type RawRow, type Rows, valueIn } from './rows.ts';
import { type Session, type Statement, UnknownOutcome } from './session.ts';
import type { TableIn, Tables } from './statements.ts';

const nothingFolded: Folded = { below: '', except: [] };

const isFolded = ({ below, except }: Folded, name: string): boolean =>
  name < below && !except.includes(parseEpoch(name));

/** The rows of one key. */
interface Counter {
  readonly key: Buffer;
  /** Absent until something was folded. */
  readonly base: RawRow | undefined;
  readonly folded: Folded;
  /** In order, also those that are folded and not yet cleared. */
  readonly additions: readonly RawRow[];
}

const counterName = (row: RawRow): string => String(row['row_op']);

/** By key, in the order of the keys. */
export function countersIn(rows: readonly RawRow[]): Counter[] {
  const byKey = Map.groupBy(rows, (row) => (row['row_k'] as Buffer).toString('latin1'));
  return [...byKey.values()].map((group) => {
    const base = group.find((row) => counterName(row) === '');
    const text = base?.['row_folded'];
    return {
      key: group[0]?.['row_k'] as Buffer,
      base,
      folded: typeof text === 'string' ? (JSON.parse(text) as Folded) : nothingFolded,
      additions: group.filter((row) => row !== base),
    };
  });
}

/** The sums of rows that share a key. */
export const sumByName = (codec: Rows, rows: readonly RawRow[]): RawRow[] =>
  countersIn(rows).map(({ base, folded, additions }) => {
    const rest = additions.filter((row) => !isFolded(folded, counterName(row)));
    return {
      ...sumRows(codec, base === undefined ? rest : [base, ...rest]),
      row_rev: formatRevision(base, rest),
    };
  });

/** Identifies the additions in a sum, because different additions may have the same sum. */
function formatRevision(base: RawRow | undefined, additions: readonly RawRow[]): string {
  const digest = createHash('sha256').update(String(base?.['row_folded'] ?? ''));
  for (const row of additions) digest.update(`\n${counterName(row)}`);
  return digest.digest('base64url');
}

/** The columns of a row that is the sum of some, or their maximum where the table says so; there is at least one. */
function sumRows(codec: Rows, rows: readonly RawRow[]): RawRow {
  const sum: Record<string, unknown> = { ...rows[0] };
  for (const column of codec.columns.values) {
    if (column.type !== 'int' || codec.order.sortColumns.includes(column.name)) continue;
    const amounts = rows.map((row) => (valueIn(row, column) as bigint | null) ?? 0n);
    const merge = codec.table.maxima?.includes(column.name) ? larger : plus;
    sum[column.cqlName.slice(1, -1)] = amounts.reduce(merge, 0n);
  }
  return sum;
}

const plus = (a: bigint, b: bigint): bigint => a + b;
const larger = (a: bigint, b: bigint): bigint => (a > b ? a : b);

// Folds additions into the base of their counter, so that a read stays short (docs/adr/0008). A process that adds much to a partition, or
// reads much in it, folds it.
//
// An addition may be repeated as long as its attempt is not settled, and a fold must neither miss nor double it. So only additions of
// finished epochs are folded. One conditional write records in the base what it contains now; from then on readers ignore these additions,
// even if another process adds them again. They are removed by a later fold only, so that a read with the former base does not miss them.
// A fold that dies at any point leaves the sum unchanged.

/** Additions of one partition before it is folded: what a read takes along with a slice. */
const additionsMax = 256;
/** Partitions that are remembered, and those that one round folds. */
const partitionsMax = 10_000;
const perRound = 64;
/** Partitions that are folded at a time. */
const parallel = 4;
const perBatch = 64;

export interface FoldPorts {
  readonly session: Pick<Session, 'readAll' | 'decide' | 'write' | 'clock'>;
  readonly tables: Tables;
  readonly intents: Pick<Intents, 'done'>;
  /** The number of additions that triggers a fold. */
  readonly additionsMax?: number;
}

interface Partition {
  readonly table: TableIn;
  readonly place: readonly unknown[];
}

export class Folds {
  readonly #ports: FoldPorts;
  readonly #seen = new Map<string, Partition & { additions: number }>();
  #running: Promise<void> | undefined;

  constructor(ports: FoldPorts) {
    this.#ports = ports;
  }

  /** Records that this many additions were made to a partition, or found in it. */
  note(at: At<AnyTable>, { shard, additions }: { readonly shard: number; readonly additions: number }): void {
    if (additions === 0) return;
    const table = this.#ports.tables.of(at.table);
    const place = table.rows.place(at, shard);
    const name = `${at.table.name} ${place.join('\0')}`;
    const seen = this.#seen.get(name);
    if (seen !== undefined) seen.additions += additions;
    // A forgotten partition is recorded again with the next read or addition.
    else if (this.#seen.size < partitionsMax) this.#seen.set(name, { table, place, additions });
  }

  /** Folds what has grown; one at a time. */
  run(): Promise<void> {
    this.#running ??= this.#round().finally(() => {
      this.#running = undefined;
    });
    return this.#running;
  }

  async #round(): Promise<void> {
    const enough = this.#ports.additionsMax ?? additionsMax;
    const due = [...this.#seen].filter(([, { additions }]) => additions >= enough).slice(0, perRound);
    if (due.length === 0) return;
    const done = await this.#ports.intents.done();
    if (done === undefined) return;
    await attemptEach(parallel, due, async ([name, partition]) => {
      // A partition that fails goes behind the others, because it may fail for long.
      this.#seen.delete(name);
      this.#seen.set(name, partition);
      await this.#fold(partition, done);
      this.#seen.delete(name);
    });
  }

  async #fold({ table, place }: Partition, done: Folded): Promise<void> {
    const { session } = this.#ports;
    const counters = countersIn(await session.readAll(table.counter.all, [...place]));
    const stamp = await session.clock.stamp();
    for (const counter of counters)
      for (const statement of clearing({ table, place }, { counter, stamp }))
        await session.write([statement]);
    const changes = counters.flatMap((counter) => openFolding({ table, place }, { counter, done }));
    for (let first = 0; first < changes.length; first += perBatch)
      await session.decide(changes.slice(first, first + perBatch)).catch((cause: unknown) => {
        // Both outcomes are right, because the base itself records its additions.
        if (!(cause instanceof UnknownOutcome)) throw cause;
      });
  }
}

/** Removes what the base has held since an earlier fold: a range for each gap between the epochs that it does not hold. */
function clearing(
  { table, place }: Partition,
  { counter, stamp }: { readonly counter: Counter; readonly stamp: bigint },
): Statement[] {
  const { key, folded, additions } = counter;
  const names = additions.map(counterName).filter((name) => isFolded(folded, name));
  // Names of an epoch sort between `<epoch>.` and `<epoch>/`.
  const lows = ['', ...folded.except.map((epoch) => `${epoch}/`)];
  const highs = [...folded.except.map((epoch) => `${epoch}.`), folded.below];
  return lows.flatMap((low, i) => {
    const high = highs[i] ?? low;
    if (!names.some((name) => name > low && name < high)) return [];
    return [{ query: table.counter.clear, params: [stamp, ...place, key, low, high] }];
  });
}

/** The new base of a counter, if it has not changed since it was read; none where there is nothing to fold. */
function openFolding(
  { table, place }: Partition,
  { counter, done }: { readonly counter: Counter; readonly done: Folded },
): Statement[] {
  const { key, base, folded, additions } = counter;
  if (done.below <= folded.below) return [];
  const fresh = additions.filter(
    (row) => !isFolded(folded, counterName(row)) && isFolded(done, counterName(row)),
  );
  if (fresh.length === 0) return [];
  const sum = sumRows(table.rows, base === undefined ? fresh : [base, ...fresh]);
  const values = table.rows.columns.values.map((column) => valueIn(sum, column) ?? null);
  const before = base?.['row_folded'] ?? null;
  return [{ query: table.counter.foldIf, params: [...values, JSON.stringify(done), ...place, key, before] }];
}

// Whether a commit that has applied has yet to make an addition to a counter: its gateway died, or is slow, between the commit and its side
// changes. Every attempt is recorded in a lane of its epoch, with its side changes, before it can apply. So the attempts are read first and
// the additions afterwards: an attempt that has applied and whose addition is missing has yet to make it.

interface PendingPorts {
  readonly session: Pick<Session, 'readAll'>;
  readonly tables: Tables;
  readonly intents: Pick<Intents, 'unsettled'>;
}

export async function hasPendingAdditions(ports: PendingPorts, at: At<AnyTable>): Promise<boolean> {
  const table = ports.tables.of(at.table);
  const partitions = Array.from({ length: table.rows.ways(at) }, (_, shard) => ({
    table,
    place: table.rows.place(at, shard),
  }));
  const owing: { readonly partition: Partition; readonly name: string; readonly attempt: Unsettled }[] = [];
  for await (const attempt of ports.intents.unsettled())
    for (const partition of partitions)
      for (const name of namesIn(partition, attempt.side)) owing.push({ partition, name, attempt });
  for (const partition of partitions) {
    const mine = owing.filter((each) => each.partition === partition);
    if (mine.length === 0) continue;
    const isMade = await madeIn(ports, partition);
    for (const { name, attempt } of mine) if (!isMade(name) && (await attempt.hasApplied())) return true;
  }
  return false;
}

/** Whether a commit that has applied has yet to put a row into a plain table: its attempt is recorded, and the row is missing. */
export async function hasPendingPuts(ports: PendingPorts, table: AnyTable): Promise<boolean> {
  const { put, get } = ports.tables.of(table).statements;
  const keyParams = get.split('?').length - 1;
  for await (const attempt of ports.intents.unsettled()) {
    for (const { query, params } of attempt.side) {
      if (query !== put) continue;
      const isThere = (await ports.session.readAll(get, params.slice(0, keyParams))).length > 0;
      if (!isThere && (await attempt.hasApplied())) return true;
    }
  }
  return false;
}

/** The names of the additions that some side changes make to a partition. */
function namesIn({ table, place }: Partition, side: readonly Statement[]): readonly string[] {
  const isMine = ({ query, params }: Statement): boolean =>
    query === table.counter.add && place.every((value, i) => String(value) === String(params[i]));
  // The row's key is between the partition and the name.
  return side.filter(isMine).map(({ params }) => String(params[place.length + 1]));
}

/** Whether an addition is in a partition, or part of a base now. */
async function madeIn(
  { session }: PendingPorts,
  { table, place }: Partition,
): Promise<(name: string) => boolean> {
  const counters = countersIn(await session.readAll(table.counter.all, [...place]));
  const names = new Set(counters.flatMap(({ additions }) => additions.map(counterName)));
  return (name) => names.has(name) || counters.some(({ folded }) => isFolded(folded, name));
}
