/** The actions on the permissions boundaries of users and roles: the same two for each. */
import { changeBoundary } from '../../../domain/iam/policies/attachments.ts';
import { action } from '../action.ts';
import { buildResource, holderIn, holders } from '../entities/holders.ts';
import { policyArnField } from '../fields.ts';
import { policyNamed } from '../resources.ts';

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
