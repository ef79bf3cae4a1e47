/**
 * Counter rows: what is kept is each addition under the attempt that made it, so that repeating one changes nothing, and a
 * base, which is the sum of those that were folded and says which they are (folds.ts). The base lies under the empty name.
 */
import { createHash } from 'node:crypto';
import { epochOf } from '../../ops/epochs.ts';
import { type RawRow, type Rows, valueIn } from '../rows.ts';

/** Which additions a base holds: all that sort below, but for those of the epochs that were not done then. */
export interface Folded {
  readonly below: string;
  readonly except: readonly string[];
}

export const nothingFolded: Folded = { below: '', except: [] };

export const isFolded = ({ below, except }: Folded, name: string): boolean =>
  name < below && !except.includes(epochOf(name));

/** The rows of one key. */
export interface Counter {
  readonly key: Buffer;
  /** Absent until something was folded. */
  readonly base: RawRow | undefined;
  readonly folded: Folded;
  /** In order, also those that are folded and not yet cleared. */
  readonly additions: readonly RawRow[];
}

export const nameOf = (row: RawRow): string => String(row['row_op']);

/** By key, in the order in which the keys come. */
export function countersIn(rows: readonly RawRow[]): Counter[] {
  const byKey = Map.groupBy(rows, (row) => (row['row_k'] as Buffer).toString('latin1'));
  return [...byKey.values()].map((group) => {
    const base = group.find((row) => nameOf(row) === '');
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
export const sumsOf = (codec: Rows, rows: readonly RawRow[]): RawRow[] =>
  countersIn(rows).map(({ base, folded, additions }) => {
    const rest = additions.filter((row) => !isFolded(folded, nameOf(row)));
    return {
      ...sumOf(codec, base === undefined ? rest : [base, ...rest]),
      row_rev: revisionOf(base, rest),
    };
  });

/** Says which additions are in a sum, because the sum alone may be the same with others. */
function revisionOf(base: RawRow | undefined, additions: readonly RawRow[]): string {
  const digest = createHash('sha256').update(String(base?.['row_folded'] ?? ''));
  for (const row of additions) digest.update(`\n${nameOf(row)}`);
  return digest.digest('base64url');
}

/** The columns of a row that is the sum of some; there is at least one. */
export function sumOf(codec: Rows, rows: readonly RawRow[]): RawRow {
  const sum: Record<string, unknown> = { ...rows[0] };
  for (const column of codec.columns.values)
    if (codec.table.columns[column.name] === 'int' && !codec.order.sortColumns.includes(column.name))
      sum[column.cqlName.slice(1, -1)] = rows.reduce(
        (total, row) => total + ((valueIn(row, column) as bigint | null) ?? 0n),
        0n,
      );
  return sum;
}
