/** The policies of a user or role: its inline and managed policies, those of its groups, and its permissions boundary. */
import { type Holder, scanIam, toRecord } from '../../../metadata/iam.ts';
import type { Ctx } from '../account.ts';
import { findById } from '../entities.ts';
import { kindOf } from './attachments.ts';
import type { HolderKind } from './inline-policies.ts';
import { findPolicyById, findVersion } from './managed-policies.ts';

type Reading = Pick<Ctx, 'metadata'>;

export interface PolicyText {
  /** The name in a trace: `user/alice/readers` is an inline policy, `policy/readers` a managed one. */
  readonly name: string;
  readonly text: string;
  /** Identifies the text: no other text has this key. */
  readonly key: string;
}

export interface PolicyTexts {
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
  const kind = kindOf(id);
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
