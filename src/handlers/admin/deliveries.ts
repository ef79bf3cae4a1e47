/** Deliveries: what replication and notifications have waiting, gave up, and send again. */
import { fail } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import { openBucket } from '../../domain/common/buckets.ts';
import { nameDestination, readDestination } from '../../domain/configurations/replication-destination.ts';
import { readRates } from '../../domain/event-deliveries/rates.ts';
import {
  countBacklogs,
  discardLetters,
  type LetterFilter,
  redriveLetters,
} from '../../domain/event-deliveries/redrive.ts';
import { sendTestEvent } from '../../domain/event-deliveries/served-targets.ts';
import { readSubject } from '../../domain/events/envelope.ts';
import { testEvent } from '../../domain/events/events.ts';
import { listFailing } from '../../domain/lanes/target-states.ts';
import { changeFailures, listFailures } from '../../domain/replication/failures.ts';
import { countWaiting } from '../../domain/replication/peers.ts';
import { beginResync, cancelResync, findResync, type Resync } from '../../domain/replication/resync.ts';
import { readDeadLetters } from '../../metadata/background/queues.ts';
import type { FailurePlace } from '../../metadata/background/replication.ts';
import { findBucket } from '../../metadata/buckets/buckets.ts';
import { readUsage } from '../../metadata/buckets/usage.ts';
import type { DeadLetter, FailedReplication, QueueRow } from '../../metadata/records/queues.ts';
import type { AdminBody } from '../../protocol/admin/operations.ts';
import { pageDefault } from '../../protocol/admin/row.ts';
import { emptyReply } from '../handler.ts';
import {
  type AdminHandler,
  type AdminRequest,
  failingJson,
  jsonReply,
  openCallTurns,
  readTime,
  runState,
  seconds,
} from './call.ts';

// What waits for replication and since when, and the versions whose replication was given up.

export const GetReplicationStatus: AdminHandler<'GetReplicationStatus'> = async (ctx) => {
  const now = await ctx.metadata.now();
  const destinations = await countWaiting(ctx);
  const failing = await listFailing(ctx.metadata, 'replication');
  return jsonReply({
    destinations: [...destinations].map(([destination, { waiting, bytes, oldest, isCut }]) => ({
      destination,
      ...failingJson(failing.get(destination)),
      waiting,
      waitingBytes: bytes,
      oldestSeconds: Math.max(0, Math.floor((now - oldest) / 1000)),
      isCut,
    })),
    isCut: [...destinations.values()].some(({ isCut }) => isCut),
  });
};

/** Failures of a bucket that are counted. */
const failuresCountedMax = 1_000;

export const GetBucketReplication: AdminHandler<'GetBucketReplication'> = async (ctx, { params }) => {
  const bucket = await openBucket(ctx, params.get('name') ?? '');
  const now = await ctx.metadata.now();
  const counts = await countWaiting(ctx);
  const { rows, isTruncated } = await listFailures(
    ctx,
    { bucket: bucket.name },
    { limit: failuresCountedMax },
  );
  const failed = new Map<string, number>();
  for (const row of rows) {
    // The cast: each queue has one type of task.
    const { bucketId, destination } = row.task as FailedReplication;
    // A former bucket may have had the name.
    if (bucketId !== bucket.id) continue;
    const name = nameOfDestination(destination.Bucket);
    failed.set(name, (failed.get(name) ?? 0) + 1);
  }
  const waitsFor = [...counts].filter(([, { ofBuckets }]) => ofBuckets.has(bucket.id));
  const names = new Set([...waitsFor.map(([destination]) => destination), ...failed.keys()]);
  const resync = await findResync(ctx, bucket.name);
  return jsonReply({
    destinations: [...names].map((destination) => {
      const {
        waiting = 0,
        bytes = 0,
        oldest = now,
      } = counts.get(destination)?.ofBuckets.get(bucket.id) ?? {};
      return {
        destination,
        waiting,
        waitingBytes: bytes,
        oldestSeconds: Math.max(0, Math.floor((now - oldest) / 1000)),
        failed: failed.get(destination) ?? 0,
      };
    }),
    isCut: isTruncated || [...counts.values()].some(({ isCut }) => isCut),
    ...(resync === undefined ? {} : { resync: await resyncJson(ctx, resync) }),
  });
};

