/** The users of an account. */
import { fail, type Refusal } from '../../errors/refusal.ts';
import { findIam, type IamTag, recordOf, type UserRecord } from '../../metadata/iam.ts';
import { type AccountDraft, type Ctx, changeAccount } from './account.ts';
import { drawUserId } from './ids.ts';
import { type Page, pageOf } from './pages.ts';
import { mergeTags } from './tags.ts';

/** Names are told apart without regard to case, and are asked for as they were given. */
export const keyOf = (name: string): string => name.toLowerCase();

export const noSuch = (kind: string, name: string): Refusal =>
  fail('NoSuchEntity', `The ${kind} with name ${name} cannot be found.`);
export const alreadyThere = (kind: string, name: string): Refusal =>
  fail('EntityAlreadyExists', `${kind} with name ${name} already exists.`);

export async function findUser(
  { metadata }: Pick<Ctx, 'metadata'>,
  account: string,
  name: string,
): Promise<UserRecord | undefined> {
  const stored = await findIam(metadata, account, { kind: 'user', name: keyOf(name) });
  const user = stored === undefined ? undefined : recordOf<'user'>(stored).value;
  return user?.name === name ? user : undefined;
}

export async function userById(
  { metadata }: Pick<Ctx, 'metadata'>,
  account: string,
  id: string,
): Promise<UserRecord | undefined> {
  const index = await findIam(metadata, account, { kind: 'id', name: id });
  if (index === undefined) return undefined;
  const { name } = recordOf<'id'>(index).value;
  const stored = await findIam(metadata, account, { kind: 'user', name });
  const user = stored === undefined ? undefined : recordOf<'user'>(stored).value;
  return user?.id === id ? user : undefined;
}

/** @throws NoSuchEntity */
export async function getUser(
  ctx: Pick<Ctx, 'metadata'>,
  account: string,
  name: string,
): Promise<UserRecord> {
  const user = await findUser(ctx, account, name);
  if (user === undefined) throw noSuch('user', name);
  return user;
}

/** @throws NoSuchEntity */
export async function userIn(draft: AccountDraft, name: string): Promise<UserRecord> {
  const user = (await draft.find('user', keyOf(name)))?.value;
  if (user?.name !== name) throw noSuch('user', name);
  return user;
}

export interface NewUser {
  readonly name: string;
  readonly path: string;
  readonly tags: readonly IamTag[];
}

export const createUser = (ctx: Ctx, account: string, wanted: NewUser): Promise<UserRecord> =>
  changeAccount(ctx, account, async (draft) => {
    const { name } = wanted;
    if ((await draft.find('user', keyOf(name))) !== undefined) throw alreadyThere('User', name);
    const user: UserRecord = {
      ...wanted,
      tags: mergeTags([], wanted.tags),
      id: drawUserId(ctx.random),
      created: ctx.clock.now(),
      groups: [],
      attached: [],
      inlineSize: 0,
      keys: [],
      devices: [],
    };
    draft.count('users', 1);
    await draft.put('user', keyOf(name), user);
    await draft.put('id', user.id, { kind: 'user', name: keyOf(name) });
    return user;
  });

export interface UserUpdate {
  readonly name?: string | undefined;
  readonly path?: string | undefined;
  readonly tags?: (present: readonly IamTag[]) => readonly IamTag[];
}

export const updateUser = (
  ctx: Ctx,
  account: string,
  { user: name, to }: { readonly user: string; readonly to: UserUpdate },
): Promise<void> =>
  changeAccount(ctx, account, async (draft) => {
    const user = await userIn(draft, name);
    const next = {
      ...user,
      name: to.name ?? user.name,
      path: to.path ?? user.path,
      tags: to.tags?.(user.tags) ?? user.tags,
    };
    if (keyOf(next.name) !== keyOf(name)) {
      if ((await draft.find('user', keyOf(next.name))) !== undefined) throw alreadyThere('User', next.name);
      await draft.remove('user', keyOf(name));
      await draft.put('id', user.id, { kind: 'user', name: keyOf(next.name) });
    }
    await draft.put('user', keyOf(next.name), next);
  });

/** @throws DeleteConflict while anything is the user's */
export const deleteUser = (ctx: Ctx, account: string, name: string): Promise<void> =>
  changeAccount(ctx, account, async (draft) => {
    const user = await userIn(draft, name);
    const conflict = (what: string): Refusal =>
      fail('DeleteConflict', `Cannot delete entity, must ${what} first.`);
    if (user.keys.length > 0) throw conflict('delete access keys');
    if (user.devices.length > 0) throw conflict('deactivate MFA devices');
    if (user.groups.length > 0) throw conflict('remove users from group');
    if (user.attached.length > 0) throw conflict('detach all policies');
    if (user.inlineSize > 0) throw conflict('delete policies');
    draft.count('users', -1);
    await draft.remove('user', keyOf(name));
    await draft.remove('id', user.id);
  });

export const listUsers = async (
  ctx: Pick<Ctx, 'metadata'>,
  account: string,
  page: { readonly pathPrefix: string; readonly after: string | undefined; readonly max: number },
): Promise<Page<UserRecord>> => {
  const { pathPrefix, after, max } = page;
  const found = await pageOf(ctx, account, {
    kind: 'user',
    after,
    max,
    keep: ({ value }) => value.path.startsWith(pathPrefix),
  });
  return { ...found, items: found.items.map(({ value }) => value) };
};
