/** Permissions boundaries of users and roles. */
import { changeBoundary } from '../../domain/iam/attachments.ts';
import { action } from './action.ts';
import { policyArnField, roleName, userName } from './fields.ts';
import { holderResource, policyNamed } from './resources.ts';

export const PutUserPermissionsBoundary = action(
  'PutUserPermissionsBoundary',
  { UserName: userName, PermissionsBoundary: policyArnField },
  {
    resource: (ctx, call, { UserName }) => holderResource(ctx, call, { kind: 'user', name: UserName }),
    run: (ctx, call, { UserName, PermissionsBoundary }) =>
      changeBoundary(ctx, call.identity.owner, {
        holder: { kind: 'user', name: UserName },
        policy: policyNamed(call, PermissionsBoundary),
      }),
  },
);

export const DeleteUserPermissionsBoundary = action(
  'DeleteUserPermissionsBoundary',
  { UserName: userName },
  {
    resource: (ctx, call, { UserName }) => holderResource(ctx, call, { kind: 'user', name: UserName }),
    run: (ctx, { identity }, { UserName }) =>
      changeBoundary(ctx, identity.owner, { holder: { kind: 'user', name: UserName }, policy: undefined }),
  },
);

export const PutRolePermissionsBoundary = action(
  'PutRolePermissionsBoundary',
  { RoleName: roleName, PermissionsBoundary: policyArnField },
  {
    resource: (ctx, call, { RoleName }) => holderResource(ctx, call, { kind: 'role', name: RoleName }),
    run: (ctx, call, { RoleName, PermissionsBoundary }) =>
      changeBoundary(ctx, call.identity.owner, {
        holder: { kind: 'role', name: RoleName },
        policy: policyNamed(call, PermissionsBoundary),
      }),
  },
);

export const DeleteRolePermissionsBoundary = action(
  'DeleteRolePermissionsBoundary',
  { RoleName: roleName },
  {
    resource: (ctx, call, { RoleName }) => holderResource(ctx, call, { kind: 'role', name: RoleName }),
    run: (ctx, { identity }, { RoleName }) =>
      changeBoundary(ctx, identity.owner, { holder: { kind: 'role', name: RoleName }, policy: undefined }),
  },
);