function nameOfDestination(arn: string): string {
  const target = readDestination(arn);
  return target === undefined ? arn : nameDestination(target);
}

const failureJson = ({ due, id, task }: QueueRow) => {
  // The cast: each queue has one type of task.
  const { bucket, key, version, isNull, marker, destination, error, since } = task as FailedReplication;
  return {
    id,
    bucket,
    key,
    versionId: isNull ? 'null' : version,
    ...(marker ? { marker } : {}),
    destination: nameOfDestination(destination.Bucket),
    error,
    since: new Date(since).toISOString(),
    failedAt: new Date(due).toISOString(),
  };
};

export const ListFailedReplications: AdminHandler<'ListFailedReplications'> = async (ctx, { query }) => {
  const { bucket, limit, after } = query;
  const page = { limit, after: after === undefined ? undefined : readFailurePlace(after) };
  const { rows, isTruncated } = await listFailures(ctx, { bucket }, page);
  const last = isTruncated ? rows.at(-1) : undefined;
  const next = last && formatFailurePlace(last);
  return jsonReply({ failed: rows.map(failureJson), isTruncated, ...(next === undefined ? {} : { next }) });
};

const formatFailurePlace = ({ slot, due, id }: FailurePlace): string => `${slot}:${due}:${id}`;

function readFailurePlace(after: string): FailurePlace {
  const [, slot, due, id = ''] = /^(\d{1,4}):(\d{1,16}):([\x21-\x7e]{1,256})$/.exec(after) ?? [];
  if (slot === undefined)
    throw fail('InvalidArgument', {
      message: 'after is not the next of a page, or the last of a retry.',
      field: 'after',
    });
  return { slot: Number(slot), due: Number(due), id };
}

/** @throws InvalidRequest for a filter that names nothing, so that an empty body does not mean every failure */
export const RetryFailedReplications: AdminHandler<'RetryFailedReplications'> = async (ctx, call) => {
  const { record, entries } = call;
  const { after, ...filter } = call.body;
  if (Object.values(filter).every((value) => value === undefined))
    throw fail('InvalidRequest', 'Name the failures by bucket, peer or id.');
  record?.about(`bucket:${filter.bucket ?? '*'}`);
  const { changed, last } = await changeFailures(
    ctx,
    { ...filter, denialOf: (failure) => entries.denialOf('failures', failure) },
    { after: after === undefined ? undefined : readFailurePlace(after), rest: openCallTurns(ctx, call) },
  );
  if (last === undefined) return jsonReply({ retried: changed, isTruncated: false });
  return jsonReply({ retried: changed, isTruncated: true, last: formatFailurePlace(last) });
};

// Resyncs: the replication of versions that exist already.

export const StartReplicationResync: AdminHandler<'StartReplicationResync'> = async (
  ctx,
  { params, body, record, requestId },
) => {
  const { prefix, since, until, status = 'none-or-failed', restoreRemoved } = body;
  const span = { since: readTime('since', since), until: readTime('until', until) };
  if (span.since !== undefined && span.until !== undefined && span.since >= span.until)
    throw fail('InvalidRequest', {
      message: 'since must be before until: no version is in an empty span of time.',
      field: 'since',
    });
  const filter = {
    prefix,
    ...span,
    status,
    ...(restoreRemoved === true ? { restoresRemoved: true as const } : {}),
  };
  const name = params.get('bucket') ?? '';
  record?.about(`bucket:${name}`);
  const begun = await beginResync(ctx, name, { filter, record, requestId });
  return jsonReply(await resyncJson(ctx, begun), 202);
};

