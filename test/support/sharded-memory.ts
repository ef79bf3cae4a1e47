/**
 * A model of sharding stores: memory in which the rows of a spread partition are in separate shards, with separate commits and other work
 * between any two of them. It splits with the code that Cassandra uses.
 */
import { buildOrder, computeSpan, passed, type Span, skipTo } from '../../src/backends/metadata/key-order.ts';
import { assertCommit, assertRow, assertUpdate, changedRow } from '../../src/backends/metadata/rules.ts';
import { ShardMerge } from '../../src/backends/metadata/wide-column/cursor.ts';
import {
  followed,
  Layouts,
  type MovingRow,
  type Note,
  type NoteName,
  type NoteValues,
  type Place,
  type Shards,
} from '../../src/backends/metadata/wide-column/layouts.ts';
import { Mover, placed } from '../../src/backends/metadata/wide-column/mover.ts';
import { hashToShard } from '../../src/base/shard.ts';
import type { Clock } from '../../src/ports/clock.ts';
import {
  type AnyTable,
  type At,
  type Change,
  type CommitOptions,
  type Cursor,
  int,
  json,
  type MetadataStore,
  type Outcome,
  type Range,
  type Revision,
  type RowOf,
  type SortOf,
  type Stored,
} from '../../src/ports/metadata-store.ts';
import { faulty } from './faulty.ts';

type Columns = Readonly<Record<string, unknown>>;

const noteMark = 0;
const rowMark = 1;

const derived = new WeakMap<AnyTable, AnyTable>();
/** A spread table in the inner store: a partition is one shard, and notes sort before its rows. */
function shardedTable(table: AnyTable): AnyTable {
  const known = derived.get(table);
  if (known !== undefined) return known;
  const { spreadBy: _, ...rest } = table;
  const made: AnyTable = {
    ...rest,
    partition: [...table.partition, 'rowShard'],
    sort: ['rowMark', ...table.sort],
    columns: { ...table.columns, rowShard: int(), rowMark: int(), rowNote: json<unknown>() },
  };
  derived.set(table, made);
  return made;
}

interface Moving extends MovingRow {
  readonly stored: Stored<Columns>;
}

const inShard = ({ at, shard }: Place, fence?: number): At<AnyTable> => ({
  table: shardedTable(at.table),
  in: { ...(at.in as Columns), rowShard: shard },
  ...(fence === undefined ? {} : { fence }),
});

const marked = <Row extends object>(row: Row, shard: number) => ({ ...row, rowShard: shard, rowMark });

function bare<Row>({ row, revision }: Stored<Columns>): Stored<Row> {
  const { rowShard: _, rowMark: __, rowNote: ___, ...rest } = row;
  return { row: rest as Row, revision };
}

export interface ShardedOptions {
  readonly clock: Clock;
  readonly leaseMs?: number;
  readonly batchRows?: number;
}

