/** Commits a decision about one key: reads its head, decides, commits, and starts again when another writer came first. */
import type { Awaitable } from '../../base/awaitable.ts';
import { fail } from '../../base/errors.ts';
import { MultiKeyMutex } from '../../base/mutex.ts';
import type { Context } from '../../context.ts';
import { releaseUnmanaged } from '../../metadata/background/queues.ts';
import { type UsageDelta, usageChanges } from '../../metadata/buckets/usage.ts';
import { addBefore, ageChanges, announceLateVersion } from '../../metadata/objects/ages.ts';
import { findHead, historyAt, objectsAt } from '../../metadata/objects/objects.ts';
import { tombstone } from '../../metadata/objects/removed-versions.ts';
import type { BucketRow, ObjectRow } from '../../metadata/tables.ts';
import type { Op, SideChange, Stored } from '../../ports/metadata-store.ts';
import { refreshBucket } from '../common/buckets.ts';
import { inlineExtents, queueManifest } from '../common/garbage.ts';
import type { Recorder } from '../common/recorder.ts';
import { bucketLifecycle, bucketReplication } from '../configurations/families.ts';
import { type Amount, type Freed, nothing, sum } from '../quotas/amounts.ts';
import { assertSize, hasQuota, type Reservation, withReservation } from '../quotas/reservation.ts';
import type { ReadHead } from './conditions.ts';
import { assertRemovable, lockTime } from './object-lock.ts';
import { replicated, withPendingStamp } from './replication-queue.ts';
import { type Plan, wasSent } from './versions.ts';

export type CommitCtx = Pick<Context, 'caches' | 'metadata' | 'clock' | 'random' | 'config'>;

/** The rows that a decision is based on; each attempt reads them again, except for a head that was requested beforehand. */
export interface KeyState {
  readonly bucket: BucketRow;
  readonly head: Stored<ObjectRow> | undefined;
  /** The null version in the history, behind the head. */
  readonly oldNull: Stored<ObjectRow> | undefined;
}

export interface KeyChange {
  readonly bucket: BucketRow;
  readonly key: string;
  readonly requestId: string;
  readonly op?: Op;
  /** Names the rows of the side changes, also when there is no op. */
  readonly id: string;
  /** Side changes in addition to the plan's own. */
  readonly then?: readonly SideChange[];
  readonly record?: Recorder | undefined;
  /** Removes versions under GOVERNANCE retention: the caller asked for the bypass and has the permission. */
  readonly bypass?: boolean;
  /**
   * The head as the caller has read it, for the first attempt: a stale one only refuses the commit. Not in buckets with suspended
   * versioning, whose older null version is read too.
   */
  readonly known?: ReadHead | undefined;
  /** A lifecycle rule asks for the change. */
  readonly isByLifecycle?: boolean;
  /** Room that the caller has reserved and gives back. */
  readonly reservation?: Reservation | undefined;
  /** Parts of an upload that leave the counters with the commit (`then`). */
  readonly freed?: Freed | undefined;
  /** Decides what to do, or that nothing needs doing. Refusals are thrown. */
  decide(state: KeyState): Awaitable<Plan | undefined>;
  /** Called with the row that refused the commit; `true` ends the change without another attempt. */
  lost?(winner: ObjectRow, state: KeyState): boolean;
}

export type KeyOutcome =
  | { readonly done: 'applied'; readonly plan: Plan }
  | { readonly done: 'nothing' }
  | { readonly done: 'lost'; readonly winner: ObjectRow };

/** After this many attempts, most of them with pauses, the client gets `SlowDown`. */
const attemptsMax = 64;
/** Later attempts pause: the writers of other processes come first again and again. */
const eagerAttempts = 4;
const pauseStepMs = 4;
const pauseMaxMs = 100;

const pause = (ctx: Pick<CommitCtx, 'clock' | 'random'>, attempt: number): Promise<void> => {
  const longest = Math.min((attempt - eagerAttempts + 1) * pauseStepMs, pauseMaxMs);
  return ctx.clock.sleep((longest * ((ctx.random.bytes(1)[0] ?? 0) + 1)) / 256);
};

/** By key. Once one has lost, the writers of this process take turns: otherwise n of them would make some n² attempts. */
class WritersInTurn extends MultiKeyMutex {}

