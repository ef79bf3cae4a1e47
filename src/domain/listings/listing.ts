/** Pages of a listing: prefix, delimiter and markers over any ordered cursor. */
import { prefixEnd } from '../../metadata/objects/objects.ts';

/** The rows of a listing in key order, with a way to skip ahead. */
export interface Listed<Row> {
  next(count: number): Promise<readonly Row[]>;
  /** Continues at the first row whose key is `key` or greater. Rows that `next` returned already are not repeated. */
  leap(key: string): void;
  keyOf(row: Row): string;
}

export interface Grouping {
  readonly prefix: string;
  /** '' for none. */
  readonly delimiter: string;
  readonly limit: number;
}

export type Entry<Row> = { readonly row: Row } | { readonly commonPrefix: string };

export interface Page<Row> {
  readonly entries: readonly Entry<Row>[];
  readonly isTruncated: boolean;
}

/**
 * Rows of the first read after a skip. The size grows while rows are used up one by one, so that a page of common prefixes costs
 * a seek for each and not a page for each.
 */
const firstRead = 16;
/** A full page, and one row that shows whether there is another page. */
const readMax = 1001;

/**
 * One page. A common prefix counts as one entry. Rows under it that were read in the same batch are skipped in memory;
 * the others are never read, because the scan seeks past the prefix. It seeks at the end of a batch, since rows after the prefix in
 * the batch are still to be listed.
 */
export async function readPage<Row>(
  listed: Listed<Row>,
  { prefix, delimiter, limit }: Grouping,
): Promise<Page<Row>> {
  const entries: Entry<Row>[] = [];
  if (limit === 0) return { entries, isTruncated: false };
  let count = delimiter === '' ? Math.min(limit + 1, readMax) : firstRead;
  for (let rows = await listed.next(count); rows.length > 0; rows = await listed.next(count)) {
    let under: string | undefined;
    for (const row of rows) {
      const key = listed.keyOf(row);
      if (under !== undefined && key.startsWith(under)) continue;
      if (entries.length === limit) return { entries, isTruncated: true };
      under = findCommonPrefix(key, prefix, delimiter);
      entries.push(under === undefined ? { row } : { commonPrefix: under });
    }
    if (under === undefined) {
      count = Math.min(count * 2, limit + 1 - entries.length, readMax);
      continue;
    }
    const beyond = prefixEnd(under);
    if (beyond === undefined) break;
    listed.leap(beyond);
    count = firstRead;
  }
  return { entries, isTruncated: false };
}

/** The key up to the first delimiter after the prefix, with the delimiter. */
export function findCommonPrefix(key: string, prefix: string, delimiter: string): string | undefined {
  if (delimiter === '') return undefined;
  const at = key.indexOf(delimiter, prefix.length);
  return at < 0 ? undefined : key.slice(0, at + delimiter.length);
}

/** The start of a page after a marker. A marker that is a common prefix also skips all keys under it. */
export function startBehind(
  marker: string,
  { prefix, delimiter }: Grouping,
): { readonly from: string } | { readonly after: string } {
  const end = findCommonPrefix(marker, prefix, delimiter) === marker ? prefixEnd(marker) : undefined;
  return end === undefined ? { after: marker } : { from: end };
}
