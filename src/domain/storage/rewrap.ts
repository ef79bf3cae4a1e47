/**
 * The task that wraps every stored key again under the current version of its wrapping key: signing keys of buckets,
 * and the keys of objects and open uploads. It walks bucket by bucket, a page at a time, and resumes after a kill; what
 * was wrapped again already is found and left.
 */

import { inParallel } from '../../base/concurrency.ts';
import { fail, Refusal } from '../../base/errors.ts';
import { fromBase64, toBase64 } from '../../base/text/base64.ts';
import { keyProviderNames, keyProviders } from '../../config/keys.ts';
import type { Context } from '../../context.ts';
import {
  findSoundTask,
  findTask,
  putTask,
  type Task,
  type TaskKind,
} from '../../metadata/background/tasks.ts';
import { findBucket, nextBucket } from '../../metadata/buckets/buckets.ts';
import { objectsAt } from '../../metadata/objects/objects.ts';
import type { Encryption } from '../../metadata/objects/properties.ts';
import { findSession, replaceSession, uploadsIn } from '../../metadata/objects/uploads.ts';
import type { TaskAmount } from '../../metadata/records/tasks.ts';
import { soundPage } from '../../metadata/sound-rows.ts';
import {
  type BucketRow,
  historySpace,
  liveSpace,
  type ObjectRow,
  type objects,
} from '../../metadata/tables.ts';
import { isPassing, type KeyContext, KeyFailure } from '../../ports/key-provider.ts';
import { MetadataDamaged, RowTooLong, type SortOf } from '../../ports/metadata-store.ts';
import { countStored } from '../buckets/class-stats.ts';
import { signingContext } from '../buckets/signing-key.ts';
import { changeRow } from '../common/buckets.ts';
import { reportDamaged, unlessDamaged } from '../common/damaged-buckets.ts';
import { type Recorder, recorded } from '../common/recorder.ts';
import { advanceProgress, type Measure } from '../common/task-progress.ts';
import { type Provided, providedContext } from '../content/provider-key.ts';
import { amendVersion } from '../objects/amend-version.ts';
import type { CommitCtx } from '../objects/commit-version.ts';

/** Versions that move while the history or the live heads are read are met in the walk that follows; so the history is read twice. */
const phases = ['signing-key', 'uploads', 'history', 'live', 'moved'] as const;

/** The bucket that is walked through, and the last row of the phase that was processed. */
interface WalkedBucket {
  readonly name: string;
  readonly id: string;
  readonly phase: (typeof phases)[number];
  readonly after?: object;
  /** How often the walk left it, because other requests changed the bucket each time. */
  readonly leavings?: number;
}

export interface Rewrapping {
  readonly requestId: string;
  /** Store times (ms). */
  readonly startedAt: number;
  readonly finishedAt?: number;
  /** The place in the list of buckets. */
  readonly at: { readonly slot: number; readonly after?: string };
  readonly bucket?: WalkedBucket;
  /** Buckets to which the walk comes back, after the others. */
  readonly left?: readonly WalkedBucket[];
  readonly counts: RewrapCounts;
  /** Versions that the walk has read, encrypted ones or not. Absent in rows of an earlier release. */
  readonly versions?: number;
  readonly lastFailure?: { readonly bucket: string; readonly key?: string; readonly reason: string };
}

interface RewrapCounts {
  readonly buckets: number;
  /** Wrapped again. */
  readonly signingKeys: number;
  readonly objects: number;
  readonly uploads: number;
  /** Under the current version already. */
  readonly current: number;
  /**
   * The provider refused (the key is gone, unavailable, may not be used, or did not wrap what is stored), or the row
   * cannot hold the new text.
   */
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
  const stored = await countStored(ctx);
  return stored && { count: Math.max(0, stored.count - versions) };
}

const name = 'all';
/** How long a result is kept. */
const retentionMs = 30 * 24 * 60 * 60 * 1000;

const none: RewrapCounts = { buckets: 0, signingKeys: 0, objects: 0, uploads: 0, current: 0, failed: 0 };

export const findRewrapping = ({
  metadata,
}: Pick<Context, 'metadata'>): Promise<Task<Rewrapping> | undefined> => findTask(metadata, rewrappings, name);