export const changeKey = (ctx: CommitCtx, change: KeyChange): Promise<KeyOutcome> =>
  change.reservation === undefined
    ? withReservation(ctx, (reservation) => changeReserved(ctx, change, reservation))
    : changeReserved(ctx, change, change.reservation);

async function changeReserved(
  ctx: CommitCtx,
  change: KeyChange,
  reservation: Reservation,
): Promise<KeyOutcome> {
  const turns = ctx.caches.of(WritersInTurn);
  const name = `${change.bucket.id} ${change.key}`;
  const trial: Trial = { bucket: change.bucket, reservation, known: change.known };
  const outcome = turns.lines.has(name) ? undefined : await tryChange(ctx, change, trial);
  if (outcome !== undefined) return outcome;
  trial.known = undefined;
  return turns.run([name], async () => {
    for (let attempt = 1; attempt < attemptsMax; attempt += 1) {
      if (attempt >= eagerAttempts) await pause(ctx, attempt);
      const later = await tryChange(ctx, change, trial);
      if (later !== undefined) return later;
    }
    throw fail('SlowDown', 'Too many concurrent requests change this key.');
  });
}

/** What the next attempt of a change starts with. */
interface Trial {
  bucket: BucketRow;
  readonly reservation: Reservation;
  known: ReadHead | undefined;
}

/** Undefined where another writer came first. */
async function tryChange(ctx: CommitCtx, change: KeyChange, trial: Trial): Promise<KeyOutcome | undefined> {
  const { bucket, reservation } = trial;
  const known = bucket.versioning === 'Suspended' ? undefined : trial.known;
  const state =
    known === undefined
      ? await readState(ctx, bucket, change.key)
      : { bucket, head: known.head, oldNull: undefined };
  const decided = await change.decide(state);
  if (decided === undefined) return { done: 'nothing' };
  const { requestId, isByLifecycle } = change;
  const mayReplicate = isReplicated(bucket) && (!isByLifecycle || ctx.config.SVC_REPLICATION_LIFECYCLE);
  const plan = mayReplicate
    ? await replicated(ctx, decided, { bucket, requestId })
    : decided.amended === undefined
      ? decided
      : withPendingStamp(decided);
  if (plan.gone.some(({ lock }) => lock !== undefined)) await assertUnlocked(ctx, plan, change);
  const { op } = change;
  const recorded = (await change.record?.changes({ ...plan, bucket })) ?? [];
  const now = plan.gone.length > 0 ? await ctx.metadata.now() : 0;
  const due = now + ctx.config.SVC_GC_GRACE;
  const deltas = usageDeltas(plan);
  const growth = hasQuota(bucket)
    ? await coverGrowth(bucket, { plan, deltas, reservation, freed: change.freed })
    : nothing;
  const then = sideChanges(bucket, change, plan, { recorded, due, deltas, updatedAt: ctx.clock.now() });
  then.push(...tombstones(ctx, plan, now));
  const outcome = await ctx.metadata
    .commit(objectsAt(bucket), plan.changes, op ? { op, then } : { then })
    .catch((cause: unknown) => {
      reservation.doubt();
      throw cause;
    });
  if (outcome.applied) {
    reservation.applied(growth, change.freed);
    change.record?.applied();
    return { done: 'applied', plan };
  }
  if (outcome.because === 'abandoned')
    throw fail('ServiceUnavailable', 'The write took too long and was given up. Please retry.');
  if (outcome.because === 'fenced') trial.bucket = await refreshBucket(ctx, bucket);
  else if (outcome.current !== undefined && change.lost?.(outcome.current.row, state))
    return { done: 'lost', winner: outcome.current.row };
  return undefined;
}

/**
 * Refuses to remove versions under Object Lock. A plan names the revision of each row that it removes, so a retention or hold that
 * is set meanwhile refuses the commit, and this check runs again.
 */
async function assertUnlocked(ctx: CommitCtx, { gone }: Plan, { bypass = false }: KeyChange): Promise<void> {
  const now = await lockTime(ctx);
  for (const row of gone) assertRemovable(row, { now, bypass });
}

