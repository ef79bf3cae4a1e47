/**
 * What lets its holder do one request: links, with signature version 4 in the query (public API "Authenticating requests: using query
 * parameters"), and forms, with a signed policy (public API "Browser-based uploads using POST").
 */
import { textToBase64 } from '../base/text/base64.ts';
import { toHex } from '../base/text/hex.ts';
import type { Clock } from '../ports/clock.ts';
import type { Hasher } from '../ports/cryptography.ts';
import { amz } from '../protocol/dialect.ts';
import { formatTimestamp } from '../protocol/formats/iso-time.ts';
import { canonicalQuery, type SignerOptions } from './sign-request.ts';
import { deriveSigningKey, encode } from './signing-key.ts';

/** A week: the longest that the public API allows. */
const expiresSecondsMax = 604_800;

export interface Presigned {
  readonly method: 'GET' | 'HEAD' | 'PUT' | 'DELETE';
  /** Where clients reach the gateway, such as `https://files.example.com`; without a path. */
  readonly origin: string;
  /** Not yet encoded. */
  readonly path: string;
  /** Further parameters, such as `response-content-disposition`; not yet encoded. */
  readonly query?: Readonly<Record<string, string>>;
  /** 1 to 604,800. */
  readonly expiresSeconds: number;
  readonly accessKey: string;
  readonly secretKey: string;
  readonly region: string;
}

/** @throws RangeError for a duration that the public API does not have */
function assertExpires(expiresSeconds: number): void {
  if (Number.isInteger(expiresSeconds) && expiresSeconds >= 1 && expiresSeconds <= expiresSecondsMax) return;
  throw new RangeError(
    `expiresSeconds is ${typeof expiresSeconds === 'string' ? JSON.stringify(expiresSeconds) : expiresSeconds}; it must be a whole number from 1 to ${expiresSecondsMax}`,
  );
}

function stamp(now: number, region: string): { readonly timestamp: string; readonly scope: string } {
  const timestamp = formatTimestamp(now);
  return { timestamp, scope: `${timestamp.slice(0, 8)}/${region}/s3/${amz.terminator}` };
}

interface Ctx {
  readonly hasher: Hasher;
  readonly clock: Pick<Clock, 'now'>;
}

/** @throws RangeError for a duration that the public API does not have */
export function presign(
  { hasher, clock }: Ctx,
  { method, origin, path, query = {}, expiresSeconds, accessKey, secretKey, region }: Presigned,
): string {
  assertExpires(expiresSeconds);
  const { protocol, host } = new URL(origin);
  const { timestamp, scope } = stamp(clock.now(), region);
  const parameters = {
    ...query,
    [`${amz.queryPrefix}Algorithm`]: amz.algorithm,
    [`${amz.queryPrefix}Credential`]: `${accessKey}/${scope}`,
    [`${amz.queryPrefix}Date`]: timestamp,
    [`${amz.queryPrefix}Expires`]: String(expiresSeconds),
    [`${amz.queryPrefix}SignedHeaders`]: 'host',
  };
  const encodedPath = path.split('/').map(encode).join('/');
  const asked = Object.entries(parameters)
    .map(([name, value]) => `${encode(name)}=${encode(value)}`)
    .sort()
    .join('&');
  const canonical = `${method}\n${encodedPath}\n${asked}\nhost:${host}\n\nhost\nUNSIGNED-PAYLOAD`;
  const toSign = `${amz.algorithm}\n${timestamp}\n${scope}\n${hasher.sha256Hex(canonical)}`;
  const key = deriveSigningKey(hasher, secretKey, { dialect: amz, scope });
  return `${protocol}//${host}${encodedPath}?${asked}&${amz.queryPrefix}Signature=${toHex(hasher.hmacSha256(key, toSign))}`;
}

