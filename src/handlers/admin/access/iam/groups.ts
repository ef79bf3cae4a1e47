/** Groups and their users. */
import { getNamed, listEntities } from '../../../../domain/iam/entities.ts';
import {
  addUserToGroup,
  createGroup,
  deleteGroup,
  pageMembers,
  removeUserFromGroup,
} from '../../../../domain/iam/groups.ts';
import { groupArn } from '../../../../protocol/request/arns.ts';
import { emptyReply } from '../../../common/xml-reply.ts';
import { type AdminHandler, jsonReply } from '../../call.ts';
import { entityJson, nameIn, openAccount, pageMax, policiesJson } from './entities.ts';

export const ListIamGroups: AdminHandler<'ListIamGroups'> = async (given, call) => {
  const { ctx, account } = await openAccount(given, call);
  const { limit = pageMax, after } = call.query;
  const { items, ...end } = await listEntities(ctx, account, {
    kind: 'group',
    pathPrefix: '/',
    after,
    max: limit,
  });
  return jsonReply({ rows: items.map((group) => entityJson(account, 'group', group)), ...end });
};

export const CreateIamGroup: AdminHandler<'CreateIamGroup'> = async (given, call) => {
  const { ctx, account } = await openAccount(given, call);
  const { name, path = '/' } = call.body;
  call.record?.about(groupArn(account, { name, path }));
  return jsonReply(entityJson(account, 'group', await createGroup(ctx, account, { name, path })));
};

export const GetIamGroup: AdminHandler<'GetIamGroup'> = async (given, call) => {
  const { ctx, account } = await openAccount(given, call);
  const { limit = pageMax, after } = call.query;
  const group = await getNamed(ctx, account, { kind: 'group', name: nameIn(call, 'group') });
  const { items, ...end } = await pageMembers(ctx, account, { group, after, max: limit });
  return jsonReply({
    ...entityJson(account, 'group', group),
    ...(await policiesJson(ctx, account, { kind: 'group', name: group.name })),
    users: items.map(({ name }) => name),
    ...end,
  });
};

export const DeleteIamGroup: AdminHandler<'DeleteIamGroup'> = async (given, call) => {
  const { ctx, account } = await openAccount(given, call);
  const name = nameIn(call, 'group');
  call.record?.about(groupArn(account, { name }));
  await deleteGroup(ctx, account, name);
  return emptyReply(204);
};

export const PutIamGroupUser: AdminHandler<'PutIamGroupUser'> = async (given, call) => {
  const { ctx, account } = await openAccount(given, call);
  const member = { group: nameIn(call, 'group'), user: nameIn(call, 'user') };
  call.record?.about(groupArn(account, { name: member.group }));
  await addUserToGroup(ctx, account, member);
  return emptyReply(204);
};

export const DeleteIamGroupUser: AdminHandler<'DeleteIamGroupUser'> = async (given, call) => {
  const { ctx, account } = await openAccount(given, call);
  const member = { group: nameIn(call, 'group'), user: nameIn(call, 'user') };
  call.record?.about(groupArn(account, { name: member.group }));
  await removeUserFromGroup(ctx, account, member);
  return emptyReply(204);
};
