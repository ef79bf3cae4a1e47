/**
 * Compares the counters of buckets with their rows, and corrects what drifted (spec, "Quota reconcile worker").
 *
 * A plain walk beside writers finds differences that do not exist. So a difference counts only when `proveUsage` has proven that no
 * commit explains it, and a correction adds the difference in a commit that states the last correction before.
 */

import { Refusal } from '../../base/errors.ts';
import type { Config } from '../../config.ts';
import type { Context } from '../../context.ts';
import { LeaseLost } from '../../metadata/background/leases.ts';
import { beginTerm, findTask, putTask, type TaskKind, type Term } from '../../metadata/background/tasks.ts';
import { findBucket, nextBucket } from '../../metadata/buckets/buckets.ts';
import { readUsage } from '../../metadata/buckets/usage.ts';
import type { BucketRow } from '../../metadata/tables.ts';
import type { MetadataStore, Revision } from '../../ports/metadata-store.ts';
import { passOverDamage } from '../common/damaged-buckets.ts';
import { correctUsage } from '../fsck/repairs.ts';
import { agreesWithRows, type Difference, proveUsage } from '../fsck/usage.ts';
import { enterIfLeftOut } from '../quotas/quota-limits.ts';
import { dropStrayLimits } from '../quotas/rate-limiter.ts';
import type { BucketPosition } from './progress.ts';

type Ctx = Pick<Context, 'caches' | 'metadata' | 'clock' | 'random' | 'config' | 'telemetry'>;

export interface ReconcileProgress {
  /** The position of the pass that is in progress. */
  readonly at?: BucketPosition;
  /** Store time of the next pass. */
  readonly nextAt: number;
}
/** A pass that begins again corrects no counter twice: it sets each to what the bucket holds. */
const reconcileTasks: TaskKind<ReconcileProgress> = { kind: 'quota-reconcile', restarts: [''] };

export interface SavedReconcile {
  readonly term: Term;
  readonly progress: ReconcileProgress;
  readonly revision: 'absent' | Revision;
}

/** @throws LeaseLost when a later leader has begun */
export async function holdReconcile(metadata: MetadataStore, generation: number): Promise<SavedReconcile> {
  const term = await beginTerm(metadata, reconcileTasks, generation);
  const found = await findTask(metadata, reconcileTasks, '');
  return { term, progress: found?.state ?? { nextAt: 0 }, revision: found?.revision ?? 'absent' };
}

async function advance(
  metadata: MetadataStore,
  { term, revision }: SavedReconcile,
  progress: ReconcileProgress,
): Promise<SavedReconcile> {
  const put = { name: '', state: progress, expect: revision, term };
  const outcome = await putTask(metadata, reconcileTasks, put);
  if (!outcome.applied) throw new LeaseLost(reconcileTasks.kind, term.generation);
  return { term, progress, revision: outcome.revision };
}

interface ReconcileTurn {
  readonly signal: AbortSignal;
  readonly runAt?: number | undefined;
  /** Called after each whole page of rows. */
  pause(): Promise<void>;
  /** Called ahead of each bucket. */
  rest(): Promise<void>;
}

/** The position is saved after so many buckets or so long (ms): what comes after it is compared again after a failure. */
const savedAfter = { buckets: 16, ms: 1_000 } as const;

type Walk = Pick<ReconcileTurn, 'signal' | 'pause'>;

interface Reconciled {
  readonly saved: SavedReconcile;
  readonly is: 'idle' | 'busy' | 'finished';
  /** How many buckets were compared, and the drift in bytes of those about which something was proven. */
  readonly compared: number;
  readonly drifts: ReadonlyMap<string, number>;
}