export interface PresignedForm
  extends Pick<Presigned, 'expiresSeconds' | 'accessKey' | 'secretKey' | 'region'> {
  readonly bucket: string;
  /** The key of the object. After a prefix, `${filename}` stands for the name of the file: then any name is accepted. */
  readonly key: string;
  /** Bytes of the file, both ends included. Default: any. */
  readonly bytes?: { readonly min?: number; readonly max: number };
  /** The content type; what ends in a slash, such as `image/`, is a prefix, and the page sends the field `Content-Type` itself. */
  readonly contentType?: string;
  /** Further fields with their values, such as `acl`, `success_action_redirect` or `x-amz-meta-album`. */
  readonly fields?: Readonly<Record<string, string>>;
}

// biome-ignore lint/suspicious/noTemplateCurlyInString: the public API writes it so.
export const anyName = '${filename}';

/** @returns the fields of the form, which stand before its file. @throws RangeError as `presign` */
export function presignForm({ hasher, clock }: Ctx, form: PresignedForm): Readonly<Record<string, string>> {
  const { bucket, key, expiresSeconds, bytes, contentType, accessKey, secretKey, region } = form;
  assertExpires(expiresSeconds);
  const now = clock.now();
  const { timestamp, scope } = stamp(now, region);
  const name = (bare: string): string => amz.headerPrefix + bare;
  const isPrefix = contentType?.endsWith('/') === true;
  const fixed: Record<string, string> = {
    ...form.fields,
    ...(contentType === undefined || isPrefix ? {} : { 'Content-Type': contentType }),
    [name('algorithm')]: amz.algorithm,
    [name('credential')]: `${accessKey}/${scope}`,
    [name('date')]: timestamp,
  };
  const prefix = key.endsWith(anyName) ? key.slice(0, -anyName.length) : undefined;
  const conditions = [
    { bucket },
    prefix === undefined ? { key } : ['starts-with', '$key', prefix],
    ...Object.entries(fixed).map(([field, value]) => ({ [field]: value })),
    ...(isPrefix ? [['starts-with', '$Content-Type', contentType]] : []),
    ...(bytes === undefined ? [] : [['content-length-range', bytes.min ?? 0, bytes.max]]),
  ];
  const expiration = new Date(now + expiresSeconds * 1000).toISOString();
  const policy = textToBase64(JSON.stringify({ expiration, conditions }));
  const signingKey = deriveSigningKey(hasher, secretKey, { dialect: amz, scope });
  return { key, ...fixed, policy, [name('signature')]: toHex(hasher.hmacSha256(signingKey, policy)) };
}

// Signs a URL (signature version 4 in the query): every client that has it may send that request until it expires.

interface UnsignedUrl {
  readonly method: string;
  readonly host: string;
  /** The path as it is sent, each part encoded with `encode`. */
  readonly path: string;
  /** Not yet encoded. */
  readonly query: readonly (readonly [string, string])[];
  readonly seconds: number;
}

/** @returns path and query */
export const presigner =
  ({ hasher, clock, accessKey, secretKey, region, service = 's3' }: SignerOptions) =>
  ({ method, host, path, query, seconds }: UnsignedUrl): string => {
    const timestamp = formatTimestamp(clock.now());
    const scope = `${timestamp.slice(0, 8)}/${region}/${service}/${amz.terminator}`;
    const asked = canonicalQuery([
      ...query,
      [`${amz.queryPrefix}Algorithm`, amz.algorithm],
      [`${amz.queryPrefix}Credential`, `${accessKey}/${scope}`],
      [`${amz.queryPrefix}Date`, timestamp],
      [`${amz.queryPrefix}Expires`, String(seconds)],
      [`${amz.queryPrefix}SignedHeaders`, 'host'],
    ]);
    const canonical = `${method}\n${path}\n${asked}\nhost:${host}\n\nhost\nUNSIGNED-PAYLOAD`;
    const toSign = `${amz.algorithm}\n${timestamp}\n${scope}\n${hasher.sha256Hex(canonical)}`;
    const key = deriveSigningKey(hasher, secretKey, { dialect: amz, scope });
    return `${path}?${asked}&${amz.queryPrefix}Signature=${toHex(hasher.hmacSha256(key, toSign))}`;
  };
