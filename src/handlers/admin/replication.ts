/** Replication: what waits, what was given up, and resync. */

import { fail } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import { nameDestination, readDestination } from '../../domain/configurations/replication-destination.ts';
import { listFailing } from '../../domain/lanes/target-states.ts';
import { changeFailures, listFailures } from '../../domain/replication/failures.ts';
import { countWaiting } from '../../domain/replication/peers.ts';
import { beginResync, cancelResync, findResync, type Resync } from '../../domain/replication/resync.ts';
import { findBucket } from '../../metadata/buckets/buckets.ts';
import { readUsage } from '../../metadata/buckets/usage.ts';
import type { FailedReplication, QueueRow } from '../../metadata/records/queues.ts';
import { type AdminHandler, failingJson, jsonReply, readTime, runState, seconds } from './call.ts';

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

const failureJson = ({ due, id, task }: QueueRow) => {
  // The cast: each queue has one type of task.
  const { bucket, key, version, isNull, marker, destination, error, since } = task as FailedReplication;
  const target = readDestination(destination.Bucket);
  return {
    id,
    bucket,
    key,
    versionId: isNull ? 'null' : version,
    ...(marker ? { marker } : {}),
    destination: target === undefined ? destination.Bucket : nameDestination(target),
    error,
    since: new Date(since).toISOString(),
    failedAt: new Date(due).toISOString(),
  };
};

export const ListFailedReplications: AdminHandler<'ListFailedReplications'> = async (ctx, { query }) => {
  const { bucket, limit, after } = query;
  const page = { limit, after: after === undefined ? undefined : readPlace(after) };
  const { rows, isTruncated } = await listFailures(ctx, { bucket }, page);
  const last = rows.at(-1);
  const next = isTruncated && last !== undefined ? `${last.slot}:${last.due}:${last.id}` : undefined;
  return jsonReply({ failed: rows.map(failureJson), isTruncated, ...(next === undefined ? {} : { next }) });
};

function readPlace(after: string) {
  const [, slot, due, id = ''] = /^(\d{1,4}):(\d{1,16}):([\x21-\x7e]{1,256})$/.exec(after) ?? [];
  if (slot === undefined)
    throw fail('InvalidArgument', { message: 'after is not the next of a page.', field: 'after' });
  return { slot: Number(slot), due: Number(due), id };
}

/** @throws InvalidRequest for a filter that names nothing, so that an empty body does not mean every failure */
export const RetryFailedReplications: AdminHandler<'RetryFailedReplications'> = async (
  ctx,
  { body: filter, record, entries },
) => {
  if (Object.values(filter).every((value) => value === undefined))
    throw fail('InvalidRequest', 'Name the failures by bucket, peer or id.');
  record?.about(`bucket:${filter.bucket ?? '*'}`);
  const { changed, isTruncated } = await changeFailures(ctx, {
    ...filter,
    denialOf: (failure) => entries.denialOf('failures', failure),
  });
  return jsonReply({ retried: changed, isTruncated });
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
  return { status: 204, headers: [] };
};

async function resyncJson(ctx: Pick<Context, 'metadata'>, resync: Resync) {
  const { bucket, status, prefix, since, until, restoresRemoved, read, queued, startedAt, finishedAt } =
    resync;
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
