/** The groups of an account, and their members. */
import { inParallel } from '../../base/concurrency.ts';
import { fail } from '../../base/errors.ts';
import { type GroupRecord, scanIam, type UserRecord } from '../../metadata/iam.ts';
import { type AccountCtx, changeAccount } from './account.ts';
import {
  addEntity,
  assertFree,
  conflict,
  drawGroupId,
  findById,
  getNamed,
  moveEntity,
  namedIn,
  type Page,
  putEntity,
  readRecordPage,
  readsMax,
  removeEntity,
} from './entities.ts';

const kind = 'group';
const groupsOfUserMax = 10;

const memberName = (groupId: string, userId: string): string => `${groupId}/${userId}`;

export const createGroup = (
  ctx: AccountCtx,
  account: string,
  { name, path }: { readonly name: string; readonly path: string },
): Promise<GroupRecord> =>
  changeAccount(ctx, account, async (draft) => {
    await assertFree(draft, { kind, name });
    const group: GroupRecord = {
      id: drawGroupId(ctx.random),
      name,
      path,
      created: ctx.clock.now(),
      attached: [],
      inlineSize: 0,
    };
    await addEntity(draft, kind, group);
    return group;
  });

export const updateGroup = (
  ctx: AccountCtx,
  account: string,
  {
    group: from,
    to,
  }: {
    readonly group: string;
    readonly to: { readonly name: string | undefined; readonly path: string | undefined };
  },
): Promise<void> =>
  changeAccount(ctx, account, async (draft) => {
    const group = await namedIn(draft, { kind, name: from });
    const next = { ...group, name: to.name ?? group.name, path: to.path ?? group.path };
    await moveEntity(draft, kind, { from, to: next });
  });

/** @throws DeleteConflict while it has members or policies */
export const deleteGroup = (ctx: AccountCtx, account: string, name: string): Promise<void> =>
  changeAccount(ctx, account, async (draft) => {
    const group = await namedIn(draft, { kind, name });
    if (await draft.isAny({ kind: 'member', prefix: memberName(group.id, '') }))
      throw conflict('remove users from group');
    if (group.attached.length > 0) throw conflict('detach all policies');
    if (group.inlineSize > 0) throw conflict('delete policies');
    await removeEntity(draft, kind, group);
  });

interface Membership {
  readonly group: string;
  readonly user: string;
}

/** Adding a member twice changes nothing. @throws LimitExceeded */
export const addUserToGroup = (ctx: AccountCtx, account: string, member: Membership): Promise<void> =>
  changeAccount(ctx, account, async (draft) => {
    const group = await namedIn(draft, { kind, name: member.group });
    const user = await namedIn(draft, { kind: 'user', name: member.user });
    if (user.groups.includes(group.id)) return;
    if (user.groups.length >= groupsOfUserMax)
      throw fail('LimitExceeded', `Cannot exceed quota for GroupsPerUser: ${groupsOfUserMax}`);
    await putEntity(draft, 'user', { ...user, groups: [...user.groups, group.id] });
    await draft.put('member', memberName(group.id, user.id), {});
    draft.note({ after: { users: { [user.name]: 'member' } } });
  });

/** @throws NoSuchEntity */
export const removeUserFromGroup = (ctx: AccountCtx, account: string, member: Membership): Promise<void> =>
  changeAccount(ctx, account, async (draft) => {
    const group = await namedIn(draft, { kind, name: member.group });
    const user = await namedIn(draft, { kind: 'user', name: member.user });
    if (!user.groups.includes(group.id))
      throw fail('NoSuchEntity', `User ${user.name} is not in group ${group.name}.`);
    await putEntity(draft, 'user', { ...user, groups: user.groups.filter((id) => id !== group.id) });
    await draft.remove('member', memberName(group.id, user.id));
    draft.note({ before: { users: { [user.name]: 'member' } } });
  });

/** The users of a group; the order is stable and has no meaning. */
export async function pageMembers(
  ctx: Pick<AccountCtx, 'metadata'>,
  account: string,
  {
    group,
    ...page
  }: { readonly group: GroupRecord; readonly after: string | undefined; readonly max: number },
): Promise<Page<UserRecord>> {
  const prefix = memberName(group.id, '');
  const { items, ...end } = await readRecordPage(ctx, account, { kind: 'member', prefix, ...page });
  const users = await inParallel(readsMax, items, ({ name }) =>
    findById(ctx, account, { kind: 'user', id: name.slice(prefix.length) }),
  );
  return { ...end, items: users.filter((user) => user !== undefined) };
}

/** The users of a group, counted up to a limit. */
export async function countMembers(
  { metadata }: Pick<AccountCtx, 'metadata'>,
  account: string,
  { id, max }: { readonly id: string; readonly max: number },
): Promise<number> {
  const found = await scanIam(metadata, account, { kind: 'member', prefix: memberName(id, ''), count: max });
  return found.length;
}

export async function pageGroups(
  ctx: Pick<AccountCtx, 'metadata'>,
  account: string,
  user: string,
): Promise<readonly GroupRecord[]> {
  const { groups } = await getNamed(ctx, account, { kind: 'user', name: user });
  const found = await Promise.all(groups.map((id) => findById(ctx, account, { kind, id })));
  return found.filter((group) => group !== undefined);
}
