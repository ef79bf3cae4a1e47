/** Links that let their holder do one request: signature version 4 in the query (public API "Authenticating requests: using query parameters"). */
import { toHex } from '../base/text/hex.ts';
import type { Clock } from '../ports/clock.ts';
import type { Hasher } from '../ports/crypto/hasher.ts';
import { amz } from '../protocol/dialect.ts';
import { encode } from './encode.ts';
import { deriveSigningKey } from './signing-key.ts';
import { formatTimestamp } from './timestamp.ts';

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
export function presign(
  { hasher, clock }: { readonly hasher: Hasher; readonly clock: Pick<Clock, 'now'> },
  { method, origin, path, query = {}, expiresSeconds, accessKey, secretKey, region }: Presigned,
): string {
  if (!Number.isInteger(expiresSeconds) || expiresSeconds < 1 || expiresSeconds > expiresSecondsMax)
    throw new RangeError(
      `expiresSeconds is ${expiresSeconds}; it must be a whole number from 1 to ${expiresSecondsMax}`,
    );
  const { protocol, host } = new URL(origin);
  const timestamp = formatTimestamp(clock.now());
  const scope = `${timestamp.slice(0, 8)}/${region}/s3/${amz.terminator}`;
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
