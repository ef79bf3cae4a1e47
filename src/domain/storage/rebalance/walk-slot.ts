/** A pass over the buckets of a slot, which any process can resume. */

import { inParallel } from '../../../base/in-parallel.ts';
import type { ClaimedSlot, SlotRow } from '../../../metadata/background/rebalance.ts';
import { bucketsInSlot, findBucket } from '../../../metadata/buckets/buckets.ts';
import { objectsAt } from '../../../metadata/objects/objects.ts';
import { findSession, uploadsIn } from '../../../metadata/objects/uploads.ts';
import type { EndedPass, OpenPass } from '../../../metadata/records/rebalance.ts';
import type { BucketRow } from '../../../metadata/tables.ts';
import { parseCluster } from '../../uploads/upload-session.ts';
import { addTo, type Ctx, type Found, type Tending, tendVersion } from './tend-version.ts';

/** Versions between two saved positions. */
const pageRows = 100;
/** Versions that move concurrently; they share one rate limit. */
const movesMax = 4;
/** After this time the slot is released, so that a successor or another process gets its turn. */
const turnMs = 5_000;

/**
 * @param from the position where the pass resumes
 * @returns whether the pass reached its end
 * @throws LeaseLost once a later holder of the slot's lease has claimed the slot
 */
export async function walkSlot(
  ctx: Ctx,
  tending: Tending,
  { claimed, from: row }: { readonly claimed: ClaimedSlot; readonly from: SlotRow },
): Promise<boolean> {
  const { metadata, clock } = ctx;
  const { slot, ended } = row;
  const until = clock.elapsed() + turnMs;
  let pass = row.open ?? (await openPass(ctx, tending));
  const note = async (next: OpenPass): Promise<void> => {
    pass = next;
    await claimed.put({ slot, open: pass, ...(ended === undefined ? {} : { ended }) });
  };
  const isOver = (): boolean => tending.signal.aborted || clock.elapsed() >= until;
  for await (const name of bucketsInSlot(metadata, slot, placeIn(pass))) {
    const bucket = (await findBucket(metadata, name))?.row;
    if (bucket !== undefined) {
      if (pass.bucket !== name) {
        const { after: _, ...fresh } = pass;
        await note({ ...fresh, bucket: name });
      }
      for await (const next of pages(ctx, tending, { bucket, pass })) {
        await note(next);
        if (isOver()) return false;
      }
    }
    await note({ ...pass, bucket: name, after: 'end' });
    if (isOver()) return false;
  }
  const over: EndedPass = { ...pass, endedAt: await metadata.now() };
  await claimed.put({ slot, ended: withoutPlace(over) });
  return true;
}

const openPass = async ({ metadata }: Ctx, { clusters }: Tending): Promise<OpenPass> => ({
  startedAt: await metadata.now(),
  clusters: [...clusters],
  found: {},
});

function placeIn({ bucket, after }: OpenPass): Parameters<typeof bucketsInSlot>[2] {
  if (bucket === undefined) return {};
  return after === 'end' ? { after: { name: bucket } } : { from: { name: bucket } };
}

const withoutPlace = ({ startedAt, endedAt, clusters, found }: EndedPass): EndedPass => ({
  startedAt,
  endedAt,
  clusters,
  found,
});

/** Yields the position after each page of versions, and after the open uploads, which come last. */
async function* pages(
  ctx: Ctx,
  tending: Tending,
  { bucket, pass }: { readonly bucket: BucketRow; readonly pass: OpenPass },
): AsyncGenerator<OpenPass> {
  let now = pass;
  const { after } = pass;
  const cursor = ctx.metadata.scan(
    objectsAt(bucket),
    after === undefined || after === 'end' ? {} : { after },
  );
  for (let page = await cursor.next(pageRows); page.length > 0; page = await cursor.next(pageRows)) {
    const found: Found = new Map(Object.entries(now.found));
    const each = await inParallel(movesMax, page, ({ row }) => tendVersion(ctx, tending, { bucket, row }));
    for (const one of each) for (const [cluster, more] of one) addTo(found, cluster, more);
    const { space, key, slot } = (page.at(-1) as (typeof page)[number]).row;
    now = { ...now, found: Object.fromEntries(found), after: { space, key, slot } };
    yield now;
  }
  const found: Found = new Map(Object.entries(now.found));
  await countUploads(ctx, bucket, { found, clusters: tending.clusters });
  yield { ...now, found: Object.fromEntries(found), after: 'end' };
}

/** Counts open uploads. They do not move, because their parts go to the cluster where the upload began. */
async function countUploads(
  { metadata }: Ctx,
  bucket: BucketRow,
  { found, clusters }: { readonly found: Found; readonly clusters: ReadonlySet<string> },
): Promise<void> {
  if (clusters.size === 0) return;
  const open = metadata.scan(uploadsIn(bucket.id));
  for (let page = await open.next(pageRows); page.length > 0; page = await open.next(pageRows)) {
    for (const { row } of page) {
      const session = (await findSession(metadata, row.uploadId))?.row.session;
      if (session !== undefined && clusters.has(parseCluster(session)))
        addTo(found, parseCluster(session), { uploads: 1 });
    }
  }
}