export function shardedMemory(
  inner: MetadataStore,
  { clock, leaseMs = 1_000, batchRows = 8 }: ShardedOptions,
): MetadataStore {
  const shards = shardsOf(inner);
  const mover = new Mover({ shards, clock, leaseMs, batchRows });
  const layouts = new Layouts({ clock, leaseMs, read: (at) => shards.note({ at, shard: 0 }, 'layout') });
  // Plain tables change only by side changes, which the inner store applies.
  const isSpread = ({ table }: At<AnyTable>): boolean =>
    table.spreadBy !== undefined && table.kind === 'conditional';
  const textOf = (at: At<AnyTable>, key: object): string => String((key as Columns)[at.table.spreadBy]);
  const replaced: Partial<MetadataStore> = {
    async get<T extends AnyTable>(at: At<T>, key: SortOf<T>): Promise<Stored<RowOf<T>> | undefined> {
      if (!isSpread(at)) return inner.get(at, key);
      const read = async (shard: number): Promise<Stored<RowOf<T>> | undefined> => {
        const found = await inner.get(inShard({ at, shard }), { ...(key as object), rowMark });
        return found && bare(found);
      };
      const text = textOf(at, key as object);
      return (await read(hashToShard(text, at.ways ?? 1))) ?? followed(layouts, { at, text }, read);
    },
    scan: (at, range = {}) =>
      isSpread(at) ? new ShardedCursor(shards, layouts, { at, range }) : inner.scan(at, range),
    async commit<T extends AnyTable>(
      at: At<T>,
      changes: readonly Change<T>[],
      options: CommitOptions = {},
    ): Promise<Outcome<T>> {
      const listed = changes as readonly Change<AnyTable>[];
      if (!isSpread(at)) return inner.commit(at, changes, options);
      assertCommit(at, listed, options);
      return (await commitSharded(
        { inner, shards, mover, clock },
        { at, changes: listed, options },
      )) as Outcome<T>;
    },
    async update<T extends AnyTable>(
      at: At<T>,
      key: SortOf<T>,
      change: (row: RowOf<T> | undefined) => RowOf<T>,
    ): Promise<RowOf<T>> {
      if (!isSpread(at)) return inner.update(at, key, change);
      assertUpdate(at);
      for (;;) {
        const found = await store.get(at, key);
        const put = change(found?.row);
        assertRow(at, put as Columns);
        const isSame = (name: string): boolean => (put as Columns)[name] === (key as Columns)[name];
        if (!buildOrder(at.table).sortColumns.every(isSame))
          throw new Error(`an update of a row of ${at.table.name} changes its key`);
        const outcome = await store.commit(at, [{ put, expect: found?.revision ?? 'absent' }]);
        if (outcome.applied) return put;
      }
    },
    fence: (at) => inner.fence(isSpread(at) ? inShard({ at, shard: 0 }) : at),
    async raiseFence(at, generation) {
      if (!isSpread(at)) return inner.raiseFence(at, generation);
      const all = Math.max(at.ways ?? 1, at.splittingTo ?? 0);
      for (let shard = 0; shard < all; shard += 1) await inner.raiseFence(inShard({ at, shard }), generation);
    },
    split: (at, shard) => mover.step(at, shard),
  };
  const store = faulty(inner, replaced);
  return store;
}

interface Committing {
  readonly inner: MetadataStore;
  readonly shards: Shards<Moving>;
  readonly mover: Mover<Moving>;
  readonly clock: Clock;
}

const triesMax = 100;

async function commitSharded(
  ports: Committing,
  {
    at,
    changes,
    options,
  }: {
    readonly at: At<AnyTable>;
    readonly changes: readonly Change<AnyTable>[];
    readonly options: CommitOptions;
  },
): Promise<Outcome<AnyTable>> {
  const [first] = changes;
  const text = first === undefined ? '' : String((changedRow(first) as Columns)[at.table.spreadBy]);
  for (let tries = 0; tries < triesMax; tries += 1) {
    const { shard, guard } = await placed(ports, at, text);
    const inside = changes.map((change): Change<AnyTable> => {
      if ('put' in change) return { ...change, put: marked(change.put, shard) };
      if ('remove' in change) return { ...change, remove: { ...change.remove, rowMark } };
      return { ...change, check: { ...change.check, rowMark } };
    });
    const isSplit = guard === undefined ? [] : [stillSo(at, guard.revision)];
    const outcome = await ports.inner.commit(
      inShard({ at, shard }, at.fence),
      [...inside, ...isSplit],
      options,
    );
    if (outcome.applied || outcome.because !== 'conflict') return outcome;
    // If the row has moved meanwhile, this conflict proves nothing, so try again.
    const note = guard && (await ports.shards.note({ at, shard }, 'progress'));
    if (guard !== undefined && note?.revision !== guard.revision) continue;
    const { current } = outcome;
    return current === undefined ? outcome : { ...outcome, current: bare(current) };
  }
  throw new Error('a commit never met a shard that stood still');
}

/** The key of a note: every key column gets a value of its type. */
function noteKey(table: AnyTable, name: NoteName): Columns {
  const values: Record<string, unknown> = { rowMark: noteMark };
  for (const declared of table.sort as readonly string[]) {
    const column = declared.replace(/^-/, '');
    const type = table.columns[column]?.type;
    values[column] = type === 'int' ? 0 : type === 'bool' ? false : name;
  }
  return values;
}

const stillSo = (at: At<AnyTable>, revision: string | undefined): Change<AnyTable> => ({
  check: noteKey(at.table, 'progress'),
  expect: (revision ?? 'absent') as Revision,
});

