/** Reading object rows: heads, history and manifests. */
import { fail } from '../../base/errors.ts';
import type {
  AnyTable,
  At,
  Cursor,
  MetadataStore,
  PartOf,
  RowOf,
  SideChange,
  SortOf,
  Stored,
} from '../../ports/metadata-store.ts';
import type { Extent } from '../../ports/object-bytes.ts';
import {
  type BucketRow,
  headSlot,
  historySpace,
  type listedColumns,
  type listedVersionColumns,
  liveSpace,
  type Manifest,
  type ManifestPart,
  manifestSegmentParts,
  manifests,
  type ObjectRow,
  objects,
} from '../tables.ts';

type Metadata = Pick<MetadataStore, 'get' | 'scan'>;

export function objectsAt({
  id,
  shards,
  splittingTo,
  generation,
}: Pick<BucketRow, 'id' | 'shards' | 'splittingTo' | 'generation'>): At<typeof objects> {
  const at = { table: objects, in: { bucketId: id }, ways: shards, fence: generation };
  return splittingTo === undefined ? at : { ...at, splittingTo };
}

export const liveHeadAt = (key: string): SortOf<typeof objects> => ({
  space: liveSpace,
  key,
  slot: headSlot,
});
export const markerHeadAt = (key: string): SortOf<typeof objects> => ({
  space: historySpace,
  key,
  slot: headSlot,
});
export const historyAt = (key: string, version: string): SortOf<typeof objects> => ({
  space: historySpace,
  key,
  slot: version,
});

export type ListedRow = PartOf<typeof objects, (typeof listedColumns)[number]>;
export type ListedVersionRow = PartOf<typeof objects, (typeof listedVersionColumns)[number]>;

export const findLiveHead = (
  metadata: Metadata,
  bucket: BucketRow,
  key: string,
): Promise<Stored<ObjectRow> | undefined> => metadata.get(objectsAt(bucket), liveHeadAt(key));

/** Attempts to read a key that changes during the read. */
const looksMax = 16;

/**
 * The head of a key, whether it is live or a delete marker. Without versioning there are no markers.
 * A head that changes its space between the two reads is missed by both, so the reads are repeated.
 */
export const findHead = (
  metadata: Metadata,
  bucket: BucketRow,
  key: string,
): Promise<Stored<ObjectRow> | undefined> =>
  bucket.versioning === '' ? findLiveHead(metadata, bucket, key) : findEitherHead(metadata, bucket, key);

async function findEitherHead(
  metadata: Metadata,
  bucket: BucketRow,
  key: string,
): Promise<Stored<ObjectRow> | undefined> {
  const live = await findLiveHead(metadata, bucket, key);
  if (live !== undefined) return live;
  const marker = await metadata.get(objectsAt(bucket), markerHeadAt(key));
  return marker ?? findLiveHead(metadata, bucket, key);
}

/**
 * The version of a key by its id; `null` finds the null version in the live space or the history.
 * @throws SlowDown where other requests move the versions of the key all the time
 */
export async function findVersion(
  metadata: Metadata,
  bucket: BucketRow,
  key: string,
  versionId: string,
): Promise<Stored<ObjectRow> | undefined> {
  let head = await findHead(metadata, bucket, key);
  for (let look = 0; look < looksMax; look += 1) {
    const found = await versionBehind(metadata, bucket, { key, versionId, head });
    if (found !== undefined) return found;
    // Versions move between head and history, and every move changes the head. So the version is absent if the head did not change.
    const now = await findHead(metadata, bucket, key);
    if (now?.revision === head?.revision) return undefined;
    head = now;
  }
  // About this key, while a store that is unavailable ends the work of a worker.
  throw fail('SlowDown', `The versions of ${key} never stood still.`);
}

async function versionBehind(
  metadata: Metadata,
  bucket: BucketRow,
  at: { readonly key: string; readonly versionId: string; readonly head: Stored<ObjectRow> | undefined },
): Promise<Stored<ObjectRow> | undefined> {
  const { key, versionId, head } = at;
  if (head === undefined) return undefined;
  const wantsNull = versionId === 'null';
  if (wantsNull ? head.row.isNull : head.row.version === versionId && !head.row.isNull) return head;
  const version = wantsNull ? head.row.nullVersion : versionId;
  if (version === undefined) return undefined;
  const found = await metadata.get(objectsAt(bucket), historyAt(key, version));
  return found?.row.isNull === wantsNull ? found : undefined;
}

/** The smallest text after a key: keys contain no NUL, so no key is in between. */
export const behind = (key: string): string => `${key}\u0001`;

/** The newest version in the history. */
export async function newestInHistory(
  metadata: Metadata,
  bucket: BucketRow,
  key: string,
): Promise<Stored<ObjectRow> | undefined> {
  const [newest] = await metadata
    .scan(objectsAt(bucket), { after: markerHeadAt(key), before: { space: historySpace, key: behind(key) } })
    .next(1);
  return newest;
}

