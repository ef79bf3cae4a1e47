/** The port of splitting for a shard: its notes, and rows that are put and removed unchanged, with their revisions. */
import type { Random } from '../../../ports/random.ts';
import type { Columns, Span } from '../key-order.ts';
import { boundsIn } from './cursor.ts';
import type { MovingRow, Note, NoteName, NoteValues, Place, Shards } from './layouts.ts';
import { noteMark, type RawRow, type Rows, valueIn } from './rows.ts';
import { type Session, type Statement, UnknownOutcome } from './session.ts';
import type { Tables } from './statements.ts';

const triesMax = 10;

export interface RowInShard extends MovingRow {
  readonly raw: RawRow;
}

const marks: Readonly<Record<NoteName, number>> = { layout: 0, progress: 1, arrivals: 2 };
export const noteKey = (name: NoteName): Buffer => Buffer.of(noteMark, marks[name]);

interface ShardPorts {
  readonly session: Session;
  readonly tables: Tables;
  readonly random: Random;
}

export class WideColumnShards implements Shards<RowInShard> {
  readonly #ports: ShardPorts;

  constructor(ports: ShardPorts) {
    this.#ports = ports;
  }

  async note<N extends NoteName>({ at, shard }: Place, name: N): Promise<Note<NoteValues[N]> | undefined> {
    const { session, tables } = this.#ports;
    const { rows, statements } = tables.of(at.table);
    const params = [...rows.place(at, shard), noteKey(name)];
    const [found] = await session.read(statements.note, params, { serial: true });
    const text = found?.['row_outcome'];
    if (typeof text !== 'string') return undefined;
    return { value: JSON.parse(text) as NoteValues[N], revision: String(found?.['row_rev']) };
  }

  async setNote<N extends NoteName>(
    place: Place,
    name: N,
    { value, expect }: { readonly value: NoteValues[N]; readonly expect: string | undefined },
  ): Promise<Note<NoteValues[N]> | undefined> {
    const { tables, random } = this.#ports;
    const { rows, statements } = tables.of(place.at.table);
    const revision = Buffer.from(random.bytes(16)).toString('hex');
    const at = [...rows.place(place.at, place.shard), noteKey(name)];
    const params = [revision, JSON.stringify(value), ...at, expect ?? null];
    const isSet = await this.#certainly([{ query: statements.noteIf, params }], async () => {
      const stands = (await this.note(place, name))?.revision;
      if (stands === expect) return undefined;
      return stands === revision;
    });
    return isSet ? { value, revision } : undefined;
  }

  async rows({ at, shard }: Place, span: Span, count: number): Promise<readonly RowInShard[]> {
    const { session, tables } = this.#ports;
    const { rows, statements } = tables.of(at.table);
    const bounds = boundsIn(span, rows.order.partitionKey(at.in as Columns));
    const params = [...rows.place(at, shard), bounds.low, bounds.high, count];
    const found = await session.read(statements.scan, params);
    return found.map((raw) => movingRow(rows, raw));
  }

  async take(place: Place, moving: readonly RowInShard[], arrivals: string): Promise<boolean> {
    const { rows, statements } = this.#ports.tables.of(place.at.table);
    const at = rows.place(place.at, place.shard);
    const check: Statement = {
      query: statements.noteStillIf,
      params: [...at, noteKey('arrivals'), arrivals],
    };
    let missing = moving;
    const puts = (): Statement[] =>
      missing.map(({ raw }) => ({
        query: statements.putIf,
        params: [0, ...rawValues(rows, raw), raw['row_rev'], raw['row_expires'], ...at, raw['row_k'], null],
      }));
    for (let tries = 0; tries < triesMax; tries += 1) {
      const isPut = await this.#certainly([check, ...puts()], async () => undefined);
      if (isPut) return true;
      if ((await this.note(place, 'arrivals'))?.revision !== arrivals) return false;
      const there = await this.#among(place, moving);
      missing = moving.filter(({ raw }) => !there.has(rowKeyText(raw)));
    }
    throw new UnknownOutcome('too many others move the same rows');
  }

  async drop(place: Place, moved: readonly RowInShard[]): Promise<void> {
    const { rows, statements } = this.#ports.tables.of(place.at.table);
    const at = rows.place(place.at, place.shard);
    let left = moved;
    for (let tries = 0; tries < triesMax && left.length > 0; tries += 1) {
      const removals = left.map(({ raw }) => ({
        query: statements.removeIf,
        params: [...at, raw['row_k'], raw['row_rev']],
      }));
      if (await this.#certainly(removals, async () => undefined)) return;
      const there = await this.#among(place, moved);
      left = moved.filter(({ raw }) => there.get(rowKeyText(raw)) === raw['row_rev']);
    }
    if (left.length > 0) throw new UnknownOutcome('too many others move the same rows');
  }

  /** The revisions of those rows that are in a shard, by key. */
  async #among({ at, shard }: Place, moving: readonly RowInShard[]): Promise<ReadonlyMap<string, unknown>> {
    const { session, tables } = this.#ports;
    const { rows, statements } = tables.of(at.table);
    const place = rows.place(at, shard);
    const found = await Promise.all(
      moving.map(({ raw }) => session.read(statements.get, [...place, raw['row_k']], { serial: true })),
    );
    return new Map(
      found.flatMap(([row]) => (row?.['row_rev'] ? [[rowKeyText(row), row['row_rev']] as const] : [])),
    );
  }

  /** Executes a conditional statement; where its outcome is unknown, asks `whatBecame`, or repeats it. */
  async #certainly(
    statements: readonly Statement[],
    whatBecame: () => Promise<boolean | undefined>,
  ): Promise<boolean> {
    for (let tries = 0; ; tries += 1) {
      try {
        return await this.#ports.session.decide(statements);
      } catch (cause) {
        if (!(cause instanceof UnknownOutcome) || tries === triesMax) throw cause;
        const became = await whatBecame();
        if (became !== undefined) return became;
      }
    }
  }
}

const rowKeyText = (raw: RawRow): string => (raw['row_k'] as Buffer).toString('latin1');

const rawValues = ({ columns }: Rows, raw: RawRow): unknown[] =>
  columns.values.map((column) => valueIn(raw, column));

function movingRow(rows: Rows, raw: RawRow): RowInShard {
  const key = rows.order.sortOf(raw['row_k'] as Buffer, 1);
  let bytes = 0;
  for (const value of rawValues(rows, raw))
    bytes +=
      typeof value === 'string' ? Buffer.byteLength(value) : value instanceof Uint8Array ? value.length : 8;
  return { key, bytes, raw };
}