/** Compares the next buckets of the pass, if one is due. At the end of a pass it removes the rate limits of buckets that are gone. */
export async function stepReconcile(
  ctx: Ctx,
  former: SavedReconcile,
  { runAt = 0, rest, ...walk }: ReconcileTurn,
): Promise<Reconciled> {
  const { metadata, config, clock } = ctx;
  const { progress } = former;
  const now = await metadata.now();
  const endedAt = progress.nextAt - config.SVC_QUOTA_RECONCILE_INTERVAL;
  // A time further away than the interval is left from other settings, or from a clock that was set back.
  const isDue = now >= progress.nextAt || endedAt > now || endedAt < runAt;
  const drifts = new Map<string, number>();
  if (progress.at === undefined && !isDue) return { saved: former, is: 'idle', compared: 0, drifts };
  const begunAt = clock.elapsed();
  let at = progress.at ?? { slot: 0 };
  for (let compared = 0; ; compared += 1) {
    if (compared === savedAfter.buckets || clock.elapsed() - begunAt >= savedAfter.ms)
      return {
        saved: await advance(metadata, former, { at, nextAt: progress.nextAt }),
        is: 'busy',
        compared,
        drifts,
      };
    const next = await nextBucket(metadata, at);
    if (next === undefined) {
      await dropStrayLimits(ctx);
      const nextAt = now + config.SVC_QUOTA_RECONCILE_INTERVAL;
      return { saved: await advance(metadata, former, { nextAt }), is: 'finished', compared, drifts };
    }
    await rest();
    // fsck reports the damage.
    const driftBytes = await passOverDamage(ctx, {
      bucket: next.name,
      left: 'the counters of a bucket are not compared',
      run: () => reconcileUnlessRefused(ctx, next.name, walk),
    });
    if (driftBytes !== undefined) drifts.set(next.name, driftBytes);
    at = { slot: next.slot, after: next.name };
  }
}

/** A bucket that cannot be entered in a quota now, such as one whose counters are not settled, must not keep the pass from the others. */
async function reconcileUnlessRefused(ctx: Ctx, bucket: string, turn: Walk): Promise<number | undefined> {
  try {
    return await reconcileBucket(ctx, bucket, turn);
  } catch (cause) {
    if (!(cause instanceof Refusal)) throw cause;
    ctx.telemetry.log('WARN', 'a bucket is left to the next pass of quota-reconcile', { bucket, cause });
    return undefined;
  }
}

/** Returns the proven drift in bytes: positive when the counter is too low. Undefined when nothing was proven. */
async function reconcileBucket(ctx: Ctx, name: string, { signal, pause }: Walk): Promise<number | undefined> {
  const { metadata, telemetry } = ctx;
  const walk = { metadata, signal, pause };
  const seen = (await findBucket(metadata, name))?.row;
  if (seen !== undefined) await enterIfLeftOut(ctx, seen);
  const bucket = (await findBucket(metadata, name))?.row;
  if (bucket === undefined) return undefined;
  if (await agreesWithRows(walk, bucket)) return 0;
  const found = await proveUsage(walk, bucket);
  if (found === undefined) {
    telemetry.log('INFO', 'writers were too busy to compare the counters of a bucket with its rows', {
      bucket: name,
    });
    return undefined;
  }
  const deltas = found.proven.map(({ delta }) => delta);
  const driftBytes = deltas.reduce((sum, { bytes }) => sum + bytes, 0);
  if (await isTolerable(ctx, bucket, found.proven)) return driftBytes;
  const { fixed, left } = await correctUsage(ctx, bucket, found);
  telemetry.log('WARN', 'the counters of a bucket differed from its rows', {
    bucket: name,
    drift_bytes: driftBytes,
    drift_objects: deltas.reduce((sum, { objects }) => sum + objects, 0),
    outcome: fixed ?? left,
  });
  return driftBytes;
}

const toRatio = ({ SVC_QUOTA_RECONCILE_MIN_DRIFT_RATIO: percentage }: Config): number =>
  Number(percentage.slice(0, -1)) / 100;

/** Whether the drift is within the thresholds. A wrong number of objects never is, in any storage class. */
async function isTolerable(
  { metadata, config }: Pick<Ctx, 'metadata' | 'config'>,
  bucket: BucketRow,
  proven: readonly Difference[],
): Promise<boolean> {
  if (proven.some(({ delta }) => delta.objects !== 0)) return false;
  const used = [...(await readUsage(metadata, bucket.id)).values()].reduce(
    (sum, { bytes }) => sum + bytes,
    0,
  );
  const most = Math.max(config.SVC_QUOTA_RECONCILE_MIN_DRIFT_BYTES, used * toRatio(config));
  return Math.abs(proven.reduce((sum, { delta }) => sum + delta.bytes, 0)) <= most;
}
