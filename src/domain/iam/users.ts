/** The users of an account. */
import type { Context } from '../../context.ts';
import type { IamTag, UserRecord } from '../../metadata/iam.ts';
import { giveDefaultQuota } from '../quotas/default-quotas.ts';
import { deleteAccountQuota } from '../quotas/quota-limits.ts';
import { userHolder } from '../quotas/scopes.ts';
import { type AccountCtx, changeAccount } from './account.ts';
import { holdBoundary, releaseBoundary } from './attachments.ts';
import {
  addEntity,
  assertFree,
  conflict,
  drawUserId,
  mergeTags,
  moveEntity,
  namedIn,
  removeEntity,
} from './entities.ts';
import { type PolicyName, policyIn } from './managed-policies.ts';

const kind = 'user';

interface NewUser {
  readonly name: string;
  readonly path: string;
  readonly tags: readonly IamTag[];
  readonly boundary: PolicyName | undefined;
}

export async function createUser(
  ctx: AccountCtx & Pick<Context, 'config'>,
  account: string,
  requested: NewUser,
): Promise<UserRecord> {
  const id = drawUserId(ctx.random);
  return changeAccount(ctx, account, async (draft) => {
    const { name, path, tags } = requested;
    await assertFree(draft, { kind, name });
    const boundary = requested.boundary && (await policyIn(draft, requested.boundary));
    const user: UserRecord = {
      id,
      name,
      path,
      created: ctx.clock.now(),
      tags: mergeTags([], tags),
      groups: [],
      attached: [],
      inlineSize: 0,
      keys: [],
      devices: [],
      ...(boundary && { boundary: boundary.id }),
    };
    await addEntity(draft, kind, user);
    if (boundary !== undefined) await holdBoundary(draft, user.id, boundary);
    await giveDefaultQuota(ctx, 'user', userHolder(account, id).key);
    return user;
  });
}

export interface UserUpdate {
  readonly name?: string | undefined;
  readonly path?: string | undefined;
  readonly tags?: (present: readonly IamTag[]) => readonly IamTag[];
  readonly isDisabled?: boolean | undefined;
}

export const updateUser = (
  ctx: AccountCtx,
  account: string,
  { user: name, to }: { readonly user: string; readonly to: UserUpdate },
): Promise<void> =>
  changeAccount(ctx, account, async (draft) => {
    const { isDisabled: wasDisabled = false, ...user } = await namedIn(draft, { kind, name });
    const isDisabled = to.isDisabled ?? wasDisabled;
    const next = {
      ...user,
      ...(isDisabled ? { isDisabled } : {}),
      name: to.name ?? user.name,
      path: to.path ?? user.path,
      tags: to.tags?.(user.tags) ?? user.tags,
    };
    await moveEntity(draft, kind, { from: name, to: next });
  });

/** @throws DeleteConflict while the user has keys, policies, groups or devices */
export async function deleteUser(ctx: AccountCtx, account: string, name: string): Promise<void> {
  const id = await removeUser(ctx, account, name);
  // Its quota would limit its buckets without a name to remove it by. A kill in between leaves it.
  await deleteAccountQuota(ctx, userHolder(account, id), {});
}

const removeUser = (ctx: AccountCtx, account: string, name: string): Promise<string> =>
  changeAccount(ctx, account, async (draft) => {
    const user = await namedIn(draft, { kind, name });
    if (user.keys.length > 0) throw conflict('delete access keys');
    if (user.devices.length > 0) throw conflict('deactivate MFA devices');
    if (user.groups.length > 0) throw conflict('remove users from group');
    if (user.attached.length > 0) throw conflict('detach all policies');
    if (user.inlineSize > 0) throw conflict('delete policies');
    if (user.boundary !== undefined) await releaseBoundary(draft, user.id, user.boundary);
    await removeEntity(draft, kind, user);
    return user.id;
  });
