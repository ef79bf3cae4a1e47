/**
 * Verifies version-2 presigned queries, which boto3 and s3cmd still create by default. The text that they
 * cover is read below.
 */

import { fail, type Refusal } from '../base/errors.ts';
import { fromBase64 } from '../base/text/base64.ts';
import { areEqual } from '../base/text/hex.ts';
import { trim } from '../base/text/printable.ts';
import { byteString } from '../base/text/utf8.ts';
import { amz, type Dialect, store } from '../protocol/dialect.ts';
import { isoSeconds } from '../protocol/formats/iso-time.ts';
import { isHoisted, subResources } from '../protocol/operations/operations.ts';
import { type Query, systemHeaders, type Wire } from '../protocol/wire.ts';
import type { AuthenticationContext, AuthenticationOptions, ParsedTarget } from './context.ts';
import { findKnownKey, type KnownKey } from './session/credentials.ts';
import { encodePath, mismatch, withSecrets } from './verify-signature.ts';

export async function verifySigV2(
  ctx: AuthenticationContext,
  wire: Wire,
  parsed: ParsedTarget,
  options: AuthenticationOptions,
): Promise<KnownKey & Pick<SigV2Reading, 'hoisted'> & { readonly dialect: Dialect }> {
  assertSigV2(ctx.settings);
  const accessKey = only(parsed.query, 'AWSAccessKeyId');
  const signature = only(parsed.query, 'Signature');
  const expires = only(parsed.query, 'Expires');
  checkExpires(expires, ctx.clock.now());
  if (options.isActionQuery === true)
    throw fail('AccessDenied', 'A version 2 signature does not cover the action that a form asks for');
  const reading = readSigV2(wire, parsed.query);
  const known = await findKnownKey(ctx, accessKey, sessionToken(wire, parsed.query));
  const { credential } = known;
  await refuseBucketSecrets(known, options);
  const provided = decodeSignature(signature);
  const verifies = (path: string): boolean => {
    const text = reading.stringToSign(expires, path);
    return areEqual(ctx.hasher.hmacSha1(utf8.encode(credential.secretKey), text), provided);
  };
  const paths = signedPaths(parsed.path, options);
  if (!paths.some(verifies))
    throw mismatch({
      accessKey,
      signature,
      stringToSign: new TextDecoder().decode(reading.stringToSign(expires, paths[0] ?? parsed.path)),
    });
  ctx.credentials.used?.(credential, { service: 's3', region: ctx.settings.region });
  return { ...known, dialect: amz, hoisted: reading.hoisted };
}

/**
 * The paths that a client may have signed: some clients include the prefix under which the endpoint is mounted, others leave it
 * out. A shortened path that itself begins with the prefix is not accepted, because it would be valid for two addresses. With a
 * virtual host the prefix is always left out.
 */
function signedPaths(path: string, { virtualBucket, mountedPath }: AuthenticationOptions): readonly string[] {
  const mount = mountedPath === undefined ? '' : path.slice(0, path.length - mountedPath.length);
  const bucket = virtualBucket === undefined ? '' : `/${virtualBucket}`;
  const whole = mount === '' ? bucket + path : path;
  const encoded = encodePath(path);
  const paths =
    mount === '' || bucket === ''
      ? [whole, ...(encoded === undefined ? [] : [mount === '' ? bucket + encoded : encoded])]
      : [];
  if (mount === '' || mountedPath === undefined) return paths;
  const short = bucket + mountedPath;
  return short === mount || short.startsWith(`${mount}/`) ? paths : [...paths, short];
}

/** The token of temporary credentials, in a header or the query; it is signed like the vendor's headers. */
function sessionToken(wire: Wire, query: Query): string | undefined {
  const name = `${amz.headerPrefix}security-token`;
  const inQuery = query.pairs.filter(([each]) => each.toLowerCase() === name).map(([, value]) => value);
  const all = [...wire.headers.all(name), ...inQuery];
  if (all.length > 1) throw fail('InvalidToken');
  return all[0];
}

/** @throws AccessDenied for a bucket with a signing key of its own */
export const refuseBucketSecrets = (
  known: KnownKey,
  options: Pick<AuthenticationOptions, 'secrets'>,
): Promise<void> =>
  withSecrets(known, options, (secrets) => {
    if (secrets.some(({ secret }) => secret !== known.credential.secretKey))
      throw fail('AccessDenied', 'A bucket with its own signing key does not accept version 2 signatures');
  });

/** @throws InvalidRequest when SVC_SIGV2_PRESIGN is off */
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

/** Reads a space as `+`, because a `+` that was not encoded arrives as a space. Text that is not base64 matches no signature. */
export function decodeSignature(text: string): Uint8Array {
  try {
    return fromBase64(text.replaceAll(' ', '+'));
  } catch {
    return new Uint8Array();
  }
}

// Reads what a version-2 presigned query covers, once: the string to sign and the headers that the rest of the gateway uses come from
// the same reading, so that a signature is valid for one meaning only.
//
// Version 2 joins names and values without escaping them, and leaves most query names out. Every ambiguous text is refused: names
// that differ in case alone, separators inside values, one header in two places, and every query name that changes the answer
// and that version 2 does not sign.

