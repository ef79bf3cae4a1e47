/** Managed and inline policies. */
import { parsePolicy } from '../../auth/policy/document.ts';
import { inParallel } from '../../base/concurrency.ts';
import type { Context } from '../../context.ts';
import { attachPolicy, detachPolicy, type PolicyEntity, pageEntities } from '../../domain/iam/attachments.ts';
import { getNamed } from '../../domain/iam/entities.ts';
import { countMembers } from '../../domain/iam/groups.ts';
import {
  deleteInlinePolicy,
  getInlinePolicy,
  type HolderKind,
  listInlinePolicies,
  putInlinePolicy,
} from '../../domain/iam/inline-policies.ts';
import {
  createPolicy,
  createVersion,
  deletePolicy,
  findVersion,
  type PolicyName,
} from '../../domain/iam/managed-policies.ts';
import type { PolicyRecord } from '../../metadata/iam.ts';
import { policyEntitiesPageDefault, policyTextMax } from '../../protocol/admin/iam.ts';
import { pageDefault } from '../../protocol/admin/row.ts';
import { policyArn } from '../../protocol/arns.ts';
import { emptyReply } from '../handler.ts';
import { type AdminHandler, type AdminRequest, jsonReply, nameIn } from './call.ts';
import {
  arns,
  assertExactName,
  entityJson,
  listReply,
  openAccount,
  readPolicy,
  toTags,
} from './iam-entities.ts';

// Managed policies, and to what they are attached.

const kind = 'policy';
const policyJson = (account: string, found: PolicyRecord) => ({
  ...entityJson(account, kind, found),
  description: found.description,
  updated: new Date(found.updated).toISOString(),
  defaultVersion: found.defaultVersion,
  attachments: found.attachments,
  boundaries: found.boundaries,
});

export const ListIamPolicies: AdminHandler<'ListIamPolicies'> = (ctx, call) =>
  listReply(ctx, call, { kind, toJson: policyJson });

async function policyReply(ctx: Context, account: string, name: string) {
  const found = await getNamed(ctx, account, { kind, name });
  const version = await findVersion(ctx, account, { id: found.id, version: found.defaultVersion });
  return jsonReply({ ...policyJson(account, found), document: version?.text ?? '' });
}

export const CreateIamPolicy: AdminHandler<'CreateIamPolicy'> = async (outer, call) => {
  const { ctx, account } = await openAccount(outer, call);
  const { name, path = '/', description = '', document: text, tags } = call.body;
  call.record?.about(policyArn(account, { name, path }));
  parsePolicy(text, { kind: 'identity', sizeMax: policyTextMax });
  await createPolicy(ctx, account, { name, path, description, text, tags: toTags(tags) });
  return policyReply(ctx, account, name);
};

export const GetIamPolicy: AdminHandler<'GetIamPolicy'> = async (outer, call) => {
  const { ctx, account } = await openAccount(outer, call);
  return policyReply(ctx, account, nameIn(call, 'policy'));
};

/** Groups whose users are counted at the same time, and the largest count. */
const countsAtOnce = 8;
const usersMax = 1_000;

export const ListIamPolicyEntities: AdminHandler<'ListIamPolicyEntities'> = async (outer, call) => {
  const { ctx, account } = await openAccount(outer, call);
  const { limit = policyEntitiesPageDefault, after } = call.query;
  const { id } = await getNamed(ctx, account, { kind, name: nameIn(call, 'policy') });
  const asked = { policyId: id, as: undefined, kind: undefined, pathPrefix: '/', after, max: limit };
  const { items, ...end } = await pageEntities(ctx, account, asked);
  const rows = await inParallel(countsAtOnce, items, (entity) => policyEntityJson(ctx, account, entity));
  return jsonReply({ rows, ...end });
};

const policyEntityJson = async (ctx: Context, account: string, entity: PolicyEntity) => ({
  kind: entity.kind,
  name: entity.name,
  arn: arns[entity.kind](account, entity),
  use: entity.as,
  ...(entity.kind === 'group'
    ? { users: await countMembers(ctx, account, { id: entity.id, max: usersMax }) }
    : {}),
});

async function findOwn(
  ctx: Context,
  account: string,
  call: Pick<AdminRequest, 'params' | 'record'>,
): Promise<PolicyName> {
  const { name, path } = await getNamed(ctx, account, { kind, name: nameIn(call, 'policy') });
  call.record?.about(policyArn(account, { name, path }));
  return { account, name, path };
}

export const PutIamPolicy: AdminHandler<'PutIamPolicy'> = async (outer, call) => {
  const { ctx, account } = await openAccount(outer, call);
  const { document: text } = call.body;
  parsePolicy(text, { kind: 'identity', sizeMax: policyTextMax });
  const policy = await findOwn(ctx, account, call);
  await createVersion(ctx, account, { policy, text, isDefault: true, makeSpace: true });
  return policyReply(ctx, account, policy.name);
};

