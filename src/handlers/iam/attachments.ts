/** The policies of users, groups and roles: attached managed policies and inline policies, with the same actions for each. */

import { parsePolicy } from '../../auth/policy/document.ts';
import type { Context } from '../../context.ts';
import {
  attachedTo,
  attachPolicy,
  changeBoundary,
  detachPolicy,
  pageEntities,
} from '../../domain/iam/attachments.ts';
import {
  deleteInlinePolicy,
  getInlinePolicy,
  listInlinePolicies,
  putInlinePolicy,
} from '../../domain/iam/inline-policies.ts';
import { accountOfPolicy, getPolicy } from '../../domain/iam/managed-policies.ts';
import { policyArn } from '../../protocol/arns.ts';
import { element, many, text, token } from '../../protocol/formats/codec.ts';
import { oneOf, optional } from '../../protocol/operations/parameters.ts';
import { attachedPolicies, membersMax, pageFields, policyNames } from '../../protocol/schemas/account.ts';
import { action } from './action.ts';
import { encodeDocument } from './descriptions.ts';
import {
  type ActionRequest,
  page,
  pageEnd,
  pageFrom,
  pageIn,
  path,
  pathPrefix,
  policyArnField,
  policyDocument,
  policyName,
} from './fields.ts';
import { buildResource, type HolderWord, holderIn, holders, policyNamed } from './resources.ts';

function attachmentActions<W extends HolderWord>(word: W) {
  const rules = holders[word];
  const resource = buildResource(rules);
  const parameters = { [rules.field]: rules.name, PolicyArn: policyArnField };
  const facts = ({ PolicyArn }: { readonly PolicyArn: string }) => new Map([['iam:PolicyARN', PolicyArn]]);
  const change =
    (how: typeof attachPolicy) =>
    (ctx: Context, request: ActionRequest, input: { readonly PolicyArn: string }): Promise<void> => {
      const policy = policyNamed(request, input.PolicyArn);
      return how(ctx, request.identity.owner, { holder: holderIn(rules, input), policy });
    };
  return {
    attach: action(`Attach${word}Policy`, parameters, { resource, facts, run: change(attachPolicy) }),
    detach: action(`Detach${word}Policy`, parameters, { resource, facts, run: change(detachPolicy) }),
    /** Ten are attached at most. */
    list: action(
      `ListAttached${word}Policies`,
      { ...page, [rules.field]: rules.name, PathPrefix: optional(pathPrefix) },
      {
        resource,
        result: element({ AttachedPolicies: attachedPolicies, ...pageFields }),
        async run(ctx, { identity: { owner } }, input) {
          const found = await attachedTo(ctx, owner, holderIn(rules, input));
          const visible = found.filter((policy) => policy.path.startsWith(input.PathPrefix ?? '/'));
          const AttachedPolicies = visible.map((policy) => ({
            PolicyName: policy.name,
            PolicyArn: policyArn(accountOfPolicy(owner, policy), policy),
          }));
          const { items, end } = pageIn(AttachedPolicies, input, ({ PolicyName, PolicyArn }) =>
            [PolicyName, PolicyArn].join(' '),
          );
          return { AttachedPolicies: items, ...end };
        },
      },
    ),
  };
}

export const {
  attach: AttachUserPolicy,
  detach: DetachUserPolicy,
  list: ListAttachedUserPolicies,
} = attachmentActions('User');
export const {
  attach: AttachGroupPolicy,
  detach: DetachGroupPolicy,
  list: ListAttachedGroupPolicies,
} = attachmentActions('Group');
export const {
  attach: AttachRolePolicy,
  detach: DetachRolePolicy,
  list: ListAttachedRolePolicies,
} = attachmentActions('Role');

const describeEntities = (word: HolderWord) =>
  many(element({ [`${word}Name`]: token, [`${word}Id`]: token }), { name: 'member', max: membersMax });
const uses = { PermissionsPolicy: 'policy', PermissionsBoundary: 'boundary' } as const;

