/**
 * Version-2 presigned queries (design §7.19), still what boto3 and s3cmd make by default. Version 2 signs
 * only a few query names, so a query that it leaves unsigned and that could change the operation is refused.
 */
import { fail } from '../errors/refusal.ts';
import { amz, type Dialect, store } from '../protocol/dialect.ts';
import type { Query, Wire } from '../protocol/wire.ts';
import { isoSeconds } from '../signing/timestamp.ts';
import { encodePath, headerValue } from './canonical-request.ts';
import type { AuthenticationContext, AuthenticationOptions, ParsedTarget } from './context.ts';
import { findKnownKey, type KnownKey } from './known-key.ts';
import { mismatch } from './mismatch.ts';
import { areEqual } from './signing-key.ts';

/** The public API's sub-resources and overrides, as botocore and s3cmd sign them, and the younger ones. */
const signedNames: ReadonlySet<string> = new Set(
  (
    'accelerate acl analytics attributes cors defaultObjectAcl delete encryption intelligent-tiering inventory ' +
    'legal-hold lifecycle location logging metrics notification object-lock ownershipControls partNumber policy ' +
    'policyStatus publicAccessBlock replication requestPayment restore retention select select-type ' +
    'storageClass tagging torrent uploadId uploads versionId versioning versions website ' +
    'response-cache-control response-content-disposition response-content-encoding ' +
    'response-content-language response-content-type response-expires'
  ).split(' '),
);

/** Names that version 2 never signs and that only narrow a listing, or mean nothing. */
const harmlessNames: ReadonlySet<string> = new Set(
  (
    'AWSAccessKeyId Signature Expires prefix delimiter marker max-keys encoding-type list-type start-after ' +
    'continuation-token fetch-owner key-marker version-id-marker upload-id-marker max-uploads max-parts ' +
    'part-number-marker x-id'
  ).split(' '),
);

export const isSigV2 = (query: Query): boolean => query.has('AWSAccessKeyId') || query.has('Signature');

export async function verifySigV2(
  ctx: AuthenticationContext,
  wire: Wire,
  parsed: ParsedTarget,
  options: AuthenticationOptions,
): Promise<KnownKey & { readonly dialect: Dialect }> {
  assertSigV2(ctx.settings);
  const accessKey = only(parsed.query, 'AWSAccessKeyId');
  const signature = only(parsed.query, 'Signature');
  const expires = only(parsed.query, 'Expires');
  checkExpires(expires, ctx.clock.now());
  refuseUnsigned(wire, parsed.query);
  const known = await findKnownKey(ctx.credentials, accessKey, sessionToken(wire, parsed.query));
  const { credential } = known;
  if (options.secretFor !== undefined && (await options.secretFor(credential)) !== credential.secretKey)
    throw fail('AccessDenied', 'A bucket with its own signing key does not accept version 2 signatures');
  const bucket = options.virtualBucket === undefined ? '' : `/${options.virtualBucket}`;
  const provided = fromBase64(signature);
  const verifies = (path: string): boolean => {
    const text = stringToSign(wire, parsed.query, { expires, path: bucket + path });
    return areEqual(ctx.hasher.hmacSha1(utf8.encode(credential.secretKey), text), provided);
  };
  // Clients of this version leave the path that an endpoint is mounted under out of what they sign, or do not.
  const paths = [parsed.path, encodePath(parsed.path), options.mountedPath];
  if (!paths.some((path) => path !== undefined && verifies(path)))
    throw mismatch({
      accessKey,
      signature,
      stringToSign: stringToSign(wire, parsed.query, { expires, path: bucket + parsed.path }),
    });
  ctx.credentials.used?.(credential, { service: 's3', region: ctx.settings.region });
  return { ...known, dialect: amz };
}

