/** Users, groups and roles as actions on their policies name them: a parameter tells the three kinds apart. */
import type { Context } from '../../../context.ts';
import type { Named } from '../../../domain/iam/entities.ts';
import type { Parameter } from '../../../protocol/operations/parameters.ts';
import type { ActionRequest } from '../action-request.ts';
import { groupName, roleName, userName } from '../fields.ts';
import { holderResource } from '../resources.ts';

const kinds = { User: 'user', Group: 'group', Role: 'role' } as const;
export type HolderWord = keyof typeof kinds;
export type KindOf<W extends HolderWord> = (typeof kinds)[W];

export interface HolderRules<W extends HolderWord> {
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
  given: object,
): Named<KindOf<W>> => ({
  kind,
  name: String((given as Readonly<Record<string, unknown>>)[field]),
});

export const buildResource =
  <W extends HolderWord>(rules: HolderRules<W>) =>
  (ctx: Context, request: ActionRequest, given: object): Promise<string> =>
    holderResource(ctx, request, holderIn(rules, given));