export const DeleteIamPolicy: AdminHandler<'DeleteIamPolicy'> = async (outer, call) => {
  const { ctx, account } = await openAccount(outer, call);
  const policy = await findOwn(ctx, account, call);
  await deletePolicy(ctx, account, { policy, withVersions: true });
  return emptyReply(204);
};

export const AttachIamPolicy: AdminHandler<'AttachIamPolicy'> = async (outer, call) => {
  const { ctx, account } = await openAccount(outer, call);
  const { policy, ...holder } = call.body;
  call.record?.about(arns[holder.kind](account, holder));
  await assertExactName(ctx, account, holder);
  await attachPolicy(ctx, account, { holder, policy: readPolicy(account, policy) });
  return emptyReply(204);
};

export const DetachIamPolicy: AdminHandler<'DetachIamPolicy'> = async (outer, call) => {
  const { ctx, account } = await openAccount(outer, call);
  const { policy, ...holder } = call.body;
  call.record?.about(arns[holder.kind](account, holder));
  await assertExactName(ctx, account, holder);
  await detachPolicy(ctx, account, { holder, policy: readPolicy(account, policy) });
  return emptyReply(204);
};

// The inline policies of users, groups and roles: the same four operations for each.

type Call = Pick<AdminRequest, 'params' | 'record'>;
type Paged = Call & {
  readonly query: { readonly limit?: number | undefined; readonly after?: string | undefined };
};
type Written = Call & { readonly body: { readonly document: string } };

function inlineHandlers<K extends HolderKind>(kind: K) {
  const open = async (outer: Context, call: Call) => {
    const { ctx, account } = await openAccount(outer, call);
    const holder = { kind, name: nameIn(call, kind) };
    call.record?.about(arns[kind](account, holder));
    return { ctx, account, holder };
  };
  return {
    async list(outer: Context, call: Paged) {
      const { ctx, account, holder } = await open(outer, call);
      const { limit = pageDefault, after } = call.query;
      const { items, ...end } = await listInlinePolicies(ctx, account, { holder, after, max: limit });
      return jsonReply({ rows: items.map((name) => ({ name })), ...end });
    },
    async get(outer: Context, call: Call) {
      const { ctx, account, holder } = await open(outer, call);
      const policy = nameIn(call, 'policy');
      const document = await getInlinePolicy(ctx, account, { holder, policy });
      return jsonReply({ name: policy, document });
    },
    async put(outer: Context, call: Written) {
      const { ctx, account, holder } = await open(outer, call);
      const { document: text } = call.body;
      parsePolicy(text, { kind: 'identity', sizeMax: policyTextMax });
      await putInlinePolicy(ctx, account, { holder, policy: nameIn(call, 'policy'), text });
      return emptyReply(204);
    },
    async remove(outer: Context, call: Call) {
      const { ctx, account, holder } = await open(outer, call);
      await deleteInlinePolicy(ctx, account, { holder, policy: nameIn(call, 'policy') });
      return emptyReply(204);
    },
  };
}

const ofUser = inlineHandlers('user');
const ofGroup = inlineHandlers('group');
const ofRole = inlineHandlers('role');

export const ListIamUserInlinePolicies: AdminHandler<'ListIamUserInlinePolicies'> = ofUser.list;
export const GetIamUserInlinePolicy: AdminHandler<'GetIamUserInlinePolicy'> = ofUser.get;
export const PutIamUserInlinePolicy: AdminHandler<'PutIamUserInlinePolicy'> = ofUser.put;
export const DeleteIamUserInlinePolicy: AdminHandler<'DeleteIamUserInlinePolicy'> = ofUser.remove;

export const ListIamGroupInlinePolicies: AdminHandler<'ListIamGroupInlinePolicies'> = ofGroup.list;
export const GetIamGroupInlinePolicy: AdminHandler<'GetIamGroupInlinePolicy'> = ofGroup.get;
export const PutIamGroupInlinePolicy: AdminHandler<'PutIamGroupInlinePolicy'> = ofGroup.put;
export const DeleteIamGroupInlinePolicy: AdminHandler<'DeleteIamGroupInlinePolicy'> = ofGroup.remove;

export const ListIamRoleInlinePolicies: AdminHandler<'ListIamRoleInlinePolicies'> = ofRole.list;
export const GetIamRoleInlinePolicy: AdminHandler<'GetIamRoleInlinePolicy'> = ofRole.get;
export const PutIamRoleInlinePolicy: AdminHandler<'PutIamRoleInlinePolicy'> = ofRole.put;
export const DeleteIamRoleInlinePolicy: AdminHandler<'DeleteIamRoleInlinePolicy'> = ofRole.remove;
