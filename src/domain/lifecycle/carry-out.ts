/**
 * Carries out the action that is due for a version or an upload. The commit states the revisions that the decision rests on, so a client's
 * change wins, also the removal of a newer version that a rule counts. A change of the rules fences the commit (`fencesWriters` of the
 * configuration); the abort of an upload has no fence, so the rules are read again right before it.
 */

import { Refusal } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import { findBucket } from '../../metadata/buckets/buckets.ts';
import { findVersion, newestInHistory, readExtents } from '../../metadata/objects/objects.ts';
import { type BucketRow, headSlot, type ObjectRow } from '../../metadata/tables.ts';
import type { Stored } from '../../ports/metadata-store.ts';
import { nameTransition } from '../../ports/storage-classes.ts';
import { placeWrite } from '../clusters/placement.ts';
import { drawVersion } from '../common/ids.ts';
import type { KeyMove, Recorder } from '../common/recorder.ts';
import { bucketLifecycle } from '../configurations/families.ts';
import { lineOfAction } from '../deliveries/access-log-lines.ts';
import { services } from '../deliveries/service-write.ts';
import { eventChanges, hasListener } from '../events/events.ts';
import { changeKey } from '../objects/commit-version.ts';
import { planDelete } from '../objects/delete-object.ts';
import { isPending } from '../objects/replication-queue.ts';
import { type Plan, planRemoveVersion } from '../objects/versions.ts';
import { type MoveCtx, moveVersion } from '../rebalance/move-version.ts';
import type { Pace } from '../rebalance/pace.ts';
import { abortSession } from '../uploads/upload-session.ts';
import type { DueAction, RestsOn } from './due-action.ts';
import type { Tally } from './progress.ts';

export type ActCtx = MoveCtx & Pick<Context, 'telemetry'>;

export interface Run {
  readonly bucket: BucketRow;
  readonly requestId: string;
  readonly pace: Pace;
  readonly signal: AbortSignal;
  /** Whether the time of the turn is over: a transition then leaves the rest of its bytes to the next one. */
  readonly isOver: () => boolean;
}

/** The part of a tally that an action adds to. */
type Result = Exclude<keyof Tally, 'read'> | 'changed' | 'begun';

const results = {
  expire: 'expired',
  'remove-noncurrent': 'noncurrent',
  'remove-marker': 'markers',
  transition: 'transitioned',
  'end-restore': 'restored',
  abort: 'aborted',
} as const satisfies Readonly<Record<DueAction['do'], Result>>;

interface Done {
  /**
   * `changed` when a client was first, `held` under Object Lock, `undone` when a later pass must try again, `begun` when the next turn moves
   * more bytes of the version.
   */
  readonly result: Result;
  /** Of the action that was carried out. */
  readonly rule: string;
}

export async function carryOut(ctx: ActCtx, run: Run, action: DueAction): Promise<Done> {
  const result = await tryAction(ctx, run, action);
  const { otherwise } = action.do === 'transition' ? action : {};
  if (result !== 'undone' || otherwise === undefined) return { result, rule: action.rule };
  const next = await tryAction(ctx, run, otherwise);
  // Stretches that have moved have changed the row.
  return { result: next === 'changed' ? 'undone' : next, rule: otherwise.rule };
}

async function tryAction(ctx: ActCtx, run: Run, action: DueAction): Promise<Result> {
  if (action.do !== 'abort' && isPending(action.version.row)) return 'undone';
  try {
    const done = await commitAction(ctx, run, action);
    return done === 'begun' ? done : done ? results[action.do] : 'changed';
  } catch (cause) {
    run.signal.throwIfAborted();
    if (cause instanceof Refusal && cause.code === 'AccessDenied') return 'held';
    if (cause instanceof Refusal && cause.code === 'NoSuchUpload') return 'changed';
    const { bucket } = run;
    const about = action.do === 'abort' ? action.upload.row.session : action.version.row;
    const fields = { bucket: bucket.name, key: about.key, action: action.do, rule: action.rule, cause };
    ctx.telemetry.log('WARN', 'a lifecycle action failed', fields);
    return 'undone';
  }
}

