/** The caller as policies see it, and the identity policies that it brings. */

import type { Caller } from '../ports/credentials.ts';
import { rootArn, userArn } from '../protocol/arns.ts';
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

const userName = /^[\w+=,.@-]{1,64}$/;

/** A configured key that is not its account's root is a user of it, called as it is displayed where that is a name. */
function configured({ owner, displayName, accessKey, root }: NonNullable<Identity>): Caller {
  if (root) return { kind: 'root', account: owner, arn: rootArn(owner), userid: owner };
  const username = userName.test(displayName) ? displayName : accessKey;
  return { kind: 'user', account: owner, arn: userArn(owner, username), userid: accessKey, username };
}

export const callerOf = (identity: NonNullable<Identity>): Caller => identity.caller ?? configured(identity);

export const principalOf = (identity: Identity): Principal =>
  identity === undefined ? anonymous : callerOf(identity);

export interface BroughtPolicies {
  readonly identity: readonly Policy[];
  /** Undefined where there is no session to intersect with. */
  readonly session?: readonly Policy[] | undefined;
}

export async function policiesOf(identity: Identity): Promise<BroughtPolicies> {
  if (identity === undefined || identity.root || identity.iam !== undefined) return { identity: nothing };
  return { identity: everything };
}
