/**
 * The rows of listings, and how they make pages: first those of ListObjectVersions, then the live heads of ListObjects, then pages of both.
 *
 * A version may move between the space of live heads and the history during the listing, and no store reads both in one snapshot. So
 * heads are read before the history and once more after it: a version that existed all the time and moved meanwhile is read at least
 * once, and is listed once (but see docs/gaps M2).
 */
import type { Context } from '../../context.ts';
import {
  behind,
  findHead,
  historyAt,
  type ListedRow,
  type ListedVersionRow,
  objectsAt,
  prefixEnd,
  prefixRange,
} from '../../metadata/objects/objects.ts';
import {
  type BucketRow,
  headSlot,
  historySpace,
  listedColumns,
  listedVersionColumns,
  liveSpace,
  type ObjectRow,
  type objects,
} from '../../metadata/tables.ts';
import type { Cursor, PartOf, SortOf } from '../../ports/metadata-store.ts';

type Ctx = Pick<Context, 'metadata'>;
type Version = Pick<ListedVersionRow, 'key' | 'version'>;

/** Where a listing of versions resumes: after a key, or after one version of it. */
export type VersionStart = Start | Version;

interface Stretch {
  readonly prefix: string;
  readonly start: VersionStart;
  readonly count: number;
  /** At least those of a listing; the rows have these and no others. */
  readonly columns: readonly (keyof ObjectRow)[];
}
interface Read {
  readonly rows: readonly ListedVersionRow[];
  /** The last row that was read; undefined: there are no more. */
  readonly last?: Version | undefined;
}

/** Every version and marker under a prefix: by key, the newest first. */
export function everyVersion(
  ctx: Ctx,
  bucket: BucketRow,
  {
    prefix,
    start,
    columns = listedVersionColumns,
  }: Pick<Stretch, 'prefix' | 'start'> & Partial<Pick<Stretch, 'columns'>>,
): Listed<ListedVersionRow> {
  let next = start;
  let isOver = false;
  return {
    async next(count) {
      if (isOver) return [];
      const { rows, last } = await readStretch(ctx, bucket, { prefix, start: next, count, columns });
      isOver = last === undefined;
      if (last !== undefined) next = { key: last.key, version: last.version };
      return rows;
    },
    leap(key) {
      next = { from: key };
    },
    keyOf: (row) => row.key,
  };
}

async function readStretch(ctx: Ctx, bucket: BucketRow, stretch: Stretch): Promise<Read> {
  // Without versioning there is no history, so no version moves.
  if (bucket.versioning === '') return readHeads(ctx, bucket, stretch);
  const heads = await readHeads(ctx, bucket, stretch, await historyEnd(ctx, bucket, stretch));
  const history = await readHistory(ctx, bucket, stretch);
  const { last } = merged([heads, history], stretch);
  return merged([heads, history, await readHeads(ctx, bucket, stretch, last)], stretch);
}

/**
 * Where the history fills a page, no later head can be on that page. Distant stores keep a tombstone for each live head that was
 * deleted, and a read for heads after that position reads the tombstones of all later pages.
 */
async function historyEnd(ctx: Ctx, bucket: BucketRow, stretch: Stretch): Promise<Version | undefined> {
  return ctx.metadata.isDistant ? (await readHistory(ctx, bucket, stretch)).last : undefined;
}

/** @param until the last version whose key is of interest */
async function readHeads(
  ctx: Ctx,
  bucket: BucketRow,
  { prefix, start, count, columns }: Stretch,
  until?: Version,
): Promise<Read> {
  const cursor = openSpace(ctx, bucket, {
    space: liveSpace,
    prefix,
    columns,
    ...(until && { before: behind(until.key) }),
  });
  if (start === undefined || !('version' in start)) {
    seekTo(cursor, liveSpace, start);
    return toRead(await cursor.next(count), count);
  }
  seekTo(cursor, liveSpace, { after: start.key });
  const [found, head] = await Promise.all([
    cursor.next(count),
    start.key.startsWith(prefix) ? findHead(ctx.metadata, bucket, start.key) : undefined,
  ]);
  const { rows, last } = toRead(found, count);
  // Newer versions may have been removed meanwhile, so the head can be older than the marker.
  const isBehind = head !== undefined && head.row.version < start.version;
  return { rows: isBehind ? [head.row, ...rows] : rows, last };
}

async function readHistory(
  ctx: Ctx,
  bucket: BucketRow,
  { prefix, start, count, columns }: Stretch,
): Promise<Read> {
  const cursor = openSpace(ctx, bucket, { space: historySpace, prefix, columns });
  if (start !== undefined && 'version' in start)
    cursor.seek(historyAt(start.key, start.version), { past: true });
  else seekTo(cursor, historySpace, start);
  return toRead(await cursor.next(count), count);
}

function toRead(found: readonly { readonly row: object }[], count: number): Read {
  // The cast: every reader names the columns of a listing.
  const rows = found.map(({ row }) => row as ListedVersionRow);
  return { rows, last: rows.length < count ? undefined : rows.at(-1) };
}

const byPlace = (a: Version, b: Version): number =>
  compareUtf8(a.key, b.key) || (a.version === b.version ? 0 : a.version > b.version ? -1 : 1);

