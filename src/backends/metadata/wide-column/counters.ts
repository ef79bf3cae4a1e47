/**
 * Counter rows: each addition is stored under the attempt that made it, so that repeating it changes nothing. A base is the sum of those
 * that were folded, and records which they are (folds.ts). The base has the empty name.
 */
import { createHash } from 'node:crypto';
import { StoreUnavailable } from '../../../ports/metadata-store.ts';
import { parseEpoch } from '../epochs.ts';
import { compareBytes } from '../key-order.ts';
import type { Bounds } from '../split/merge.ts';
import { type RawRow, type Rows, valueIn } from './rows.ts';

/** The additions in a base: all that sort below `below`, except those of epochs that were not done then. */
export interface Folded {
  readonly below: string;
  readonly except: readonly string[];
}

const nothingFolded: Folded = { below: '', except: [] };

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

/** The columns of a row that is the sum of some, or their maximum where the table says so; there is at least one. */
export function sumRows(codec: Rows, rows: readonly RawRow[]): RawRow {
  const sum: Record<string, unknown> = { ...rows[0] };
  for (const column of codec.columns.values) {
    if (codec.table.columns[column.name] !== 'int' || codec.order.sortColumns.includes(column.name)) continue;
    const amounts = rows.map((row) => (valueIn(row, column) as bigint | null) ?? 0n);
    const merge = codec.table.maxima?.includes(column.name) ? larger : plus;
    sum[column.cqlName.slice(1, -1)] = amounts.reduce(merge, 0n);
  }
  return sum;
}

const plus = (a: bigint, b: bigint): bigint => a + b;
const larger = (a: bigint, b: bigint): bigint => (a > b ? a : b);

// Reads a slice with so many deleted rows that the cluster refuses: it stops at a number of tombstones before it has found a row. The range
// is halved until a read succeeds, so a scan always makes progress.

/** The cluster gave up on a read, although its replicas answered. */
export class ReadFailed extends StoreUnavailable {}

/** Refusals in one slice: each costs the cluster as many tombstones as it bears. */
const refusalsMax = 400;
/** How many bytes after the common prefix of two bounds are used to compute their middle. */
const precision = 16;

interface Slicing<Row> {
  readonly bounds: Bounds;
  readonly reverse: boolean;
  readonly limit: number;
  readonly read: (bounds: Bounds, limit: number) => Promise<readonly Row[]>;
}

/** Up to `limit` rows of the range in its order; fewer are all that there are. */
export async function throughDeserts<Row>({ bounds, reverse, limit, read }: Slicing<Row>): Promise<Row[]> {
  const rows: Row[] = [];
  const ahead = [bounds];
  for (let refusals = 0; rows.length < limit; ) {
    const part = ahead.pop();
    if (part === undefined) break;
    try {
      rows.push(...(await read(part, limit - rows.length)));
    } catch (cause) {
      const middle = findMiddle(part);
      refusals += 1;
      if (!(cause instanceof ReadFailed) || middle === undefined || refusals > refusalsMax) throw cause;
      const halves = [
        { low: part.low, high: middle },
        { low: middle, high: part.high },
      ];
      ahead.push(...(reverse ? halves : halves.reverse()));
    }
  }
  return rows;
}

/** A key between two others; undefined where they are too near. */
export function findMiddle({ low, high }: Bounds): Uint8Array | undefined {
  let shared = 0;
  while (shared < low.length && shared < high.length && low[shared] === high[shared]) shared += 1;
  const from = numberAt(low, shared);
  const middle = (from + numberAt(high, shared)) / 2n;
  if (middle <= from) return undefined;
  const tail = Buffer.from(middle.toString(16).padStart(2 * precision, '0'), 'hex');
  const found = Buffer.concat([low.subarray(0, shared), trimmed(tail)]);
  return compareBytes(low, found) < 0 && compareBytes(found, high) < 0 ? found : undefined;
}

const numberAt = (bytes: Uint8Array, at: number): bigint => {
  const tail = Buffer.alloc(precision);
  tail.set(bytes.subarray(at, at + precision));
  return BigInt(`0x${tail.toString('hex')}`);
};

function trimmed(tail: Buffer): Buffer {
  let length = tail.length;
  while (length > 0 && tail[length - 1] === 0) length -= 1;
  return tail.subarray(0, length);
}
