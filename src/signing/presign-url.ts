/** Signs a URL (signature version 4 in the query): every client that has it may send that request until it expires. */
import { toHex } from '../base/text/hex.ts';
import { amz } from '../protocol/dialect.ts';
import { canonicalQuery, type SignerOptions } from './sign-request.ts';
import { deriveSigningKey } from './signing-key.ts';
import { formatTimestamp } from './timestamp.ts';

export interface UnsignedUrl {
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
