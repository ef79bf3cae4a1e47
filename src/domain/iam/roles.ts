/** The roles of an account, and the principals that each trusts. */
import { findIam, type IamTag, type RoleRecord, toRecord } from '../../metadata/iam.ts';
import { type AccountCtx, changeAccount } from './account.ts';
import { holdBoundary, releaseBoundary } from './attachments.ts';
import {
  addEntity,
  assertFree,
  conflict,
  drawRoleId,
  mergeTags,
  namedIn,
  putEntity,
  removeEntity,
} from './entities.ts';
import { assertSize, type PolicyName, policyIn } from './managed-policies.ts';

const kind = 'role';
const trustMax = 2_048;

/** The trust policy is stored under the role's id. */
const trustName = (id: string): string => id;

interface NewRole extends Pick<RoleRecord, 'name' | 'path' | 'description' | 'sessionSecondsMax'> {
  readonly tags: readonly IamTag[];
  readonly boundary: PolicyName | undefined;
  readonly trust: string;
}

export const createRole = (ctx: AccountCtx, account: string, requested: NewRole): Promise<RoleRecord> =>
  changeAccount(ctx, account, async (draft) => {
    const { name, path, description, sessionSecondsMax, trust } = requested;
    assertSize(trust, { what: 'ACLSizePerRole', max: trustMax });
    await assertFree(draft, { kind, name });
    const boundary = requested.boundary && (await policyIn(draft, requested.boundary));
    const role: RoleRecord = {
      id: drawRoleId(ctx.random),
      name,
      path,
      created: ctx.clock.now(),
      description,
      sessionSecondsMax,
      tags: mergeTags([], requested.tags),
      attached: [],
      inlineSize: 0,
      ...(boundary && { boundary: boundary.id }),
    };
    await addEntity(draft, kind, role);
    await draft.put('document', trustName(role.id), { name }, trust);
    draft.note({ after: { trust } });
    if (boundary !== undefined) await holdBoundary(draft, role.id, boundary);
    return role;
  });

export interface RoleUpdate {
  readonly description?: string | undefined;
  readonly sessionSecondsMax?: number | undefined;
  readonly trust?: string | undefined;
  readonly tags?: (present: readonly IamTag[]) => readonly IamTag[];
}

export const updateRole = (
  ctx: AccountCtx,
  account: string,
  { role: name, to }: { readonly role: string; readonly to: RoleUpdate },
): Promise<void> =>
  changeAccount(ctx, account, async (draft) => {
    const role = await namedIn(draft, { kind, name });
    await putEntity(draft, kind, {
      ...role,
      description: to.description ?? role.description,
      sessionSecondsMax: to.sessionSecondsMax ?? role.sessionSecondsMax,
      tags: to.tags?.(role.tags) ?? role.tags,
    });
    if (to.trust === undefined) return;
    assertSize(to.trust, { what: 'ACLSizePerRole', max: trustMax });
    const former = await draft.find('document', trustName(role.id));
    draft.note({ before: { trust: former?.text }, after: { trust: to.trust } });
    await draft.put('document', trustName(role.id), { name }, to.trust);
  });

/** @throws DeleteConflict while policies are on it */
export const deleteRole = (ctx: AccountCtx, account: string, name: string): Promise<void> =>
  changeAccount(ctx, account, async (draft) => {
    const role = await namedIn(draft, { kind, name });
    if (role.attached.length > 0) throw conflict('detach all policies');
    if (role.inlineSize > 0) throw conflict('delete policies');
    if (role.boundary !== undefined) await releaseBoundary(draft, role.id, role.boundary);
    await draft.remove('document', trustName(role.id));
    await removeEntity(draft, kind, role);
  });

/** The trust policy as it was sent. */
export async function readTrust(
  { metadata }: Pick<AccountCtx, 'metadata'>,
  account: string,
  { id }: Pick<RoleRecord, 'id'>,
): Promise<string> {
  const stored = await findIam(metadata, account, { kind: 'document', name: trustName(id) });
  return stored === undefined ? '' : (toRecord<'document'>(stored).text ?? '');
}
