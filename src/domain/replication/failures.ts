/** Lists versions whose replication was given up, and queues them again. */

import { fail, Refusal } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import { laneSlot, queuedByHour } from '../../metadata/background/hourly-queues.ts';
import {
  everyFailedReplication,
  type FailurePlace,
  removeFailedReplication,
} from '../../metadata/background/replication.ts';
import { findBucket } from '../../metadata/buckets/buckets.ts';
import { findVersion, objectsAt } from '../../metadata/objects/objects.ts';
import type { FailedReplication, QueueRow, ReplicationTask } from '../../metadata/records/queues.ts';
import type { ObjectRow } from '../../metadata/tables.ts';
import { type SideChange, StoreRefused, StoreUnavailable } from '../../ports/metadata-store.ts';
import { PeerSilent } from '../../ports/peer-requests.ts';
import { refreshBucket } from '../common/buckets.ts';
import { inTurns } from '../common/turns.ts';
import { nameLane, readDestination } from '../configurations/replication-destination.ts';
import { markPending, pendingStamp } from '../objects/replication-queue.ts';
import { NotAllowed } from './authorize-delivery.ts';
import { PeerRefused, UnexpectedAnswer } from './send-content.ts';
import { KeyChanged, Superseded } from './send-to-service.ts';

type Ctx = Pick<Context, 'caches' | 'metadata' | 'clock'>;

/** Rows that one request lists or changes. */
const listedMax = 1_000;
/** Rows that one request reads to find those that it changes. */
const readMax = 5_000;

interface FailureAbout {
  readonly bucket: string;
  /** The peer and its bucket, such as `far/photos`. */
  readonly destination: string;
}

interface FailureFilter {
  readonly bucket?: string | undefined;
  readonly peer?: string | undefined;
  readonly id?: string | undefined;
  /** Why the caller may not change a failure: one that `id` names is refused, others are passed over. */
  readonly denialOf?: ((failure: FailureAbout) => Promise<Refusal | undefined>) | undefined;
}

/** The cast: each queue has one type of task. */
const failedTask = (row: QueueRow): FailedReplication => row.task as FailedReplication;

function matches(row: QueueRow, { bucket, peer, id }: FailureFilter): boolean {
  const failure = failedTask(row);
  return (
    (bucket === undefined || failure.bucket === bucket) &&
    (peer === undefined || readDestination(failure.destination.Bucket)?.peer === peer) &&
    (id === undefined || row.id === id)
  );
}

export async function listFailures(
  { metadata }: Pick<Ctx, 'metadata'>,
  filter: FailureFilter,
  {
    after,
    limit = listedMax,
  }: { readonly after?: FailurePlace | undefined; readonly limit?: number | undefined } = {},
): Promise<{ readonly rows: readonly QueueRow[]; readonly isTruncated: boolean }> {
  const rows: QueueRow[] = [];
  for await (const row of everyFailedReplication(metadata, { bucket: filter.bucket, after })) {
    if (!matches(row, filter)) continue;
    if (rows.length === limit) return { rows, isTruncated: true };
    rows.push(row);
  }
  return { rows, isTruncated: false };
}

/**
 * Queues failures again that were given up before the call: a version that fails again meanwhile is not queued twice. The task is queued
 * before its failure is removed: a kill between the two leaves both, and loses none.
 * @param options rest: of `openTurns`
 * @returns last: the failure behind which a further call goes on, where there may be more
 */
export async function changeFailures(
  ctx: Ctx,
  filter: FailureFilter,
  { after, rest }: { readonly after: FailurePlace | undefined; readonly rest: () => Promise<void> },
): Promise<{ readonly changed: number; readonly last?: FailurePlace }> {
  const { bucket } = filter;
  const until = await ctx.metadata.now();
  const rows = everyFailedReplication(ctx.metadata, { bucket, after, until });
  let changed = 0;
  let read = 0;
  let last: FailurePlace | undefined;
  for await (const row of inTurns(rows, rest)) {
    if (last !== undefined && (changed === listedMax || read === readMax)) return { changed, last };
    read += 1;
    last = { slot: row.slot, due: row.due, id: row.id };
    if (matches(row, filter) && (await changeFailure(ctx, filter, row))) changed += 1;
  }
  return { changed };
}

