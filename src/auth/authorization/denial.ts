/**
 * The text of an AccessDenied that names the caller, the action, the resource and the kind of policy that decided
 * (public API "Troubleshoot access denied errors").
 */
import type { DenyingSide, Reason, Verdict } from '../policy/decision.ts';
import type { Principal } from '../policy/request.ts';

const denying: Readonly<Record<DenyingSide, string>> = {
  identity: 'an identity-based policy',
  session: 'a session policy',
  boundary: 'a permissions boundary',
  bucket: 'a resource-based policy',
  accessPoint: 'an access point policy',
  trust: 'a role trust policy',
};

/** The kind of policy that has no Allow; identity-based policies where no other reason is given. */
const missing: Partial<Readonly<Record<Denial['verdict']['reason'], string>>> = {
  'session-policy': 'session policy',
  'permissions-boundary': 'permissions boundary',
  'access-point': 'access point policy',
  'other-account': 'resource-based policy',
  'not-trusted': 'role trust policy',
};

/** The action and resource of the request. */
interface Asked {
  readonly principal: Principal;
  readonly action: string;
  /** As shown in the text: S3 puts it in quotation marks, IAM and KMS do not. */
  readonly resource: string;
}

export interface Denial extends Asked {
  readonly verdict: Pick<Verdict, 'denied'> & { readonly reason: Reason | 'not-trusted' };
}

const refusalText = ({ principal, action, resource }: Asked, because: string): string =>
  `User: ${principal.sessionArn ?? principal.arn} is not authorized to perform: ${action} on resource: ${resource} ${because}`;

export function denialText({ verdict, ...asked }: Denial): string {
  const { reason, denied } = verdict;
  const because =
    denied === undefined
      ? `because no ${missing[reason] ?? 'identity-based policy'} allows the ${asked.action} action`
      : `with an explicit deny in ${denying[denied]}`;
  return refusalText(asked, because);
}

const blocked = {
  BlockPublicAcls: 'public access control lists (ACLs)',
  BlockPublicPolicy: 'public policies',
} as const;

export const blockText = (asked: Asked, setting: keyof typeof blocked): string =>
  refusalText(asked, `because ${blocked[setting]} are blocked by the ${setting} block public access setting`);

/** For callers that no policy can make an operator. */
export const operatorText = (asked: Asked): string =>
  refusalText(asked, 'because the access key is not configured as an operator');
