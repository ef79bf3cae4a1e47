/** Managed policies of users, groups and roles: attached ones, and permissions boundaries. */
import { inParallel } from '../../base/concurrency.ts';
import { fail } from '../../base/errors.ts';
import {
  type Holder,
  type PolicyRecord,
  type RoleRecord,
  scanIam,
  toRecord,
  type UserRecord,
} from '../../metadata/iam.ts';
import { type AccountCtx, type AccountDraft, changeAccount } from './account.ts';
import {
  findById,
  getNamed,
  type Named,
  namedIn,
  type Page,
  putEntity,
  readRecordPage,
  readsMax,
} from './entities.ts';
import type { HolderKind } from './inline-policies.ts';
import {
  builtInById,
  findPolicyById,
  findVersion,
  noSuchPolicy,
  type PolicyName,
  policyIn,
} from './managed-policies.ts';

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

interface Attachment<K extends HolderKind = HolderKind> {
  readonly holder: Named<K>;
  readonly policy: PolicyName;
}

/** Attaching a policy that is attached already changes nothing. @throws LimitExceeded */
export const attachPolicy = <K extends HolderKind>(
  ctx: AccountCtx,
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
  ctx: AccountCtx,
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
  ctx: AccountCtx,
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
  draft.note({ after: { boundary: policy.name } });
}

export async function releaseBoundary(
  draft: AccountDraft,
  holderId: string,
  policyId: string,
): Promise<void> {
  await draft.remove('attachment', rowName(policyId, holderId, 'boundary'));
  const index = (await draft.find('id', policyId))?.value;
  const policy = index === undefined ? undefined : (await draft.find('policy', index.name))?.value;
  if (policy === undefined) return;
  await countUse(draft, policy, { as: 'boundary', by: -1 });
  draft.note({ before: { boundary: policy.name } });
}

/** The policies attached to a holder, in the order of attachment. */
export async function attachedTo(
  ctx: Pick<AccountCtx, 'metadata'>,
  account: string,
  holder: Named<HolderKind>,
): Promise<readonly PolicyRecord[]> {
  const { attached } = await getNamed(ctx, account, holder);
  const found = await Promise.all(attached.map((id) => findPolicyById(ctx, account, id)));
  return found.filter((policy) => policy !== undefined);
}

/** A user, group or role that has a policy. */
export interface PolicyEntity {
  readonly kind: HolderKind;
  readonly name: string;
  readonly id: string;
  readonly path: string;
  readonly as: As;
}

/** The kind of holder that an id belongs to. */
const holderKind = (id: string): HolderKind =>
  id.startsWith('AIDA') ? 'user' : id.startsWith('AGPA') ? 'group' : 'role';

interface EntitiesPage {
  readonly policyId: string;
  readonly as: As | undefined;
  readonly kind: HolderKind | undefined;
  readonly pathPrefix: string;
  readonly after: string | undefined;
  readonly max: number;
}

/** The users, groups and roles that have a policy. */
export async function pageEntities(
  ctx: Pick<AccountCtx, 'metadata'>,
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
      return (kind === undefined || holderKind(id) === kind) && (as === undefined || use === as);
    },
  });
  const found = await inParallel(readsMax, items, async ({ name }): Promise<PolicyEntity | undefined> => {
    const [, id = '', as] = name.split('/');
    const holder = await findById(ctx, account, { kind: holderKind(id), id });
    if (holder === undefined) return undefined;
    const use = as === 'boundary' ? 'boundary' : 'policy';
    return { kind: holderKind(id), id, name: holder.name, path: holder.path, as: use };
  });
  const isVisible = (each: PolicyEntity | undefined): each is PolicyEntity =>
    each?.path.startsWith(pathPrefix) === true;
  return { ...end, items: found.filter(isVisible) };
}

/** The largest reported number of uses. */
const usesMax = 1_000;

/** A policy with the number of its uses. The record holds it for policies of the account; uses of a built-in one are counted now. */
export async function withUses(
  { metadata }: Pick<AccountCtx, 'metadata'>,
  account: string,
  policy: PolicyRecord,
): Promise<PolicyRecord> {
  if (builtInById(policy.id) === undefined) return policy;
  const asked = { kind: 'attachment', prefix: `${policy.id}/`, count: usesMax } as const;
  const found = await scanIam(metadata, account, asked);
  const boundaries = found.filter(({ row }) => row.name.endsWith('/boundary')).length;
  return { ...policy, boundaries, attachments: found.length - boundaries };
}

// The policies of a user or role: its inline and managed policies, those of its groups, and its permissions boundary.

type Reading = Pick<AccountCtx, 'metadata'>;

export interface PolicyText {
  /** The name in a trace: `user/alice/readers` is an inline policy, `policy/readers` a managed one. */
  readonly name: string;
  readonly text: string;
  /** Identifies the text: no other text has this key. */
  readonly key: string;
}

interface PolicyTexts {
  readonly identity: readonly PolicyText[];
  /** Undefined when the holder has no boundary. */
  readonly boundary: readonly PolicyText[] | undefined;
}

/** More than the size limit of inline policies allows. */
const inlineMax = 256;

/** @returns undefined when there is no such user, group or role any more */
export async function readPolicyTexts(
  ctx: Reading,
  account: string,
  id: string,
): Promise<PolicyTexts | undefined> {
  const kind = holderKind(id);
  const holder = await findById(ctx, account, { kind, id });
  if (holder === undefined) return undefined;
  const groups = 'groups' in holder ? holder.groups : [];
  const [own, ...ofGroups] = await Promise.all([
    textsOn(ctx, account, { kind, holder }),
    ...groups.map(async (groupId) => {
      const group = await findById(ctx, account, { kind: 'group', id: groupId });
      return group === undefined ? [] : textsOn(ctx, account, { kind: 'group', holder: group });
    }),
  ]);
  const identity = [...own, ...ofGroups.flat()];
  if (!('boundary' in holder) || holder.boundary === undefined) return { identity, boundary: undefined };
  const boundary = await managed(ctx, account, holder.boundary);
  // Deny everything where the boundary cannot be read.
  return { identity, boundary: boundary === undefined ? [] : [boundary] };
}

async function textsOn(
  ctx: Reading,
  account: string,
  { kind, holder }: { readonly kind: HolderKind; readonly holder: Holder },
): Promise<readonly PolicyText[]> {
  const [inline, attached] = await Promise.all([
    scanIam(ctx.metadata, account, { kind: 'document', prefix: `${holder.id}/`, count: inlineMax }),
    Promise.all(holder.attached.map((id) => managed(ctx, account, id))),
  ]);
  const own = inline.map((stored): PolicyText => {
    const { name, value, text = '' } = toRecord<'document'>(stored);
    return { name: `${kind}/${holder.name}/${value.name}`, text, key: `${name} ${stored.revision}` };
  });
  return [...own, ...attached.filter((each) => each !== undefined)];
}

/** The default version of a managed policy. */
export async function managed(ctx: Reading, account: string, id: string): Promise<PolicyText | undefined> {
  const policy = await findPolicyById(ctx, account, id);
  if (policy === undefined) return undefined;
  const version = await findVersion(ctx, account, { id, version: policy.defaultVersion });
  return version && { name: `policy/${policy.name}`, ...version };
}
