/** Derives the bucket and key of a request from its host and path. */
import { fail } from '../base/errors.ts';
import { dialects } from './dialect.ts';
import type { accessPointOperations } from './operations/operations.ts';
import type { Scope } from './operations/parameters.ts';
import { percentDecode, type Query, type Wire } from './wire.ts';

interface Address {
  readonly scope: Scope;
  /** '' at service scope. */
  readonly bucket: string;
  /** '' at service and bucket scope. */
  readonly key: string;
}

interface Domain {
  readonly domain: string;
  /** Of websites. */
  readonly isSite: boolean;
}

export interface AddressRules {
  /** Lower-case domains under which `<bucket>.<domain>` names a bucket or its website, the longest first (`sortDomains`). */
  readonly domains: readonly Domain[];
  /** '' or a path such as `/s3` under which the gateway is mounted. */
  readonly basePath: string;
}

/** What a host names: a bucket, and whether the host is the address of its website. */
interface NamedByHost {
  readonly bucket: string | undefined;
  readonly isSite: boolean;
}

const noName: NamedByHost = { bucket: undefined, isSite: false };

/** One domain may be below another: the longest one that fits counts, and that of websites where both are the same. */
export function sortDomains(
  domains: readonly string[],
  websiteDomains: readonly string[],
): readonly Domain[] {
  return [
    ...websiteDomains.map((domain) => ({ domain, isSite: true })),
    ...domains.map((domain) => ({ domain, isSite: false })),
  ].sort((a, b) => b.domain.length - a.domain.length);
}

export function readHost(host: string | undefined, { domains }: AddressRules): NamedByHost {
  if (host === undefined || domains.length === 0) return noName;
  const name = host.toLowerCase().replace(/:\d+$/, '').replace(/\.$/, '');
  const found = domains.find(({ domain }) => name === domain || name.endsWith(`.${domain}`));
  if (found === undefined || name === found.domain) return noName;
  return { bucket: name.slice(0, -found.domain.length - 1), isSite: found.isSite };
}

/** The path without the mount point; undefined for a path outside of it. */
export function localPath(path: string, { basePath }: AddressRules): string | undefined {
  if (basePath === '') return path;
  if (path === basePath) return '/';
  return path.startsWith(`${basePath}/`) ? path.slice(basePath.length) : undefined;
}

/**
 * Splits at the first slash into bucket and key. Nothing is normalised: `//`, `.` and `..` are parts of keys.
 * @param path local and raw, beginning with a slash
 */
export function splitAddress(path: string, virtual: string | undefined): Address {
  if (virtual !== undefined) return toAddress(virtual, percentDecode(path.slice(1)));
  const slash = path.indexOf('/', 1);
  if (slash < 0) return toAddress(percentDecode(path.slice(1)), '');
  return toAddress(percentDecode(path.slice(1, slash)), percentDecode(path.slice(slash + 1)));
}

function toAddress(bucket: string, key: string): Address {
  if (bucket === '' && key !== '') throw fail('InvalidURI', 'The path names a key but no bucket.');
  const scope = bucket === '' ? 'service' : key === '' ? 'bucket' : 'object';
  return { scope, bucket, key };
}

// The address of the client behind trusted proxies (SVC_TRUSTED_PROXIES); forwarding headers of other peers are ignored.

interface Network {
  contains(address: string): boolean;
}

/**
 * The request as the client sent it to the proxies. `X-Forwarded-For` is read from its end, past every trusted hop: the first address that
 * is not a trusted proxy is the client's, whatever is in front of it.
 */
export function behindProxies(wire: Wire, proxies: readonly Network[]): Wire {
  const isTrusted = (address: string): boolean => proxies.some((network) => network.contains(address));
  if (proxies.length === 0 || !isTrusted(wire.remote)) return wire;
  const hops = (wire.headers.get('x-forwarded-for') ?? '')
    .split(',')
    .map((hop) => hop.trim())
    .filter((hop) => hop !== '');
  const remote = hops.findLast((hop) => !isTrusted(hop)) ?? hops[0] ?? wire.remote;
  const scheme = wire.headers.get('x-forwarded-proto')?.split(',').at(-1)?.trim().toLowerCase();
  const secure = scheme === undefined ? wire.secure : scheme === 'https';
  // The proxy does not forward the TLS version and cipher of the client.
  return { ...wire, remote, secure, tlsVersion: undefined, tlsCipher: undefined };
}

// The form of the public S3 Control API for operations on access points: a path with a version, the account in a header and, where SDKs
// can put it, in front of the host. It is recognised by path and header together, because the first part of the path could be a
// bucket's name.

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
  for (const [input, meant] of Object.entries(listParameters)) {
    const value = operation === 'ListAccessPoints' ? query.get(input) : undefined;
    if (value !== undefined && value !== '') parameters.set(meant, value);
  }
  return { operation, parameters };
}

const areaPath = /^\/(admin|console|metrics|healthz|readyz|iam)(?=[/]|$)/;

/** The area of a local path, or undefined for the storage protocol. */
export const matchArea = (path: string): string | undefined => areaPath.exec(path)?.[1];
