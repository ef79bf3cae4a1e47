/** Users, groups and roles as the actions on their policies name them: three of a kind, told apart by a parameter. */
import type { Context } from '../../context.ts';
import type { Named } from '../../domain/iam/entities.ts';
import type { HolderKind } from '../../domain/iam/inline-policies.ts';
import type { Parameter } from '../../protocol/parameters.ts';
import type { ActionCall } from './action.ts';
import { groupName, roleName, userName } from './fields.ts';
import { holderResource } from './resources.ts';

export interface HolderRules<W extends HolderWord> {
  readonly kind: HolderKind;
  /** The parameter that names it. */
  readonly field: `${W}Name`;
  readonly name: Parameter<string>;
}
export type HolderWord = 'User' | 'Group' | 'Role';

export const holders: { readonly [W in HolderWord]: HolderRules<W> } = {
  User: { kind: 'user', field: 'UserName', name: userName },
  Group: { kind: 'group', field: 'GroupName', name: groupName },
  Role: { kind: 'role', field: 'RoleName', name: roleName },
};

/** What has been read of the parameter that names the holder. */
export const holderIn = (
  { kind, field }: HolderRules<HolderWord>,
  given: Readonly<Record<string, unknown>>,
): Named<HolderKind> => ({ kind, name: String(given[field]) });

export const resourceOf =
  (rules: HolderRules<HolderWord>) =>
  (ctx: Context, call: ActionCall, given: Readonly<Record<string, unknown>>): Promise<string> =>
    holderResource(ctx, call, holderIn(rules, given));
