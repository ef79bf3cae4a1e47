/** The inline policies of users, groups and roles: the same four operations for each. */
import { parsePolicy } from '../../../../auth/policy/document/document.ts';
import type { Context } from '../../../../context.ts';
import {
  deleteInlinePolicy,
  getInlinePolicy,
  type HolderKind,
  listInlinePolicies,
  putInlinePolicy,
} from '../../../../domain/iam/policies/inline-policies.ts';
import { policyTextMax } from '../../../../protocol/operations/admin/iam.ts';
import { pageDefault } from '../../../../protocol/operations/admin/row.ts';
import { emptyReply } from '../../../common/xml-reply.ts';
import { type AdminHandler, type AdminRequest, jsonReply, nameIn } from '../../call.ts';
import { arns, openAccount } from './entities.ts';

type Call = Pick<AdminRequest, 'params' | 'record'>;
type Paged = Call & {
  readonly query: { readonly limit?: number | undefined; readonly after?: string | undefined };
};
type Written = Call & { readonly body: { readonly document: string } };

function inlineHandlers<K extends HolderKind>(kind: K) {
  const open = async (given: Context, call: Call) => {
    const { ctx, account } = await openAccount(given, call);
    const holder = { kind, name: nameIn(call, kind) };
    call.record?.about(arns[kind](account, holder));
    return { ctx, account, holder };
  };
  return {
    async list(given: Context, call: Paged) {
      const { ctx, account, holder } = await open(given, call);
      const { limit = pageDefault, after } = call.query;
      const { items, ...end } = await listInlinePolicies(ctx, account, { holder, after, max: limit });
      return jsonReply({ rows: items.map((name) => ({ name })), ...end });
    },
    async get(given: Context, call: Call) {
      const { ctx, account, holder } = await open(given, call);
      const policy = nameIn(call, 'policy');
      const document = await getInlinePolicy(ctx, account, { holder, policy });
      return jsonReply({ name: policy, document });
    },
    async put(given: Context, call: Written) {
      const { ctx, account, holder } = await open(given, call);
      const { document: text } = call.body;
      parsePolicy(text, { kind: 'identity', sizeMax: policyTextMax });
      await putInlinePolicy(ctx, account, { holder, policy: nameIn(call, 'policy'), text });
      return emptyReply(204);
    },
    async remove(given: Context, call: Call) {
      const { ctx, account, holder } = await open(given, call);
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
