/**
 * Reads what a version-2 presigned query covers, once: the string to sign and the headers that the rest of the gateway uses come from
 * the same reading, so that a signature is valid for one meaning only.
 *
 * Version 2 joins names and values without escaping them, and leaves most query names out. Every ambiguous text is refused: names
 * that differ in case alone, separators inside values, one header in two places, and every query name that changes the answer
 * and that version 2 does not sign.
 */

import { trim } from '../../base/text/trim.ts';
import { fail, type Refusal } from '../../errors/refusal.ts';
import { amz, store } from '../../protocol/dialect.ts';
import { byteString } from '../../protocol/formats/header-text.ts';
import { isHoisted } from '../../protocol/operations/hoisted.ts';
import type { Query, Wire } from '../../protocol/request/wire.ts';

/** The sub-resources and response overrides of the public API that botocore and s3cmd sign, and those that came later. */
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

/** The signing parameters themselves, and parameters that clients add and no operation reads. */
const freeNames: ReadonlySet<string> = new Set(['AWSAccessKeyId', 'Signature', 'Expires', 'x-id']);

const tokenName = `${amz.headerPrefix}security-token`;
const standardNames: readonly string[] = ['content-type', 'content-md5'];
const isStandardName = (name: string): boolean => standardNames.includes(name);
const isOwnName = (name: string): boolean => name.startsWith(amz.headerPrefix);
const isHeaderName = (name: string): boolean => /^[a-z0-9_.-]+$/.test(name);
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is refused.
const control = /[\0-\x08\x0a-\x1f\x7f]/;

export interface SigV2Reading {
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
  refuseForeignHeaders(wire);
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
  const asked = subResources(resources);
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

function refuseForeignHeaders(wire: Wire): void {
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

function subResources(pairs: readonly (readonly [string, string])[]): string {
  if (pairs.length === 0) return '';
  const sorted = pairs.toSorted((a, b) => (a[0] < b[0] ? -1 : 1));
  return `?${sorted.map(([name, value]) => (value === '' ? name : `${name}=${byteString(value)}`)).join('&')}`;
}
