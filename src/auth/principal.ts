/** The caller as policies see it, and the identity policies that it brings. */

import type { Identity } from './identity.ts';
import { parsePolicy } from './policy/document.ts';
import type { Policy } from './policy/evaluate.ts';
import { anonymous, type Principal } from './policy/request.ts';

/** Configured credentials that are not their account's root may do what the account may: nobody wrote them a policy. */
const everything: readonly Policy[] = [
  {
    name: 'configured credentials',
    document: parsePolicy(
      '{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"*","Resource":"*"}]}',
      { kind: 'identity' },
    ),
  },
];
const nothing: readonly Policy[] = [];

export function principalOf(identity: Identity): Principal {
  if (identity === undefined) return anonymous;
  const { owner, root, accessKey, displayName } = identity;
  if (root) return { kind: 'root', account: owner, arn: `arn:aws:iam::${owner}:root`, userid: owner };
  const arn = `arn:aws:iam::${owner}:user/${displayName}`;
  return { kind: 'user', account: owner, arn, userid: accessKey, username: displayName };
}

export interface BroughtPolicies {
  readonly identity: readonly Policy[];
  /** Undefined where there is no session to intersect with. */
  readonly session?: readonly Policy[] | undefined;
}

export async function policiesOf(identity: Identity): Promise<BroughtPolicies> {
  return { identity: identity === undefined || identity.root ? nothing : everything };
}
