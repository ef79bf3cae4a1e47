/** The text that is signed: method, path, query, headers, and the body's declaration. */
import type { Wire } from '../protocol/wire.ts';
import { encode } from '../signing/signing-key.ts';
import type { Claim } from './claim.ts';

/** What may differ from the request that arrived. */
export interface CanonicalForm {
  /** The path: see `encodePath` for the alternative to the raw one. */
  readonly path: string;
  /** Replaces the value of the header: see `sentEncodings`. */
  readonly acceptEncoding?: string | undefined;
}

/** The whole canonical request. */
export function canonicalRequest(wire: Wire, { path, acceptEncoding }: CanonicalForm, claim: Claim): string {
  const at = wire.target.indexOf('?');
  const query = at < 0 ? '' : canonicalQuery(wire.target.slice(at + 1), claim.leaveOut);
  let text = `${wire.method}\n${path}\n${query}\n`;
  const names = claim.signedHeaders;
  for (let from = 0; from < names.length; ) {
    let to = names.indexOf(';', from);
    if (to < 0) to = names.length;
    const name = names.slice(from, to);
    const isReplaced = acceptEncoding !== undefined && name === acceptEncodingName;
    text += `${name}:${isReplaced ? acceptEncoding : headerValue(wire.headers.all(name))}\n`;
    from = to + 1;
  }
  return `${text}\n${names}\n${claim.payloadHash}`;
}

const acceptEncodingName = 'accept-encoding';

/** The values that SDKs send and sign. */
const sdkEncodings = ['identity', 'gzip', 'gzip, deflate', 'gzip,deflate'];

/**
 * The values that a signed `accept-encoding` may have had when it was signed: the one that arrived, or one that SDKs send, because
 * proxies rewrite this header. That weakens no signature: the service never reads the header, so its value changes nothing, and all
 * else in the signed text stays as it arrived.
 */
export const sentEncodings = ({
  signedHeaders,
}: Pick<Claim, 'signedHeaders'>): readonly (string | undefined)[] =>
  signedHeaders.split(';').includes(acceptEncodingName) ? [undefined, ...sdkEncodings] : [undefined];

/** A header's values, each with its blanks folded, joined with commas; '' when the request lacks the header. */
export function headerValue(values: readonly string[]): string {
  if (values.length === 1) return foldBlanks(values[0] as string);
  return values.map(foldBlanks).join(',');
}

const space = 0x20;
const tab = 0x09;

function foldBlanks(value: string): string {
  let previous = space;
  for (let i = 0; i < value.length; i++) {
    const code = value.charCodeAt(i);
    if (code > 0x7e) return foldBlanksSlowly(fromOctets(value));
    if (code === tab || (code === space && previous === space)) return foldBlanksSlowly(value);
    previous = code;
  }
  return previous === space && value !== '' ? foldBlanksSlowly(value) : value;
}

const foldBlanksSlowly = (value: string): string => value.trim().replace(/[ \t]+/g, ' ');

const utf8 = new TextDecoder('utf-8', { fatal: true });

/** HTTP delivers header values as octets, one character each; clients sign the UTF-8 text that those octets are. */
function fromOctets(value: string): string {
  const bytes = new Uint8Array(value.length);
  for (let i = 0; i < value.length; i++) {
    const code = value.charCodeAt(i);
    if (code > 0xff) return value;
    bytes[i] = code;
  }
  try {
    return utf8.decode(bytes);
  } catch {
    return value;
  }
}

/**
 * The query sorted by encoded name, then value, with every part in canonical encoding. A `+` is a space, as it is in `Query`, so that
 * the signed query is the one that is read.
 */
export function canonicalQuery(raw: string, leaveOut: string | undefined): string {
  if (raw === '') return '';
  if (!raw.includes('&') && leaveOut === undefined) return canonicalPair(raw).join('=');
  const pairs: (readonly [string, string])[] = [];
  for (const part of raw.split('&')) {
    if (part === '') continue;
    const pair = canonicalPair(part);
    if (pair[0] !== leaveOut) pairs.push(pair);
  }
  pairs.sort((a, b) => order(a[0], b[0]) || order(a[1], b[1]));
  let text = '';
  for (const [name, value] of pairs) text += text === '' ? `${name}=${value}` : `&${name}=${value}`;
  return text;
}

const order = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

function canonicalPair(part: string): readonly [string, string] {
  const at = part.indexOf('=');
  return at < 0
    ? [canonicalPart(part), '']
    : [canonicalPart(part.slice(0, at)), canonicalPart(part.slice(at + 1))];
}

function canonicalPart(part: string): string {
  for (let i = 0; i < part.length; i++) {
    const code = part.charCodeAt(i);
    if (unreserved[code] === 1) continue;
    if (code === percent && isCanonicalEscape(part, i)) i += 2;
    // `Query` has decoded the same text before, so this cannot fail.
    else return encode(decodeURIComponent(part.replaceAll('+', ' ')));
  }
  return part;
}

const percent = 0x25;

/** `%2F` is canonical; `%2f` is not, nor is `%41`, whose character needs no escape. */
function isCanonicalEscape(text: string, at: number): boolean {
  const high = upperNibble(text.charCodeAt(at + 1));
  const low = upperNibble(text.charCodeAt(at + 2));
  return high >= 0 && low >= 0 && unreserved[(high << 4) | low] !== 1;
}

function upperNibble(code: number): number {
  if (code >= 48 && code <= 57) return code - 48;
  return code >= 65 && code <= 70 ? code - 55 : -1;
}

const unreserved = new Uint8Array(128);
for (const char of 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~')
  unreserved[char.charCodeAt(0)] = 1;

/**
 * The path decoded and encoded again canonically, or undefined when that changes nothing.
 *
 * Clients differ in what they sign: most sign the path as they send it, the public service verifies `encode(decode(path))`. Both are
 * accepted. That is safe: a signature over a canonical text is valid only for paths that decode to the same key, and one over any
 * other text for exactly that raw path. Nothing is normalised: `//`, `.` and `..` are parts of a key.
 */
export function encodePath(path: string): string | undefined {
  try {
    const encoded = decodeURIComponent(path).split('/').map(encode).join('/');
    return encoded === path ? undefined : encoded;
  } catch {
    return undefined;
  }
}
