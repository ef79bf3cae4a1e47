/** Managed policies, and to what they are attached. */
import { parsePolicy } from '../../../../auth/policy/document/document.ts';
import type { Context } from '../../../../context.ts';
import { getNamed } from '../../../../domain/iam/entities.ts';
import { attachPolicy, detachPolicy } from '../../../../domain/iam/policies/attachments.ts';
import {
  createPolicy,
  createVersion,
  deletePolicy,
  findVersion,
  type PolicyName,
} from '../../../../domain/iam/policies/managed-policies.ts';
import type { PolicyRecord } from '../../../../metadata/iam.ts';
import { policyTextMax } from '../../../../protocol/operations/admin/iam.ts';
import { policyArn } from '../../../../protocol/request/arns.ts';
import { emptyReply } from '../../../common/xml-reply.ts';
import { type AdminHandler, type AdminRequest, jsonReply, nameIn } from '../../call.ts';
import { arns, assertExactName, entityJson, listReply, openAccount, readPolicy, toTags } from './entities.ts';

const kind = 'policy';
const policyJson = (account: string, found: PolicyRecord) => ({
  ...entityJson(account, kind, found),
  description: found.description,
  updated: new Date(found.updated).toISOString(),
  defaultVersion: found.defaultVersion,
  attachments: found.attachments,
});

export const ListIamPolicies: AdminHandler<'ListIamPolicies'> = (ctx, call) =>
  listReply(ctx, call, { kind, toJson: policyJson });

async function policyReply(ctx: Context, account: string, name: string) {
  const found = await getNamed(ctx, account, { kind, name });
  const version = await findVersion(ctx, account, { id: found.id, version: found.defaultVersion });
  return jsonReply({ ...policyJson(account, found), document: version?.text ?? '' });
}

export const CreateIamPolicy: AdminHandler<'CreateIamPolicy'> = async (given, call) => {
  const { ctx, account } = await openAccount(given, call);
  const { name, path = '/', description = '', document: text, tags } = call.body;
  call.record?.about(policyArn(account, { name, path }));
  parsePolicy(text, { kind: 'identity', sizeMax: policyTextMax });
  await createPolicy(ctx, account, { name, path, description, text, tags: toTags(tags) });
  return policyReply(ctx, account, name);
};

export const GetIamPolicy: AdminHandler<'GetIamPolicy'> = async (given, call) => {
  const { ctx, account } = await openAccount(given, call);
  return policyReply(ctx, account, nameIn(call, 'policy'));
};

async function findOwn(
  ctx: Context,
  account: string,
  call: Pick<AdminRequest, 'params' | 'record'>,
): Promise<PolicyName> {
  const { name, path } = await getNamed(ctx, account, { kind, name: nameIn(call, 'policy') });
  call.record?.about(policyArn(account, { name, path }));
  return { account, name, path };
}

export const PutIamPolicy: AdminHandler<'PutIamPolicy'> = async (given, call) => {
  const { ctx, account } = await openAccount(given, call);
  const { document: text } = call.body;
  parsePolicy(text, { kind: 'identity', sizeMax: policyTextMax });
  const policy = await findOwn(ctx, account, call);
  await createVersion(ctx, account, { policy, text, isDefault: true, makeRoom: true });
  return policyReply(ctx, account, policy.name);
};

export const DeleteIamPolicy: AdminHandler<'DeleteIamPolicy'> = async (given, call) => {
  const { ctx, account } = await openAccount(given, call);
  const policy = await findOwn(ctx, account, call);
  await deletePolicy(ctx, account, { policy, withVersions: true });
  return emptyReply(204);
};

export const AttachIamPolicy: AdminHandler<'AttachIamPolicy'> = async (given, call) => {
  const { ctx, account } = await openAccount(given, call);
  const { policy, ...holder } = call.body;
  call.record?.about(arns[holder.kind](account, holder));
  await assertExactName(ctx, account, holder);
  await attachPolicy(ctx, account, { holder, policy: readPolicy(account, policy) });
  return emptyReply(204);
};

export const DetachIamPolicy: AdminHandler<'DetachIamPolicy'> = async (given, call) => {
  const { ctx, account } = await openAccount(given, call);
  const { policy, ...holder } = call.body;
  call.record?.about(arns[holder.kind](account, holder));
  await assertExactName(ctx, account, holder);
  await detachPolicy(ctx, account, { holder, policy: readPolicy(account, policy) });
  return emptyReply(204);
};
