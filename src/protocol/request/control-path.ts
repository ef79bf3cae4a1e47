/**
 * The form of the public S3 Control API for operations on access points: a path with a version, the account in a header and, where SDKs
 * can put it, in front of the host. It is recognised by path and header together, because the first part of the path could be a
 * bucket's name.
 */
import { fail } from '../../errors/refusal.ts';
import { dialects } from '../dialect.ts';
import type { accessPointOperations } from '../operations/access-points.ts';
import { percentDecode, type Query, type Wire } from './wire.ts';

const prefix = '/v20180820/';

export interface ControlAsked {
  readonly operation: keyof typeof accessPointOperations;
  /** By the names of the action's parameters; those in the body are added later. */
  readonly parameters: ReadonlyMap<string, string>;
}

const operations: Readonly<Record<string, ControlAsked['operation']>> = {
  'GET accesspoint': 'ListAccessPoints',
  'PUT accesspoint/*': 'CreateAccessPoint',
  'GET accesspoint/*': 'GetAccessPoint',
  'DELETE accesspoint/*': 'DeleteAccessPoint',
  'PUT accesspoint/*/policy': 'PutAccessPointPolicy',
  'GET accesspoint/*/policy': 'GetAccessPointPolicy',
  'DELETE accesspoint/*/policy': 'DeleteAccessPointPolicy',
  'GET accesspoint/*/policyStatus': 'GetAccessPointPolicyStatus',
};

/** Query parameters and the names that the action has for them. */
const listParameters: Readonly<Record<string, string>> = {
  bucket: 'Bucket',
  nextToken: 'NextToken',
  maxResults: 'MaxResults',
};

/** Undefined for a request in another form. @throws NotImplemented for other operations of S3 Control than those on access points */
export function controlAt({ method, headers }: Wire, path: string, query: Query): ControlAsked | undefined {
  if (!path.startsWith(prefix)) return undefined;
  const account = dialects
    .map((each) => headers.get(`${each.headerPrefix}account-id`))
    .find((id) => id !== undefined);
  if (account === undefined) return undefined;
  const [noun = '', name, ...rest] = path.slice(prefix.length).split('/');
  const shape = [noun, ...(name === undefined ? [] : ['*']), ...rest].join('/');
  const operation = operations[`${method} ${shape}`];
  if (operation === undefined)
    throw fail('NotImplemented', `${method} ${prefix}${noun} is not an operation on access points.`);
  const parameters = new Map([['AccountId', account]]);
  if (name !== undefined) parameters.set('Name', percentDecode(name));
  for (const [given, meant] of Object.entries(listParameters)) {
    const value = operation === 'ListAccessPoints' ? query.get(given) : undefined;
    if (value !== undefined && value !== '') parameters.set(meant, value);
  }
  return { operation, parameters };
}