async function readState(ctx: CommitCtx, bucket: BucketRow, key: string): Promise<KeyState> {
  const head = await findHead(ctx.metadata, bucket, key);
  const nullVersion = bucket.versioning === 'Suspended' ? head?.row.nullVersion : undefined;
  const oldNull =
    nullVersion === undefined
      ? undefined
      : await ctx.metadata.get(objectsAt(bucket), historyAt(key, nullVersion));
  return { bucket, head, oldNull };
}

const tombstones = ({ config }: CommitCtx, { gone }: Plan, now: number): readonly SideChange[] =>
  gone.filter(wasSent).map((row) => tombstone(row, { now, retentionMs: config.SVC_REPLICATION_TOMBSTONES }));

/** The change of usage of a version that a plan moves to another storage class. */
const reclassified = ({ former, amended }: Plan) =>
  former === undefined || amended === undefined || former.storageClass === amended.storageClass
    ? []
    : [usageDelta(former, -1), usageDelta(amended, 1)];

/**
 * The lifecycle worker has left days before the last two behind it, once they had no entries. A new entry is that old for a replica, an
 * imported object, and a version that becomes current again because a newer one is removed.
 */
const oldMs = 36 * 60 * 60 * 1000;

/**
 * The changes of the age index; nothing is computed for a bucket without one. An entry on an old day makes the lifecycle worker begin
 * with the first day again.
 */
function aged(bucket: BucketRow, { before, changes }: Plan, now: number): readonly SideChange[] {
  if (bucket.ageSlots === undefined) return [];
  const after = changes.flatMap((each) => ('put' in each ? [each.put] : []));
  const entries = ageChanges(bucket, { before, after });
  const isLate = addBefore(entries, now - oldMs) && bucketLifecycle.name in bucket.documents;
  return isLate ? [...entries, announceLateVersion(bucket)] : entries;
}

const usageDelta = ({ storageClass, size, marker }: ObjectRow, sign: 1 | -1): UsageDelta => ({
  storageClass,
  bytes: sign * size,
  objects: marker ? 0 : sign,
});

/** Delete markers are in the list with amounts of 0, because the counter stores the time of each write and each deletion. */
const usageDeltas = (plan: Plan): readonly UsageDelta[] => [
  ...(plan.fresh === undefined ? [] : [usageDelta(plan.fresh, 1)]),
  ...plan.gone.map((row) => usageDelta(row, -1)),
  ...reclassified(plan),
];

/** Reserves what the commit adds. @throws QuotaExceeded */
async function coverGrowth(
  bucket: BucketRow,
  {
    plan,
    deltas,
    reservation,
    freed,
  }: {
    readonly plan: Plan;
    readonly deltas: readonly UsageDelta[];
    readonly reservation: Reservation;
    readonly freed: Freed | undefined;
  },
): Promise<Amount> {
  if (plan.fresh !== undefined && !plan.fresh.marker) assertSize(bucket, plan.fresh.size);
  const growth = sum(deltas);
  await reservation.cover(bucket, growth, freed);
  return growth;
}

/**
 * The side changes of a plan: usage, the recorder's rows, and the deletion queue for the bytes of removed versions.
 * @param due when these bytes may be deleted
 */
function sideChanges(
  bucket: BucketRow,
  change: KeyChange,
  plan: Plan,
  {
    recorded,
    due,
    deltas,
    updatedAt,
  }: {
    readonly recorded: readonly SideChange[];
    readonly due: number;
    readonly deltas: readonly UsageDelta[];
    readonly updatedAt: number;
  },
): SideChange[] {
  const { id, requestId } = change;
  const changes = [...usageChanges(bucket, id, deltas, updatedAt)];
  if (change.then !== undefined) changes.push(...change.then);
  if (plan.then !== undefined) changes.push(...plan.then);
  changes.push(...recorded, ...aged(bucket, plan, updatedAt));
  for (const { manifest, marker } of plan.gone) {
    if (marker) continue;
    changes.push(...queueManifest(manifest, { id, requestId, due }));
    changes.push(...releaseUnmanaged(bucket.id, inlineExtents(manifest)));
  }
  return changes;
}

const isReplicated = ({ documents }: Pick<BucketRow, 'documents'>): boolean =>
  bucketReplication.name in documents;
