/**
 * The task that wraps every stored key again under the current version of its wrapping key: signing keys of buckets, and the keys of objects
 * and open uploads. It walks bucket by bucket, a page at a time, and resumes after a kill; what was wrapped again already is found and left.
 */
import type { Context } from '../../../context.ts';
import { fail } from '../../../errors/refusal.ts';
import { findTask, putTask, type Task, type TaskKind } from '../../../metadata/background/tasks.ts';
import type { TaskAmount } from '../../../metadata/records/tasks.ts';
import { countHeld } from '../../buckets/class-stats.ts';
import { type Recorder, recorded } from '../../events/recorder.ts';
import { advanceProgress, type Measure } from '../../tasks/progress.ts';

/** Versions that move while the history or the live heads are read are met in the walk that follows; so the history is read twice. */
export const phases = ['uploads', 'history', 'live', 'moved'] as const;

/** The bucket that is walked through, and the last row of the phase that was processed. */
export interface WalkedBucket {
  readonly name: string;
  readonly id: string;
  readonly phase: (typeof phases)[number];
  readonly after?: object;
}

export interface Rewrapping {
  readonly requestId: string;
  /** Store times (ms). */
  readonly startedAt: number;
  readonly finishedAt?: number;
  /** The place in the list of buckets. */
  readonly at: { readonly slot: number; readonly after?: string };
  readonly bucket?: WalkedBucket;
  readonly counts: RewrapCounts;
  /** Versions that the walk has read, encrypted ones or not. Absent in rows of an earlier release. */
  readonly versions?: number;
  readonly lastFailure?: { readonly bucket: string; readonly key?: string; readonly reason: string };
}

export interface RewrapCounts {
  readonly buckets: number;
  /** Wrapped again. */
  readonly signingKeys: number;
  readonly objects: number;
  readonly uploads: number;
  /** Under the current version already. */
  readonly current: number;
  /** The provider refused (the key is gone, may not be used, or did not wrap what is stored), or the row cannot hold the new text. */
  readonly failed: number;
}

export const rewrappings: TaskKind<Rewrapping> = { kind: 'rewrap' };

const measureRewrapping = ({ startedAt, finishedAt, versions = 0 }: Rewrapping): Measure => ({
  startedAt,
  finishedAt,
  done: { count: versions },
});

/** By the last count of all buckets. */
export async function leftToRewrap(
  ctx: Pick<Context, 'metadata'>,
  { state: { versions = 0 } }: Pick<Task<Rewrapping>, 'state'>,
): Promise<TaskAmount | undefined> {
  const held = await countHeld(ctx);
  return held && { count: Math.max(0, held.count - versions) };
}

const name = 'all';
/** How long a result is kept. */
const keptMs = 30 * 24 * 60 * 60 * 1000;

const none: RewrapCounts = { buckets: 0, signingKeys: 0, objects: 0, uploads: 0, current: 0, failed: 0 };

export const findRewrapping = ({
  metadata,
}: Pick<Context, 'metadata'>): Promise<Task<Rewrapping> | undefined> => findTask(metadata, rewrappings, name);

/** Begins a walk; does nothing while one is under way. @throws InvalidRequest where keys have no versions */
export async function beginRewrapping(
  ctx: Pick<Context, 'metadata' | 'keys'>,
  { record, requestId }: { readonly record?: Recorder | undefined; readonly requestId: string },
): Promise<Rewrapping> {
  if (ctx.keys?.rewrap === undefined)
    throw fail(
      'InvalidRequest',
      'There is no key provider whose keys have versions: SVC_KEY_PROVIDER must be transit, cloud-kms or pkcs11.',
    );
  const found = await findRewrapping(ctx);
  if (found !== undefined && found.state.finishedAt === undefined) return found.state;
  const startedAt = await ctx.metadata.now();
  const state: Rewrapping = { requestId, startedAt, at: { slot: 0 }, counts: none, versions: 0 };
  const outcome = await putTask(ctx.metadata, rewrappings, {
    name,
    state,
    progress: advanceProgress(undefined, measureRewrapping(state), startedAt),
    expect: found?.revision ?? 'absent',
    then: await recorded(record),
  });
  // Refused: another operator's request was committed first.
  if (!outcome.applied) return (await findRewrapping(ctx))?.state ?? state;
  record?.applied();
  return state;
}

/** Stores the next state; a step whose task has changed meanwhile is lost, and is repeated. */
export async function saveRewrapping(
  { metadata }: Pick<Context, 'metadata'>,
  { revision, progress: former }: Task<Rewrapping>,
  next: Rewrapping,
): Promise<void> {
  const expiresAt = next.finishedAt === undefined ? {} : { expiresAt: next.finishedAt + keptMs };
  const progress = advanceProgress(former, measureRewrapping(next), await metadata.now());
  await putTask(metadata, rewrappings, { name, state: next, progress, expect: revision, ...expiresAt });
}
