/** The actions that put managed policies on users, groups and roles: the same three for each. */
import type { Context } from '../../context.ts';
import {
  attachedTo,
  attachPolicy,
  changeBoundary,
  detachPolicy,
  pageEntities,
} from '../../domain/iam/attachments.ts';
import { accountOfPolicy, getPolicy } from '../../domain/iam/managed-policies.ts';
import { element, many, token } from '../../protocol/formats/codec.ts';
import { oneOf, optional } from '../../protocol/operations/parameters.ts';
import { policyArn } from '../../protocol/request/arns.ts';
import { attachedPolicies, membersMax, pageFields } from '../../protocol/schemas/account.ts';
import { action } from './action.ts';
import {
  type ActionRequest,
  page,
  pageEnd,
  pageFrom,
  pageIn,
  path,
  pathPrefix,
  policyArnField,
} from './fields.ts';
import { buildResource, type HolderWord, holderIn, holders, policyNamed } from './resources.ts';

function attachmentActions<W extends HolderWord>(word: W) {
  const rules = holders[word];
  const resource = buildResource(rules);
  const parameters = { [rules.field]: rules.name, PolicyArn: policyArnField };
  const facts = ({ PolicyArn }: { readonly PolicyArn: string }) => new Map([['iam:PolicyARN', PolicyArn]]);
  const change =
    (how: typeof attachPolicy) =>
    (ctx: Context, request: ActionRequest, given: { readonly PolicyArn: string }): Promise<void> => {
      const policy = policyNamed(request, given.PolicyArn);
      return how(ctx, request.identity.owner, { holder: holderIn(rules, given), policy });
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
        async run(ctx, { identity: { owner } }, given) {
          const found = await attachedTo(ctx, owner, holderIn(rules, given));
          const shown = found.filter((policy) => policy.path.startsWith(given.PathPrefix ?? '/'));
          const AttachedPolicies = shown.map((policy) => ({
            PolicyName: policy.name,
            PolicyArn: policyArn(accountOfPolicy(owner, policy), policy),
          }));
          const { items, end } = pageIn(AttachedPolicies, given, ({ PolicyName, PolicyArn }) =>
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
    async run(ctx, request, given) {
      const { owner } = request.identity;
      const { id } = await getPolicy(ctx, owner, policyNamed(request, given.PolicyArn));
      const { EntityFilter: filter, PolicyUsageFilter: use } = given;
      const isHolder = filter === 'User' || filter === 'Group' || filter === 'Role';
      const { items, next } = await pageEntities(ctx, owner, {
        ...pageFrom(given),
        policyId: id,
        kind: isHolder ? holders[filter].kind : undefined,
        as: use === undefined ? undefined : uses[use],
        pathPrefix: given.PathPrefix ?? '/',
      });
      const shown = (word: HolderWord) =>
        items
          .filter(({ kind }) => kind === holders[word].kind)
          .map((each) => ({ [`${word}Name`]: each.name, [`${word}Id`]: each.id }));
      return {
        PolicyGroups: shown('Group'),
        PolicyUsers: shown('User'),
        PolicyRoles: shown('Role'),
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
        run: (ctx, request, given: { readonly PermissionsBoundary: string }) =>
          changeBoundary(ctx, request.identity.owner, {
            holder: holderIn(rules, given),
            policy: policyNamed(request, given.PermissionsBoundary),
          }),
      },
    ),
    remove: action(`Delete${word}PermissionsBoundary`, named, {
      resource,
      run: (ctx, { identity }, given) =>
        changeBoundary(ctx, identity.owner, { holder: holderIn(rules, given), policy: undefined }),
    }),
  };
}

export const { put: PutUserPermissionsBoundary, remove: DeleteUserPermissionsBoundary } =
  boundaryActions('User');
export const { put: PutRolePermissionsBoundary, remove: DeleteRolePermissionsBoundary } =
  boundaryActions('Role');
