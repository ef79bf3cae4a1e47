/** Simulation: the policy engine, with its trace, over given facts instead of a request. */
import { type Access, decide } from '../policy/decision.ts';
import type { Policy, TraceEntry } from '../policy/evaluate.ts';
import type { Principal } from '../policy/request.ts';

export interface Simulation {
  readonly principal: Principal;
  readonly identity: readonly Policy[];
  readonly boundary: readonly Policy[] | undefined;
  /** The policy of the resource, and the account that owns the resource. */
  readonly resourcePolicy: Policy | undefined;
  readonly owner: string;
  readonly facts: ReadonlyMap<string, string | readonly string[]>;
}

export interface Simulated {
  readonly decision: 'allowed' | 'explicitDeny' | 'implicitDeny';
  /** Names of the policies whose statements apply. */
  readonly matched: readonly string[];
  /** Condition keys that a policy used and the simulation was not given. */
  readonly missing: readonly string[];
  /** Undefined without a permissions boundary. */
  readonly isWithinBoundary: boolean | undefined;
}

export function simulate(
  simulation: Simulation,
  { action, resource }: { readonly action: string; readonly resource: string },
): Simulated {
  const { principal, identity, boundary, resourcePolicy, owner, facts } = simulation;
  const missing = new Set<string>();
  const lookup = (key: string) => {
    const found = facts.get(key.toLowerCase());
    if (found === undefined) missing.add(key);
    return found;
  };
  const trace: TraceEntry[] = [];
  const access: Access = {
    request: { principal, action, resource, context: { lookup } },
    identity,
    boundary,
    ...(resourcePolicy === undefined
      ? {}
      : {
          bucket: {
            owner,
            policy: resourcePolicy,
            acls: { bucket: [] },
            ownership: 'BucketOwnerEnforced',
          },
        }),
  };
  const { allowed, reason } = decide(access, trace);
  const matched = trace.filter(({ outcome }) => outcome === 'applies').map(({ policy }) => policy);
  return {
    decision: allowed ? 'allowed' : reason === 'explicit-deny' ? 'explicitDeny' : 'implicitDeny',
    matched: [...new Set(matched)],
    missing: [...missing],
    isWithinBoundary: boundary === undefined ? undefined : allowed || reason !== 'permissions-boundary',
  };
}
