/** The rows that listings of objects read: live heads only. `listed-versions.ts` reads versions. */
import type { Context } from '../../context.ts';
import { type ListedRow, listedColumns, objectsAt } from '../../metadata/objects/objects.ts';
import { prefixRange } from '../../metadata/objects/prefix.ts';
import { type BucketRow, liveSpace, type ObjectRow, type objects } from '../../metadata/tables.ts';
import type { Cursor, PartOf, SortOf } from '../../ports/metadata-store.ts';
import type { Listed } from './listing.ts';

type Ctx = Pick<Context, 'metadata'>;
export type Start = { readonly from: string } | { readonly after: string } | undefined;

interface Space<C> {
  readonly space: number;
  readonly prefix: string;
  readonly before?: string;
  readonly columns: readonly C[];
}

/** The rows of a bucket in one space under a prefix, or up to the end of a key under it. */
export function openSpace<C extends keyof ObjectRow>(
  { metadata }: Ctx,
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
  ctx: Ctx,
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
