/**
 * Selects versions for replication: a version that a replication rule covers gets the status PENDING, and the commit that
 * creates it also queues it for the replicator.
 */
import type { Context } from '../../context.ts';
import { laneSlot, queuedTask } from '../../metadata/background/hourly-queues.ts';
import type { ReplicationTask } from '../../metadata/records/queues.ts';
import type { BucketRow, ObjectRow } from '../../metadata/tables.ts';
import type { SideChange } from '../../ports/metadata-store.ts';
import { readDocument } from '../configurations/documents.ts';
import { bucketReplication, type ReplicationRule } from '../configurations/families.ts';
import { nameLane } from '../configurations/replication-destination.ts';
import { keyMeetsFilter, meetsFilter, readRuleFilter } from '../configurations/rule-filter.ts';
import { effectiveStamp } from './stamp.ts';
import { type Plan, wasSent } from './versions.ts';

/** The plan with the versions to replicate marked and queued. */
export async function replicated(
  ctx: Pick<Context, 'caches' | 'metadata' | 'clock'>,
  plan: Plan,
  { bucket, requestId }: { readonly bucket: BucketRow; readonly requestId: string },
): Promise<Plan> {
  const { Role: role = '', Rule: [rule] = [] } = (await readDocument(ctx, bucket, bucketReplication)) ?? {};
  if (rule === undefined || rule.Status !== 'Enabled') return withPendingStamp(plan);
  const subject = plan.fresh ?? plan.amended;
  const queue = (row: ObjectRow, removed?: true): Promise<SideChange> =>
    queueTask(ctx, { bucket, role, rule, row, requestId, removed });
  if (subject === undefined) {
    if (rule.DeleteReplication?.Status !== 'Enabled' || bucket.versioning === '') return plan;
    const removals = await Promise.all(plan.gone.filter(wasSent).map((row) => queue(row, true)));
    return { ...plan, then: [...(plan.then ?? []), ...removals] };
  }
  if (!concerns(rule, plan)) return withPendingStamp(plan);
  const row = await queue(subject);
  return { ...replaceSubject(plan, subject, markPending(subject)), then: [...(plan.then ?? []), row] };
}

const replaceSubject = (plan: Plan, subject: ObjectRow, row: ObjectRow): Plan => ({
  ...plan,
  changes: plan.changes.map((change) =>
    'put' in change && change.put === subject ? { ...change, put: row } : change,
  ),
  ...(plan.fresh === undefined ? { amended: row } : { fresh: row }),
});

/**
 * A change that queues no task leaves a version to the task that it waits for, which stores its status: the plan with the stamp of that
 * task.
 */
export function withPendingStamp(plan: Plan): Plan {
  const { amended, former } = plan;
  if (amended === undefined || former === undefined || !isPending(amended)) return plan;
  const stamp = pendingStamp(former);
  return pendingStamp(amended) === stamp
    ? plan
    : replaceSubject(plan, amended, { ...amended, pendingStamp: stamp });
}

/** The stamp of the last task of a version that waits to be replicated. */
export const pendingStamp = (row: Pick<ObjectRow, 'pendingStamp' | 'stamp' | 'version'>): string =>
  row.pendingStamp ?? effectiveStamp(row);

/** The row of a version that is queued. A replica stays one for its readers; it is sent on to the sites that it has not passed. */
export const markPending = ({ pendingStamp: _, ...row }: ObjectRow): ObjectRow =>
  row.replication === 'REPLICA' ? { ...row, unsent: true } : { ...row, replication: 'PENDING' };

/** Whether a destination is still to get the version. */
export const isPending = ({ replication, unsent }: Pick<ObjectRow, 'replication' | 'unsent'>): boolean =>
  replication === 'PENDING' || unsent === true;

interface Queued {
  readonly bucket: BucketRow;
  /** Of the configuration. */
  readonly role: string;
  readonly rule: ReplicationRule;
  readonly row: ObjectRow;
  readonly requestId: string;
  readonly removed?: true | undefined;
  readonly isResync?: true;
  readonly restores?: true | undefined;
}

/** The side change that queues a version for the replicator, or its removal. */
export async function queueTask(
  ctx: Pick<Context, 'caches' | 'metadata' | 'clock'>,
  { bucket, role, rule, row, requestId, removed, isResync, restores }: Queued,
): Promise<SideChange> {
  const { key, version, isNull, marker, size, replication } = row;
  // A resync queues a version that waits already, and leaves its row as it is.
  const stamp = isResync && isPending(row) ? pendingStamp(row) : effectiveStamp(row);
  const hasContent = !removed && !marker && size > 0 && replication !== 'COMPLETED';
  const about = { bucketId: bucket.id, bucket: bucket.name, key, version, isNull, marker };
  const task: ReplicationTask = {
    ...about,
    rule: rule.ID ?? '',
    destination: rule.Destination,
    account: bucket.owner,
    role,
    ...(removed ? { removed } : {}),
    ...(isResync ? { isResync } : {}),
    ...(restores ? { restores } : {}),
    stamp,
    ...(hasContent ? { bytes: size } : {}),
  };
  const slot = laneSlot(nameLane(rule.Destination.Bucket), key);
  const due = await ctx.metadata.now();
  // Rows of one millisecond sort by id, and the ids of versions by age.
  const id = `${version}/${requestId}`;
  return queuedTask(ctx, { queue: 'replication', slot }, { task, id, due, requestId });
}

const sendsReplicas = ({ SourceSelectionCriteria }: ReplicationRule): boolean =>
  SourceSelectionCriteria?.ReplicaModifications?.Status === 'Enabled';

/** Whether the rule selects a version that exists already. */
export const coversExisting = (rule: ReplicationRule, row: ObjectRow): boolean =>
  (row.replication !== 'REPLICA' || sendsReplicas(rule)) &&
  (row.marker ? concernsMarker(rule, row) : applies(rule, row));

function concerns(rule: ReplicationRule, { fresh, amended, former }: Plan): boolean {
  if (fresh !== undefined) {
    if (fresh.replication === 'REPLICA' && !sendsReplicas(rule)) return false;
    return fresh.marker ? concernsMarker(rule, fresh) : applies(rule, fresh);
  }
  // A version that was not replicated stays so when it changes; the same holds for changes that the target does not read.
  if (amended === undefined || former === undefined || former.replication === undefined) return false;
  if (former.replication === 'REPLICA' && !sendsReplicas(rule)) return false;
  const isSeen =
    amended.headers.tags !== former.headers.tags ||
    amended.acl !== former.acl ||
    amended.lock !== former.lock;
  return isSeen && applies(rule, former);
}

/** A rule of the first version of the API, which has no filter, also replicates delete markers. */
const concernsMarker = (rule: ReplicationRule, { key }: ObjectRow): boolean =>
  (rule.Filter === undefined || rule.DeleteMarkerReplication?.Status === 'Enabled') &&
  keyMeetsFilter(readRuleFilter(rule), key);

const applies = (rule: ReplicationRule, { key, size, headers: { tags }, encryption }: ObjectRow): boolean =>
  // An object that a key provider encrypted is replicated only when the rule enables SseKmsEncryptedObjects.
  (encryption?.by !== 'provider' ||
    rule.SourceSelectionCriteria?.SseKmsEncryptedObjects?.Status === 'Enabled') &&
  meetsFilter(readRuleFilter(rule), { key, size, tags });
