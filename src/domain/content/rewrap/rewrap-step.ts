/** One step of the walk: the next bucket with its signing key, or a page of the uploads or versions of the bucket that it is in. */
import { inParallel } from '../../../base/in-parallel.ts';
import { findBucket, nextBucket } from '../../../metadata/buckets/buckets.ts';
import { objectsAt } from '../../../metadata/objects/objects.ts';
import { uploadsIn } from '../../../metadata/objects/uploads.ts';
import {
  type BucketRow,
  historySpace,
  liveSpace,
  type ObjectRow,
  type objects,
} from '../../../metadata/tables.ts';
import type { SortOf } from '../../../ports/metadata-store.ts';
import { type Ctx, type Outcome, rewrapSigningKey, rewrapUpload, rewrapVersion } from './rewrap-one.ts';
import { phases, type RewrapCounts, type Rewrapping, type WalkedBucket } from './rewrapping.ts';

const pageRows = 256;
const atOnce = 8;

/** @throws KeyFailure where the provider is unavailable; the step is repeated then */
export async function rewrapStep(ctx: Ctx, state: Rewrapping): Promise<Rewrapping> {
  const { bucket: walked } = state;
  if (walked === undefined) return enterBucket(ctx, state);
  const found = await findBucket(ctx.metadata, walked.name);
  const bucket = found?.row.id === walked.id ? found.row : undefined;
  if (bucket === undefined) return leaveBucket(state);
  return walked.phase === 'uploads'
    ? uploadsPage(ctx, bucket, { state, walked })
    : versionsPage(ctx, bucket, { state, walked });
}

async function enterBucket(ctx: Ctx, state: Rewrapping): Promise<Rewrapping> {
  const next = await nextBucket(ctx.metadata, state.at);
  if (next === undefined) return { ...state, finishedAt: await ctx.metadata.now() };
  const at = { slot: next.slot, after: next.name };
  const found = await findBucket(ctx.metadata, next.name);
  if (found === undefined) return { ...state, at };
  const { id, name } = found.row;
  const outcome = await rewrapSigningKey(ctx, found.row);
  const entered = { ...state, at, bucket: { name, id, phase: phases[0] } };
  return counted(entered, 'signingKeys', [{ place: { bucket: name }, outcome }]);
}

function leaveBucket({ bucket: _, ...state }: Rewrapping): Rewrapping {
  return { ...state, counts: { ...state.counts, buckets: state.counts.buckets + 1 } };
}

interface Walk {
  readonly state: Rewrapping;
  readonly walked: WalkedBucket;
}

interface Done {
  readonly place: { readonly bucket: string; readonly key?: string };
  readonly outcome: Outcome;
}

function nextPhase({ state, walked: { after: _, ...walked } }: Walk): Rewrapping {
  const phase = phases[phases.indexOf(walked.phase) + 1];
  return phase === undefined ? leaveBucket(state) : { ...state, bucket: { ...walked, phase } };
}

async function uploadsPage(ctx: Ctx, bucket: BucketRow, walk: Walk): Promise<Rewrapping> {
  const { state, walked } = walk;
  const after = walked.after as { readonly key: string; readonly uploadId: string } | undefined;
  const cursor = ctx.metadata.scan(uploadsIn(bucket.id), after === undefined ? {} : { after });
  const page = await cursor.next(pageRows);
  const last = page.at(-1)?.row;
  if (last === undefined) return nextPhase(walk);
  const done: Done[] = [];
  await inParallel(atOnce, page, async ({ row: { key, uploadId } }) => {
    done.push({ place: { bucket: bucket.name, key }, outcome: await rewrapUpload(ctx, bucket, uploadId) });
  });
  const moved = { ...walked, after: { key: last.key, uploadId: last.uploadId } };
  return counted({ ...state, bucket: moved }, 'uploads', done);
}

async function versionsPage(ctx: Ctx, bucket: BucketRow, walk: Walk): Promise<Rewrapping> {
  const { state, walked } = walk;
  const space = walked.phase === 'live' ? liveSpace : historySpace;
  const after = walked.after as SortOf<typeof objects> | undefined;
  const range = {
    ...(after === undefined ? { from: { space } } : { after }),
    ...(space === liveSpace ? { before: { space: historySpace } } : {}),
  };
  const page = await ctx.metadata.scan(objectsAt(bucket), range).next(pageRows);
  const last = page.at(-1)?.row;
  if (last === undefined) return nextPhase(walk);
  const done: Done[] = [];
  const { requestId } = state;
  await inParallel(atOnce, page, async ({ row }) => {
    if (row.encryption?.by !== 'provider' || (walked.phase === 'moved' && !hasMoved(row, state))) return;
    const place = { bucket: bucket.name, key: row.key };
    done.push({ place, outcome: await rewrapVersion(ctx, bucket, { row, requestId }) });
  });
  const moved = { ...walked, after: { space: last.space, key: last.key, slot: last.slot } };
  // The history is read twice, and counted once.
  const read = walked.phase === 'moved' ? 0 : page.length;
  return counted({ ...state, bucket: moved, versions: (state.versions ?? 0) + read }, 'objects', done);
}

/** Clocks of gateways may differ by this much. */
const clocksMs = 60_000;

/** Whether a version came into the history since the walk began; the others were met there before. */
const hasMoved = ({ noncurrentSince }: ObjectRow, { startedAt }: Rewrapping): boolean =>
  noncurrentSince !== undefined && noncurrentSince >= startedAt - clocksMs;

function counted(
  state: Rewrapping,
  of: keyof Pick<RewrapCounts, 'signingKeys' | 'objects' | 'uploads'>,
  done: readonly Done[],
): Rewrapping {
  const { counts } = state;
  const rewrapped = done.filter(({ outcome }) => outcome === 'rewrapped').length;
  // A version that moved may have been counted before.
  const isSecond = state.bucket?.phase === 'moved';
  const current = isSecond ? 0 : done.filter(({ outcome }) => outcome === 'current').length;
  const failures = done.flatMap(({ place, outcome }) =>
    typeof outcome === 'object' ? [{ ...place, reason: outcome.failed }] : [],
  );
  const lastFailure = failures.at(-1);
  return {
    ...state,
    counts: {
      ...counts,
      [of]: counts[of] + rewrapped,
      current: counts.current + current,
      failed: counts.failed + failures.length,
    },
    ...(lastFailure === undefined ? {} : { lastFailure }),
  };
}