export const GetReplicationResync: AdminHandler<'GetReplicationResync'> = async (ctx, { params }) => {
  const name = params.get('bucket') ?? '';
  const found = await findResync(ctx, name);
  if (found === undefined) throw fail('NotFound', `There is no resync of bucket ${name}.`);
  return jsonReply(await resyncJson(ctx, found));
};

export const CancelReplicationResync: AdminHandler<'CancelReplicationResync'> = async (
  ctx,
  { params, record },
) => {
  const name = params.get('bucket') ?? '';
  record?.about(`bucket:${name}`);
  await cancelResync(ctx, name, record);
  return emptyReply(204);
};

async function resyncJson(ctx: Pick<Context, 'metadata'>, resync: Resync) {
  const { bucket, status, prefix, since, until, restoresRemoved, read, queued, damaged } = resync;
  const { startedAt, finishedAt } = resync;
  const versions = prefix === undefined ? await countVersions(ctx, bucket) : undefined;
  return {
    bucket,
    state: runState(finishedAt),
    status,
    ...(prefix === undefined ? {} : { prefix }),
    ...(since === undefined ? {} : { since: new Date(since).toISOString() }),
    ...(until === undefined ? {} : { until: new Date(until).toISOString() }),
    ...(restoresRemoved === undefined ? {} : { restoreRemoved: true }),
    read,
    ...(versions === undefined ? {} : { versions }),
    queued,
    ...(damaged === undefined ? {} : { damaged }),
    startedAt: seconds(startedAt),
    ...(finishedAt === undefined ? {} : { finishedAt: seconds(finishedAt) }),
  };
}

/** Without delete markers, which are counted nowhere. */
async function countVersions(
  { metadata }: Pick<Context, 'metadata'>,
  name: string,
): Promise<number | undefined> {
  const bucket = (await findBucket(metadata, name))?.row;
  if (bucket === undefined) return undefined;
  return [...(await readUsage(metadata, bucket.id)).values()].reduce((sum, { objects }) => sum + objects, 0);
}

// The targets of events, a test of one, and their dead letters: delivered again or discarded.

export const GetNotifyTargets: AdminHandler<'GetNotifyTargets'> = async (ctx) => {
  const { SVC_NOTIFY_TARGETS: targets } = ctx.config;
  const now = await ctx.metadata.now();
  const rates = await readRates(ctx.metadata);
  const failing = await listFailing(ctx.metadata, 'notify');
  const configured = targets.map(({ id, type, envelope = 's3', accounts }) => ({
    ...{ id, type, envelope },
    ...(accounts === undefined ? {} : { accounts }),
  }));
  const known = new Set(targets.map(({ id }) => id));
  // Those that the settings had when their events were queued.
  const removed = [...failing.keys()].filter((id) => !known.has(id)).map((id) => ({ id, type: 'removed' }));
  const all = [...configured, ...removed];
  const backlogs = await countBacklogs(
    ctx,
    all.map(({ id }) => id),
  );
  const visible = all.map((target) => {
    const { queued = 0, oldest, deadLetters = 0 } = backlogs.get(target.id) ?? {};
    const oldestSeconds = oldest === undefined ? 0 : Math.max(0, Math.floor((now - oldest) / 1000));
    const state = failingJson(failing.get(target.id));
    const perSecond = rates.get(target.id) ?? 0;
    return { ...target, ...state, queued, oldestSeconds, perSecond, deadLetters };
  });
  return jsonReply({
    targets: visible.filter(({ id, queued, deadLetters }) => known.has(id) || queued + deadLetters > 0),
  });
};

