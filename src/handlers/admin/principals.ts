/** Users, groups and roles. */

import { refuseBarePrincipals } from '../../auth/bucket-policy.ts';
import { parsePolicy } from '../../auth/policy/document.ts';
import type { Context } from '../../context.ts';
import {
  createAccessKey,
  deleteAccessKey,
  listAccessKeys,
  updateAccessKey,
} from '../../domain/iam/access-keys.ts';
import { getNamed } from '../../domain/iam/entities.ts';
import {
  addUserToGroup,
  createGroup,
  deleteGroup,
  pageGroups,
  pageMembers,
  removeUserFromGroup,
} from '../../domain/iam/groups.ts';
import { createRole, deleteRole, readTrust, updateRole } from '../../domain/iam/roles.ts';
import { createUser, deleteUser, updateUser } from '../../domain/iam/users.ts';
import { findAccessKeyUse } from '../../metadata/iam.ts';
import { pageDefault } from '../../protocol/admin/row.ts';
import { groupArn, roleArn, userArn } from '../../protocol/arns.ts';
import { emptyReply } from '../handler.ts';
import { type AdminHandler, jsonReply, nameIn } from './call.ts';
import {
  boundaryJson,
  deleteReply,
  entityJson,
  listReply,
  openAccount,
  policiesJson,
  tagsJson,
  toTags,
} from './iam-entities.ts';

// Users and their access keys.

export const ListIamUsers: AdminHandler<'ListIamUsers'> = (ctx, call) =>
  listReply(ctx, call, { kind: 'user', toJson: (account, user) => entityJson(account, 'user', user) });

async function userReply(ctx: Context, account: string, name: string) {
  const user = await getNamed(ctx, account, { kind: 'user', name });
  const keys = await listAccessKeys(ctx, account, name);
  return jsonReply({
    ...entityJson(account, 'user', user),
    ...(await policiesJson(ctx, account, { kind: 'user', name })),
    groups: (await pageGroups(ctx, account, name)).map((group) => group.name),
    accessKeys: await Promise.all(
      keys.map(async ({ accessKey, status, created }) => {
        const use = await findAccessKeyUse(ctx.metadata, accessKey);
        const lastUsed = use === undefined ? {} : { lastUsed: new Date(use.at).toISOString() };
        return { accessKey, status, created: new Date(created).toISOString(), ...lastUsed };
      }),
    ),
    mfaDevices: user.devices,
    status: user.isDisabled === true ? ('Disabled' as const) : ('Active' as const),
    ...(await boundaryJson(ctx, account, user.boundary)),
    ...tagsJson(user.tags),
  });
}

export const CreateIamUser: AdminHandler<'CreateIamUser'> = async (input, call) => {
  const { ctx, account } = await openAccount(input, call);
  const { name, path = '/', tags } = call.body;
  call.record?.about(userArn(account, { name, path }));
  await createUser(ctx, account, { name, path, tags: toTags(tags), boundary: undefined });
  return userReply(ctx, account, name);
};

export const GetIamUser: AdminHandler<'GetIamUser'> = async (input, call) => {
  const { ctx, account } = await openAccount(input, call);
  return userReply(ctx, account, nameIn(call, 'user'));
};

export const PutIamUser: AdminHandler<'PutIamUser'> = async (input, call) => {
  const { ctx, account } = await openAccount(input, call);
  const user = nameIn(call, 'user');
  const { name, path, tags, status } = call.body;
  call.record?.about(userArn(account, { name: user }));
  const isDisabled = status === undefined ? undefined : status === 'Disabled';
  const to = { name, path, isDisabled, ...(tags === undefined ? {} : { tags: () => toTags(tags) }) };
  await updateUser(ctx, account, { user, to });
  return userReply(ctx, account, name ?? user);
};

export const DeleteIamUser: AdminHandler<'DeleteIamUser'> = (ctx, call) =>
  deleteReply(ctx, call, { kind: 'user', remove: deleteUser });

export const CreateIamAccessKey: AdminHandler<'CreateIamAccessKey'> = async (input, call) => {
  const { ctx, account } = await openAccount(input, call);
  const name = nameIn(call, 'user');
  call.record?.about(userArn(account, { name }));
  const { accessKey, secretKey, status, created } = await createAccessKey(ctx, account, name);
  return jsonReply({ accessKey, secretKey, status, created: new Date(created).toISOString() });
};

export const PutIamAccessKey: AdminHandler<'PutIamAccessKey'> = async (input, call) => {
  const { ctx, account } = await openAccount(input, call);
  const user = nameIn(call, 'user');
  call.record?.about(userArn(account, { name: user }));
  await updateAccessKey(ctx, account, { user, accessKey: nameIn(call, 'key'), status: call.body.status });
  return emptyReply(204);
};

export const DeleteIamAccessKey: AdminHandler<'DeleteIamAccessKey'> = async (input, call) => {
  const { ctx, account } = await openAccount(input, call);
  const user = nameIn(call, 'user');
  call.record?.about(userArn(account, { name: user }));
  await deleteAccessKey(ctx, account, { user, accessKey: nameIn(call, 'key') });
  return emptyReply(204);
};