/** The token of temporary credentials, which is signed like the vendor's headers wherever it stands. */
function sessionToken(wire: Wire, query: Query): string | undefined {
  const name = `${amz.headerPrefix}security-token`;
  const inQuery = query.pairs.filter(([each]) => each.toLowerCase() === name).map(([, value]) => value);
  const all = [...wire.headers.all(name), ...inQuery];
  if (all.length > 1) throw fail('InvalidToken');
  return all[0];
}

/** @throws InvalidRequest where SVC_SIGV2_PRESIGN is off */
export function assertSigV2({ sigV2Presign }: AuthenticationContext['settings']): void {
  if (sigV2Presign) return;
  throw fail(
    'InvalidRequest',
    `The authorization mechanism you have provided is not supported. Please use ${amz.algorithm}.`,
  );
}

const utf8 = new TextEncoder();

function only(query: Query, name: string): string {
  const values = query.pairs.filter(([known]) => known === name);
  if (values.length === 1) return (values[0] as readonly [string, string])[1];
  throw fail(
    'AccessDenied',
    'Query-string authentication requires the Signature, Expires and AWSAccessKeyId parameters, each once',
  );
}

function checkExpires(expires: string, now: number): void {
  if (!/^\d{1,15}$/.test(expires))
    throw fail('AccessDenied', `Invalid date (should be seconds since epoch): ${expires}`);
  const until = Number(expires) * 1000;
  if (now <= until) return;
  throw fail('AccessDenied', {
    message: 'Request has expired',
    elements: { Expires: isoSeconds(until), ServerTime: isoSeconds(now) },
  });
}

const isOwnName = (name: string): boolean => name.toLowerCase().startsWith(amz.headerPrefix);
const isStandardName = (name: string): boolean => name === 'content-type' || name === 'content-md5';

function refuseUnsigned(wire: Wire, query: Query): void {
  const seen = new Set<string>();
  for (const [name] of query.pairs) {
    const known = signedNames.has(name) || harmlessNames.has(name) || isOwnName(name) || isStandardName(name);
    if (known && !seen.has(name)) seen.add(name);
    else
      throw fail(
        'AccessDenied',
        `The query parameter "${name}" is repeated, or not covered by a version 2 signature`,
      );
  }
  for (const name of wire.headers.names())
    if (name.startsWith(store.headerPrefix))
      throw fail('AccessDenied', {
        message: 'There were headers present in the request which were not signed',
        elements: { HeadersNotSigned: name },
      });
}

function stringToSign(wire: Wire, query: Query, own: { expires: string; path: string }): string {
  const standard = (name: string): string => wire.headers.get(name)?.trim() ?? query.get(name) ?? '';
  return `${wire.method}\n${standard('content-md5')}\n${standard('content-type')}\n${own.expires}\n${ownHeaders(wire, query)}${own.path}${subResources(query)}`;
}

/** The vendor's headers, sorted. boto3 moves them into the query; a header of the same name wins. */
function ownHeaders(wire: Wire, query: Query): string {
  const values = new Map<string, string>();
  for (const [name, value] of query.pairs) if (isOwnName(name)) values.set(name.toLowerCase(), value.trim());
  for (const name of wire.headers.names())
    if (isOwnName(name)) values.set(name, headerValue(wire.headers.all(name)));
  let text = '';
  for (const name of [...values.keys()].toSorted()) text += `${name}:${values.get(name)}\n`;
  return text;
}

function subResources(query: Query): string {
  const pairs = query.pairs.filter(([name]) => signedNames.has(name));
  if (pairs.length === 0) return '';
  const sorted = pairs.toSorted((a, b) => (a[0] < b[0] ? -1 : 1));
  return `?${sorted.map(([name, value]) => (value === '' ? name : `${name}=${value}`)).join('&')}`;
}

/** A `+` that was not encoded arrives as a space. Text that is not base64 matches no signature. */
export function fromBase64(text: string): Uint8Array {
  try {
    return Uint8Array.from(atob(text.replaceAll(' ', '+')), (char) => char.charCodeAt(0));
  } catch {
    return new Uint8Array();
  }
}
