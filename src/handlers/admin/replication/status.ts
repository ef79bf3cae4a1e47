/** What waits for replication and since when, and the versions whose replication was given up. */

import { listFailing } from '../../../domain/deliveries/lanes/stored-states.ts';
import { nameDestination, readDestination } from '../../../domain/deliveries/replication/destination.ts';
import { changeFailures, listFailures } from '../../../domain/deliveries/replication/failures.ts';
import { countWaiting } from '../../../domain/deliveries/replication/waiting.ts';
import { fail } from '../../../errors/refusal.ts';
import type { FailedReplication, QueueRow } from '../../../metadata/records/queues.ts';
import { type AdminHandler, jsonReply } from '../call.ts';
import { failingJson } from '../failing-target.ts';

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
