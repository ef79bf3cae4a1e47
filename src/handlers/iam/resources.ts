/** The resources of actions, as ARNs for the authorization. */

import { fail } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import { findAnyCase, findNamed, type Named } from '../../domain/iam/entities.ts';
import type { HolderKind } from '../../domain/iam/inline-policies.ts';
import { builtInAccount, type PolicyName } from '../../domain/iam/managed-policies.ts';
import { groupArn, parseArn, roleArn, userArn } from '../../protocol/arns.ts';
import type { Parameter } from '../../protocol/operations/parameters.ts';
import { boundaryArn, resourceTagFacts } from './descriptions.ts';
import { type ActionRequest, groupName, roleName, userName, userOrCaller } from './fields.ts';

const holderArns = { user: userArn, group: groupArn, role: roleArn } as const;

/** A holder that does not exist gets the ARN of one at the root path, so that only authorized callers learn whether it exists. */
export async function holderResource(
  ctx: Pick<Context, 'metadata'>,
  { identity }: Pick<ActionRequest, 'identity'>,
  named: Named<HolderKind>,
): Promise<string> {
  const found = await findAnyCase(ctx, identity.owner, named);
  return holderArns[named.kind](identity.owner, { name: found?.name ?? named.name, path: found?.path });
}

interface Moved {
  readonly name: string | undefined;
  readonly path: string | undefined;
}

/** The same under another name or path. */
export async function movedResource(
  ctx: Pick<Context, 'metadata'>,
  { identity }: Pick<ActionRequest, 'identity'>,
  { from, to }: { readonly from: Named<HolderKind>; readonly to: Moved },
): Promise<string> {
  const found = await findAnyCase(ctx, identity.owner, from);
  const { name = found?.name ?? from.name, path = found?.path } = to;
  return holderArns[from.kind](identity.owner, { name, path });
}

/** @throws ValidationError for an ARN that is no managed policy's; NoSuchEntity for one of another account */
export function policyNamed(
  { identity }: { readonly identity: Pick<ActionRequest['identity'], 'owner'> },
  arn: string,
): PolicyName {
  const parsed = parseArn(arn);
  if (parsed?.kind !== 'policy') throw fail('ValidationError', `ARN ${arn} is not valid.`);
  const { account, path, name } = parsed;
  if (account !== identity.owner && account !== builtInAccount)
    throw fail('NoSuchEntity', `Policy ${arn} does not exist or is not attachable.`);
  return { account, path, name };
}

/** The condition values of the user, role or policy of an ARN: its tags and its boundary; none for other resources. */
export async function factsAt(
  ctx: Pick<Context, 'metadata'>,
  { identity: { owner } }: Pick<ActionRequest, 'identity'>,
  arn: string,
): Promise<readonly (readonly [string, string])[]> {
  const parsed = parseArn(arn);
  const kind = describedKinds.find((each) => each === parsed?.kind);
  if (parsed === undefined || kind === undefined || parsed.account !== owner) return [];
  const found = await findNamed(ctx, owner, { kind, name: parsed.name });
  if (found?.path !== parsed.path) return [];
  const boundary = await boundaryArn(ctx, owner, 'boundary' in found ? found.boundary : undefined);
  return [
    ...resourceTagFacts(found.tags),
    ...(boundary === undefined ? [] : [[boundaryKey, boundary] as const]),
  ];
}
const describedKinds = ['user', 'role', 'policy'] as const;
/** The boundary in the request, else the present one of its user or role (public API). */
export const boundaryKey = 'iam:PermissionsBoundary';

export const userResource = (
  ctx: Pick<Context, 'metadata'>,
  request: ActionRequest,
  { UserName }: { readonly UserName?: string | undefined },
): Promise<string> => holderResource(ctx, request, { kind: 'user', name: userOrCaller(request, UserName) });

// Users, groups and roles as actions on their policies name them: a parameter tells the three kinds apart.

const kinds = { User: 'user', Group: 'group', Role: 'role' } as const;

export type HolderWord = keyof typeof kinds;

type KindOf<W extends HolderWord> = (typeof kinds)[W];

interface HolderRules<W extends HolderWord> {
  readonly kind: KindOf<W>;
  /** The parameter that names it. */
  readonly field: `${W}Name`;
  readonly name: Parameter<string>;
}

export const holders: { readonly [W in HolderWord]: HolderRules<W> } = {
  User: { kind: kinds.User, field: 'UserName', name: userName },
  Group: { kind: kinds.Group, field: 'GroupName', name: groupName },
  Role: { kind: kinds.Role, field: 'RoleName', name: roleName },
};

/** Reads the parameter that names the holder. */
export const holderIn = <W extends HolderWord>(
  { kind, field }: HolderRules<W>,
  input: object,
): Named<KindOf<W>> => ({
  kind,
  name: String((input as Readonly<Record<string, unknown>>)[field]),
});

export const buildResource =
  <W extends HolderWord>(rules: HolderRules<W>) =>
  (ctx: Context, request: ActionRequest, input: object): Promise<string> =>
    holderResource(ctx, request, holderIn(rules, input));
