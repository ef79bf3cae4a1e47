/** ExplainDecision: may a caller do something, and which statement decides it? Nothing is executed. */
import { judge } from '../../../auth/authorization/authorize.ts';
import type { Identity } from '../../../auth/identity.ts';
import type { TraceEntry } from '../../../auth/policy/evaluate.ts';
import type { Facts } from '../../../auth/policy/request.ts';
import type { Context } from '../../../context.ts';
import { openBucket } from '../../../domain/buckets/buckets.ts';
import { lookUpVersion } from '../../../domain/objects/read-object.ts';
import { openTurns } from '../../../domain/storage/turns.ts';
import { fail } from '../../../errors/refusal.ts';
import { findAudit } from '../../../metadata/audit/audit.ts';
import { describeOperation, isOperation } from '../../../protocol/operations/operations.ts';
import { defined } from '../../common/parameters.ts';
import { type AdminHandler, jsonReply } from '../call.ts';

export const ExplainDecision: AdminHandler<'ExplainDecision'> = async (ctx, { body, permit, signal }) => {
  const { requestId, ...given } = body;
  const past = requestId === undefined ? undefined : await findRequest(ctx, requestId, signal);
  const {
    accessKey,
    action,
    bucket: bucketName = '',
    key = '',
    versionId,
    context,
  } = {
    ...past?.asked,
    ...defined(given),
  };
  if (action === undefined)
    throw fail('MalformedJSON', {
      message: 'action is missing, or requestId of an audited request.',
      field: 'action',
    });
  if (past !== undefined) await permit(defined({ bucket: bucketName, accessKey }));
  const bucket = bucketName === '' ? undefined : await openBucket(ctx, bucketName);
  const target =
    bucket === undefined || key === '' ? undefined : await lookUpVersion(ctx, bucket, { key, versionId });
  const identity = await findIdentity(ctx, accessKey);
  const trace: TraceEntry[] = [];
  const facts: Facts = { lookup: (name) => context?.get(name) };
  const about = { action, bucket, bucketName, key, target };
  const { allowed, reason, by } = await judge(ctx, identity, about, { facts, trace });
  return jsonReply({ allowed, reason, by, statements: trace, request: past?.shown });
};

/**
 * What a past request asked for, from its audit row. The present policies judge it, with the facts that the row has.
 * @throws InvalidArgument where the log has no such request
 */
async function findRequest(ctx: Context, requestId: string, signal: AbortSignal) {
  const now = ctx.clock.now();
  const span = { start: now - ctx.config.SVC_AUDIT_RETENTION, end: now };
  const rest = openTurns(ctx.clock, signal);
  const { row, gaveUpAt } = await findAudit(ctx.metadata, { ...span, rest, requestId });
  if (row === undefined)
    throw fail('InvalidArgument', {
      message:
        gaveUpAt === undefined
          ? `The audit log has no request ${requestId}: it has requests that change something, and not those that read.`
          : `The audit log has no request ${requestId} since ${new Date(gaveUpAt).toISOString()}. Find an older one with GET /admin/v1/audit?requestId=${requestId}&end=${new Date(gaveUpAt).toISOString()}, and give its accessKey, action, bucket and key instead.`,
      field: 'requestId',
    });
  const { action, resource, key, accessKey, status, error, time, source } = row;
  const bucket = resource.startsWith('bucket:') ? resource.slice('bucket:'.length) : undefined;
  // An action of the operator API may be qualified: `admin:PutBucketConfiguration/cors`.
  const [named = ''] = action.split('/');
  const permitted = isOperation(action) ? describeOperation(action).action : named;
  const about = {
    ...(accessKey === undefined ? {} : { accessKey }),
    ...(bucket === undefined ? {} : { bucket }),
    ...(key === undefined ? {} : { key }),
  };
  return {
    asked: { ...about, action: permitted, context: new Map([['aws:SourceIp', source]]) },
    shown: {
      time: new Date(time).toISOString(),
      action,
      status,
      ...(error === undefined ? {} : { error }),
      ...about,
    },
  };
}

async function findIdentity({ credentials }: Context, accessKey: string | undefined): Promise<Identity> {
  if (accessKey === undefined) return undefined;
  const found = await credentials.find(accessKey);
  // Not InvalidAccessKeyId, which clients show as a problem of the key that signed the question.
  if (found === undefined)
    throw fail('InvalidArgument', {
      message: `No account and no user has an active access key "${accessKey}". It may be deleted, inactive or of temporary credentials. Give another accessKey, or ask about an anonymous caller with neither accessKey nor requestId.`,
      field: 'accessKey',
    });
  const { secretKey: _, ...identity } = found;
  return identity;
}
