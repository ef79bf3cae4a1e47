/** Helpers that write policies and requests in short form. */
import { type PolicyDocument, type PolicyKind, parsePolicy } from '../../../src/auth/policy/document.ts';
import type { Policy } from '../../../src/auth/policy/evaluate.ts';
import { anonymous, type PolicyRequest, type Principal } from '../../../src/auth/policy/request.ts';
import { Refusal } from '../../../src/base/errors.ts';

export const home = '111122223333';
export const away = '444455556666';

export const rootOf = (account: string): Principal => ({
  kind: 'root',
  account,
  arn: `arn:aws:iam::${account}:root`,
  userid: account,
});
export const userOf = (account: string, username: string): Principal => ({
  kind: 'user',
  account,
  arn: `arn:aws:iam::${account}:user/${username}`,
  userid: `AIDA${username.toUpperCase()}`,
  username,
});
export const alice = userOf(home, 'alice');
export const mallory = userOf(away, 'mallory');
export const session: Principal = {
  kind: 'session',
  account: home,
  arn: `arn:aws:iam::${home}:role/reader`,
  sessionArn: `arn:aws:sts::${home}:assumed-role/reader/nightly`,
  userid: 'AROAREADER:nightly',
};
export const logging: Principal = {
  kind: 'service',
  account: '',
  arn: '',
  userid: '',
  service: 'logging.s3.amazonaws.com',
};
export { anonymous };

export type Context = Readonly<Record<string, string | readonly string[]>>;

export interface Asked {
  readonly principal?: Principal;
  readonly action?: string;
  readonly resource?: string;
  readonly context?: Context;
}
export function ask({
  principal = alice,
  action = 's3:GetObject',
  resource,
  context = {},
}: Asked = {}): PolicyRequest {
  const facts = new Map(Object.entries(context));
  return {
    principal,
    action,
    resource: resource ?? 'arn:aws:s3:::photos/cat.jpg',
    context: { lookup: (key) => facts.get(key) },
  };
}

export type Written = Readonly<Record<string, unknown>>;
export const write = (...statements: readonly Written[]): string =>
  JSON.stringify({ Version: '2012-10-17', Statement: statements });

/** Adds the elements that a kind of policy requires and the test does not give. */
export const fill = (kind: PolicyKind, statement: Written): Written => ({
  Effect: 'Allow',
  ...('Action' in statement || 'NotAction' in statement
    ? {}
    : { Action: kind === 'trust' ? 'sts:AssumeRole' : 's3:GetObject' }),
  ...(kind === 'trust' || 'Resource' in statement || 'NotResource' in statement
    ? {}
    : { Resource: 'arn:aws:s3:::photos/*' }),
  ...(['identity', 'session'].includes(kind) || 'Principal' in statement || 'NotPrincipal' in statement
    ? {}
    : { Principal: '*' }),
  ...statement,
});

export function parse(kind: PolicyKind, ...statements: readonly Written[]): PolicyDocument {
  return parsePolicy(write(...statements.map((statement) => fill(kind, statement))), { kind });
}
export const policy = (kind: PolicyKind, ...statements: readonly Written[]): Policy => ({
  name: kind,
  document: parse(kind, ...statements),
});

/** The message of the refusal; any other error is thrown again. */
export function refusalOf(act: () => unknown): string | undefined {
  try {
    act();
    return undefined;
  } catch (error) {
    if (error instanceof Refusal && error.code === 'MalformedPolicy') return error.message;
    throw error;
  }
}
