/** Recomputes a version-4 signature over the canonical request, and compares. */

import { BoundedCache } from '../base/bounded-cache.ts';
import { fail, Refusal } from '../base/errors.ts';
import { equalsHex } from '../base/text/hex.ts';
import { maskLines } from '../base/text/mask-secrets.ts';
import { textOfOctets } from '../base/text/utf8.ts';
import type { BucketRow } from '../metadata/tables.ts';
import type { Credential, KeyUse } from '../ports/credentials.ts';
import type { Hasher } from '../ports/cryptography.ts';
import type { Query, Wire } from '../protocol/wire.ts';
import {
  deriveCombinedSecret,
  deriveSharedSecret,
  deriveSigningKey,
  encode,
} from '../signing/signing-key.ts';
import type { Claim, OpenClaim } from './claim.ts';
import type { AuthenticationContext, AuthenticationOptions, SecretFinder, SigningSecret } from './context.ts';
import type { Identity, Renew } from './identity.ts';
import { asKeyHolder } from './principal.ts';
import { identityOf, type KnownKey } from './session/credentials.ts';

const ownSecret: SecretFinder = { findSecrets: async ({ secretKey }) => [{ secret: secretKey }] };

/**
 * Verifies with the secrets one of which must have made the signature of a known key. Those of a cached row of the bucket refuse nothing:
 * the stored row may have others. Not an async function, which would allocate more in every request.
 */
export const withSecrets = <T>(
  { credential }: KnownKey,
  { secrets = ownSecret }: Pick<AuthenticationOptions, 'secrets'>,
  verify: (secrets: readonly SigningSecret[]) => T,
): Promise<T> =>
  secrets
    .findSecrets(credential)
    .then(verify)
    .catch(async (cause: unknown) => {
      const stored = cause instanceof Refusal ? await secrets.findSecretsAgain?.(credential) : undefined;
      if (stored === undefined) throw cause;
      return verify(stored);
    });

/** The caller that a verified signature proves. Every kind of version-4 signature ends here. */
export function proveCaller(
  { credentials }: Pick<AuthenticationContext, 'credentials'>,
  { credential, renew }: KnownKey,
  { secret: { prove, isOfBucket }, use }: { readonly secret: SigningSecret; readonly use: KeyUse },
): { readonly identity: Identity; readonly renew: Renew } {
  // The secret of a bucket proves no use of the access key that the request names.
  if (isOfBucket !== true) credentials.used?.(credential, use);
  const identity = identityOf(credential);
  if (prove === undefined) return { identity, renew };
  return { identity: prove(identity), renew: async () => prove(await renew()) };
}

interface Signed {
  readonly wire: Wire;
  /** The raw path of the request line. */
  readonly path: string;
  readonly claim: Claim;
  /** One of them must have made the signature. */
  readonly secrets: readonly SigningSecret[];
}

/** Verifies a version-4 signature; returns the secret that made it, and the signing key derived from that. */
export function verifySignature(
  ctx: Pick<AuthenticationContext, 'caches' | 'hasher'>,
  { wire, path, claim, secrets }: Signed,
): { readonly key: Uint8Array; readonly secret: SigningSecret } {
  const keys = ctx.caches.of(SigningKeys);
  const candidates = secrets.map((secret) => {
    const name = signingKeyName(secret.secret, claim);
    const known = keys.get(name);
    return { secret, name, known, key: known ?? deriveSigningKey(ctx.hasher, secret.secret, claim) };
  });
  const findSigned = (text: string) => {
    const signed = stringToSign(ctx.hasher, claim, text);
    return candidates.find(({ key }) => isSigned(ctx.hasher, key, claim, signed));
  };
  const canonical = canonicalRequest(wire, { path }, claim);
  let found = findSigned(canonical);
  if (found === undefined)
    for (const form of otherForms(path, claim)) {
      found = findSigned(canonicalRequest(wire, form, claim));
      if (found !== undefined) break;
    }
  if (found === undefined)
    throw mismatch({
      accessKey: claim.accessKey,
      signature: claim.signature,
      stringToSign: stringToSign(ctx.hasher, claim, canonical),
      canonicalRequest: canonical,
      isEncodingSigned: sentEncodings(claim).length > 1,
      isRewritten: wire.isRewritten,
      joinedHeader: findJoined(wire, claim),
    });
  const { secret, name, known, key } = found;
  if (known === undefined) keys.remember(name, key);
  return { key, secret };
}

