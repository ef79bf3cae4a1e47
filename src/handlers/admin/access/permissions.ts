/** CheckPermissions: what policies allow to the caller itself, for pages that offer only what is allowed. */
import { adminRefusal } from '../../../auth/authorization/administer.ts';
import { type Caller, verdictOn } from '../../../auth/authorization/authorize.ts';
import { inParallel } from '../../../base/in-parallel.ts';
import type { Context } from '../../../context.ts';
import { lookUpBucket } from '../../../domain/buckets/buckets.ts';
import { fail } from '../../../errors/refusal.ts';
import type { AdminOperation } from '../../../protocol/operations/admin/row.ts';
import {
  type AdminOperationName,
  adminOperations,
  adminPrefix,
  describeAdminOperation,
} from '../../../protocol/operations/admin.ts';
import { type AdminHandler, type AdminRequest, jsonReply } from '../call.ts';
import { type Fields, isOwnOf, namedResources } from '../request/named-resources.ts';

type Question = AdminRequest<'CheckPermissions'>['body']['questions'][number];

/** Questions that are answered at the same time. */
const questionsAtOnce = 8;

export const CheckPermissions: AdminHandler<'CheckPermissions'> = async (ctx, { body, caller }) =>
  jsonReply({
    answers: await inParallel(questionsAtOnce, body.questions, (question, index) =>
      question.action.startsWith('admin:')
        ? answerAdmin(ctx, caller, { ...question, at: `questions[${index}].action` })
        : answerOther(ctx, caller, question),
    ),
  });

const isAdminOperation = (name: string): name is AdminOperationName => Object.hasOwn(adminOperations, name);

/** A parameter that the question leaves open is `*`: a policy that allows the operation on everything below allows that too. */
async function answerAdmin(
  ctx: Context,
  caller: Caller,
  { action, bucket, path, at }: Question & { readonly at: string },
) {
  const name = action.slice('admin:'.length);
  if (!isAdminOperation(name))
    throw fail('InvalidArgument', { message: `There is no operation ${name}.`, field: at });
  const row = describeAdminOperation(name);
  if (row.callers !== undefined) return { allowed: true };
  const filled = row.path
    .slice(adminPrefix.length + 1)
    .replace(/:(\w+)/g, (_, part: string) => parameterOf(row.tag, part, bucket));
  const fields = { own: caller.identity?.owner, ...(bucket === undefined ? {} : { bucket, name: bucket }) };
  const named = await namedResources(ctx, row, fields);
  // What is the caller's own account need not be named.
  const isOwn = await isOwnOf(ctx, row, { identity: caller.identity, fields: ownFields(row, fields) });
  const asked = { action, path: path ?? filled, named, isOwn };
  const refusal = await adminRefusal(ctx, { ...caller, operation: name }, asked);
  return refusal === undefined ? { allowed: true } : { allowed: false, reason: refusal.message };
}

/** Operations about an account are asked about for the caller's own, unless a bucket decides. */
const ownFields = ({ tenants }: Pick<AdminOperation, 'tenants'>, fields: Fields): Fields =>
  tenants !== undefined && 'account' in tenants ? { ...fields, [tenants.account]: fields['own'] } : fields;

/** The bucket where the path names one, else everything. */
const parameterOf = (tag: string, part: string, bucket = '*'): string =>
  part === 'bucket' || (part === 'name' && tag === 'buckets') ? bucket : '*';

async function answerOther(
  ctx: Context,
  caller: Caller,
  { action, bucket: bucketName = '', key = '', resource }: Question,
) {
  const bucket = bucketName === '' ? undefined : await lookUpBucket(ctx, bucketName);
  const { allowed, reason } = await verdictOn(ctx, caller, {
    action,
    bucket,
    bucketName,
    key,
    ...(resource === undefined ? {} : { resource }),
  });
  return allowed ? { allowed } : { allowed, reason };
}
