/** What the JSON of users, groups, roles and policies has in common. */

import { fail } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import type { Recorder } from '../../domain/common/recorder.ts';
import { attachedTo } from '../../domain/iam/attachments.ts';
import { findAnyCase, listEntities, type Named } from '../../domain/iam/entities.ts';
import { type HolderKind, listInlinePolicies } from '../../domain/iam/inline-policies.ts';
import {
  accountOfPolicy,
  builtInAccount,
  findPolicyById,
  type PolicyName,
} from '../../domain/iam/managed-policies.ts';
import type { IamRecords, IamTag } from '../../metadata/iam.ts';
import { pageDefault } from '../../protocol/admin/row.ts';
import { groupArn, parseArn, policyArn, roleArn, userArn } from '../../protocol/arns.ts';
import { emptyReply } from '../handler.ts';
import { findAccount, jsonReply, nameIn } from './call.ts';

export const arns = { user: userArn, group: groupArn, role: roleArn, policy: policyArn } as const;

/** More than the sizes of inline policies allow. */
const inlineMax = 256;

interface Call {
  readonly params: ReadonlyMap<string, string>;
  readonly record?: Recorder | undefined;
}
interface Listing extends Call {
  readonly query: { readonly limit?: number | undefined; readonly after?: string | undefined };
}

/**
 * The account of the path, and a context whose commits have the audit row of the request.
 * @throws NoSuchEntity
 */
export async function openAccount(ctx: Context, { params, record }: Call) {
  const { owner } = await findAccount(ctx, params);
  await assertExactNames(ctx, owner, params);
  return { account: owner, ctx: { ...ctx, record } };
}

/**
 * The domain finds names in any case, but policies compare names as they are: each name of the path must be as it was given to the
 * entity, else a denied path would have others beside it.
 * @throws NoSuchEntity
 */
export async function assertExactNames(
  ctx: Pick<Context, 'metadata'>,
  account: string,
  params: ReadonlyMap<string, string>,
): Promise<void> {
  for (const kind of ['user', 'group', 'role'] as const)
    await assertExactName(ctx, account, { kind, name: params.get(kind) });
}

/** The same for a name in a body. @throws NoSuchEntity */
export async function assertExactName(
  ctx: Pick<Context, 'metadata'>,
  account: string,
  { kind, name }: { readonly kind: HolderKind; readonly name: string | undefined },
): Promise<void> {
  const found = name === undefined ? undefined : await findAnyCase(ctx, account, { kind, name });
  if (found !== undefined && found.name !== name)
    throw fail(
      'NoSuchEntity',
      `There is no ${kind} of this name. Names are compared with regard to case here.`,
    );
}

export const entityJson = (
  account: string,
  kind: keyof typeof arns,
  { name, id, path, created }: { name: string; id: string; path: string; created: number },
) => ({ name, id, arn: arns[kind](account, { name, path }), path, created: new Date(created).toISOString() });

/** A page of the entities of a kind, each as `toJson` shows it. */
export async function listReply<K extends keyof typeof arns, T>(
  outer: Context,
  call: Listing,
  { kind, toJson }: { readonly kind: K; toJson(account: string, found: IamRecords[K]): T },
) {
  const { ctx, account } = await openAccount(outer, call);
  const { limit = pageDefault, after } = call.query;
  const { items, ...end } = await listEntities(ctx, account, { kind, pathPrefix: '/', after, max: limit });
  return jsonReply({ rows: items.map((found) => toJson(account, found)), ...end });
}

/** Deletes the user, group or role of the path. */
export async function deleteReply(
  outer: Context,
  call: Call,
  {
    kind,
    remove,
  }: { readonly kind: HolderKind; remove(ctx: Context, account: string, name: string): Promise<void> },
) {
  const { ctx, account } = await openAccount(outer, call);
  const name = nameIn(call, kind);
  call.record?.about(arns[kind](account, { name }));
  await remove(ctx, account, name);
  return emptyReply(204);
}

export async function policiesJson(ctx: Context, account: string, holder: Named<HolderKind>) {
  const attached = await attachedTo(ctx, account, holder);
  const inline = await listInlinePolicies(ctx, account, { holder, after: undefined, max: inlineMax });
  return {
    policies: attached.map((policy) => policyArn(accountOfPolicy(account, policy), policy)),
    inlinePolicies: inline.items,
  };
}

/** @throws InvalidArgument for an ARN that is no managed policy of the account */
export function readPolicy(account: string, arn: string): PolicyName {
  const parsed = parseArn(arn);
  if (parsed?.kind === 'policy' && (parsed.account === account || parsed.account === builtInAccount))
    return { account: parsed.account, path: parsed.path, name: parsed.name };
  throw fail('InvalidArgument', {
    message: `policy must be the ARN of a managed policy of the account or of ${builtInAccount}, such as arn:aws:iam::${account}:policy/reader.`,
    field: 'policy',
  });
}

export async function boundaryJson(ctx: Context, account: string, id: string | undefined) {
  const policy = id === undefined ? undefined : await findPolicyById(ctx, account, id);
  return policy === undefined ? {} : { boundary: policyArn(accountOfPolicy(account, policy), policy) };
}

export const toTags = (outer: ReadonlyMap<string, string> | undefined): readonly IamTag[] => [
  ...(outer ?? []),
];
export const tagsJson = (tags: readonly IamTag[]) => ({ tags: Object.fromEntries(tags) });
