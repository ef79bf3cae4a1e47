/**
 * Reads a slice with so many deleted rows that the cluster refuses: it stops at a number of tombstones before it has found a row. The range
 * is halved until a read succeeds, so a scan always makes progress.
 */
import { StoreUnavailable } from '../../../../ports/metadata-store.ts';
import { compareBytes } from '../../rows/span.ts';
import type { Bounds } from '../../split/merge.ts';

/** The cluster gave up on a read, although its replicas answered. */
export class ReadFailed extends StoreUnavailable {}

/** Refusals in one slice: each costs the cluster as many tombstones as it bears. */
const refusalsMax = 400;
/** How many bytes after the common prefix of two bounds are used to compute their middle. */
const precision = 16;

export interface Slicing<Row> {
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