/** Begins a walk; does nothing while one is under way. @throws InvalidRequest where keys have no versions */
export async function beginRewrapping(
  ctx: Pick<Context, 'metadata' | 'keys'>,
  { record, requestId }: { readonly record?: Recorder | undefined; readonly requestId: string },
): Promise<Rewrapping> {
  if (ctx.keys?.rewrap === undefined) {
    const versioned = keyProviderNames.filter((provider) => keyProviders[provider].hasVersions);
    throw fail(
      'InvalidRequest',
      `The keys have no versions: SVC_KEY_PROVIDER must be one of ${versioned.join(', ')}.`,
    );
  }
  const found = await findSoundTask(ctx.metadata, rewrappings, name);
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
  const expiresAt = next.finishedAt === undefined ? {} : { expiresAt: next.finishedAt + retentionMs };
  const progress = advanceProgress(former, measureRewrapping(next), await metadata.now());
  await putTask(metadata, rewrappings, { name, state: next, progress, expect: revision, ...expiresAt });
}

// One step of the walk: the next bucket with its signing key, or a page of the uploads or versions of the bucket that it is in.

const pageRows = 256;
const atOnce = 8;
/** Then what a bucket refuses counts as failed. A bucket that a dead process left closed opens sooner: the worker rests before each. */
const leavingsMax = 20;
/** As JSON, so that the state fits into its row: eight buckets or more, unless their keys are long. */
const leftLengthMax = 1_200;

/** @throws KeyFailure where the provider is unavailable; the step is repeated then */
export async function rewrapStep(context: StepCtx, state: Rewrapping): Promise<Rewrapping> {
  const { bucket: walked, left = [] } = state;
  const mayLeave =
    (walked?.leavings ?? 0) < leavingsMax && JSON.stringify([left, walked]).length < leftLengthMax;
  const ctx: Ctx = { ...context, mayLeave, unavailableKeys: new Map() };
  if (walked === undefined) return enterBucket(ctx, state);
  const found = await unlessDamaged(() => findBucket(ctx.metadata, walked.name));
  if (found instanceof MetadataDamaged)
    return leaveBucket(damagedIn(ctx, state, { bucket: walked.name, found }));
  const bucket = found?.row.id === walked.id ? found.row : undefined;
  if (bucket === undefined) return leaveBucket(state);
  return walk(ctx, bucket, { state, walked });
}

/** A bucket that other requests change each time is left, so that the others do not wait for it. */
async function walk(ctx: Ctx, bucket: BucketRow, at: Walk): Promise<Rewrapping> {
  const { state, walked } = at;
  try {
    if (walked.phase === 'uploads') return await uploadsPage(ctx, bucket, at);
    if (walked.phase !== 'signing-key') return await versionsPage(ctx, bucket, at);
    const outcome = await settled(ctx, () => wrapSigningKey(ctx, bucket));
    const done = [{ place: { bucket: bucket.name }, outcome }];
    return nextPhase({ state: counted(state, 'signingKeys', done), walked });
  } catch (cause) {
    if (!(cause instanceof Refusal) || cause.code !== 'OperationAborted') throw cause;
    const { bucket: _, left = [], ...others } = state;
    return { ...others, left: [...left, { ...walked, leavings: (walked.leavings ?? 0) + 1 }] };
  }
}

async function enterBucket(ctx: Ctx, state: Rewrapping): Promise<Rewrapping> {
  const next = await nextBucket(ctx.metadata, state.at);
  const [bucket, ...left] = state.left ?? [];
  if (next === undefined)
    return bucket === undefined
      ? { ...state, finishedAt: await ctx.metadata.now() }
      : { ...state, bucket, left };
  const at = { slot: next.slot, after: next.name };
  const found = await unlessDamaged(() => findBucket(ctx.metadata, next.name));
  if (found instanceof MetadataDamaged) return damagedIn(ctx, { ...state, at }, { bucket: next.name, found });
  if (found === undefined) return { ...state, at };
  const { id, name } = found.row;
  return walk(ctx, found.row, { state: { ...state, at }, walked: { name, id, phase: phases[0] } });
}