/** What is signed of a query: every sub-resource, names that only clients of version 2 know, and response overrides. */
const signedNames: ReadonlySet<string> = new Set([
  ...subResources,
  ...['defaultObjectAcl', 'select-type', 'storageClass'],
  ...systemHeaders.map((name) => `response-${name}`),
]);

/** The signing parameters themselves, and parameters that clients add and no operation reads. */
const freeNames: ReadonlySet<string> = new Set(['AWSAccessKeyId', 'Signature', 'Expires', 'x-id']);

const tokenName = `${amz.headerPrefix}security-token`;
const standardNames: readonly string[] = ['content-type', 'content-md5'];
const isStandardName = (name: string): boolean => standardNames.includes(name);
const isOwnName = (name: string): boolean => name.startsWith(amz.headerPrefix);
const isHeaderName = (name: string): boolean => /^[a-z0-9_.-]+$/.test(name);
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is refused.
const control = /[\0-\x08\x0a-\x1f\x7f]/;

interface SigV2Reading {
  /** Headers that were sent in the query. Treat them as if they had been sent as headers. */
  readonly hoisted: readonly (readonly [name: string, value: string])[];
  /**
   * The bytes that are signed, because a header is bytes and not every header is UTF-8.
   * @param path with its bucket, as the signer may have written it
   */
  stringToSign(expires: string, path: string): Uint8Array;
}

const notCovered = (name: string): Refusal =>
  fail(
    'AccessDenied',
    `The query parameter "${name.slice(0, 128)}" is repeated, or not covered by a version 2 signature`,
  );

/** @throws AccessDenied for a part that the signature does not cover, or covers ambiguously */
export function readSigV2(wire: Wire, query: Query): SigV2Reading {
  refuseOtherDialectHeaders(wire);
  const seen = new Set<string>();
  const hoisted: [string, string][] = [];
  const resources: [string, string][] = [];
  for (const [name, value] of query.pairs) {
    const lower = name.toLowerCase();
    if (seen.has(lower)) throw notCovered(name);
    seen.add(lower);
    if (isOwnName(lower) || isStandardName(name)) {
      const header = headerIn(wire, lower, value);
      if (header !== undefined) hoisted.push([lower, header]);
    } else if (signedNames.has(name)) {
      if (value.includes('&') || control.test(value)) throw ambiguous(name);
      resources.push([name, value]);
    } else if (!freeNames.has(name)) throw notCovered(name);
  }
  const headers = signedHeaders(wire, hoisted);
  const standard = (name: string): string => headers.get(name) ?? '';
  const own = [...headers.keys()].filter(isOwnName).toSorted();
  const lines = own.map((name) => `${name}:${headers.get(name)}\n`).join('');
  const asked = formatSubResources(resources);
  return {
    hoisted,
    stringToSign: (expires, path) =>
      octets(
        `${wire.method}\n${standard('content-md5')}\n${standard('content-type')}\n${expires}\n${lines}${path}${asked}`,
      ),
  };
}

/** The bytes of a text with one character per byte. */
const octets = (text: string): Uint8Array => Uint8Array.from(text, (char) => char.charCodeAt(0));

const ambiguous = (name: string): Refusal =>
  fail(
    'AccessDenied',
    `The value of the query parameter "${name}" cannot be covered by a version 2 signature; sign with version 4`,
  );

function refuseOtherDialectHeaders(wire: Wire): void {
  for (const name of wire.headers.names())
    if (name.startsWith(store.headerPrefix))
      throw fail('AccessDenied', {
        message: 'There were headers present in the request which were not signed',
        elements: { HeadersNotSigned: name },
      });
}

/** The header that a parameter stands for; undefined when the request has the same header too. */
function headerIn(wire: Wire, name: string, value: string): string | undefined {
  const bare = name.slice(amz.headerPrefix.length);
  const mayMove = isStandardName(name) || name === tokenName || isHoisted(bare);
  if (!isHeaderName(name) || !mayMove) throw notCovered(name);
  if (control.test(value)) throw ambiguous(name);
  const trimmed = byteString(trim(value, ' \t'));
  const sent = wire.headers.all(name);
  if (sent.length === 0) return trimmed;
  // The token of temporary credentials may be sent once, in the header or the query.
  if (name === tokenName) throw fail('InvalidToken');
  if (joined(sent) !== trimmed) throw notCovered(name);
  return undefined;
}

const joined = (values: readonly string[]): string => values.map((value) => trim(value, ' \t')).join(',');

/** The headers that the signature covers, by name, from the headers or the query. */
function signedHeaders(
  wire: Wire,
  hoisted: readonly (readonly [string, string])[],
): ReadonlyMap<string, string> {
  const headers = new Map(hoisted);
  for (const name of wire.headers.names())
    if (isOwnName(name) || isStandardName(name)) headers.set(name, joined(wire.headers.all(name)));
  // The string to sign has the same line for an empty header as for none. An empty Content-Type is obeyed like none, too;
  // an empty Content-MD5 would be an invalid digest.
  if (headers.get('content-md5') === '') throw notCovered('content-md5');
  return headers;
}

function formatSubResources(pairs: readonly (readonly [string, string])[]): string {
  if (pairs.length === 0) return '';
  const sorted = pairs.toSorted((a, b) => (a[0] < b[0] ? -1 : 1));
  return `?${sorted.map(([name, value]) => (value === '' ? name : `${name}=${byteString(value)}`)).join('&')}`;
}