function findJoined({ hasJoinedHeaders, headers }: Wire, { signedHeaders }: Claim): string | undefined {
  if (hasJoinedHeaders !== true) return undefined;
  return signedHeaders
    .split(';')
    .find((name) => name !== acceptEncodingName && headers.get(name)?.includes(', '));
}

/** The other texts that clients sign for the same request. */
function otherForms(path: string, claim: Claim): readonly CanonicalForm[] {
  const encoded = encodePath(path);
  const paths = encoded === undefined ? [path] : [path, encoded];
  return sentEncodings(claim)
    .flatMap((acceptEncoding) => paths.map((each) => ({ path: each, acceptEncoding })))
    .slice(1);
}

const stringToSign = (hasher: Hasher, claim: Claim, canonical: string): string =>
  `${claim.dialect.algorithm}\n${claim.timestamp}\n${claim.scope}\n${hasher.sha256Hex(canonical)}`;

const isSigned = (hasher: Hasher, key: Uint8Array, claim: Claim, text: string): boolean =>
  equalsHex(hasher.hmacSha256(key, text), claim.signature);

/**
 * The token of temporary credentials, from the place that the signature covers: the signed headers or the signed query.
 * @throws InvalidToken for a token in the other place, or in both
 */
export function sessionToken(wire: Wire, query: Query, { dialect, leaveOut }: OpenClaim): string | undefined {
  const inHeaders = wire.headers.all(`${dialect.headerPrefix}security-token`);
  if (query.pairs.length === 0 && inHeaders.length < 2) return inHeaders[0];
  const name = `${dialect.queryPrefix}security-token`.toLowerCase();
  const inQuery = query.pairs.filter(([each]) => each.toLowerCase() === name).map(([, value]) => value);
  const all = [...inHeaders, ...inQuery];
  const isPlaced = leaveOut === undefined ? inQuery.length === 0 : true;
  if (all.length > 1 || !isPlaced) throw fail('InvalidToken');
  return all[0];
}

const keysMax = 4096;

/**
 * A cache of derived keys by secret and scope. The secret is part of the name, so a rotated or per-bucket secret never gets
 * the key of another one. A key is cached only after a signature was verified with it, so that unauthenticated requests with
 * many regions cannot evict the keys of real clients.
 */
export class SigningKeys {
  readonly #keys = new BoundedCache<Uint8Array>({ name: 'signing-keys', entriesMax: keysMax });

  get(name: string): Uint8Array | undefined {
    return this.#keys.get(name);
  }

  remember(name: string, key: Uint8Array): void {
    this.#keys.set(name, key);
  }
}

/** The scope ends with the dialect's terminator, so the name tells dialects apart. */
const signingKeyName = (secret: string, claim: Claim): string => `${claim.scope}\n${secret}`;

// `SignatureDoesNotMatch`, with the texts that a client needs to find its mistake.

interface Mismatch {
  readonly accessKey: string;
  readonly signature: string;
  readonly stringToSign: string;
  readonly canonicalRequest?: string;
  /** Whether the signature covers `accept-encoding`, which proxies rewrite. */
  readonly isEncodingSigned?: boolean;
  /** Whether the runtime may have rewritten the path that was signed. */
  readonly isRewritten?: boolean | undefined;
  /** A signed header that the runtime may have joined. */
  readonly joinedHeader?: string | undefined;
}

/** Longer texts are sent without their bytes, so that a reply cannot grow far beyond its request. */
const bytesMax = 8192;

/** Never carries the secret, nor the signature that would have been right. */
export function mismatch({
  accessKey,
  signature,
  stringToSign,
  canonicalRequest,
  isEncodingSigned = false,
  isRewritten = false,
  joinedHeader,
}: Mismatch): Refusal {
  const elements: Record<string, string> = {
    AWSAccessKeyId: accessKey,
    StringToSign: withoutSecrets(stringToSign),
    SignatureProvided: signature,
    ...formatBytes('StringToSignBytes', withoutSecrets(stringToSign)),
  };
  if (canonicalRequest !== undefined) {
    const text = withoutSecrets(canonicalRequest);
    elements['CanonicalRequest'] = text;
    Object.assign(elements, formatBytes('CanonicalRequestBytes', text));
  }
  const hints = [
    ...(isEncodingSigned ? [encodingHint] : []),
    ...(isRewritten ? [pathHint] : []),
    ...(joinedHeader === undefined ? [] : [joinHint(joinedHeader)]),
  ];
  return fail('SignatureDoesNotMatch', {
    elements,
    ...(hints.length === 0 ? {} : { message: [usual, ...hints].join(' ') }),
  });
}