async function commitAction(ctx: ActCtx, run: Run, action: DueAction): Promise<boolean | 'begun'> {
  const { bucket, requestId } = run;
  const record = recordAction(ctx, run, action);
  if (action.do === 'abort') {
    const now = (await findBucket(ctx.metadata, bucket.name))?.row;
    if (now === undefined || !isSameRule(now, bucket)) return false;
    await abortSession(ctx, action.upload, { record, requestId });
    return true;
  }
  if (action.do === 'transition') return moveToClass(ctx, { ...run, ...action, record });
  const { version } = action;
  const { key } = version.row;
  const known = version.row.slot === headSlot ? version : undefined;
  const restsOn = openChecks('restsOn' in action ? action.restsOn : undefined);
  const { done } = await changeKey(ctx, {
    bucket,
    key,
    requestId,
    known: known && { head: known },
    id: `${requestId}-${drawVersion(ctx)}`,
    record,
    isByLifecycle: true,
    decide: async (state) => {
      const checks = restsOn();
      if (checks === undefined || !isSameRule(state.bucket, bucket)) return undefined;
      const target = state.head === known ? known : await findAgain(ctx, state.bucket, version.row);
      if (state.head === undefined || target?.revision !== version.revision) return undefined;
      if (action.do === 'end-restore') return planEndOfRestore(target);
      if (action.do === 'expire')
        return planDelete(ctx, state, { key, owner: state.bucket.owner, requestId });
      const next = await newestInHistory(ctx.metadata, state.bucket, key);
      if (action.do === 'remove-marker' && next !== undefined) return undefined;
      const plan = planRemoveVersion(state.head, target, next);
      return { ...plan, changes: [...plan.changes, ...checks] };
    },
  });
  return done === 'applied';
}

/**
 * Returns the checks for the first attempt of a commit, and undefined for later ones if there are any: one of the checked versions may
 * have refused the first attempt, and a later pass counts them again.
 */
function openChecks(checks: RestsOn = []): () => RestsOn | undefined {
  let isFirst = true;
  return () => {
    const answer = isFirst || checks.length === 0 ? checks : undefined;
    isFirst = false;
    return answer;
  };
}

const findAgain = (
  { metadata }: Pick<ActCtx, 'metadata'>,
  bucket: BucketRow,
  { key, version, isNull }: ObjectRow,
): Promise<Stored<ObjectRow> | undefined> => findVersion(metadata, bucket, key, isNull ? 'null' : version);

/** Whether the rules are the ones that the action was derived from. */
const isSameRule = (now: BucketRow, then: BucketRow): boolean =>
  now.id === then.id && now.documents[bucketLifecycle.name] === then.documents[bucketLifecycle.name];

function planEndOfRestore(target: Stored<ObjectRow>): Plan {
  const { restore: _, ...amended } = target.row;
  const changes = [{ put: amended, expect: target.revision }];
  return { changes, before: [target.row], gone: [], amended, former: target.row };
}

// Moves a version to another storage class: first its bytes to the cluster of that class, then its row, each by compare-and-set on the
// version's revision. Between the two it has its former class and its bytes are complete, so a kill needs no repair.

interface Transition {
  readonly bucket: BucketRow;
  readonly version: Stored<ObjectRow>;
  readonly storageClass: string;
  readonly restsOn?: RestsOn;
  readonly requestId: string;
  readonly pace: Pace;
  readonly signal: AbortSignal;
  readonly isOver: () => boolean;
  readonly record: Recorder;
}