/** @returns whether the caller may change it, and it was queued again */
async function changeFailure(ctx: Ctx, { id: named, denialOf }: FailureFilter, row: QueueRow) {
  const { error: _, since: __, ...task } = failedTask(row);
  const destination = nameLane(task.destination.Bucket);
  const denial = await denialOf?.({ bucket: task.bucket, destination });
  if (denial !== undefined && named !== undefined) throw denial;
  if (denial !== undefined) return false;
  const slot = laneSlot(destination, task.key);
  const due = await ctx.metadata.now();
  const { id, requestId } = row;
  const queue = (stamp: string | undefined): Promise<SideChange> => {
    const queued: ReplicationTask = { ...task, isResync: true, ...(stamp === undefined ? {} : { stamp }) };
    const options = { task: queued, id, due, requestId };
    return queuedByHour(ctx, { queue: 'replication', slot }, options);
  };
  await queuePending(ctx, task, queue);
  await ctx.metadata.apply(removeFailedReplication(row));
  return true;
}

/** Attempts against commits that change the row of a version meanwhile. */
const pendingAttempts = 16;

/** Queues a task with the status of its version in one commit, so that lifecycle rules leave the version until it is sent. */
async function queuePending(
  ctx: Ctx,
  task: ReplicationTask,
  queue: (stamp: string | undefined) => Promise<SideChange>,
): Promise<void> {
  const { metadata } = ctx;
  const name = task.isNull ? 'null' : task.version;
  for (let attempt = 0; attempt < pendingAttempts; attempt += 1) {
    const bucket = (await findBucket(metadata, task.bucket))?.row;
    const found =
      bucket?.id === task.bucketId && !task.removed
        ? await findVersion(metadata, bucket, task.key, name)
        : undefined;
    const isThere = found !== undefined && found.row.version === task.version;
    // The version is gone, or needs no mark: the task is sent all the same.
    if (bucket === undefined || !isThere || !wasAbandoned(found.row))
      return metadata.apply([await queue(isThere ? pendingStamp(found.row) : undefined)]);
    const marked = markPending(found.row);
    const change = { put: marked, expect: found.revision };
    const then = [await queue(pendingStamp(marked))];
    const outcome = await metadata.commit(objectsAt(bucket), [change], { then });
    if (outcome.applied) return;
    if (outcome.because === 'fenced') await refreshBucket(ctx, bucket);
  }
  throw fail('OperationAborted', `Other requests keep changing the version ${task.version} of ${task.key}.`);
}

/** A version that was sent since by another task keeps its status. */
const wasAbandoned = ({ replication, unsent }: ObjectRow): boolean =>
  replication === 'FAILED' || (replication === 'REPLICA' && !unsent);

// Why a version did not arrive: what operators read and count, and whether another attempt may help.

/** The version cannot be replicated, now or later. */
export class Unreplicable extends Error {}

/** The destination takes nothing now. */
export class DestinationAway extends Error {
  readonly why: 'no-peer' | 'sealed-keys' | 'no-versioning';
  constructor(why: DestinationAway['why'], message: string) {
    super(message);
    this.why = why;
  }
}

/**
 * Refusals of one version that will not change. Any other may be about the transfer, the bucket, the keys or the service, and is tried
 * again: a status alone says little, because proxies answer 400 and 413 for a while too.
 */
const finalCodes = new Set([
  'AccessControlListNotSupported',
  'EntityTooLarge',
  'EntityTooSmall',
  'InvalidArgument',
  'InvalidEncryptionAlgorithmError',
  'InvalidObjectName',
  'InvalidRequest',
  'InvalidStorageClass',
  'InvalidTag',
  'InvalidURI',
  'KeyTooLongError',
  'MalformedACLError',
  'MalformedJSON',
  'MalformedXML',
  'MaxMessageLengthExceeded',
  'MetadataTooLarge',
  'MethodNotAllowed',
  'RequestHeaderSectionTooLarge',
  'XMinioInvalidObjectName',
]);

interface Explained {
  readonly message: string;
  /** The cause as metrics count it. */
  readonly why: string;
  readonly isFinal?: boolean;
  /** This site cannot read the version, or the destination refuses it, and may take others. Absent: the destination takes nothing. */
  readonly faultOf?: 'source' | 'version';
}

const checkAdvice = 'POST /admin/v1/replication/peers/{id}/check says which step fails';

