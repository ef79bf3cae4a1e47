/** The two dialects of the wire, as data: the public S3 API's and the specification's neutral one. */
export interface Dialect {
  readonly name: 'amz' | 'store';
  /** Prefix of header names, for example `x-amz-` in `x-amz-date`. */
  readonly headerPrefix: string;
  /** Prefix of signing query parameters, for example `X-Amz-` in `X-Amz-Signature`. */
  readonly queryPrefix: string;
  /** The algorithm of the Authorization header. */
  readonly algorithm: string;
  /** Prefix of the secret when the signing key is derived, for example `AWS4`. */
  readonly secretPrefix: string;
  /** The last part of a credential scope. */
  readonly terminator: string;
  /** The string that opens a chunk's string to sign; the trailer's is `<this>` with TRAILER for PAYLOAD. */
  readonly chunkAlgorithm: string;
  readonly trailerAlgorithm: string;
  readonly streamingSigned: string;
  readonly streamingSignedTrailer: string;
}

const dialect = (
  name: Dialect['name'],
  header: string,
  query: string,
  vendor: string,
  secret: string,
): Dialect => ({
  name,
  headerPrefix: header,
  queryPrefix: query,
  algorithm: `${secret}-HMAC-SHA256`,
  secretPrefix: secret,
  terminator: `${vendor}_request`,
  chunkAlgorithm: `${secret}-HMAC-SHA256-PAYLOAD`,
  trailerAlgorithm: `${secret}-HMAC-SHA256-TRAILER`,
  streamingSigned: `STREAMING-${secret}-HMAC-SHA256-PAYLOAD`,
  streamingSignedTrailer: `STREAMING-${secret}-HMAC-SHA256-PAYLOAD-TRAILER`,
});

export const amz: Dialect = dialect('amz', 'x-amz-', 'X-Amz-', 'aws4', 'AWS4');
export const store: Dialect = dialect('store', 'x-store-', 'X-Store-', 'store4', 'STORE4');
export const dialects: readonly Dialect[] = [amz, store];

/** The one dialect that names of headers and query parameters show; undefined where they show none or both. */
export function replyDialect(names: Iterable<string>): Dialect | undefined {
  const present = new Set<Dialect>();
  for (const name of names) {
    for (const each of dialects) if (name.toLowerCase().startsWith(each.headerPrefix)) present.add(each);
  }
  return present.size === 1 ? [...present][0] : undefined;
}

/** Payload declarations that both dialects share. */
export const unsignedPayload = 'UNSIGNED-PAYLOAD';
export const streamingUnsignedTrailer = 'STREAMING-UNSIGNED-PAYLOAD-TRAILER';
