/** Signs requests of this service to another service (signature version 4, in headers). */

import { toHex } from '../base/text/hex.ts';
import { byteString, textOfOctets } from '../base/text/utf8.ts';
import type { Clock } from '../ports/clock.ts';
import type { Hasher } from '../ports/cryptography.ts';
import { amz } from '../protocol/dialect.ts';
import { formatTimestamp } from '../protocol/formats/iso-time.ts';
import { deriveSigningKey, encode } from './signing-key.ts';

export interface SignerOptions {
  readonly hasher: Pick<Hasher, 'sha256Hex' | 'hmacSha256'>;
  readonly clock: Pick<Clock, 'now'>;
  readonly accessKey: string;
  readonly secretKey: string;
  readonly region: string;
  /** Default `s3`. */
  readonly service?: 's3' | 'sqs' | 'kms';
}

export interface UnsignedRequest {
  readonly method: string;
  /** The path as it is sent, each part encoded with `encode`. */
  readonly path: string;
  /** Not yet encoded. */
  readonly query: readonly (readonly [string, string])[];
  /** By lower-case name, `host` among them. */
  readonly headers: Readonly<Record<string, string>>;
  /** The hexadecimal SHA-256 of the body, or a constant that replaces it, such as `UNSIGNED-PAYLOAD`. */
  readonly payloadHash: string;
}

export interface SignedRequest {
  /** Path and query. */
  readonly target: string;
  /** Values as octets of UTF-8, one character each: so HTTP clients write them, and none takes other characters. */
  readonly headers: Readonly<Record<string, string>>;
}

export type Signer = (request: UnsignedRequest) => SignedRequest;

export function signer({
  hasher,
  clock,
  accessKey,
  secretKey,
  region,
  service = 's3',
}: SignerOptions): Signer {
  // A signing key is valid for one day.
  let known: { readonly scope: string; readonly key: Uint8Array } | undefined;
  const keyFor = (scope: string): Uint8Array => {
    if (known?.scope !== scope)
      known = { scope, key: deriveSigningKey(hasher, secretKey, { dialect: amz, scope }) };
    return known.key;
  };
  return ({ method, path, query, headers, payloadHash }) => {
    const timestamp = formatTimestamp(clock.now());
    const scope = `${timestamp.slice(0, 8)}/${region}/${service}/${amz.terminator}`;
    const all: Record<string, string> = {
      ...headers,
      [`${amz.headerPrefix}content-sha256`]: payloadHash,
      [`${amz.headerPrefix}date`]: timestamp,
    };
    const names = Object.keys(all).sort();
    const signed = names.join(';');
    let lines = '';
    for (const name of names) {
      const text = textOfOctets(all[name] ?? '');
      all[name] = byteString(text);
      lines += `${name}:${text.trim().replace(/[ \t]+/g, ' ')}\n`;
    }
    const asked = canonicalQuery(query);
    const canonical = `${method}\n${path}\n${asked}\n${lines}\n${signed}\n${payloadHash}`;
    const toSign = `${amz.algorithm}\n${timestamp}\n${scope}\n${hasher.sha256Hex(canonical)}`;
    const signature = toHex(hasher.hmacSha256(keyFor(scope), toSign));
    all['authorization'] =
      `${amz.algorithm} Credential=${accessKey}/${scope}, SignedHeaders=${signed}, Signature=${signature}`;
    return { target: asked === '' ? path : `${path}?${asked}`, headers: all };
  };
}

/** The parameters as they are signed and sent: encoded, in the order of their encoded names and values. */
export const canonicalQuery = (query: UnsignedRequest['query']): string =>
  query
    .map(([name, value]) => [encode(name), encode(value)] as const)
    .sort(([a, b], [c, d]) => order(a, c) || order(b, d))
    .map(([name, value]) => `${name}=${value}`)
    .join('&');

const order = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);
