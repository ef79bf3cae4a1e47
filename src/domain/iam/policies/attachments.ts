/** Managed policies of users, groups and roles: attached ones, and permissions boundaries. */
import { fail } from '../../../errors/refusal.ts';
import { type PolicyRecord, type RoleRecord, scanIam, type UserRecord } from '../../../metadata/iam.ts';
import { type AccountDraft, type Ctx, changeAccount } from '../account.ts';
import { findById, getNamed, type Named, namedIn, putEntity } from '../entities.ts';
import { type Page, readRecordPage } from '../pages.ts';
import { builtInById } from './built-in-policies.ts';
import type { HolderKind } from './inline-policies.ts';
import { findPolicyById, noSuchPolicy, type PolicyName, policyIn } from './managed-policies.ts';

const attachedMax = 10;

type As = 'policy' | 'boundary';

const rowName = (policyId: string, holderId: string, as: As): string => `${policyId}/${holderId}/${as}`;

/** Counts the uses of a policy of the account. Uses of built-in policies are not counted, because they belong to no account. */
async function countUse(
  draft: AccountDraft,
  policy: PolicyRecord,
  { as, by }: { readonly as: As; readonly by: 1 | -1 },
): Promise<void> {
  if (builtInById(policy.id) !== undefined) return;
  const { name } = policy;
  const now = await namedIn(draft, { kind: 'policy', name });
  const counted = as === 'policy' ? 'attachments' : 'boundaries';
  await putEntity(draft, 'policy', { ...now, [counted]: now[counted] + by });
}

export interface Attachment<K extends HolderKind = HolderKind> {
  readonly holder: Named<K>;
  readonly policy: PolicyName;
}

/** Attaching a policy that is attached already changes nothing. @throws LimitExceeded */
export const attachPolicy = <K extends HolderKind>(
  ctx: Ctx,
  account: string,
  { holder: named, policy: policyName }: Attachment<K>,
): Promise<void> =>
  changeAccount(ctx, account, async (draft) => {
    const holder = await namedIn(draft, named);
    const policy = await policyIn(draft, policyName);
    if (holder.attached.includes(policy.id)) return;
    if (holder.attached.length >= attachedMax)
      throw fail(
        'LimitExceeded',
        `Cannot exceed quota for policies attached to a ${named.kind}: ${attachedMax}`,
      );
    await putEntity(draft, named.kind, { ...holder, attached: [...holder.attached, policy.id] });
    await draft.put('attachment', rowName(policy.id, holder.id, 'policy'), {});
    await countUse(draft, policy, { as: 'policy', by: 1 });
    draft.note({ after: { policies: { [policy.name]: 'attached' } } });
  });

/** @throws NoSuchEntity for a policy that is not attached */
export const detachPolicy = <K extends HolderKind>(
  ctx: Ctx,
  account: string,
  { holder: named, policy: policyName }: Attachment<K>,
): Promise<void> =>
  changeAccount(ctx, account, async (draft) => {
    const holder = await namedIn(draft, named);
    const policy = await policyIn(draft, policyName);
    if (!holder.attached.includes(policy.id)) throw noSuchPolicy(policyName);
    const attached = holder.attached.filter((id) => id !== policy.id);
    await putEntity(draft, named.kind, { ...holder, attached });
    await draft.remove('attachment', rowName(policy.id, holder.id, 'policy'));
    await countUse(draft, policy, { as: 'policy', by: -1 });
    draft.note({ before: { policies: { [policy.name]: 'attached' } } });
  });

/** The cast is safe: only the boundary of the record changes. */
const withBoundary = <T extends UserRecord | RoleRecord>(
  { boundary: _, ...rest }: T,
  id: string | undefined,
): T => (id === undefined ? rest : { ...rest, boundary: id }) as T;

