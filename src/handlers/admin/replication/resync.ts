/** Resyncs: the replication of versions that exist already. */
import {
  beginResync,
  cancelResync,
  findResync,
  type Resync,
  type ResyncFilter,
} from '../../../domain/deliveries/replication/resync.ts';
import { fail } from '../../../errors/refusal.ts';
import { jsonBoolean, jsonObject, jsonOptional, jsonText, readJson } from '../../../protocol/formats/json.ts';
import { type AdminHandler, jsonReply } from '../call.ts';
import { readTime } from '../times.ts';

const given = jsonObject({
  prefix: jsonOptional(jsonText()),
  since: jsonOptional(jsonText()),
  until: jsonOptional(jsonText()),
  status: jsonOptional(jsonText()),
  restoreRemoved: jsonOptional(jsonBoolean),
});

const statuses: readonly string[] = [
  'none',
  'failed',
  'none-or-failed',
  'all',
] satisfies ResyncFilter['status'][];
const isStatus = (text: string): text is ResyncFilter['status'] => statuses.includes(text);

export const StartReplicationResync: AdminHandler = async (ctx, { params, body, record, requestId }) => {
  const {
    prefix,
    since,
    until,
    status = 'none-or-failed',
    restoreRemoved,
  } = body.length === 0 ? {} : readJson(given, body);
  if (!isStatus(status)) throw fail('InvalidRequest', `status must be one of ${statuses.join(', ')}.`);
  const filter = {
    prefix,
    since: readTime('since', since),
    until: readTime('until', until),
    status,
    ...(restoreRemoved === true ? { restoresRemoved: true as const } : {}),
  };
  const name = params.get('bucket') ?? '';
  record?.about(`bucket:${name}`);
  return jsonReply(resyncJson(await beginResync(ctx, name, { filter, record, requestId })), 202);
};

export const GetReplicationResync: AdminHandler = async (ctx, { params }) => {
  const name = params.get('bucket') ?? '';
  const found = await findResync(ctx, name);
  if (found === undefined) throw fail('NotFound', `There is no resync of bucket ${name}.`);
  return jsonReply(resyncJson(found));
};

export const CancelReplicationResync: AdminHandler = async (ctx, { params, record }) => {
  const name = params.get('bucket') ?? '';
  record?.about(`bucket:${name}`);
  await cancelResync(ctx, name, record);
  return { status: 204, headers: [] };
};

const seconds = (ms: number): number => Math.floor(ms / 1000);

const resyncJson = ({
  bucket,
  status,
  prefix,
  restoresRemoved,
  read,
  queued,
  startedAt,
  finishedAt,
}: Resync) => ({
  bucket,
  state: finishedAt === undefined ? 'running' : 'done',
  status,
  ...(prefix === undefined ? {} : { prefix }),
  ...(restoresRemoved === undefined ? {} : { restoreRemoved: true }),
  read,
  queued,
  startedAt: seconds(startedAt),
  ...(finishedAt === undefined ? {} : { finishedAt: seconds(finishedAt) }),
});
