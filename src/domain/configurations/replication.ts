/**
 * Selects versions for replication: a version that a replication rule covers gets the status PENDING, and the commit that
 * creates it also queues it for the replicator.
 */
import type { Context } from '../../context.ts';
import { queuedByHour } from '../../metadata/background/hourly-queues.ts';
import type { ReplicationTask } from '../../metadata/records/queues.ts';
import type { BucketRow, ObjectRow } from '../../metadata/tables.ts';
import type { Plan } from '../objects/versions.ts';
import { readDocument } from './documents.ts';
import { bucketReplication, type ReplicationRule } from './families.ts';

export const isReplicated = ({ documents }: Pick<BucketRow, 'documents'>): boolean =>
  bucketReplication.name in documents;

/** The plan with the versions to replicate marked and queued. */
export async function replicated(
  ctx: Pick<Context, 'caches' | 'metadata' | 'clock'>,
  plan: Plan,
  { bucket, requestId }: { readonly bucket: BucketRow; readonly requestId: string },
): Promise<Plan> {
  const [rule] = (await readDocument(ctx, bucket, bucketReplication))?.Rule ?? [];
  const subject = plan.fresh ?? plan.amended;
  if (rule === undefined || subject === undefined || !concerns(rule, plan)) return plan;
  const pending: ObjectRow = { ...subject, replication: 'PENDING' };
  const { key, version, isNull, marker } = subject;
  const about = { bucketId: bucket.id, bucket: bucket.name, key, version, isNull, marker };
  const task: ReplicationTask = { ...about, rule: rule.ID ?? '', destination: rule.Destination };
  const due = await ctx.metadata.now();
  const queue = { queue: 'replication', slotKey: key } as const;
  const row = await queuedByHour(ctx, queue, {
    task,
    id: `${requestId}/${version}`,
    due,
    requestId,
  });
  return {
    ...plan,
    changes: plan.changes.map((change) =>
      'put' in change && change.put === subject ? { ...change, put: pending } : change,
    ),
    ...(plan.fresh === undefined ? { amended: pending } : { fresh: pending }),
    then: [...(plan.then ?? []), row],
  };
}

function concerns(rule: ReplicationRule, { fresh, amended, former }: Plan): boolean {
  if (rule.Status !== 'Enabled') return false;
  if (fresh !== undefined) {
    if (fresh.replication === 'REPLICA') return false;
    return fresh.marker ? concernsMarker(rule, fresh) : applies(rule, fresh);
  }
  // A version that was not replicated stays so when it changes; the same holds for changes that the target does not read.
  if (amended === undefined || former === undefined || !wasReplicated(former)) return false;
  const isSeen =
    amended.headers.tags !== former.headers.tags ||
    amended.acl !== former.acl ||
    amended.lock !== former.lock;
  return isSeen && applies(rule, former);
}

const wasReplicated = ({ replication }: ObjectRow): boolean =>
  replication !== undefined && replication !== 'REPLICA';

/** A rule of the first version of the API, which has no filter, also replicates delete markers. */
const concernsMarker = (rule: ReplicationRule, { key }: ObjectRow): boolean =>
  (rule.Filter === undefined || rule.DeleteMarkerReplication?.Status === 'Enabled') &&
  key.startsWith(prefixOf(rule)) &&
  tagsOf(rule).length === 0;

const applies = (rule: ReplicationRule, { key, headers: { tags = [] }, encryption }: ObjectRow): boolean =>
  key.startsWith(prefixOf(rule)) &&
  // An object that a key provider encrypted is replicated only when the rule enables SseKmsEncryptedObjects.
  (encryption?.by !== 'provider' ||
    rule.SourceSelectionCriteria?.SseKmsEncryptedObjects?.Status === 'Enabled') &&
  tagsOf(rule).every(({ Key, Value }) => tags.some(([name, value]) => name === Key && value === Value));

const prefixOf = ({ Filter, Prefix }: ReplicationRule): string =>
  Filter?.And?.Prefix ?? Filter?.Prefix ?? Prefix ?? '';

const tagsOf = ({ Filter }: ReplicationRule) =>
  Filter?.And?.Tag ?? (Filter?.Tag === undefined ? [] : [Filter.Tag]);
