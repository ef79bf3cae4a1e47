/** Derives the bucket and key of a request from its host and path. */
import { fail } from '../../errors/refusal.ts';
import type { Scope } from '../operations/request-line.ts';
import { percentDecode } from './wire.ts';

export interface Address {
  readonly scope: Scope;
  /** '' at service scope. */
  readonly bucket: string;
  /** '' at service and bucket scope. */
  readonly key: string;
}

export interface AddressRules {
  /** Lower-case domains under which `<bucket>.<domain>` names a bucket. */
  readonly domains: readonly string[];
  /** The same for `<bucket>.<domain>` as the address of a bucket's website. */
  readonly websiteDomains: readonly string[];
  /** '' or a path such as `/s3` under which the gateway is mounted. */
  readonly basePath: string;
}

/** The bucket that the host names under one of the domains, or undefined. */
export function bucketOfHost(host: string | undefined, domains: readonly string[]): string | undefined {
  if (host === undefined || domains.length === 0) return undefined;
  const name = host.toLowerCase().replace(/:\d+$/, '').replace(/\.$/, '');
  const domain = domains.find((each) => name.endsWith(`.${each}`));
  return domain === undefined ? undefined : name.slice(0, -domain.length - 1);
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
