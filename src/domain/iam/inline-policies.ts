/** The inline policies of users, groups and roles. */
import { fail, type Refusal } from '../../base/errors.ts';
import { findIam, toRecord } from '../../metadata/iam.ts';
import { type AccountCtx, changeAccount } from './account.ts';
import { foldName, getNamed, type Named, namedIn, type Page, putEntity, readRecordPage } from './entities.ts';
import { assertSize, policySize } from './managed-policies.ts';

export type HolderKind = 'user' | 'group' | 'role';

/** The largest size of all inline policies of one holder together. */
const sizesMax = { user: 2_048, group: 5_120, role: 10_240 } as const;

interface InlinePolicy<K extends HolderKind = HolderKind> {
  readonly holder: Named<K>;
  readonly policy: string;
}

const documentName = (holderId: string, policy: string): string => `${holderId}/${foldName(policy)}`;
const noSuchPolicy = ({ holder, policy }: InlinePolicy): Refusal =>
  fail('NoSuchEntity', `The ${holder.kind} policy with name ${policy} cannot be found.`);

export const putInlinePolicy = <K extends HolderKind>(
  ctx: AccountCtx,
  account: string,
  { holder: named, policy, text }: InlinePolicy<K> & { readonly text: string },
): Promise<void> =>
  changeAccount(ctx, account, async (draft) => {
    const holder = await namedIn(draft, named);
    const at = documentName(holder.id, policy);
    const before = await draft.find('document', at);
    const inlineSize = holder.inlineSize + policySize(text) - policySize(before?.text ?? '');
    const max = sizesMax[named.kind];
    assertSize(text, { what: 'inline policies', max });
    if (inlineSize > max)
      throw fail(
        'LimitExceeded',
        `Maximum policy size of ${max} bytes exceeded for ${named.kind} ${named.name}`,
      );
    await draft.put('document', at, { name: policy }, text);
    draft.note({
      before: { inlinePolicies: { [policy]: before?.text } },
      after: { inlinePolicies: { [policy]: text } },
    });
    await putEntity(draft, named.kind, { ...holder, inlineSize });
  });

/** @throws NoSuchEntity */
export const deleteInlinePolicy = <K extends HolderKind>(
  ctx: AccountCtx,
  account: string,
  inline: InlinePolicy<K>,
): Promise<void> =>
  changeAccount(ctx, account, async (draft) => {
    const { holder: named, policy } = inline;
    const holder = await namedIn(draft, named);
    const at = documentName(holder.id, policy);
    const found = await draft.find('document', at);
    if (found?.value.name !== policy) throw noSuchPolicy(inline);
    await draft.remove('document', at);
    draft.note({ before: { inlinePolicies: { [policy]: found.text } } });
    const inlineSize = holder.inlineSize - policySize(found.text ?? '');
    await putEntity(draft, named.kind, { ...holder, inlineSize });
  });

/** The document as it was sent. @throws NoSuchEntity */
export async function getInlinePolicy(
  ctx: Pick<AccountCtx, 'metadata'>,
  account: string,
  inline: InlinePolicy,
): Promise<string> {
  const { id } = await getNamed(ctx, account, inline.holder);
  const name = documentName(id, inline.policy);
  const stored = await findIam(ctx.metadata, account, { kind: 'document', name });
  const found = stored === undefined ? undefined : toRecord<'document'>(stored);
  if (found?.value.name !== inline.policy) throw noSuchPolicy(inline);
  return found.text ?? '';
}

/** The names of a holder's inline policies. */
export async function listInlinePolicies(
  ctx: Pick<AccountCtx, 'metadata'>,
  account: string,
  {
    holder,
    after,
    max,
  }: { readonly holder: Named<HolderKind>; readonly after: string | undefined; readonly max: number },
): Promise<Page<string>> {
  const { id } = await getNamed(ctx, account, holder);
  const { items, ...end } = await readRecordPage(ctx, account, {
    kind: 'document',
    prefix: `${id}/`,
    after,
    max,
  });
  return { ...end, items: items.map(({ value }) => value.name) };
}
