/** Resyncs: the replication of versions that exist already. */
import type { Context } from '../../../context.ts';
import {
  beginResync,
  cancelResync,
  findResync,
  type Resync,
} from '../../../domain/deliveries/replication/resync.ts';
import { fail } from '../../../errors/refusal.ts';
import { findBucket } from '../../../metadata/buckets/buckets.ts';
import { readUsage } from '../../../metadata/buckets/usage.ts';
import { type AdminHandler, jsonReply } from '../call.ts';
import { readTime, runState, seconds } from '../times.ts';

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