/** The destination did not describe itself, which has nothing to do with a version. */
export class DescriptionFailed extends Error {
  constructor(cause: unknown) {
    super('the destination does not describe itself', { cause });
  }
}

/** @throws the cause where metadata is away: nothing works, and the supervisor starts the worker again */
export function explainFailure(cause: unknown): Explained {
  if (cause instanceof Unreplicable) return { message: cause.message, why: 'client-key', isFinal: true };
  if (cause instanceof KeyChanged) return { message: cause.message, why: 'key-changed', isFinal: true };
  if (cause instanceof NotAllowed) return { message: cause.message, why: 'not-allowed', isFinal: true };
  if (cause instanceof Superseded) return { message: cause.message, why: 'superseded', isFinal: true };
  if (cause instanceof PeerSilent) return { message: `${cause.message}: ${checkAdvice}`, why: 'no-answer' };
  if (cause instanceof DestinationAway) return { message: cause.message, why: cause.why };
  if (cause instanceof UnexpectedAnswer) return { message: cause.message, why: 'not-s3' };
  if (cause instanceof DescriptionFailed) {
    const { faultOf: _, isFinal: __, ...explained } = explainFailure(cause.cause);
    return explained;
  }
  if (cause instanceof PeerRefused) return explainRefusal(cause);
  if (cause instanceof StoreUnavailable || cause instanceof StoreRefused) throw cause;
  // A key provider that refuses, an archived content, a cluster that is away, damaged bytes.
  const message =
    cause instanceof Refusal ? cause.code : cause instanceof Error ? cause.message : String(cause);
  return { message: `the source: ${message}`, why: 'source', faultOf: 'source' };
}

/** By code: the cause for metrics, and what the operator can do. */
const refusals: Readonly<Record<string, readonly [why: string, advice: string]>> = {
  NoSuchBucket: ['no-bucket', 'create the bucket at the peer'],
  InvalidBucketState: ['no-versioning', 'enable versioning of the bucket at the peer'],
  AccessDenied: [
    'denied',
    'allow s3:ReplicateObject, s3:ReplicateDelete, s3:ReplicateTags and s3:PutObject to the user of the peer, for ACLs and locks also their own actions, and see that no policy denies them',
  ],
  QuotaExceeded: ['quota', 'make room in the bucket at the peer, or raise its quota or that of its account'],
  InvalidAccessKeyId: ['credentials', 'PUT the peer again with a key that it knows'],
  SignatureDoesNotMatch: [
    'credentials',
    'PUT the peer again with the right secret key; a bucket with a signing key of its own needs a peer with that key',
  ],
  AuthorizationHeaderMalformed: ['credentials', 'PUT the peer again with the region that it expects'],
  RequestTimeTooSkewed: ['clock', 'correct the clock of this machine or of the peer'],
};

/** Codes that mostly are about the destination as a whole. */
const isAboutDestination = (code: string): boolean =>
  ['ExpiredToken', 'InvalidToken'].includes(code) ||
  ['no-bucket', 'no-versioning', 'credentials', 'clock'].includes(refusals[code]?.[0] ?? '');

/**
 * Whether the destination as a whole or one version only may be at fault, for example because a proxy changes the path of its request, and
 * so breaks the signature. A request that has nothing to do with a version shows which.
 */
export const isAmbiguous = (cause: unknown): boolean =>
  cause instanceof PeerSilent ||
  cause instanceof UnexpectedAnswer ||
  (cause instanceof PeerRefused && isAboutDestination(cause.code));

/** Explains an ambiguous failure after the destination has answered another request. */
export function explainLoneFailure(cause: unknown): Explained {
  if (!(cause instanceof PeerRefused)) return { ...explainFailure(cause), faultOf: 'version' };
  const message = `${cause.message}, but the destination accepts other requests: see whether a proxy changes this one`;
  return { message, why: 'refused', faultOf: 'version' };
}

function explainRefusal(cause: PeerRefused): Explained {
  const { code, status } = cause;
  const isFinal = status < 500 && finalCodes.has(code);
  const [why, advice = cause.said] = refusals[code] ?? [status >= 500 ? 'unavailable' : 'refused'];
  const message = advice === '' ? cause.message : `${cause.message}: ${advice}`;
  return { message, why, isFinal, ...(isAboutDestination(code) ? {} : { faultOf: 'version' }) };
}
