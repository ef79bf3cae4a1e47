/** Groups and their users. */
import { getNamed } from '../../../../domain/iam/entities.ts';
import {
  addUserToGroup,
  createGroup,
  deleteGroup,
  pageMembers,
  removeUserFromGroup,
} from '../../../../domain/iam/groups.ts';
import { pageDefault } from '../../../../protocol/operations/admin/row.ts';
import { groupArn } from '../../../../protocol/request/arns.ts';
import { emptyReply } from '../../../common/xml-reply.ts';
import { type AdminHandler, jsonReply, nameIn } from '../../call.ts';
import { deleteReply, entityJson, listReply, openAccount, policiesJson } from './entities.ts';

export const ListIamGroups: AdminHandler<'ListIamGroups'> = (ctx, call) =>
  listReply(ctx, call, { kind: 'group', toJson: (account, group) => entityJson(account, 'group', group) });

export const CreateIamGroup: AdminHandler<'CreateIamGroup'> = async (given, call) => {
  const { ctx, account } = await openAccount(given, call);
  const { name, path = '/' } = call.body;
  call.record?.about(groupArn(account, { name, path }));
  return jsonReply(entityJson(account, 'group', await createGroup(ctx, account, { name, path })));
};

export const GetIamGroup: AdminHandler<'GetIamGroup'> = async (given, call) => {
  const { ctx, account } = await openAccount(given, call);
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
