/**
 * The text of an AccessDenied that names the caller, the action, the resource and the kind of policy that decided
 * (public API "Troubleshoot access denied errors").
 */
import type { DenyingSide, Reason, Verdict } from './policy/decision.ts';
import type { Principal } from './policy/request.ts';

const denying: Readonly<Record<DenyingSide, string>> = {
  identity: 'an identity-based policy',
  session: 'a session policy',
  boundary: 'a permissions boundary',
  bucket: 'a resource-based policy',
  accessPoint: 'an access point policy',
  trust: 'a role trust policy',
};

/** The kind of policy that an Allow is missing in; identity-based policies where no other reason is given. */
const missing: Partial<Readonly<Record<Reason, string>>> = {
  'session-policy': 'session policy',
  'permissions-boundary': 'permissions boundary',
  'access-point': 'access point policy',
  'other-account': 'resource-based policy',
};

export interface Denial {
  readonly principal: Principal;
  readonly action: string;
  /** As the text shows it: S3 puts it in quotation marks, IAM and KMS do not. */
  readonly resource: string;
  readonly verdict: Pick<Verdict, 'reason' | 'denied'>;
}

export function denialText({ principal, action, resource, verdict }: Denial): string {
  const { reason, denied } = verdict;
  const because =
    denied === undefined
      ? `because no ${missing[reason] ?? 'identity-based policy'} allows the ${action} action`
      : `with an explicit deny in ${denying[denied]}`;
  return `User: ${principal.sessionArn ?? principal.arn} is not authorized to perform: ${action} on resource: ${resource} ${because}`;
}
