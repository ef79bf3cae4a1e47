/** Counter rows: what is kept is each addition under the op that made it, so that repeating one changes nothing. */
import { type RawRow, type Rows, valueIn } from './rows.ts';

/** The sums of rows that share a key, in the order in which the keys come. */
export function sumOf(codec: Rows, rows: readonly RawRow[]): RawRow[] {
  const sums = new Map<string, Record<string, unknown>>();
  for (const row of rows) {
    const key = row['row_k'] as Buffer;
    const name = key.toString('latin1');
    const sum = sums.get(name);
    if (sum === undefined) sums.set(name, { ...row, row_rev: 'sum', ...zeroed(codec, row) });
    else for (const [column, amount] of added(codec, sum, row)) sum[column] = amount;
  }
  return [...sums.values()];
}

const isAdded = (codec: Rows, name: string): boolean =>
  codec.table.columns[name] === 'int' && !codec.order.sortColumns.includes(name);

function zeroed(codec: Rows, row: RawRow): Record<string, unknown> {
  const values: Record<string, unknown> = {};
  for (const column of codec.columns.values)
    if (isAdded(codec, column.name)) values[nameIn(column.cqlName)] = valueIn(row, column) ?? 0n;
  return values;
}

function added(codec: Rows, sum: RawRow, row: RawRow): [string, bigint][] {
  return codec.columns.values
    .filter(({ name }) => isAdded(codec, name))
    .map((column) => [
      nameIn(column.cqlName),
      ((valueIn(sum, column) as bigint | null) ?? 0n) + ((valueIn(row, column) as bigint | null) ?? 0n),
    ]);
}

const nameIn = (cqlName: string): string => cqlName.slice(1, -1);