function damagedIn(
  ctx: Ctx,
  state: Rewrapping,
  { bucket, found }: { readonly bucket: string; readonly found: MetadataDamaged },
): Rewrapping {
  return counted(state, 'signingKeys', notRead(ctx, bucket, [found]));
}

/** Damaged rows are counted as failed, and the walk goes on. */
function notRead(ctx: Ctx, bucket: string, damaged: readonly MetadataDamaged[]): readonly Done[] {
  reportDamaged(ctx, { bucket, left: 'keys are not wrapped again', damaged });
  return damaged.map(({ message }) => ({ place: { bucket }, outcome: { failed: message } }));
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
  const { rows, damaged, isEnd } = await soundPage(cursor, pageRows);
  const done = [...notRead(ctx, bucket.name, damaged)];
  await inParallel(atOnce, rows, async ({ row: { key, uploadId } }) => {
    done.push({
      place: { bucket: bucket.name, key },
      outcome: await settled(ctx, () => wrapUpload(ctx, bucket, uploadId)),
    });
  });
  const next = counted(state, 'uploads', done);
  const last = rows.at(-1)?.row;
  if (isEnd || last === undefined) return nextPhase({ state: next, walked });
  return { ...next, bucket: { ...walked, after: { key: last.key, uploadId: last.uploadId } } };
}