// Groups and their users.

export const ListIamGroups: AdminHandler<'ListIamGroups'> = (ctx, call) =>
  listReply(ctx, call, { kind: 'group', toJson: (account, group) => entityJson(account, 'group', group) });

export const CreateIamGroup: AdminHandler<'CreateIamGroup'> = async (input, call) => {
  const { ctx, account } = await openAccount(input, call);
  const { name, path = '/' } = call.body;
  call.record?.about(groupArn(account, { name, path }));
  return jsonReply(entityJson(account, 'group', await createGroup(ctx, account, { name, path })));
};

export const GetIamGroup: AdminHandler<'GetIamGroup'> = async (input, call) => {
  const { ctx, account } = await openAccount(input, call);
  const { limit = pageDefault, after } = call.query;
  const group = await getNamed(ctx, account, { kind: 'group', name: nameIn(call, 'group') });
  const { items, ...end } = await pageMembers(ctx, account, { group, after, max: limit });
  return jsonReply({
    ...entityJson(account, 'group', group),
    ...(await policiesJson(ctx, account, { kind: 'group', name: group.name })),
    users: items.map(({ name }) => name),
    ...end,
  });
};

export const DeleteIamGroup: AdminHandler<'DeleteIamGroup'> = (ctx, call) =>
  deleteReply(ctx, call, { kind: 'group', remove: deleteGroup });

export const PutIamGroupUser: AdminHandler<'PutIamGroupUser'> = async (input, call) => {
  const { ctx, account } = await openAccount(input, call);
  const member = { group: nameIn(call, 'group'), user: nameIn(call, 'user') };
  call.record?.about(groupArn(account, { name: member.group }));
  await addUserToGroup(ctx, account, member);
  return emptyReply(204);
};

export const DeleteIamGroupUser: AdminHandler<'DeleteIamGroupUser'> = async (input, call) => {
  const { ctx, account } = await openAccount(input, call);
  const member = { group: nameIn(call, 'group'), user: nameIn(call, 'user') };
  call.record?.about(groupArn(account, { name: member.group }));
  await removeUserFromGroup(ctx, account, member);
  return emptyReply(204);
};

// Roles and their trust policies.

const sessionSecondsDefault = 3_600;

export const ListIamRoles: AdminHandler<'ListIamRoles'> = (ctx, call) =>
  listReply(ctx, call, { kind: 'role', toJson: (account, role) => entityJson(account, 'role', role) });

async function roleReply(ctx: Context, account: string, name: string) {
  const role = await getNamed(ctx, account, { kind: 'role', name });
  return jsonReply({
    ...entityJson(account, 'role', role),
    ...(await policiesJson(ctx, account, { kind: 'role', name })),
    description: role.description,
    sessionSeconds: role.sessionSecondsMax,
    trust: await readTrust(ctx, account, role),
    ...(await boundaryJson(ctx, account, role.boundary)),
    ...tagsJson(role.tags),
  });
}

/** @throws MalformedPolicyDocument */
async function assertTrust(ctx: Context, account: string, text: string): Promise<void> {
  await refuseBarePrincipals(ctx, account, parsePolicy(text, { kind: 'trust' }));
}

export const CreateIamRole: AdminHandler<'CreateIamRole'> = async (input, call) => {
  const { ctx, account } = await openAccount(input, call);
  const { name, path = '/', trust, description = '', sessionSeconds, tags } = call.body;
  call.record?.about(roleArn(account, { name, path }));
  await assertTrust(ctx, account, trust);
  const sessionSecondsMax = sessionSeconds ?? sessionSecondsDefault;
  const requested = {
    name,
    path,
    trust,
    description,
    sessionSecondsMax,
    tags: toTags(tags),
    boundary: undefined,
  };
  await createRole(ctx, account, requested);
  return roleReply(ctx, account, name);
};

export const GetIamRole: AdminHandler<'GetIamRole'> = async (input, call) => {
  const { ctx, account } = await openAccount(input, call);
  return roleReply(ctx, account, nameIn(call, 'role'));
};

export const PutIamRole: AdminHandler<'PutIamRole'> = async (input, call) => {
  const { ctx, account } = await openAccount(input, call);
  const role = nameIn(call, 'role');
  const { trust, description, sessionSeconds, tags } = call.body;
  call.record?.about(roleArn(account, { name: role }));
  if (trust !== undefined) await assertTrust(ctx, account, trust);
  const to = {
    trust,
    description,
    sessionSecondsMax: sessionSeconds,
    ...(tags === undefined ? {} : { tags: () => toTags(tags) }),
  };
  await updateRole(ctx, account, { role, to });
  return roleReply(ctx, account, role);
};

export const DeleteIamRole: AdminHandler<'DeleteIamRole'> = (ctx, call) =>
  deleteReply(ctx, call, { kind: 'role', remove: deleteRole });
