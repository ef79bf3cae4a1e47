/** IAM's users and roles as callers. */
import { fail } from '../../errors/refusal.ts';
import type { RoleRecord, UserRecord } from '../../metadata/iam.ts';
import type { Caller } from '../../ports/crypto/credentials.ts';
import { roleArn, sessionArn, userArn } from '../../protocol/request/arns.ts';

type Tags = readonly (readonly [string, string])[];

export const userCaller = (account: string, user: UserRecord): Caller => ({
  kind: 'user',
  account,
  arn: userArn(account, user),
  userid: user.id,
  username: user.name,
  tags: new Map(user.tags),
});

/** @throws AccountProblem */
export function assertEnabled({ isDisabled }: UserRecord): void {
  if (isDisabled === true) throw fail('AccountProblem', 'The user of these credentials is disabled.');
}

/** A tag of the session takes precedence over the role's tag of the same name. */
function mergeTags(role: Tags, session: Tags): ReadonlyMap<string, string> {
  const own = new Set(session.map(([name]) => name.toLowerCase()));
  return new Map([...role.filter(([name]) => !own.has(name.toLowerCase())), ...session]);
}

export const roleCaller = (
  account: string,
  role: RoleRecord,
  { name, tags }: { readonly name: string; readonly tags: Tags },
): Caller => ({
  kind: 'session',
  account,
  arn: roleArn(account, role),
  sessionArn: sessionArn(account, { role: role.name, name }),
  userid: `${role.id}:${name}`,
  tags: mergeTags(role.tags, tags),
});