/** Sets the permissions boundary of a user or role; undefined removes it. */
export const changeBoundary = (
  ctx: Ctx,
  account: string,
  {
    holder: named,
    policy: policyName,
  }: { readonly holder: Named<'user' | 'role'>; readonly policy: PolicyName | undefined },
): Promise<void> =>
  changeAccount(ctx, account, async (draft) => {
    const holder = await namedIn(draft, named);
    const next = policyName === undefined ? undefined : await policyIn(draft, policyName);
    const before = holder.boundary;
    if (before === undefined && next === undefined)
      throw fail('NoSuchEntity', `The ${named.kind} ${named.name} has no permissions boundary.`);
    if (before === next?.id) return;
    if (before !== undefined) await releaseBoundary(draft, holder.id, before);
    await putEntity(draft, named.kind, withBoundary(holder, next?.id));
    if (next !== undefined) await holdBoundary(draft, holder.id, next);
  });

export async function holdBoundary(
  draft: AccountDraft,
  holderId: string,
  policy: PolicyRecord,
): Promise<void> {
  await draft.put('attachment', rowName(policy.id, holderId, 'boundary'), {});
  await countUse(draft, policy, { as: 'boundary', by: 1 });
}

export async function releaseBoundary(
  draft: AccountDraft,
  holderId: string,
  policyId: string,
): Promise<void> {
  await draft.remove('attachment', rowName(policyId, holderId, 'boundary'));
  const index = (await draft.find('id', policyId))?.value;
  const policy = index === undefined ? undefined : (await draft.find('policy', index.name))?.value;
  if (policy !== undefined) await countUse(draft, policy, { as: 'boundary', by: -1 });
}

/** The policies attached to a holder, in the order of attachment. */
export async function attachedTo(
  ctx: Pick<Ctx, 'metadata'>,
  account: string,
  holder: Named<HolderKind>,
): Promise<readonly PolicyRecord[]> {
  const { attached } = await getNamed(ctx, account, holder);
  const found = await Promise.all(attached.map((id) => findPolicyById(ctx, account, id)));
  return found.filter((policy) => policy !== undefined);
}

export interface PolicyEntity {
  readonly kind: HolderKind;
  readonly name: string;
  readonly id: string;
  readonly path: string;
}

/** The kind of holder that an id belongs to. */
export const kindOf = (id: string): HolderKind =>
  id.startsWith('AIDA') ? 'user' : id.startsWith('AGPA') ? 'group' : 'role';

export interface EntitiesPage {
  readonly policyId: string;
  readonly as: As | undefined;
  readonly kind: HolderKind | undefined;
  readonly pathPrefix: string;
  readonly after: string | undefined;
  readonly max: number;
}

/** The users, groups and roles that have a policy. */
export async function pageEntities(
  ctx: Pick<Ctx, 'metadata'>,
  account: string,
  { policyId, as, kind, pathPrefix, after, max }: EntitiesPage,
): Promise<Page<PolicyEntity>> {
  const { items, ...end } = await readRecordPage(ctx, account, {
    kind: 'attachment',
    prefix: `${policyId}/`,
    after,
    max,
    keep: ({ name }) => {
      const [, id = '', use] = name.split('/');
      return (kind === undefined || kindOf(id) === kind) && (as === undefined || use === as);
    },
  });
  const found = await Promise.all(
    items.map(async ({ name }): Promise<PolicyEntity | undefined> => {
      const [, id = ''] = name.split('/');
      const holder = await findById(ctx, account, { kind: kindOf(id), id });
      return holder && { kind: kindOf(id), id, name: holder.name, path: holder.path };
    }),
  );
  const isShown = (each: PolicyEntity | undefined): each is PolicyEntity =>
    each?.path.startsWith(pathPrefix) === true;
  return { ...end, items: found.filter(isShown) };
}

/** The largest reported number of uses. */
const usesMax = 1_000;

/** A policy with the number of its uses. The record holds it for policies of the account; uses of a built-in one are counted now. */
export async function withUses(
  { metadata }: Pick<Ctx, 'metadata'>,
  account: string,
  policy: PolicyRecord,
): Promise<PolicyRecord> {
  if (builtInById(policy.id) === undefined) return policy;
  const asked = { kind: 'attachment', prefix: `${policy.id}/`, count: usesMax } as const;
  const found = await scanIam(metadata, account, asked);
  const boundaries = found.filter(({ row }) => row.name.endsWith('/boundary')).length;
  return { ...policy, boundaries, attachments: found.length - boundaries };
}
