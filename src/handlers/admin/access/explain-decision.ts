/** ExplainDecision: may a caller do something, and which statement decides it? Nothing is executed. */
import { judge } from '../../../auth/authorization/authorize.ts';
import type { Identity } from '../../../auth/identity.ts';
import type { TraceEntry } from '../../../auth/policy/evaluate.ts';
import type { Facts } from '../../../auth/policy/request.ts';
import type { Context } from '../../../context.ts';
import { openBucket } from '../../../domain/buckets/buckets.ts';
import { lookUpVersion } from '../../../domain/objects/read-object.ts';
import { fail } from '../../../errors/refusal.ts';
import { type AdminHandler, jsonReply } from '../call.ts';

export const ExplainDecision: AdminHandler<'ExplainDecision'> = async (ctx, { body }) => {
  const { accessKey, action, bucket: bucketName = '', key = '', versionId, context } = body;
  const bucket = bucketName === '' ? undefined : await openBucket(ctx, bucketName);
  const target =
    bucket === undefined || key === '' ? undefined : await lookUpVersion(ctx, bucket, { key, versionId });
  const identity = await findIdentity(ctx, accessKey);
  const trace: TraceEntry[] = [];
  const facts: Facts = { lookup: (name) => context?.get(name) };
  const about = { action, bucket, bucketName, key, target };
  const { allowed, reason, by } = await judge(ctx, identity, about, { facts, trace });
  return jsonReply({ allowed, reason, by, statements: trace });
};

async function findIdentity({ credentials }: Context, accessKey: string | undefined): Promise<Identity> {
  if (accessKey === undefined) return undefined;
  const found = await credentials.find(accessKey);
  if (found === undefined) throw fail('InvalidAccessKeyId', { elements: { AWSAccessKeyId: accessKey } });
  const { secretKey: _, ...identity } = found;
  return identity;
}
