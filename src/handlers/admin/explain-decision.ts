/** ExplainDecision: may a caller do something, and which statement decides it, by what is stored and with a draft? Nothing is executed. */
import { evaluatePolicies, type Question } from '../../auth/authorization/authorize.ts';
import { bucketPolicyName } from '../../auth/authorization/bucket-policy.ts';
import { type BroughtPolicies, hasPolicy, readPolicies } from '../../auth/authorization/identity-policies.ts';
import type { Identity } from '../../auth/identity.ts';
import { parsePolicy } from '../../auth/policy/document.ts';
import type { TraceEntry } from '../../auth/policy/evaluate.ts';
import type { Facts } from '../../auth/policy/request.ts';
import { principalOf } from '../../auth/session/principal.ts';
import { fail } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import { openBucket } from '../../domain/common/buckets.ts';
import { openTurns } from '../../domain/common/turns.ts';
import { lookUpVersion } from '../../domain/objects/read-object.ts';
import { findAudit } from '../../metadata/audit.ts';
import { policyTextMax } from '../../protocol/operations/admin/iam.ts';
import type { AdminBody } from '../../protocol/operations/admin.ts';
import { describeOperation, isOperation } from '../../protocol/operations/operations.ts';
import { defined } from '../../request/parameters.ts';
import { type AdminHandler, jsonReply } from './call.ts';

export const ExplainDecision: AdminHandler<'ExplainDecision'> = async (ctx, { body, permit, signal }) => {
  const { requestId, draft, ...given } = body;
  const past = requestId === undefined ? undefined : await findRequest(ctx, requestId, signal);
  const {
    accessKey,
    action,
    bucket: bucketName = '',
    key = '',
    versionId,
    context,
    resource,
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
  const facts: Facts = { lookup: (name) => context?.get(name) };
  const about = { action, bucket, bucketName, key, target, ...(resource === undefined ? {} : { resource }) };
  const decide = async (supposed: Supposed) => {
    const trace: TraceEntry[] = [];
    const { allowed, reason, by } = await evaluatePolicies(
      ctx,
      identity,
      { ...about, ...supposed },
      { facts, trace },
    );
    return { allowed, reason, by, statements: trace };
  };
  const supposed = draft && (await readDraft(ctx, draft, { identity, bucketName }));
  return jsonReply({
    ...(await decide({})),
    ...(identity === undefined ? {} : { caller: describeCaller(identity) }),
    ...(supposed === undefined ? {} : { draft: await decide(supposed) }),
    request: past?.shown,
  });
};

type Supposed = Pick<Question, 'policy' | 'callersPolicy'>;
type Draft = NonNullable<AdminBody<'ExplainDecision'>['draft']>;

function describeCaller(identity: NonNullable<Identity>) {
  const { arn, sessionArn = arn } = principalOf(identity);
  return { account: identity.owner, principal: sessionArn };
}

/**
 * A document that would be refused when it is saved is refused here too, apart from the size limit of its kind.
 * @throws MalformedPolicy; InvalidArgument where no policy of the question has its name
 */
async function readDraft(
  ctx: Context,
  { policy: name, document: text, isNew = false }: Draft,
  { identity, bucketName }: { readonly identity: Identity; readonly bucketName: string },
): Promise<Supposed> {
  if (name === bucketPolicyName) {
    if (bucketName === '')
      throw fail('InvalidArgument', { message: 'A bucket policy needs a bucket.', field: 'bucket' });
    return { policy: { name, document: parsePolicy(text, { kind: 'bucket', bucket: bucketName }) } };
  }
  const brought = await readPolicies(ctx, identity);
  if (!isNew && !hasPolicy(brought, name))
    throw fail('InvalidArgument', {
      message: `The caller has no policy "${name}": its policies are ${listNames(brought)}. isNew supposes one more.`,
      field: 'draft',
    });
  const document = parsePolicy(text, { kind: 'identity', sizeMax: policyTextMax });
  return { callersPolicy: { name, document } };
}

const listNames = ({ identity, boundary = [], session = [] }: BroughtPolicies): string => {
  const names = new Set([...identity, ...boundary, ...session].map(({ name }) => `"${name}"`));
  return names.size === 0 ? 'none' : [...names].join(', ');
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
