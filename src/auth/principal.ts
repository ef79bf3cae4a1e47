/** The caller as policies see it. */
import type { Caller } from '../ports/credentials.ts';
import { rootArn, userArn } from '../protocol/arns.ts';
import type { Identity } from './identity.ts';
import { anonymous, type Principal } from './policy/request.ts';

const userName = /^[\w+=,.@-]{1,64}$/;

/** A configured key that is not its account's root is a user of it, called as it is displayed where that is a name. */
function configured({ owner, displayName, accessKey, root }: NonNullable<Identity>): Caller {
  if (root) return { kind: 'root', account: owner, arn: rootArn(owner), userid: owner };
  const username = userName.test(displayName) ? displayName : accessKey;
  return {
    kind: 'user',
    account: owner,
    arn: userArn(owner, { name: username }),
    userid: accessKey,
    username,
  };
}

/** A configured identity is the same at every request. */
const configuredCallers = new WeakMap<NonNullable<Identity>, Caller>();

export function callerOf(identity: NonNullable<Identity>): Caller {
  const known = identity.caller ?? configuredCallers.get(identity);
  if (known !== undefined) return known;
  const caller = configured(identity);
  configuredCallers.set(identity, caller);
  return caller;
}

export const principalOf = (identity: Identity): Principal =>
  identity === undefined ? anonymous : callerOf(identity);
