/** Authorizes AssumeRole: whether the caller may assume a role with the given session tags. */
import { fail } from '../../base/errors.ts';
import { type AuthorizationContext, type Caller, type Denial, denialText } from '../authorize.ts';
import { type About, collectFacts } from '../facts.ts';
import { readPolicies } from '../identity-policies.ts';
import { decide, decideTrust } from '../policy/decision.ts';
import { parsePolicy } from '../policy/document.ts';
import { evaluate } from '../policy/evaluate.ts';
import { principalOf } from './principal.ts';

export interface Assumption {
  /** The account of the role. */
  readonly account: string;
  readonly arn: string;
  /** The parameters as condition keys. */
  readonly named: NonNullable<About['named']>;
  /** Session tags change the result of policies, so sending them requires a permission. */
  readonly hasTags: boolean;
  /** Undefined when there is no such role. */
  readonly role: TrustingRole | undefined;
}

export interface TrustingRole {
  /** The trust policy, as it was sent. */
  readonly trust: string;
  /** Its tags, under the names of condition keys. */
  readonly tags: NonNullable<About['named']>;
}

/**
 * @throws AccessDenied. The text is the same for a missing role and for one that does not trust the caller, so that only trusted
 * callers learn whether the role exists. The text names the result of the caller's own policies.
 */
export async function assertMayAssume(
  ctx: AuthorizationContext,
  caller: Caller,
  { account, arn, named, hasTags, role }: Assumption,
): Promise<void> {
  const brought = await readPolicies(ctx, caller.identity);
  const trust = role && {
    name: 'trust policy',
    document: parsePolicy(role.trust, { kind: 'trust', isStored: true }),
  };
  const principal = principalOf(caller.identity);
  const circumstances = { now: ctx.clock.now(), region: ctx.config.SVC_REGION, account };
  const askedOf = (action: string, facts: Assumption['named']) => ({
    principal,
    action,
    resource: arn,
    context: collectFacts(caller, { named: facts }, circumstances),
  });
  const verdictOn = (action: string): Denial['verdict'] | undefined => {
    const request = askedOf(action, new Map([...(role?.tags ?? []), ...named]));
    const toOwner = { ...request, resourceAccount: account };
    if (trust !== undefined && evaluate(toOwner, [trust]).effect === 'Allow') {
      const verdict = decideTrust({ request, ...brought, trust, account });
      return verdict.allowed ? undefined : verdict;
    }
    // Without the tags of the role, which the caller may not know.
    const own = decide({ request: askedOf(action, named), ...brought });
    return own.allowed ? { reason: 'not-trusted' } : own;
  };
  for (const action of ['sts:AssumeRole', ...(hasTags ? ['sts:TagSession'] : [])]) {
    const verdict = verdictOn(action);
    if (verdict !== undefined)
      throw fail('AccessDenied', denialText({ principal, action, resource: arn, verdict }));
  }
}
