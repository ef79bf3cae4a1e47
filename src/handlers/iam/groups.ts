/** The actions on groups: https://docs.aws.amazon.com/IAM/latest/APIReference/API_CreateGroup.html and its neighbours. */

import type { Context } from '../../context.ts';
import { getNamed, listEntities } from '../../domain/iam/entities.ts';
import {
  addUserToGroup,
  createGroup,
  deleteGroup,
  pageGroups,
  pageMembers,
  removeUserFromGroup,
  updateGroup,
} from '../../domain/iam/groups.ts';
import type { GroupRecord } from '../../metadata/iam.ts';
import { groupArn } from '../../protocol/arns.ts';
import { element, many } from '../../protocol/formats/codec.ts';
import { isoTime } from '../../protocol/formats/iso-time.ts';
import { optional } from '../../protocol/operations/parameters.ts';
import { group, membersMax, pageFields, user } from '../../protocol/schemas/account.ts';
import { action } from './action.ts';
import { describeUser } from './descriptions.ts';
import {
  type ActionRequest,
  groupName,
  page,
  pageEnd,
  pageFrom,
  pageIn,
  path,
  pathPrefix,
  userName,
} from './fields.ts';
import { holderResource, movedResource, userResource } from './resources.ts';

const groups = many(group, { name: 'member', max: membersMax });
const kind = 'group';

const describeGroup = (account: string, found: GroupRecord) => ({
  Path: found.path,
  GroupName: found.name,
  GroupId: found.id,
  Arn: groupArn(account, found),
  CreateDate: isoTime(found.created),
});

const groupResource = (
  ctx: Context,
  request: ActionRequest,
  { GroupName }: { readonly GroupName: string },
): Promise<string> => holderResource(ctx, request, { kind, name: GroupName });

export const CreateGroup = action(
  'CreateGroup',
  { GroupName: groupName, Path: optional(path) },
  {
    resource: (_ctx, { identity }, { GroupName, Path }) =>
      groupArn(identity.owner, { name: GroupName, path: Path }),
    result: element({ Group: group }),
    async run(ctx, { identity: { owner } }, { GroupName, Path = '/' }) {
      return { Group: describeGroup(owner, await createGroup(ctx, owner, { name: GroupName, path: Path })) };
    },
  },
);

export const GetGroup = action(
  'GetGroup',
  { ...page, GroupName: groupName },
  {
    resource: groupResource,
    result: element({
      Group: group,
      Users: many(user, { name: 'member', max: membersMax }),
      ...pageFields,
    }),
    async run(ctx, { identity: { owner } }, input) {
      const found = await getNamed(ctx, owner, { kind, name: input.GroupName });
      const { items, next } = await pageMembers(ctx, owner, { group: found, ...pageFrom(input) });
      const Users = items.map((each) => describeUser(owner, each));
      return { Group: describeGroup(owner, found), Users, ...pageEnd(next) };
    },
  },
);

export const ListGroups = action(
  'ListGroups',
  { ...page, PathPrefix: optional(pathPrefix) },
  {
    resource: () => '*',
    result: element({ Groups: groups, ...pageFields }),
    async run(ctx, { identity: { owner } }, input) {
      const asked = { kind, ...pageFrom(input), pathPrefix: input.PathPrefix ?? '/' } as const;
      const { items, next } = await listEntities(ctx, owner, asked);
      return { Groups: items.map((each) => describeGroup(owner, each)), ...pageEnd(next) };
    },
  },
);

/** A user is in ten at most. */
export const ListGroupsForUser = action(
  'ListGroupsForUser',
  { ...page, UserName: userName },
  {
    resource: userResource,
    result: element({ Groups: groups, ...pageFields }),
    async run(ctx, { identity: { owner } }, input) {
      const { items, end } = pageIn(await pageGroups(ctx, owner, input.UserName), input, ({ name }) => name);
      return { Groups: items.map((each) => describeGroup(owner, each)), ...end };
    },
  },
);

export const UpdateGroup = action(
  'UpdateGroup',
  { GroupName: groupName, NewGroupName: optional(groupName), NewPath: optional(path) },
  {
    resource: groupResource,
    becomes: (ctx, request, { GroupName, NewGroupName, NewPath }) =>
      movedResource(ctx, request, {
        from: { kind, name: GroupName },
        to: { name: NewGroupName, path: NewPath },
      }),
    run: (ctx, { identity }, { GroupName, NewGroupName, NewPath }) =>
      updateGroup(ctx, identity.owner, { group: GroupName, to: { name: NewGroupName, path: NewPath } }),
  },
);

export const DeleteGroup = action(
  'DeleteGroup',
  { GroupName: groupName },
  {
    resource: groupResource,
    run: (ctx, { identity }, { GroupName }) => deleteGroup(ctx, identity.owner, GroupName),
  },
);

export const AddUserToGroup = action(
  'AddUserToGroup',
  { GroupName: groupName, UserName: userName },
  {
    resource: groupResource,
    run: (ctx, { identity }, { GroupName, UserName }) =>
      addUserToGroup(ctx, identity.owner, { group: GroupName, user: UserName }),
  },
);

export const RemoveUserFromGroup = action(
  'RemoveUserFromGroup',
  { GroupName: groupName, UserName: userName },
  {
    resource: groupResource,
    run: (ctx, { identity }, { GroupName, UserName }) =>
      removeUserFromGroup(ctx, identity.owner, { group: GroupName, user: UserName }),
  },
);