function shardsOf(inner: MetadataStore): Shards<Moving> {
  return {
    async note<N extends NoteName>(place: Place, name: N) {
      const found = await inner.get(inShard(place), noteKey(place.at.table, name));
      return found && ({ value: found.row.rowNote, revision: found.revision } as Note<NoteValues[N]>);
    },
    async setNote(place, name, { value, expect }) {
      const { in: partition } = inShard(place);
      const put = { ...partition, ...noteKey(place.at.table, name), rowNote: value };
      const outcome = await inner.commit(inShard(place), [{ put, expect: (expect ?? 'absent') as Revision }]);
      return outcome.applied ? { value, revision: outcome.revision } : undefined;
    },
    async rows(place, span, count) {
      const found = await readShard(inner, place, { span, count });
      return found.map((stored) => ({ key: stored.row, bytes: JSON.stringify(stored.row).length, stored }));
    },
    async take(place, rows, arrivals) {
      for (;;) {
        const missing: Change<AnyTable>[] = [];
        for (const { stored } of rows) {
          const put = marked(stored.row, place.shard);
          if ((await inner.get(inShard(place), put)) === undefined) missing.push({ put, expect: 'absent' });
        }
        const check = noteKey(place.at.table, 'arrivals');
        const guarded = [...missing, { check, expect: arrivals as Revision }];
        const outcome = await inner.commit(inShard(place), guarded);
        if (outcome.applied) return true;
        const note = await inner.get(inShard(place), check);
        if (note?.revision !== arrivals) return false;
      }
    },
    async drop(place, rows) {
      for (const { stored } of rows) {
        const remove = { ...stored.row, rowMark };
        await inner.commit(inShard(place), [{ remove, expect: stored.revision }]);
      }
    },
  };
}

/** The rows of one shard in a span of the whole partition's keys. */
async function readShard(
  inner: MetadataStore,
  place: Place,
  { span, count }: { readonly span: Span; readonly count: number },
): Promise<readonly Stored<Columns>[]> {
  const order = buildOrder(place.at.table);
  const found: Stored<Columns>[] = [];
  const cursor = inner.scan(inShard(place), { from: { rowMark }, reverse: span.reverse });
  for (let page = await cursor.next(100); page.length > 0; page = await cursor.next(100))
    for (const each of page) {
      const stored = bare<Columns>(each);
      const key = Buffer.from(order.rowKey(place.at.in as Columns, stored.row));
      if (key.compare(span.low) >= 0 && key.compare(span.high) < 0) found.push(stored);
      if (found.length === count) return found;
    }
  return found;
}

class ShardedCursor<T extends AnyTable> implements Cursor<T> {
  readonly #shards: Shards<Moving>;
  readonly #layouts: Layouts;
  readonly #at: At<T>;
  readonly #only: number | undefined;
  #span: Span;

  constructor(
    shards: Shards<Moving>,
    layouts: Layouts,
    { at, range }: { readonly at: At<T>; readonly range: Range<T> },
  ) {
    this.#shards = shards;
    this.#layouts = layouts;
    this.#at = at;
    this.#only = range.shard;
    this.#span = computeSpan(buildOrder(at.table), at.in as Columns, range);
  }

  async next(count: number): Promise<readonly Stored<RowOf<T>>[]> {
    const { rows, rest } = await this.#layouts.under(this.#at, (to) => this.#page(count, to));
    this.#span = rest;
    return rows as unknown as readonly Stored<RowOf<T>>[];
  }

  async #page(count: number, to: number): Promise<{ readonly rows: Stored<Columns>[]; readonly rest: Span }> {
    const { ways = 1 } = this.#at;
    const order = buildOrder(this.#at.table);
    const { reverse } = this.#span;
    const keyOfRow = (row: Moving): Uint8Array => order.rowKey(this.#at.in as Columns, row.key);
    const all = Array.from({ length: Math.max(ways, to) }, (_, shard) => shard);
    const merge = new ShardMerge<Moving>({
      shards: this.#only === undefined ? all : [this.#only],
      splitAt: to > ways && this.#only === undefined ? to / 2 : undefined,
      bounds: this.#span,
      reverse,
      slice: 16,
      keyOf: keyOfRow,
      read: async (shard, bounds, limit) => {
        const rows = await this.#shards.rows({ at: this.#at, shard }, { ...bounds, reverse }, limit);
        return { rows, hasMore: rows.length === limit };
      },
    });
    const rows: Stored<Columns>[] = [];
    let rest = this.#span;
    while (rows.length < count) {
      const row = await merge.next();
      if (row === undefined) break;
      rest = passed(rest, keyOfRow(row));
      rows.push(row.stored);
    }
    return { rows, rest };
  }

  seek(key: Partial<SortOf<T>>, options: { readonly past?: boolean } = {}): void {
    const prefix = buildOrder(this.#at.table).prefix(this.#at.in as Columns, key as Columns);
    this.#span = skipTo(this.#span, prefix, options.past ?? false);
  }
}