/** Beside the queue: events that wait are neither delayed nor delivered by it, and the state of the target is not changed. */
export const TestNotifyTarget: AdminHandler<'TestNotifyTarget'> = async (
  ctx,
  { params, requestId, record, signal },
) => {
  const target = params.get('target') ?? '';
  record?.about(`notify:${target}`);
  if (!ctx.config.SVC_NOTIFY_TARGETS.some(({ id }) => id === target))
    throw fail('NotFound', `The settings have no target ${target}.`);
  const message = testEvent(ctx, { requestId });
  const began = ctx.clock.elapsed();
  const asked = { requestId, subject: 'test', owner: '', message, signal };
  const failure = await sendTestEvent(ctx, target, asked);
  const milliseconds = Math.round(ctx.clock.elapsed() - began);
  return jsonReply({
    delivered: failure === undefined,
    ...(failure === undefined ? {} : { failure }),
    milliseconds,
    message,
  });
};

/** @throws InvalidRequest for a filter that names nothing, so that an empty body does not mean every letter */
function readFilter({ since, until, ...filter }: AdminBody<'RedriveNotifications'>): LetterFilter {
  if ([since, until, ...Object.values(filter)].every((value) => value === undefined))
    throw fail('InvalidRequest', 'Name the letters by target, bucket, id, since or until.');
  return { ...filter, since: readTime('since', since), until: readTime('until', until) };
}

/**
 * @throws NotFound for a target that neither the settings nor the queues have, so that a mistyped name is not taken for
 * one without letters
 */
async function assertTarget(ctx: Pick<Context, 'config' | 'metadata'>, target: string): Promise<void> {
  if (ctx.config.SVC_NOTIFY_TARGETS.some(({ id }) => id === target)) return;
  if ((await listFailing(ctx.metadata, 'notify')).has(target)) return;
  throw fail('NotFound', `There is no target ${target}.`);
}

async function changeLetters(
  ctx: Context,
  call: Pick<AdminRequest<'RedriveNotifications'>, 'body' | 'record' | 'entries' | 'signal' | 'identity'>,
  change: typeof redriveLetters,
) {
  const { body, record, entries } = call;
  const filter = readFilter(body);
  record?.about(`notify:${filter.target ?? '*'}`);
  const denialOf: LetterFilter['denialOf'] = (letter) => entries.denialOf('letters', letter);
  const changed = await change(ctx, { ...filter, denialOf }, openCallTurns(ctx, call));
  if (changed.letters === 0 && filter.target !== undefined) await assertTarget(ctx, filter.target);
  return changed;
}

export const RedriveNotifications: AdminHandler<'RedriveNotifications'> = async (ctx, call) => {
  const { letters, isTruncated } = await changeLetters(ctx, call, redriveLetters);
  return jsonReply({ redriven: letters, isTruncated });
};

export const DiscardNotifications: AdminHandler<'DiscardNotifications'> = async (ctx, call) => {
  const { letters, isTruncated } = await changeLetters(ctx, call, discardLetters);
  return jsonReply({ discarded: letters, isTruncated });
};

export const ListDeadLetters: AdminHandler<'ListDeadLetters'> = async (ctx, { query }) => {
  const { limit = pageDefault, after } = query;
  const { rows, next } = await readDeadLetters(ctx.metadata, { before: readLetterPlace(after), max: limit });
  return jsonReply({
    rows: rows.map(letterJson),
    ...(next === undefined ? {} : { next: `${next.due}:${next.id}` }),
  });
};

function letterJson({ due, id, requestId, attempts, task }: QueueRow) {
  // The cast: each queue has one type of task.
  const { sink, message, error, since } = task as DeadLetter;
  const times = { time: new Date(due).toISOString(), since: new Date(since).toISOString() };
  const { bucket } = readSubject(message);
  return {
    ...times,
    requestId,
    ...(bucket === '' ? {} : { bucket }),
    target: sink,
    id,
    attempts,
    error,
    message,
  };
}

function readLetterPlace(
  after: string | undefined,
): { readonly due: number; readonly id: string } | undefined {
  if (after === undefined) return undefined;
  const [, due, id = ''] = /^(\d{1,15}):(.*)$/s.exec(after) ?? [];
  if (due === undefined)
    throw fail('InvalidArgument', { message: 'after is not the next of a page.', field: 'after' });
  return { due: Number(due), id };
}
