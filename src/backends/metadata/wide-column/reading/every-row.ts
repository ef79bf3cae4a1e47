/** Copies of all rows of a table, partition by partition in the order of Cassandra's tokens. */
import type { AnyTable, CopiedRow, RowPage } from '../../../../ports/metadata-store.ts';
import type { Columns } from '../../rows/order.ts';
import { sumByName } from '../counters/counters.ts';
import { isAlive, type RawRow, type Rows, rowMark, valueIn } from '../rows.ts';
import type { Tables } from '../schema/tables.ts';
import type { Session } from '../session/session.ts';

const rowsPerPage = 1_000;

interface Store {
  readonly session: Session;
  readonly tables: Tables;
  readonly now: () => Promise<number>;
}

export async function* everyRow(
  { session, tables, now }: Store,
  table: AnyTable,
  position?: string,
): AsyncGenerator<RowPage> {
  const { rows: codec } = tables.of(table);
  const query = `SELECT * FROM ${tables.keyspace}.${table.name}`;
  const isCounter = table.kind === 'counter';
  /** The additions of a counter row may be on two pages. */
  let held: readonly RawRow[] = [];
  let pageState = position;
  do {
    const page = await session.readPage(query, [], { count: rowsPerPage, pageState });
    pageState = page.pageState;
    if (isCounter) {
      const groups = byPartition(codec, [...held, ...page.rows]);
      held = pageState === undefined ? [] : (groups.pop() ?? []);
      yield { rows: groups.flatMap((group) => sums(codec, group)) };
    } else {
      const at = await now();
      const rows = page.rows.filter((raw) => isRow(raw) && isAlive(raw, at)).map((raw) => copied(codec, raw));
      yield pageState === undefined ? { rows } : { rows, position: pageState };
    }
  } while (pageState !== undefined);
}

/** Other rows are outcomes of commits and notes of splits; a partition that has a fence alone has no row key. */
const isRow = (raw: RawRow): boolean => (raw['row_k'] as Buffer | null)?.[0] === rowMark;

const partitionIn = (codec: Rows, raw: RawRow): Columns => {
  const row: Record<string, unknown> = {};
  for (const column of codec.columns.partition) {
    const value = valueIn(raw, column);
    row[column.name] = column.type === 'int' ? Number(value) : value;
  }
  return row;
};

function copied(codec: Rows, raw: RawRow): CopiedRow {
  const { row } = codec.decode<object>(raw, partitionIn(codec, raw));
  const expiresAt = raw['row_expires'];
  return expiresAt === null || expiresAt === undefined ? { row } : { row, expiresAt: Number(expiresAt) };
}

/** Rows of a partition come one after another. */
function byPartition(codec: Rows, rows: readonly RawRow[]): (readonly RawRow[])[] {
  const groups: RawRow[][] = [];
  let current: string | undefined;
  for (const raw of rows) {
    const name = JSON.stringify(partitionIn(codec, raw));
    if (name !== current) groups.push([]);
    current = name;
    groups.at(-1)?.push(raw);
  }
  return groups;
}

const sums = (codec: Rows, group: readonly RawRow[]): readonly CopiedRow[] => {
  const [first] = group;
  if (first === undefined) return [];
  const partition = partitionIn(codec, first);
  return sumByName(codec, group).map((raw) => ({ row: codec.decode<object>(raw, partition).row }));
};