/** Every version of a key, marker heads included, newest first. */
export const scanVersions = (
  metadata: Metadata,
  bucket: Pick<BucketRow, 'id' | 'shards' | 'generation'>,
  key: string,
): Cursor<typeof objects> =>
  metadata.scan(objectsAt(bucket), {
    from: { space: historySpace, key },
    before: { space: historySpace, key: behind(key) },
  });

const manifestAt = (id: string): At<typeof manifests> => ({ table: manifests, in: { id } });

/** A row of a large manifest. */
export const manifestRow = (id: string, segment: number, parts: readonly ManifestPart[]): SideChange => ({
  at: manifestAt(id),
  put: { id, segment, parts },
});

/** The rows of a large manifest, to be written before the head that names it. */
export function manifestRows(id: string, parts: readonly ManifestPart[]): SideChange[] {
  const rows: SideChange[] = [];
  for (let first = 0; first < parts.length; first += manifestSegmentParts) {
    const segment = first / manifestSegmentParts;
    rows.push(manifestRow(id, segment, parts.slice(first, first + manifestSegmentParts)));
  }
  return rows;
}

export const clearManifest = (metadata: Pick<MetadataStore, 'clear'>, id: string): Promise<void> =>
  metadata.clear(manifestAt(id), {});

/** The parts of a large manifest from a segment on, a segment at a time. */
export async function* manifestParts(
  metadata: Metadata,
  id: string,
  fromSegment = 0,
): AsyncGenerator<readonly ManifestPart[]> {
  const cursor = metadata.scan(manifestAt(id), { from: { segment: fromSegment } });
  for (let page = await cursor.next(1); page.length > 0; page = await cursor.next(1)) {
    for (const { row } of page) yield row.parts;
  }
}

/** All extents that hold the bytes of a manifest, in order. */
export async function* readExtents(metadata: Metadata, manifest: Manifest): AsyncGenerator<Extent> {
  if ('extents' in manifest) yield* manifest.extents;
  else if (manifest.whole !== undefined) yield manifest.whole;
  else if ('parts' in manifest) for (const part of manifest.parts) yield part.extent;
  else
    for await (const parts of manifestParts(metadata, manifest.manifestId))
      for (const part of parts) yield part.extent;
}

// Prefix ranges over text columns, in the order of UTF-8 bytes.

/**
 * The smallest text that sorts after every text with this prefix, or undefined when there is none (an empty prefix, or only
 * U+10FFFF). Code points sort like their UTF-8 bytes.
 */
export function prefixEnd(prefix: string): string | undefined {
  const points = Array.from(prefix);
  for (let last = points.pop(); last !== undefined; last = points.pop()) {
    const next = (last.codePointAt(0) ?? 0) + 1;
    if (next > 0x10ffff) continue;
    // Surrogates have no UTF-8 form: the code point after U+D7FF is U+E000.
    return points.join('') + String.fromCodePoint(next === 0xd800 ? 0xe000 : next);
  }
  return undefined;
}

/** The range of rows whose text `column` starts with `prefix`; `fixed` are the sort columns ahead of it. */
export function prefixRange<C extends string, F extends object = object>(
  column: C,
  prefix: string,
  fixed?: F,
): { from?: Record<C, string> & F; before?: Record<C, string> & F } {
  const at = (value: string) => ({ ...fixed, [column]: value }) as Record<C, string> & F;
  const end = prefixEnd(prefix);
  return {
    ...(prefix === '' ? {} : { from: at(prefix) }),
    ...(end === undefined ? {} : { before: at(end) }),
  };
}

// Reading several partitions as one, from their ends.

/** Rows of a partition that are read together. */
const readAhead = 64;

interface Source<Row> {
  readonly read: () => Promise<Row[]>;
  rows: Row[];
}

/** Merges the rows of cursors that run backwards: the newest row comes first. */
export const newestFirst = <T extends AnyTable>(
  cursors: readonly Cursor<T>[],
  isNewer: (a: RowOf<T>, b: RowOf<T>) => boolean,
): AsyncGenerator<RowOf<T>> => mergeRows(cursors, isNewer);

/** Merges the rows of cursors that all run in the order of `isBefore`. */
export async function* mergeRows<T extends AnyTable>(
  cursors: readonly Cursor<T>[],
  isBefore: (a: RowOf<T>, b: RowOf<T>) => boolean,
): AsyncGenerator<RowOf<T>> {
  const sources = await Promise.all(
    cursors.map(async (cursor): Promise<Source<RowOf<T>>> => {
      const read = async (): Promise<RowOf<T>[]> => (await cursor.next(readAhead)).map(({ row }) => row);
      return { read, rows: await read() };
    }),
  );
  for (;;) {
    let first: Source<RowOf<T>> | undefined;
    for (const source of sources) {
      const [row] = source.rows;
      if (row !== undefined && (first === undefined || isBefore(row, first.rows[0] as RowOf<T>)))
        first = source;
    }
    if (first === undefined) return;
    yield first.rows.shift() as RowOf<T>;
    if (first.rows.length === 0) first.rows = await first.read();
  }
}
