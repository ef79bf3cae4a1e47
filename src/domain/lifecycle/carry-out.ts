/**
 * Carries out the action that is due for a version or an upload. The commit states the revision that the decision rests on, so a client's
 * change wins; a change of the rules fences the commit (`fencesWriters` of the configuration).
 */
import type { Context } from '../../context.ts';
import { Refusal } from '../../errors/refusal.ts';
import { findVersion, newestInHistory } from '../../metadata/objects/objects.ts';
import { type BucketRow, headSlot, type ObjectRow } from '../../metadata/tables.ts';
import type { Stored } from '../../ports/metadata-store.ts';
import { bucketLifecycle } from '../configurations/families.ts';
import { isPending } from '../configurations/replication.ts';
import { changeKey } from '../objects/commit-version.ts';
import { planDelete } from '../objects/delete-object.ts';
import { drawVersion } from '../objects/version-ids.ts';
import { type Plan, planRemoveVersion } from '../objects/versions.ts';
import type { Pace } from '../storage/rebalance/pace.ts';
import { abortSession } from '../uploads/upload-session.ts';
import type { DueAction } from './due-action.ts';
import type { Tally } from './progress.ts';
import { recordAction } from './record-action.ts';
import { moveToClass, type TransitionCtx } from './transition.ts';

export type Ctx = TransitionCtx & Pick<Context, 'telemetry'>;

export interface Run {
  readonly bucket: BucketRow;
  readonly requestId: string;
  readonly pace: Pace;
  readonly signal: AbortSignal;
}

/** The part of a tally that an action adds to. */
export type Result = Exclude<keyof Tally, 'read'> | 'changed';

const results = {
  expire: 'expired',
  'remove-noncurrent': 'noncurrent',
  'remove-marker': 'markers',
  transition: 'transitioned',
  'end-restore': 'restored',
  abort: 'aborted',
} as const satisfies Readonly<Record<DueAction['do'], Result>>;

/** @returns `changed` when a client was first, `held` under Object Lock, `undone` when a later pass must try again */
export async function carryOut(ctx: Ctx, run: Run, action: DueAction): Promise<Result> {
  if (action.do !== 'abort' && isPending(action.version.row)) return 'undone';
  try {
    return (await commitAction(ctx, run, action)) ? results[action.do] : 'changed';
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

async function commitAction(ctx: Ctx, run: Run, action: DueAction): Promise<boolean> {
  const { bucket, requestId } = run;
  const record = recordAction(ctx, run, action);
  if (action.do === 'abort') {
    await abortSession(ctx, action.upload, { record, requestId });
    return true;
  }
  if (action.do === 'transition') return moveToClass(ctx, { ...run, ...action, record });
  const { version } = action;
  const { key } = version.row;
  const known = version.row.slot === headSlot ? version : undefined;
  const { done } = await changeKey(ctx, {
    bucket,
    key,
    requestId,
    known,
    id: `${requestId}-${drawVersion(ctx)}`,
    record,
    isByLifecycle: true,
    decide: async (state) => {
      if (!isSameRule(state.bucket, bucket)) return undefined;
      const target = state.head === known ? known : await findAgain(ctx, state.bucket, version.row);
      if (state.head === undefined || target?.revision !== version.revision) return undefined;
      if (action.do === 'end-restore') return planEndOfRestore(target);
      if (action.do === 'expire')
        return planDelete(ctx, state, { key, owner: state.bucket.owner, requestId });
      const next = await newestInHistory(ctx.metadata, state.bucket, key);
      if (action.do === 'remove-marker' && next !== undefined) return undefined;
      return planRemoveVersion(state.head, target, next);
    },
  });
  return done === 'applied';
}

const findAgain = (
  { metadata }: Pick<Ctx, 'metadata'>,
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
