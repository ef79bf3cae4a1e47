/** ListPolicies: those that every account has, then the account's own. */
import type { Context } from '../../../context.ts';
import { listEntities } from '../../../domain/iam/entities.ts';
import type { Page } from '../../../domain/iam/pages.ts';
import { withUses } from '../../../domain/iam/policies/attachments.ts';
import { builtInAccount, builtInPolicies } from '../../../domain/iam/policies/built-in-policies.ts';
import type { PolicyRecord } from '../../../metadata/iam.ts';
import { element, many } from '../../../protocol/formats/codec.ts';
import { flag, oneOf, optional } from '../../../protocol/operations/parameters.ts';
import { membersMax, pageFields, policy } from '../../../protocol/schemas/account/iam.ts';
import { action } from '../action.ts';
import { page, pageEnd, pageFrom, pathPrefix } from '../fields.ts';
import { shownPolicy } from '../shown.ts';

interface Asked {
  readonly scope: 'All' | 'AWS' | 'Local';
  readonly pathPrefix: string;
  readonly after: string | undefined;
  readonly max: number;
  readonly keep: (policy: PolicyRecord) => boolean;
}
interface Listed {
  readonly account: string;
  readonly policy: PolicyRecord;
}

/** A prefix of markers: the page ended with a built-in policy. */
const builtInMark = 'aws/';
const ownMark = 'own/';

async function builtIn(ctx: Context, account: string, asked: Asked): Promise<readonly PolicyRecord[]> {
  const { scope, after, keep, pathPrefix: under } = asked;
  if (scope === 'Local' || after?.startsWith(ownMark)) return [];
  const from = builtInPolicies.findIndex(({ name }) => builtInMark + name === after) + 1;
  const all = builtInPolicies.slice(from).map((each) => withUses(ctx, account, each));
  return (await Promise.all(all)).filter((each) => each.path.startsWith(under) && keep(each));
}

async function list(ctx: Context, account: string, asked: Asked): Promise<Page<Listed>> {
  const { scope, after, max, keep, pathPrefix: under } = asked;
  const first = await builtIn(ctx, account, asked);
  const items = first.slice(0, max).map((each): Listed => ({ account: builtInAccount, policy: each }));
  const last = first[max - 1];
  if (scope === 'AWS')
    return first.length > max && last ? { items, next: builtInMark + last.name } : { items };
  if (last !== undefined) return { items, next: builtInMark + last.name };
  const own = await listEntities(ctx, account, {
    kind: 'policy',
    pathPrefix: under,
    keep,
    after: after?.startsWith(ownMark) ? after.slice(ownMark.length) : undefined,
    max: max - items.length,
  });
  const all = [...items, ...own.items.map((each): Listed => ({ account, policy: each }))];
  return own.next === undefined ? { items: all } : { items: all, next: ownMark + own.next };
}

export const ListPolicies = action(
  'ListPolicies',
  {
    ...page,
    Scope: optional(oneOf('All', 'AWS', 'Local')),
    OnlyAttached: optional(flag),
    PathPrefix: optional(pathPrefix),
    PolicyUsageFilter: optional(oneOf('PermissionsPolicy', 'PermissionsBoundary')),
  },
  {
    resource: () => '*',
    result: element({ Policies: many(policy, { name: 'member', max: membersMax }), ...pageFields }),
    async run(ctx, { identity: { owner } }, given) {
      const { Scope = 'All', OnlyAttached = false, PathPrefix = '/', PolicyUsageFilter: use } = given;
      const { items, next } = await list(ctx, owner, {
        ...pageFrom(given),
        scope: Scope,
        pathPrefix: PathPrefix,
        keep: ({ attachments, boundaries }) =>
          (!OnlyAttached || attachments > 0) &&
          (use === undefined || (use === 'PermissionsPolicy' ? attachments : boundaries) > 0),
      });
      const Policies = items.map((each) => shownPolicy(each.account, each.policy));
      return { Policies, ...pageEnd(next) };
    },
  },
);