/** Merges several reads up to where all of them ended: each version once, and each key with one latest version. */
function merged(reads: readonly Read[], { start, count }: Stretch): Read {
  let end = reads.map(({ last }) => last).reduce(earlier);
  const rows: ListedVersionRow[] = [];
  let hasNull = false;
  for (const row of reads.flatMap((read) => read.rows).sort(byPlace)) {
    if (end !== undefined && byPlace(row, end) > 0) break;
    const above = rows.at(-1);
    const isFirst = above?.key !== row.key;
    if (isFirst) hasNull = false;
    // A key has one null version at a time: a second one was replaced meanwhile.
    if (!isFirst && (above.version === row.version || (row.isNull && hasNull))) continue;
    hasNull ||= row.isNull;
    if (rows.length === count) {
      end = above;
      break;
    }
    const isResumed = isFirst && start !== undefined && 'version' in start && start.key === row.key;
    rows.push(isResumed || (row.slot === headSlot) === isFirst ? row : inPlace(row, isFirst));
  }
  return { rows, last: end };
}

const earlier = (a: Version | undefined, b: Version | undefined): Version | undefined =>
  a === undefined || (b !== undefined && byPlace(b, a) < 0) ? b : a;

/** The row with the `isLatest` that it has in this place. */
const inPlace = (row: ListedVersionRow, isLatest: boolean): ListedVersionRow => ({
  ...row,
  slot: isLatest ? headSlot : row.version,
});

/** Compares texts by their UTF-8 bytes, as the stores order them: surrogates sort after U+E000…U+FFFF. */
function compareUtf8(a: string, b: string): number {
  const length = Math.min(a.length, b.length);
  for (let i = 0; i < length; i += 1) {
    const [x, y] = [a.charCodeAt(i), b.charCodeAt(i)];
    if (x !== y) return rank(x) - rank(y);
  }
  return a.length - b.length;
}
const rank = (unit: number): number =>
  unit >= 0xd800 && unit <= 0xdfff ? unit + 0x2000 : unit >= 0xe000 ? unit - 0x800 : unit;

// The rows that listings of objects read: live heads only. The rows of versions are read above.

type ListedObjectsCtx = Pick<Context, 'metadata'>;
type Start = { readonly from: string } | { readonly after: string } | undefined;

interface Space<C> {
  readonly space: number;
  readonly prefix: string;
  readonly before?: string;
  readonly columns: readonly C[];
}

/** The rows of a bucket in one space under a prefix, or up to the end of a key under it. */
export function openSpace<C extends keyof ObjectRow>(
  { metadata }: ListedObjectsCtx,
  bucket: BucketRow,
  { space, prefix, before, columns }: Space<C>,
): Cursor<typeof objects, PartOf<typeof objects, C>> {
  const range = prefixRange('key', prefix, { space });
  const end = before === undefined ? range.before : { space, key: before };
  return metadata.scan(objectsAt(bucket), {
    from: (range.from ?? { space }) as Partial<SortOf<typeof objects>>,
    before: (end ?? { space: space + 1 }) as Partial<SortOf<typeof objects>>,
    columns,
  });
}

export function seekTo(cursor: Pick<Cursor<typeof objects>, 'seek'>, space: number, start: Start): void {
  if (start === undefined) return;
  if ('from' in start) cursor.seek({ space, key: start.from });
  else cursor.seek({ space, key: start.after }, { past: true });
}

/** The live heads under a prefix. Old versions and delete markers cost nothing, because the listing does not read them. */
export function liveObjects(
  ctx: ListedObjectsCtx,
  bucket: BucketRow,
  { prefix, start }: { readonly prefix: string; readonly start: Start },
): Listed<ListedRow> {
  const cursor = openSpace(ctx, bucket, { space: liveSpace, prefix, columns: listedColumns });
  seekTo(cursor, liveSpace, start);
  return {
    next: async (count) => (await cursor.next(count)).map(({ row }) => row),
    leap: (key) => cursor.seek({ space: liveSpace, key }),
    keyOf: (row) => row.key,
  };
}

// Pages of a listing: prefix, delimiter and markers over any ordered cursor.

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
  /** Entries of a page; the caller has checked that there are at most `listingPageMax`. */
  readonly limit: number;
}

export type Entry<Row> = { readonly row: Row } | { readonly commonPrefix: string };

interface Page<Row> {
  readonly entries: readonly Entry<Row>[];
  readonly isTruncated: boolean;
}

/**
 * Rows of the first read after a skip. The size grows while rows are used up one by one, so that a page of common prefixes costs
 * a seek for each and not a page for each.
 */
const firstRead = 16;

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
  // One row more than the page shows whether there is another page.
  let count = delimiter === '' ? limit + 1 : firstRead;
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
      count = Math.min(count * 2, limit + 1 - entries.length);
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
function findCommonPrefix(key: string, prefix: string, delimiter: string): string | undefined {
  if (delimiter === '') return undefined;
  const at = key.indexOf(delimiter, prefix.length);
  return at < 0 ? undefined : key.slice(0, at + delimiter.length);
}

/** The start of a page after a marker. One that is a common prefix, or under it, skips all keys of that prefix (public API). */
export function startBehind(
  marker: string,
  { prefix, delimiter }: Grouping,
): { readonly from: string } | { readonly after: string } {
  const under = marker.startsWith(prefix) ? findCommonPrefix(marker, prefix, delimiter) : undefined;
  const end = under === undefined ? undefined : prefixEnd(under);
  return end === undefined ? { after: marker } : { from: end };
}
