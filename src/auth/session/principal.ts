/** The caller as policies see it. */

import { memoizeEach } from '../../base/memoize.ts';
import type { Caller } from '../../ports/crypto/credentials.ts';
import { isEntityName, rootArn, userArn } from '../../protocol/request/arns.ts';
import type { Identity } from '../identity.ts';
import { anonymous, type Principal } from '../policy/request.ts';

/** A configured key that is not its account's root acts as a user of the account, named by its display name where that is a valid name. */
const configured = memoizeEach(({ owner, displayName, accessKey, root }: NonNullable<Identity>): Caller => {
  if (root) return { kind: 'root', account: owner, arn: rootArn(owner), userid: owner };
  const username = isEntityName(displayName) ? displayName : accessKey;
  return {
    kind: 'user',
    account: owner,
    arn: userArn(owner, { name: username }),
    userid: accessKey,
    username,
  };
});

export const callerOf = (identity: NonNullable<Identity>): Caller => identity.caller ?? configured(identity);

export const principalOf = (identity: Identity): Principal =>
  identity === undefined ? anonymous : callerOf(identity);
