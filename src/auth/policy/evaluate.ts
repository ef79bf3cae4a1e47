/**
 * Evaluates the policies of one kind for a request: an explicit Deny first, then an Allow, else nothing. `decision.ts` combines the
 * kinds.
 *
 * Measured on 2 shared cores under load (node 24, CPU time): deciding one request against 10 statements of a bucket policy and 10 of an
 * identity policy, with conditions, variables and globs in each and nothing deciding early, costs 6.4 to 7.3 µs over three runs;
 * compiling ten such statements 0.4 to 1 ms.
 */
import type { PolicyDocument } from './document.ts';
import type { PolicyRequest } from './request.ts';
import type { Reach, Statement } from './statement.ts';

/** A policy with the name that a trace calls it by, such as `bucket policy` or `user/alice/inline/readers`. */
export interface Policy {
  readonly name: string;
  readonly document: PolicyDocument;
}

/** The memory that a compiled policy takes. */
export const policyBytes = ({ name, document }: Policy): number => document.size.bytes + 2 * name.length;

export interface StatementReference {
  readonly policy: string;
  /** From 0. */
  readonly statement: number;
  readonly sid: string | undefined;
}

export type Decision =
  | { readonly effect: 'Deny'; readonly by: StatementReference }
  | { readonly effect: 'Allow'; readonly by: StatementReference; readonly reach: Reach }
  | { readonly effect: 'None' };

/** Whether a statement applied, and if not, why. */
export interface TraceEntry extends StatementReference {
  readonly effect: 'Allow' | 'Deny';
  readonly outcome: 'applies' | 'other-action' | 'other-resource' | 'other-principal' | 'condition-failed';
  /** The condition that did not hold. */
  readonly condition?: string;
}
/** Collects the result of every statement. Without a trace, evaluation stops at the first Deny. */
export type Trace = TraceEntry[];

const refer = ({ name }: Policy, { index, sid }: Statement): StatementReference => ({
  policy: name,
  statement: index,
  sid,
});

function evaluateStatement(
  statement: Statement,
  request: PolicyRequest,
  action: string,
): { readonly outcome: TraceEntry['outcome']; readonly condition?: string } {
  if (!statement.matchesAction(action)) return { outcome: 'other-action' };
  if (!statement.matchesResource(request)) return { outcome: 'other-resource' };
  if (statement.reach(request) === undefined) return { outcome: 'other-principal' };
  const failed = statement.conditions.find((condition) => !condition.holds(request));
  if (failed === undefined) return { outcome: 'applies' };
  return { outcome: 'condition-failed', condition: `${failed.operator} ${failed.key.name}` };
}

function applies(statement: Statement, request: PolicyRequest, action: string): boolean {
  if (!statement.matchesAction(action) || !statement.matchesResource(request)) return false;
  if (statement.reach(request) === undefined) return false;
  for (const condition of statement.conditions) if (!condition.holds(request)) return false;
  return true;
}

/** The allowing statement that reaches furthest: 'direct' before 'account'. */
export function evaluate(request: PolicyRequest, policies: readonly Policy[], trace?: Trace): Decision {
  const action = request.action.toLowerCase();
  let denied: Decision | undefined;
  let allowed: Extract<Decision, { effect: 'Allow' }> | undefined;
  for (const policy of policies) {
    for (const statement of policy.document.statements) {
      const isAllow = statement.effect === 'Allow';
      // The result of this statement cannot change the answer.
      if (trace === undefined && isAllow && allowed?.reach === 'direct') continue;
      if (trace === undefined) {
        if (!applies(statement, request, action)) continue;
      } else {
        const found = evaluateStatement(statement, request, action);
        trace.push({ ...refer(policy, statement), effect: statement.effect, ...found });
        if (found.outcome !== 'applies') continue;
      }
      if (!isAllow) {
        denied ??= { effect: 'Deny', by: refer(policy, statement) };
        if (trace === undefined) return denied;
        continue;
      }
      const reach = statement.reach(request) ?? 'account';
      if (allowed === undefined || (allowed.reach === 'account' && reach === 'direct'))
        allowed = { effect: 'Allow', by: refer(policy, statement), reach };
    }
  }
  return denied ?? allowed ?? { effect: 'None' };
}
