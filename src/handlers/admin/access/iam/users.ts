/** Users and their access keys. */
import type { Context } from '../../../../context.ts';
import {
  createAccessKey,
  deleteAccessKey,
  listAccessKeys,
  updateAccessKey,
} from '../../../../domain/iam/access-keys.ts';
import { getNamed } from '../../../../domain/iam/entities.ts';
import { pageGroups } from '../../../../domain/iam/groups.ts';
import { createUser, deleteUser, updateUser } from '../../../../domain/iam/users.ts';
import { findAccessKeyUse } from '../../../../metadata/iam.ts';
import { userArn } from '../../../../protocol/request/arns.ts';
import { emptyReply } from '../../../common/xml-reply.ts';
import { type AdminHandler, jsonReply, nameIn } from '../../call.ts';
import {
  boundaryJson,
  deleteReply,
  entityJson,
  listReply,
  openAccount,
  policiesJson,
  tagsJson,
  toTags,
} from './entities.ts';

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

export const CreateIamUser: AdminHandler<'CreateIamUser'> = async (given, call) => {
  const { ctx, account } = await openAccount(given, call);
  const { name, path = '/', tags } = call.body;
  call.record?.about(userArn(account, { name, path }));
  await createUser(ctx, account, { name, path, tags: toTags(tags), boundary: undefined });
  return userReply(ctx, account, name);
};

export const GetIamUser: AdminHandler<'GetIamUser'> = async (given, call) => {
  const { ctx, account } = await openAccount(given, call);
  return userReply(ctx, account, nameIn(call, 'user'));
};

export const PutIamUser: AdminHandler<'PutIamUser'> = async (given, call) => {
  const { ctx, account } = await openAccount(given, call);
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

export const CreateIamAccessKey: AdminHandler<'CreateIamAccessKey'> = async (given, call) => {
  const { ctx, account } = await openAccount(given, call);
  const name = nameIn(call, 'user');
  call.record?.about(userArn(account, { name }));
  const { accessKey, secretKey, status, created } = await createAccessKey(ctx, account, name);
  return jsonReply({ accessKey, secretKey, status, created: new Date(created).toISOString() });
};

export const PutIamAccessKey: AdminHandler<'PutIamAccessKey'> = async (given, call) => {
  const { ctx, account } = await openAccount(given, call);
  const user = nameIn(call, 'user');
  call.record?.about(userArn(account, { name: user }));
  await updateAccessKey(ctx, account, { user, accessKey: nameIn(call, 'key'), status: call.body.status });
  return emptyReply(204);
};

export const DeleteIamAccessKey: AdminHandler<'DeleteIamAccessKey'> = async (given, call) => {
  const { ctx, account } = await openAccount(given, call);
  const user = nameIn(call, 'user');
  call.record?.about(userArn(account, { name: user }));
  await deleteAccessKey(ctx, account, { user, accessKey: nameIn(call, 'key') });
  return emptyReply(204);
};