async function versionsPage(ctx: Ctx, bucket: BucketRow, walk: Walk): Promise<Rewrapping> {
  const { state, walked } = walk;
  const space = walked.phase === 'live' ? liveSpace : historySpace;
  const after = walked.after as SortOf<typeof objects> | undefined;
  const range = {
    ...(after === undefined ? { from: { space } } : { after }),
    ...(space === liveSpace ? { before: { space: historySpace } } : {}),
  };
  const { rows, damaged, isEnd } = await soundPage(ctx.metadata.scan(objectsAt(bucket), range), pageRows);
  // The history is read twice, and counted once.
  const isSecond = walked.phase === 'moved';
  const done = isSecond ? [] : [...notRead(ctx, bucket.name, damaged)];
  const { requestId } = state;
  await inParallel(atOnce, rows, async ({ row }) => {
    if (row.encryption?.by !== 'provider' || (isSecond && !hasMoved(row, state))) return;
    const place = { bucket: bucket.name, key: row.key };
    done.push({ place, outcome: await settled(ctx, () => wrapVersion(ctx, bucket, { row, requestId })) });
  });
  const read = isSecond ? 0 : rows.length;
  const next = counted({ ...state, versions: (state.versions ?? 0) + read }, 'objects', done);
  const last = rows.at(-1)?.row;
  if (isEnd || last === undefined) return nextPhase({ state: next, walked });
  return { ...next, bucket: { ...walked, after: { space: last.space, key: last.key, slot: last.slot } } };
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

// Wraps one stored key again, under the revision of the row that holds it.

type StepCtx = CommitCtx & Pick<Context, 'keys' | 'telemetry'>;

interface Ctx extends StepCtx {
  /** By id: the keys that the provider could not use in this step, and why. The rows that they wrapped fail without another call. */
  readonly unavailableKeys: Map<string, string>;
  /** Whether the walk leaves a bucket that other requests change each time. */
  readonly mayLeave: boolean;
}

/** `gone`: the row was deleted, or has another key now. */
type Outcome = 'rewrapped' | 'current' | 'gone' | { readonly failed: string };

/** Attempts against requests that change a session. */
const attemptsMax = 4;

/**
 * A key that is unavailable counts as failed although a later call may succeed: it may be the key of one tenant, and
 * the walk goes on to the keys of others.
 * @throws KeyFailure where the provider fails, or takes no more calls: the walk waits and repeats the page
 */
async function again(
  { keys, unavailableKeys }: Ctx,
  { keyId, wrapped }: { readonly keyId: string; readonly wrapped: string },
  context: KeyContext,
): Promise<{ readonly wrapped: string } | Outcome> {
  const unavailable = unavailableKeys.get(keyId);
  if (unavailable !== undefined) return { failed: unavailable };
  try {
    const next = await keys?.rewrap?.({ keyId, wrapped: fromBase64(wrapped) }, context);
    return next === undefined ? 'current' : { wrapped: toBase64(next.wrapped) };
  } catch (cause) {
    if (!(cause instanceof KeyFailure)) throw cause;
    const isOfKey = cause.reason === 'key-unavailable';
    if (isPassing(cause) && !isOfKey) throw cause;
    if (isOfKey) unavailableKeys.set(keyId, cause.message);
    return { failed: cause.message };
  }
}

/**
 * A row that cannot be changed is counted as failed, because it would stop the walk for ever. So is `SlowDown`, by which a client that changes
 * one version without end would do that.
 * @throws ServiceUnavailable: the walk repeats the page; OperationAborted where it may leave the bucket
 */
async function settled({ mayLeave }: Ctx, work: () => Promise<Outcome>): Promise<Outcome> {
  try {
    return await work();
  } catch (cause) {
    if (cause instanceof RowTooLong || cause instanceof MetadataDamaged) return { failed: cause.message };
    if (!(cause instanceof Refusal) || cause.code === 'ServiceUnavailable') throw cause;
    if (mayLeave && cause.code === 'OperationAborted') throw cause;
    // The bucket or the version was deleted meanwhile.
    if (cause.code.startsWith('NoSuch')) return 'gone';
    return { failed: `${cause.code}: ${cause.message}` };
  }
}

const isWrapped = (input: { readonly wrapped: string } | Outcome): input is { readonly wrapped: string } =>
  typeof input === 'object' && 'wrapped' in input;

const isProvided = (encryption: Encryption | undefined): encryption is Provided =>
  encryption?.by === 'provider';

async function wrapSigningKey(ctx: Ctx, bucket: BucketRow): Promise<Outcome> {
  const key = bucket.signingKey;
  if (key === undefined) return 'gone';
  const next = await again(ctx, key, signingContext(bucket));
  if (!isWrapped(next)) return next;
  const changed = await changeRow(ctx, bucket, {
    plan: (row) =>
      row.signingKey?.wrapped === key.wrapped
        ? { row: { ...row, signingKey: { ...key, id: key.id ?? key.wrapped, wrapped: next.wrapped } } }
        : undefined,
  });
  return changed === undefined ? 'gone' : 'rewrapped';
}

interface FoundVersion {
  readonly row: ObjectRow;
  readonly requestId: string;
}

async function wrapVersion(ctx: Ctx, bucket: BucketRow, { row, requestId }: FoundVersion): Promise<Outcome> {
  const { key, version, isNull, encryption } = row;
  if (!isProvided(encryption)) return 'gone';
  const next = await again(ctx, encryption, providedContext({ bucket, key }, encryption));
  if (!isWrapped(next)) return next;
  let isDone = false;
  const amend = (now: ObjectRow): ObjectRow => {
    isDone = now.encryption?.wrapped === encryption.wrapped;
    return isDone ? { ...now, encryption: { ...encryption, wrapped: next.wrapped } } : now;
  };
  await amendVersion(ctx, { bucket, key, versionId: isNull ? 'null' : version, requestId, amend });
  return isDone ? 'rewrapped' : 'gone';
}

async function wrapUpload(ctx: Ctx, bucket: BucketRow, uploadId: string): Promise<Outcome> {
  for (let attempt = 0; attempt < attemptsMax; attempt += 1) {
    const found = await findSession(ctx.metadata, uploadId);
    const session = found?.row.session;
    if (found === undefined || session === undefined) return 'gone';
    const { encryption, key, state } = session;
    if (!isProvided(encryption)) return 'gone';
    // The completion takes the key as it was, or was cut short, and gc lets the upload take parts again.
    if (state === 'completing') return { failed: 'the upload is being completed' };
    if (state !== 'uploading') return 'gone';
    const next = await again(ctx, encryption, providedContext({ bucket, key }, encryption));
    if (!isWrapped(next)) return next;
    const replaced = { ...session, encryption: { ...encryption, wrapped: next.wrapped } };
    if ((await replaceSession(ctx.metadata, found, { session: replaced })).applied) return 'rewrapped';
  }
  return { failed: `upload ${uploadId} changed each time` };
}