const usual =
  'The request signature we calculated does not match the signature you provided. Check your key and signing method.';
const encodingHint =
  'The signature covers the header accept-encoding, which proxies rewrite: sign without it.';
const pathHint =
  'If the path that was signed has a segment . or ..: the framework around this gateway rewrites the segments . and .. of a path, and a key that has them needs a handler with the raw path.';
const joinHint = (name: string): string =>
  `If ${name} was sent more than once: the runtime around this gateway joins the values by a comma and a space, and a signature covers them joined by a comma. Send one value.`;

/** Masks secrets: the signed text may contain a customer's encryption key or a session token, and clients log error bodies. */
const withoutSecrets = (text: string): string => maskLines(text, '***');

const utf8 = new TextEncoder();

function formatBytes(name: string, text: string): Record<string, string> {
  if (text.length > bytesMax) return {};
  const bytes = Array.from(utf8.encode(text), (byte) => byte.toString(16).padStart(2, '0'));
  return { [name]: bytes.join(' ') };
}

// The secrets that sign a request about a bucket with a signing key, and what a signature with each proves.

/**
 * The combined secret proves the caller, because only it and the gateway can compute it. The secret of the bucket does
 * not prove the caller, so it is accepted for access keys of the account that owns the bucket only.
 */
export function secretsOfBucket(
  hasher: Hasher,
  { owner, secretKey }: Credential,
  {
    bucket,
    key,
    secret,
  }: {
    readonly bucket: Pick<BucketRow, 'id' | 'name' | 'owner' | 'signingKey'>;
    readonly key: string;
    readonly secret: string;
  },
): readonly SigningSecret[] {
  const signedFor = { bucketId: bucket.id, bucketName: bucket.name, key };
  const combined: SigningSecret = {
    secret: deriveCombinedSecret(hasher, secretKey, deriveSharedSecret(hasher, secret)),
    prove: (identity) => identity && { ...identity, signedFor },
  };
  const knownTo = bucket.signingKey?.knownTo ?? bucket.owner;
  if (owner !== bucket.owner || owner !== knownTo) return [combined];
  return [
    { secret, isOfBucket: true, prove: (identity) => identity && asKeyHolder(identity, signedFor) },
    combined,
  ];
}

// The text that is signed: method, path, query, headers, and the body's declaration.

/** What may differ from the request that arrived. */
interface CanonicalForm {
  /** The path: see `encodePath` for the alternative to the raw one. */
  readonly path: string;
  /** Replaces the value of the header: see `sentEncodings`. */
  readonly acceptEncoding?: string | undefined;
}

/** The whole canonical request. */
function canonicalRequest(wire: Wire, { path, acceptEncoding }: CanonicalForm, claim: Claim): string {
  const at = wire.target.indexOf('?');
  const query = at < 0 ? '' : canonicalQuery(wire.target.slice(at + 1), claim.leaveOut);
  let text = `${wire.method}\n${path}\n${query}\n`;
  const names = claim.signedHeaders;
  for (let from = 0; from < names.length; ) {
    let to = names.indexOf(';', from);
    if (to < 0) to = names.length;
    const name = names.slice(from, to);
    const isReplaced = acceptEncoding !== undefined && name === acceptEncodingName;
    text += `${name}:${isReplaced ? acceptEncoding : wire.headers.joined(name, foldBlanks)}\n`;
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
const sentEncodings = ({ signedHeaders }: Pick<Claim, 'signedHeaders'>): readonly (string | undefined)[] =>
  signedHeaders.split(';').includes(acceptEncodingName) ? [undefined, ...sdkEncodings] : [undefined];

const space = 0x20;
const tab = 0x09;

function foldBlanks(value: string): string {
  let previous = space;
  for (let i = 0; i < value.length; i++) {
    const code = value.charCodeAt(i);
    if (code > 0x7e) return foldBlanksSlowly(textOfOctets(value));
    if (code === tab || (code === space && previous === space)) return foldBlanksSlowly(value);
    previous = code;
  }
  return previous === space && value !== '' ? foldBlanksSlowly(value) : value;
}

const foldBlanksSlowly = (value: string): string => value.trim().replace(/[ \t]+/g, ' ');

/**
 * The query sorted by encoded name, then value, with every part in canonical encoding. A `+` is a space, as it is in `Query`, so that
 * the signed query is the one that is read.
 */
function canonicalQuery(raw: string, leaveOut: string | undefined): string {
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
