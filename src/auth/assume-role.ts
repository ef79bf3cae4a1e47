/** May the caller assume a role, with the tags that it brings? */
import type { AuthorizationContext, Caller } from './authorize.ts';
import { type About, factsOf } from './facts.ts';
import { policiesOf } from './identity-policies.ts';
import { decideTrust } from './policy/decision.ts';
import { parsePolicy } from './policy/document.ts';
import { principalOf } from './principal.ts';

export interface Assumption {
  /** The role's. */
  readonly account: string;
  readonly arn: string;
  /** The role's trust policy, as it was sent. */
  readonly trust: string;
  readonly named: NonNullable<About['named']>;
  /** Tags change what policies say, so bringing them is a right of its own. */
  readonly hasTags: boolean;
}

export async function mayAssume(
  ctx: AuthorizationContext,
  caller: Caller,
  { account, arn, trust, named, hasTags }: Assumption,
): Promise<boolean> {
  const brought = await policiesOf(ctx, caller.identity);
  const policy = { name: 'trust policy', document: parsePolicy(trust, { kind: 'trust', isStored: true }) };
  const principal = principalOf(caller.identity);
  const context = factsOf(
    caller,
    { named },
    { now: ctx.clock.now(), region: ctx.config.SVC_REGION, account },
  );
  const actions = ['sts:AssumeRole', ...(hasTags ? ['sts:TagSession'] : [])];
  return actions.every((action) => {
    const request = { principal, action, resource: arn, context };
    return decideTrust({ request, ...brought, trust: policy, account }).allowed;
  });
}
