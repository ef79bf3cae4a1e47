/** The actions on inline policies: the same four for users, groups and roles. */
import { parsePolicy } from '../../auth/policy/document.ts';
import {
  deleteInlinePolicy,
  getInlinePolicy,
  listInlinePolicies,
  putInlinePolicy,
} from '../../domain/iam/inline-policies.ts';
import { element, text, token } from '../../protocol/formats/codec.ts';
import { pageFields, policyNames } from '../../protocol/schemas/account.ts';
import { action } from './action.ts';
import { encodeDocument } from './descriptions.ts';
import { page, pageEnd, pageFrom, policyDocument, policyName } from './fields.ts';
import { buildResource, type HolderWord, holderIn, holders } from './resources.ts';

/** The function that stores a policy checks the largest size of its kind. */
const anySize = 131_072;

function inlineActions<W extends HolderWord>(word: W) {
  const rules = holders[word];
  const { field } = rules;
  const resource = buildResource(rules);
  const named = { [field]: rules.name, PolicyName: policyName };
  return {
    put: action(
      `Put${word}Policy`,
      { ...named, PolicyDocument: policyDocument },
      {
        resource,
        run(ctx, { identity }, given) {
          parsePolicy(given.PolicyDocument, { kind: 'identity', sizeMax: anySize });
          const inline = { holder: holderIn(rules, given), policy: given.PolicyName };
          return putInlinePolicy(ctx, identity.owner, { ...inline, text: given.PolicyDocument });
        },
      },
    ),
    get: action(`Get${word}Policy`, named, {
      resource,
      result: element({ [field]: token, PolicyName: token, PolicyDocument: text }),
      async run(ctx, { identity }, given) {
        const inline = { holder: holderIn(rules, given), policy: given.PolicyName };
        const document = await getInlinePolicy(ctx, identity.owner, inline);
        const { name } = inline.holder;
        return { [field]: name, PolicyName: inline.policy, PolicyDocument: encodeDocument(document) };
      },
    }),
    remove: action(`Delete${word}Policy`, named, {
      resource,
      run: (ctx, { identity }, given) =>
        deleteInlinePolicy(ctx, identity.owner, {
          holder: holderIn(rules, given),
          policy: given.PolicyName,
        }),
    }),
    list: action(
      `List${word}Policies`,
      { ...page, [field]: rules.name },
      {
        resource,
        result: element({ PolicyNames: policyNames, ...pageFields }),
        async run(ctx, { identity }, given) {
          const asked = { holder: holderIn(rules, given), ...pageFrom(given) };
          const { items, next } = await listInlinePolicies(ctx, identity.owner, asked);
          return { PolicyNames: items, ...pageEnd(next) };
        },
      },
    ),
  };
}

export const {
  put: PutUserPolicy,
  get: GetUserPolicy,
  remove: DeleteUserPolicy,
  list: ListUserPolicies,
} = inlineActions('User');
export const {
  put: PutGroupPolicy,
  get: GetGroupPolicy,
  remove: DeleteGroupPolicy,
  list: ListGroupPolicies,
} = inlineActions('Group');
export const {
  put: PutRolePolicy,
  get: GetRolePolicy,
  remove: DeleteRolePolicy,
  list: ListRolePolicies,
} = inlineActions('Role');
