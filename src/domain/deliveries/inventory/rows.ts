/** The versions that an inventory lists, a page at a time, from a position on. */
import type { Context } from '../../../context.ts';
import { fail } from '../../../errors/refusal.ts';
import { findBucket } from '../../../metadata/buckets/buckets.ts';
import { listedColumns, listedVersionColumns } from '../../../metadata/objects/objects.ts';
import { type BucketRow, liveSpace, type ObjectRow } from '../../../metadata/tables.ts';
import type { Inventory } from '../../configurations/inventory.ts';
import { openSpace, seekTo } from '../../listings/listed-objects.ts';
import { everyVersion } from '../../listings/listed-versions.ts';
import { listColumns } from './fields.ts';

/** The last version that was listed. */
export interface InventoryPlace {
  readonly key: string;
  /** Absent where only current versions are listed. */
  readonly version?: string;
}

/** Few, so that the rows of a page are garbage before they are copied to the old generation of the heap. */
const pageRows = 200;
/** Pages that are read by one row of the bucket. */
const reopenPages = 50;

export interface Walk {
  readonly inventory: Inventory;
  readonly after: InventoryPlace | undefined;
  /** The largest number of rows. */
  readonly max: number;
  /** Called after each page with its rows; the requests of this process get a turn. */
  pause(rows: number): Promise<void>;
  readonly signal: AbortSignal;
}

/** @throws the reason of the signal */
export async function* inventoryRows(
  ctx: Pick<Context, 'metadata'>,
  bucket: BucketRow,
  { inventory, after, max, pause, signal }: Walk,
): AsyncGenerator<readonly ObjectRow[]> {
  let place = after;
  let next = openRows(ctx, bucket, { inventory, after: place });
  let pages = 0;
  for (let left = max; left > 0; ) {
    signal.throwIfAborted();
    // The bucket may split its shards meanwhile: read on by its present row.
    if (++pages % reopenPages === 0)
      next = openRows(ctx, await sameBucket(ctx, bucket), { inventory, after: place });
    const rows = await next(Math.min(pageRows, left));
    const last = rows.at(-1);
    if (last === undefined) return;
    place = toPlace(inventory, last);
    left -= rows.length;
    yield rows;
    // Reads of an embedded store and encoding never wait, so without this pause no request of this process would be served.
    await pause(rows.length);
  }
}

/** The place of a row, from which a walk continues behind it. */
export const toPlace = (
  { IncludedObjectVersions }: Inventory,
  { key, version }: Pick<ObjectRow, 'key' | 'version'>,
): InventoryPlace => ({ key, ...(IncludedObjectVersions === 'All' ? { version } : {}) });

/** @throws NoSuchBucket when the bucket was deleted, and perhaps made again */
async function sameBucket(ctx: Pick<Context, 'metadata'>, { id, name }: BucketRow): Promise<BucketRow> {
  const row = (await findBucket(ctx.metadata, name))?.row;
  if (row?.id !== id) throw fail('NoSuchBucket', { elements: { BucketName: name } });
  return row;
}

type Next = (count: number) => Promise<readonly ObjectRow[]>;

/** The casts: a row has the columns that the fields of the inventory read, and no field reads another one. */
function openRows(
  ctx: Pick<Context, 'metadata'>,
  bucket: BucketRow,
  { inventory, after }: Pick<Walk, 'inventory' | 'after'>,
): Next {
  const prefix = inventory.Filter?.Prefix ?? '';
  const reads = listColumns(inventory).flatMap((column) => column.reads);
  if (inventory.IncludedObjectVersions === 'All') {
    const columns = [...new Set([...listedVersionColumns, ...reads])];
    const start = after === undefined ? undefined : { key: after.key, version: after.version ?? '' };
    const versions = everyVersion(ctx, bucket, { prefix, start, columns });
    return async (count) => (await versions.next(count)) as readonly ObjectRow[];
  }
  const columns = [...new Set([...listedColumns, ...reads])];
  const cursor = openSpace(ctx, bucket, { space: liveSpace, prefix, columns });
  if (after !== undefined) seekTo(cursor, liveSpace, { after: after.key });
  return async (count) => (await cursor.next(count)).map(({ row }) => row as ObjectRow);
}
