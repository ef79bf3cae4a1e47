/**
 * Counter rows: each addition is stored under the attempt that made it, so that repeating it changes nothing. A base is the sum of those
 * that were folded, and records which they are (folds.ts). The base has the empty name.
 */
import { createHash } from 'node:crypto';
import { parseEpoch } from '../../ops/epochs.ts';
import { type RawRow, type Rows, valueIn } from '../rows.ts';

/** The additions in a base: all that sort below `below`, except those of epochs that were not done then. */
export interface Folded {
  readonly below: string;
  readonly except: readonly string[];
}

export const nothingFolded: Folded = { below: '', except: [] };

export const isFolded = ({ below, except }: Folded, name: string): boolean =>
  name < below && !except.includes(parseEpoch(name));

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

/** By key, in the order of the keys. */
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
export const sumByName = (codec: Rows, rows: readonly RawRow[]): RawRow[] =>
  countersIn(rows).map(({ base, folded, additions }) => {
    const rest = additions.filter((row) => !isFolded(folded, nameOf(row)));
    return {
      ...sumRows(codec, base === undefined ? rest : [base, ...rest]),
      row_rev: formatRevision(base, rest),
    };
  });

/** Identifies the additions in a sum, because different additions may have the same sum. */
function formatRevision(base: RawRow | undefined, additions: readonly RawRow[]): string {
  const digest = createHash('sha256').update(String(base?.['row_folded'] ?? ''));
  for (const row of additions) digest.update(`\n${nameOf(row)}`);
  return digest.digest('base64url');
}

/** The columns of a row that is the sum of some; there is at least one. */
export function sumRows(codec: Rows, rows: readonly RawRow[]): RawRow {
  const sum: Record<string, unknown> = { ...rows[0] };
  for (const column of codec.columns.values)
    if (codec.table.columns[column.name] === 'int' && !codec.order.sortColumns.includes(column.name))
      sum[column.cqlName.slice(1, -1)] = rows.reduce(
        (total, row) => total + ((valueIn(row, column) as bigint | null) ?? 0n),
        0n,
      );
  return sum;
}
