/**
 * A client of the IAM and STS query APIs in a test. It sends a signed form without a hash header, as the SDKs do.
 *
 * ```ts
 * const iam = openActions(world);
 * expect((await iam('CreateUser', { UserName: 'carol' })).one('Arn')).toBe('arn:aws:iam::alice-account:user/carol');
 * ```
 */
import type { GatewayWorld } from './gateway.ts';
import type { Answer, Ask, ClientOptions } from './gateway-client.ts';

export type Parameters = Readonly<Record<string, string>>;
export type Act = (action: string, parameters?: Parameters, ask?: Ask) => Promise<Answer>;

const sts = new Set([
  'AssumeRole',
  'GetAccessKeyInfo',
  'GetCallerIdentity',
  'GetFederationToken',
  'GetSessionToken',
]);
export const formType = { 'content-type': 'application/x-www-form-urlencoded; charset=utf-8' };

export const formOf = (parameters: Parameters): string => new URLSearchParams(parameters).toString();

export function openActions(world: Pick<GatewayWorld, 'as'>, options: ClientOptions = {}): Act {
  return (action, parameters = {}, ask = {}) => {
    const isSts = sts.has(action);
    const Version = isSts ? '2011-06-15' : '2010-05-08';
    const client = world.as({ service: isSts ? 'sts' : 'iam', ...options });
    const body = formOf({ Action: action, Version, ...parameters });
    const headers = { ...formType, ...(ask.headers as Parameters | undefined) };
    return client.post('/', { payload: 'missing', ...ask, headers, body });
  };
}

/** `listed('PolicyArns', [{ arn: 'a' }])` is `PolicyArns.member.1.arn=a`. */
export const listed = (name: string, members: readonly (string | Parameters)[]): Parameters =>
  Object.fromEntries(
    members.flatMap((member, index) =>
      typeof member === 'string'
        ? [[`${name}.member.${index + 1}`, member]]
        : Object.entries(member).map(([field, value]) => [`${name}.member.${index + 1}.${field}`, value]),
    ),
  );
