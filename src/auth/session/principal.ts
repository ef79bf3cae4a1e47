/** The caller as policies see it. */
import { memoizeEach } from '../../base/bounded-cache.ts';
import type { Caller } from '../../ports/credentials.ts';
import { isEntityName, rootArn, userArn } from '../../protocol/arns.ts';
import type { Identity } from '../identity.ts';
import { anonymous, type Principal } from '../policy/request.ts';

export const configured = memoizeEach(
  ({ owner, displayName, accessKey, root }: NonNullable<Identity>): Caller => {
    if (root) return { kind: 'root', account: owner, arn: rootArn(owner), userid: owner };
    const username = isEntityName(displayName) ? displayName : accessKey;
    return {
      kind: 'user',
      account: owner,
      arn: userArn(owner, { name: username }),
      userid: accessKey,
      username,
    };
  },
);

export const callerOf = (identity: NonNullable<Identity>): Caller => identity.caller ?? configured(identity);

export const principalOf = (identity: Identity): Principal =>
  identity === undefined ? anonymous : callerOf(identity);

/** Whom records name: a session by its own ARN, as the public service does, and not by that of its role. */
export function recordedArn(identity: Identity): string {
  const { arn, sessionArn = arn } = principalOf(identity);
  return sessionArn;
}