/** @returns false when the version changed meanwhile */
async function moveToClass(ctx: MoveCtx, transition: Transition): Promise<boolean | 'begun'> {
  const { bucket, version, storageClass, requestId, pace, signal } = transition;
  const { row } = version;
  const to = await placeWrite(ctx, { bucket, storageClass }, row.uploadId ?? row.requestId);
  // An upstream stores the class with each of its objects, so the bytes are written again there.
  const isRewritten = ctx.bytes.uploads !== undefined;
  // The move of the bytes gives the row another revision: compare what a client could have changed.
  const isDue = (now: BucketRow, found: ObjectRow): boolean =>
    isSameRule(now, bucket) && isUnchanged(found, row);
  const leaving = new Set<string>();
  for await (const extent of readExtents(ctx.metadata, row.manifest))
    if (isRewritten || extent.cluster !== to) leaving.add(extent.id);
  if (leaving.size > 0) {
    const move = { bucket, row: { ...row, storageClass }, to, isDue, pace, signal };
    // What was written again to the same upstream cannot be told from what was not, so there a version moves in one turn.
    const cut = isRewritten ? {} : { isOver: transition.isOver };
    const moved = await moveVersion(ctx, { ...move, ...cut, leaves: ({ id }) => leaving.has(id) });
    if (moved !== true) return moved;
  }
  const restsOn = openChecks(transition.restsOn);
  const { done } = await changeKey(ctx, {
    bucket,
    key: row.key,
    requestId,
    id: `${requestId}-${drawVersion(ctx)}`,
    record: transition.record,
    decide: async (state) => {
      const checks = restsOn();
      const found = await findAgain(ctx, state.bucket, row);
      if (checks === undefined || found === undefined || !isDue(state.bucket, found.row)) return undefined;
      const amended: ObjectRow = { ...found.row, storageClass };
      return {
        changes: [{ put: amended, expect: found.revision }, ...checks],
        before: [found.row],
        gone: [],
        amended,
        former: found.row,
      };
    },
  });
  return done === 'applied';
}

/** Whether a version is in the place that the rule was about, as current or noncurrent, and a client has changed nothing else of it. */
const isUnchanged = (now: ObjectRow, then: ObjectRow): boolean =>
  now.version === then.version && describe(now) === describe(then);

/** `slot` and `noncurrentSince` tell whether the version is current, and if not, since when. */
const describe = ({ slot, noncurrentSince, storageClass, headers, lock, acl }: ObjectRow): string =>
  JSON.stringify([slot, noncurrentSince, storageClass, headers, lock, acl]);

// What the commit of a lifecycle action records: its events, and its line in the access log of the bucket.

type RecordActionCtx = Pick<Context, 'caches' | 'metadata' | 'clock' | 'random' | 'application'>;
interface RecordedRun {
  readonly bucket: BucketRow;
  readonly requestId: string;
}

/** The name that the public service states as the cause and the source of its own actions. */
const service = services.inventory;

const eventNames = {
  expire: 'LifecycleExpiration',
  'remove-noncurrent': 'LifecycleExpiration',
  'remove-marker': 'LifecycleExpiration',
  transition: 'LifecycleTransition',
  'end-restore': 'ObjectRestore:Delete',
} as const satisfies Readonly<Record<Exclude<DueAction['do'], 'abort'>, string>>;

/** As access logs name the action; undefined for the end of a restore, for which the public service has no name. */
function nameOperation(action: DueAction, fresh: KeyMove['fresh'] | undefined): string | undefined {
  if (action.do === 'end-restore') return undefined;
  if (action.do === 'abort') return 'S3.DELETE.UPLOAD';
  if (action.do === 'transition') return nameTransition(action.storageClass);
  return fresh?.marker === true ? 'S3.CREATE.DELETEMARKER' : 'S3.EXPIRE.OBJECT';
}

/** The audit log has a row for each page of a pass instead. */
const recordAction = (ctx: RecordActionCtx, run: RecordedRun, action: DueAction): Recorder => ({
  changes: async (move) => {
    const { requestId } = run;
    const { bucket = run.bucket, fresh, amended, gone = [] } = move ?? {};
    const version = fresh ?? amended ?? gone[0];
    const { key } = action.do === 'abort' ? action.upload.row.session : action.version.row;
    const operation = nameOperation(action, fresh);
    const isNothing = operation === undefined || (move === undefined && action.do !== 'abort');
    const line = isNothing ? [] : await lineOfAction(ctx, bucket, { operation, key, version, requestId });
    if (move === undefined || action.do === 'abort' || !hasListener(ctx, bucket)) return line;
    const events = [eventNames[action.do]];
    return [
      ...(await eventChanges(ctx, move, { events, principalId: service, source: service, requestId })),
      ...line,
    ];
  },
  about: () => {},
  applied: () => {},
});