export const ListEntitiesForPolicy = action(
  'ListEntitiesForPolicy',
  {
    ...page,
    PolicyArn: policyArnField,
    EntityFilter: optional(oneOf('User', 'Group', 'Role', 'LocalManagedPolicy', 'AWSManagedPolicy')),
    PathPrefix: optional(path),
    PolicyUsageFilter: optional(oneOf('PermissionsPolicy', 'PermissionsBoundary')),
  },
  {
    resource: (_ctx, _call, { PolicyArn }) => PolicyArn,
    result: element({
      PolicyGroups: describeEntities('Group'),
      PolicyUsers: describeEntities('User'),
      PolicyRoles: describeEntities('Role'),
      ...pageFields,
    }),
    async run(ctx, request, input) {
      const { owner } = request.identity;
      const { id } = await getPolicy(ctx, owner, policyNamed(request, input.PolicyArn));
      const { EntityFilter: filter, PolicyUsageFilter: use } = input;
      const isHolder = filter === 'User' || filter === 'Group' || filter === 'Role';
      const { items, next } = await pageEntities(ctx, owner, {
        ...pageFrom(input),
        policyId: id,
        kind: isHolder ? holders[filter].kind : undefined,
        as: use === undefined ? undefined : uses[use],
        pathPrefix: input.PathPrefix ?? '/',
      });
      const visible = (word: HolderWord) =>
        items
          .filter(({ kind }) => kind === holders[word].kind)
          .map((each) => ({ [`${word}Name`]: each.name, [`${word}Id`]: each.id }));
      return {
        PolicyGroups: visible('Group'),
        PolicyUsers: visible('User'),
        PolicyRoles: visible('Role'),
        ...pageEnd(next),
      };
    },
  },
);

// The actions on the permissions boundaries of users and roles: the same two for each.

function boundaryActions<W extends 'User' | 'Role'>(word: W) {
  const rules = holders[word];
  const resource = buildResource(rules);
  const named = { [rules.field]: rules.name };
  return {
    put: action(
      `Put${word}PermissionsBoundary`,
      { ...named, PermissionsBoundary: policyArnField },
      {
        resource,
        run: (ctx, request, input: { readonly PermissionsBoundary: string }) =>
          changeBoundary(ctx, request.identity.owner, {
            holder: holderIn(rules, input),
            policy: policyNamed(request, input.PermissionsBoundary),
          }),
      },
    ),
    remove: action(`Delete${word}PermissionsBoundary`, named, {
      resource,
      run: (ctx, { identity }, input) =>
        changeBoundary(ctx, identity.owner, { holder: holderIn(rules, input), policy: undefined }),
    }),
  };
}

export const { put: PutUserPermissionsBoundary, remove: DeleteUserPermissionsBoundary } =
  boundaryActions('User');
export const { put: PutRolePermissionsBoundary, remove: DeleteRolePermissionsBoundary } =
  boundaryActions('Role');

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
        run(ctx, { identity }, input) {
          parsePolicy(input.PolicyDocument, { kind: 'identity', sizeMax: anySize });
          const inline = { holder: holderIn(rules, input), policy: input.PolicyName };
          return putInlinePolicy(ctx, identity.owner, { ...inline, text: input.PolicyDocument });
        },
      },
    ),
    get: action(`Get${word}Policy`, named, {
      resource,
      result: element({ [field]: token, PolicyName: token, PolicyDocument: text }),
      async run(ctx, { identity }, input) {
        const inline = { holder: holderIn(rules, input), policy: input.PolicyName };
        const document = await getInlinePolicy(ctx, identity.owner, inline);
        const { name } = inline.holder;
        return { [field]: name, PolicyName: inline.policy, PolicyDocument: encodeDocument(document) };
      },
    }),
    remove: action(`Delete${word}Policy`, named, {
      resource,
      run: (ctx, { identity }, input) =>
        deleteInlinePolicy(ctx, identity.owner, {
          holder: holderIn(rules, input),
          policy: input.PolicyName,
        }),
    }),
    list: action(
      `List${word}Policies`,
      { ...page, [field]: rules.name },
      {
        resource,
        result: element({ PolicyNames: policyNames, ...pageFields }),
        async run(ctx, { identity }, input) {
          const asked = { holder: holderIn(rules, input), ...pageFrom(input) };
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
