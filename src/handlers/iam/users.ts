/** The actions on users: https://docs.aws.amazon.com/IAM/latest/APIReference/API_CreateUser.html and its neighbours. */
import { callerOf } from '../../auth/principal.ts';
import type { Context } from '../../context.ts';
import { mergeTags, withoutTags } from '../../domain/iam/tags.ts';
import {
  createUser,
  deleteUser,
  findUser,
  getUser,
  listUsers,
  type UserUpdate,
  updateUser,
} from '../../domain/iam/users.ts';
import { fail } from '../../errors/refusal.ts';
import type { IamTag, UserRecord } from '../../metadata/iam.ts';
import { userArn } from '../../protocol/arns.ts';
import { element, many } from '../../protocol/codec.ts';
import { optional } from '../../protocol/parameters.ts';
import { membersMax, pageFields, tagList, user } from '../../protocol/schemas/iam.ts';
import { type ActionCall, action } from './action.ts';
import {
  page,
  pageEnd,
  pageFrom,
  path,
  pathPrefix,
  tagKeys,
  tags,
  userName,
  userOrCaller,
} from './fields.ts';

const isoOf = (ms: number): string => new Date(ms).toISOString();
type GivenTags = readonly { readonly Key: string; readonly Value: string }[];
const tagsOf = (given: GivenTags): readonly IamTag[] => given.map(({ Key, Value }) => [Key, Value] as const);
const shownTags = (present: readonly IamTag[]): GivenTags => present.map(([Key, Value]) => ({ Key, Value }));

export const shownUser = (account: string, { name, path: at, id, created, tags: present }: UserRecord) => ({
  Path: at,
  UserName: name,
  UserId: id,
  Arn: userArn(account, name, at),
  CreateDate: isoOf(created),
  ...(present.length === 0 ? {} : { Tags: shownTags(present) }),
});

/** The user as a resource; one that does not exist is judged as if it lay at the root. */
export async function userResource(
  ctx: Pick<Context, 'metadata'>,
  call: ActionCall,
  { UserName }: { readonly UserName?: string | undefined },
): Promise<string> {
  const { owner } = call.identity;
  const name = userOrCaller(call, UserName);
  const found = await findUser(ctx, owner, name);
  return userArn(owner, name, found?.path);
}

export const CreateUser = action(
  'CreateUser',
  { UserName: userName, Path: optional(path), Tags: tags },
  {
    resource: (_ctx, { identity }, { UserName, Path }) => userArn(identity.owner, UserName, Path),
    result: element({ User: user }),
    async run(ctx, { identity }, { UserName, Path = '/', Tags }) {
      const wanted = { name: UserName, path: Path, tags: tagsOf(Tags) };
      return { User: shownUser(identity.owner, await createUser(ctx, identity.owner, wanted)) };
    },
  },
);

export const GetUser = action(
  'GetUser',
  { UserName: optional(userName) },
  {
    resource: (ctx, call, given) =>
      isSelf(call, given) ? callerOf(call.identity).arn : userResource(ctx, call, given),
    result: element({ User: user }),
    async run(ctx, call, given) {
      const { identity } = call;
      if (isSelf(call, given)) return { User: shownCaller(call) };
      const found = await getUser(ctx, identity.owner, userOrCaller(call, given.UserName));
      return { User: shownUser(identity.owner, found) };
    },
  },
);

/** The root of an account, and a configured user, are not among IAM's records. */
const isSelf = (
  { identity }: ActionCall,
  { UserName }: { readonly UserName?: string | undefined },
): boolean => UserName === undefined && identity.iam === undefined;

function shownCaller({ identity }: ActionCall) {
  const { username, userid, arn } = callerOf(identity);
  return { Path: '/', ...(username === undefined ? {} : { UserName: username }), UserId: userid, Arn: arn };
}

export const ListUsers = action(
  'ListUsers',
  { ...page, PathPrefix: optional(pathPrefix) },
  {
    resource: () => '*',
    result: element({ Users: many(user, { name: 'member', max: membersMax }), ...pageFields }),
    async run(ctx, { identity }, given) {
      const asked = { ...pageFrom(given), pathPrefix: given.PathPrefix ?? '/' };
      const { items, next } = await listUsers(ctx, identity.owner, asked);
      // Lists leave tags out, as the public API does.
      return {
        Users: items.map((each) => shownUser(identity.owner, { ...each, tags: [] })),
        ...pageEnd(next),
      };
    },
  },
);

/** Also allowed must be what the user is to become. */
export const UpdateUser = action(
  'UpdateUser',
  { UserName: userName, NewPath: optional(path), NewUserName: optional(userName) },
  {
    resource: userResource,
    async run(ctx, { identity }, { UserName, NewPath, NewUserName }) {
      await update(ctx, identity.owner, UserName, { name: NewUserName, path: NewPath });
    },
  },
);

const update = (ctx: Context, account: string, name: string, to: UserUpdate): Promise<void> =>
  updateUser(ctx, account, { user: name, to });

export const DeleteUser = action(
  'DeleteUser',
  { UserName: userName },
  {
    resource: userResource,
    run: (ctx, { identity }, { UserName }) => deleteUser(ctx, identity.owner, UserName),
  },
);

export const TagUser = action(
  'TagUser',
  { UserName: userName, Tags: tags },
  {
    resource: userResource,
    async run(ctx, { identity }, { UserName, Tags }) {
      if (Tags.length === 0) throw fail('ValidationError', 'Tags must have at least one member.');
      await update(ctx, identity.owner, UserName, { tags: (present) => mergeTags(present, tagsOf(Tags)) });
    },
  },
);

export const UntagUser = action(
  'UntagUser',
  { UserName: userName, TagKeys: tagKeys },
  {
    resource: userResource,
    async run(ctx, { identity }, { UserName, TagKeys }) {
      await update(ctx, identity.owner, UserName, { tags: (present) => withoutTags(present, TagKeys) });
    },
  },
);

export const ListUserTags = action(
  'ListUserTags',
  { ...page, UserName: userName },
  {
    resource: userResource,
    result: element({ Tags: tagList, ...pageFields }),
    async run(ctx, { identity }, given) {
      const { tags: present } = await getUser(ctx, identity.owner, given.UserName);
      return { Tags: shownTags(present), IsTruncated: false };
    },
  },
);
