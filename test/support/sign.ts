/**
 * A client's half of the signature, written from the public documents alone: it
 * shares no code with `src/auth`, so a mistake there cannot hide here. Every piece can be tampered with.
 *
 * ```ts
 * const alice = signer({ accessKey: 'AK', secretKey: 'SK', host: 'localhost:9000' });
 * const put = alice.request({ method: 'PUT', path: '/bucket/key', body: 'hello', headers: { '*-acl': 'private' } });
 * const response = await gateway.fetch(toRequest(put));
 * ```
 * A header or trailer name that starts with `*-` takes the dialect's prefix.
 */
import { createHash, createHmac } from 'node:crypto';
import { type Chunk, encodeSigned, encodeUnsigned } from './sign-chunks.ts';

export interface SignerOptions {
  readonly accessKey: string;
  readonly secretKey: string;
  readonly region?: string;
  readonly service?: string;
  readonly dialect?: 'amz' | 'store';
  readonly host?: string;
  /** Milliseconds since the epoch; the system's clock unless given. */
  readonly now?: () => number;
}

export type PayloadMode =
  | 'signed'
  | 'unsigned'
  | 'streaming'
  | 'streaming-trailer'
  | 'unsigned-trailer'
  | 'missing';

type Pairs = Readonly<Record<string, string>> | readonly (readonly [string, string])[];

export interface RequestSpec {
  readonly method?: string;
  /** The raw path of the request line; encode a key with `encodePath`. */
  readonly path?: string;
  readonly query?: Pairs;
  readonly host?: string;
  readonly headers?: Pairs;
  /** Headers that are sent but not signed. */
  readonly unsignedHeaders?: Pairs;
  readonly body?: Uint8Array | string;
  readonly payload?: PayloadMode;
  readonly chunkSize?: number;
  readonly trailers?: Pairs;
  readonly date?: Date;
  readonly tamper?: Tamper;
}

/** Hooks that replace a correct piece. */
export interface Tamper {
  readonly contentSha256?: string;
  /** `null` leaves the header out. */
  readonly decodedLength?: string | null;
  readonly scope?: (scope: string) => string;
  readonly signedHeaders?: (names: string[]) => string[];
  readonly canonicalRequest?: (text: string) => string;
  readonly stringToSign?: (text: string) => string;
  readonly signature?: (hex: string) => string;
  readonly authorization?: (value: string) => string;
  /** The chunks as they will be framed; the final one is empty. */
  readonly chunks?: (chunks: Chunk[]) => Chunk[];
  /** The trailing lines, `x-…-trailer-signature` included. */
  readonly trailerLines?: (lines: string[]) => string[];
  /** The encoded body. */
  readonly body?: (bytes: Uint8Array) => Uint8Array;
  /** All headers as they will be sent. */
  readonly headers?: (headers: [string, string][]) => [string, string][];
  /** The target as it will be sent. */
  readonly target?: (target: string) => string;
}

export interface SignedRequest {
  readonly method: string;
  readonly target: string;
  readonly headers: [string, string][];
  readonly body: Uint8Array | undefined;
}

export interface PresignSpec extends Omit<RequestSpec, 'payload' | 'chunkSize' | 'trailers'> {
  /** Seconds (v4) or, for v2, seconds from `date`; `'missing'` leaves the parameter out (v4). */
  readonly expires?: number | string;
}

interface Names {
  readonly header: string;
  readonly query: string;
  readonly secret: string;
  readonly terminator: string;
}
const names: Record<'amz' | 'store', Names> = {
  amz: { header: 'x-amz-', query: 'X-Amz-', secret: 'AWS4', terminator: 'aws4_request' },
  store: { header: 'x-store-', query: 'X-Store-', secret: 'STORE4', terminator: 'store4_request' },
};

export const hexSha256 = (data: Uint8Array | string): string =>
  createHash('sha256').update(data).digest('hex');
const hmac = (key: Uint8Array | string, data: string): Buffer =>
  createHmac('sha256', key).update(data).digest();
const list = (pairs: Pairs | undefined): [string, string][] =>
  pairs === undefined
    ? []
    : Array.isArray(pairs)
      ? pairs.map(([a, b]) => [a, b])
      : Object.entries(pairs as object);
const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);
const timestampOf = (date: Date): string => date.toISOString().replace(/[:-]|\.\d{3}/g, '');

/** Percent-encodes everything but the unreserved characters. */
export const encode = (text: string): string =>
  encodeURIComponent(text).replace(/[!'()*]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`);
export const encodePath = (path: string): string => path.split('/').map(encode).join('/');
const encodeQuery = (pairs: readonly [string, string][]): string =>
  pairs
    .map(([name, value]) => [encode(name), encode(value)] as const)
    .toSorted((a, b) => compare(a[0], b[0]) || compare(a[1], b[1]))
    .map(([name, value]) => `${name}=${value}`)
    .join('&');

export function signer(options: SignerOptions) {
  return {
    request: (spec: RequestSpec = {}): SignedRequest => signHeaders(options, spec),
    presign: (spec: PresignSpec = {}): SignedRequest => presign(options, spec),
    presignV2: (spec: PresignSpec & { readonly virtualBucket?: string } = {}): SignedRequest =>
      presignV2(options, spec),
    anonymous: (spec: RequestSpec = {}): SignedRequest => unsigned(options, spec),
  };
}

/** The parts that all schemes share: the names of the dialect, the time, the headers with their prefix. */
function basics(options: SignerOptions, spec: RequestSpec) {
  const dialect = names[options.dialect ?? 'amz'];
  const date = spec.date ?? new Date((options.now ?? Date.now)());
  const prefixed = (pairs: Pairs | undefined): [string, string][] =>
    list(pairs).map(([name, value]) => [name.replace(/^\*-/, dialect.header), value]);
  return {
    dialect,
    date,
    timestamp: timestampOf(date),
    region: options.region ?? 'us-east-1',
    service: options.service ?? 's3',
    method: spec.method ?? 'GET',
    path: spec.path ?? '/',
    host: spec.host ?? options.host ?? 'localhost',
    content: typeof spec.body === 'string' ? Buffer.from(spec.body) : spec.body,
    tamper: spec.tamper ?? {},
    prefixed,
    headers: prefixed(spec.headers),
  };
}

const signingKey = (dialect: Names, secret: string, scope: string): Buffer => {
  const [date, region, service, terminator] = scope.split('/') as [string, string, string, string];
  return hmac(hmac(hmac(hmac(dialect.secret + secret, date), region), service), terminator);
};

function canonicalHeaders(headers: readonly [string, string][], signed: readonly string[]): string {
  return signed
    .map((name) => {
      const values = headers
        .filter(([known]) => known.toLowerCase() === name)
        .map(([, value]) => value.trim().replace(/\s+/g, ' '));
      return `${name}:${values.join(',')}\n`;
    })
    .join('');
}

const contentSha256 = (mode: PayloadMode, dialect: Names, content: Uint8Array | undefined): string =>
  ({
    signed: hexSha256(content ?? ''),
    missing: hexSha256(content ?? ''),
    unsigned: 'UNSIGNED-PAYLOAD',
    streaming: `STREAMING-${dialect.secret}-HMAC-SHA256-PAYLOAD`,
    'streaming-trailer': `STREAMING-${dialect.secret}-HMAC-SHA256-PAYLOAD-TRAILER`,
    'unsigned-trailer': 'STREAMING-UNSIGNED-PAYLOAD-TRAILER',
  })[mode];

/** Headers that frame an aws-chunked body. */
function streamingHeaders(dialect: Names, spec: RequestSpec, trailers: readonly [string, string][]) {
  const length = spec.tamper?.decodedLength;
  const content = spec.body === undefined ? 0 : Buffer.byteLength(spec.body);
  const headers: [string, string][] = [['content-encoding', 'aws-chunked']];
  if (length !== null) headers.push([`${dialect.header}decoded-content-length`, length ?? String(content)]);
  if (trailers.length > 0)
    headers.push([`${dialect.header}trailer`, trailers.map(([name]) => name).join(',')]);
  return headers;
}

function signHeaders(options: SignerOptions, spec: RequestSpec): SignedRequest {
  const base = basics(options, spec);
  const { dialect, tamper, timestamp, content } = base;
  const mode = spec.payload ?? 'signed';
  const trailers = base.prefixed(spec.trailers);
  const hash = tamper.contentSha256 ?? contentSha256(mode, dialect, content);
  const streaming = mode.endsWith('trailer') || mode === 'streaming';
  const headers: [string, string][] = [
    ['host', base.host],
    [`${dialect.header}date`, timestamp],
    ...(mode === 'missing' ? [] : ([[`${dialect.header}content-sha256`, hash]] as [string, string][])),
    ...(streaming ? streamingHeaders(dialect, spec, trailers) : []),
    ...base.headers,
  ];
  let signed = [...new Set(headers.map(([name]) => name.toLowerCase()))].toSorted(compare);
  signed = tamper.signedHeaders?.(signed) ?? signed;
  const query = encodeQuery(list(spec.query));
  const scope = `${timestamp.slice(0, 8)}/${base.region}/${base.service}/${dialect.terminator}`;
  const sentScope = tamper.scope?.(scope) ?? scope;
  const canonical = `${base.method}\n${base.path}\n${query}\n${canonicalHeaders(headers, signed)}\n${signed.join(';')}\n${hash}`;
  const text = `${dialect.secret}-HMAC-SHA256\n${timestamp}\n${sentScope}\n${hexSha256(tamper.canonicalRequest?.(canonical) ?? canonical)}`;
  const key = signingKey(dialect, options.secretKey, sentScope);
  const signature = hmac(key, tamper.stringToSign?.(text) ?? text).toString('hex');
  const sent = tamper.signature?.(signature) ?? signature;
  const authorization = `${dialect.secret}-HMAC-SHA256 Credential=${options.accessKey}/${sentScope}, SignedHeaders=${signed.join(';')}, Signature=${sent}`;
  const frame = {
    spec,
    trailers,
    key,
    timestamp,
    scope: sentScope,
    dialect: dialect.secret,
    seed: signature,
  };
  const trailerSignature = `${dialect.header}trailer-signature`;
  let body = content;
  if (mode === 'unsigned-trailer') body = encodeUnsigned(frame);
  else if (streaming) body = encodeSigned({ ...frame, trailerSignature, signed: mode });
  return finish(base, spec, {
    target: query === '' ? base.path : `${base.path}?${query}`,
    headers: [...headers, ['authorization', tamper.authorization?.(authorization) ?? authorization]],
    body,
  });
}

function presign(options: SignerOptions, spec: PresignSpec): SignedRequest {
  const base = basics(options, spec);
  const { dialect, tamper, timestamp } = base;
  const headers: [string, string][] = [['host', base.host], ...base.headers];
  let signed = [...new Set(headers.map(([name]) => name.toLowerCase()))].toSorted(compare);
  signed = tamper.signedHeaders?.(signed) ?? signed;
  const proper = `${timestamp.slice(0, 8)}/${base.region}/${base.service}/${dialect.terminator}`;
  const scope = tamper.scope?.(proper) ?? proper;
  const expiry: [string, string][] =
    spec.expires === 'missing' ? [] : [[`${dialect.query}Expires`, String(spec.expires ?? 900)]];
  const query = encodeQuery([
    ...list(spec.query),
    [`${dialect.query}Algorithm`, `${dialect.secret}-HMAC-SHA256`],
    [`${dialect.query}Credential`, `${options.accessKey}/${scope}`],
    [`${dialect.query}Date`, timestamp],
    ...expiry,
    [`${dialect.query}SignedHeaders`, signed.join(';')],
  ]);
  const hash =
    tamper.contentSha256 ??
    headers.find(([name]) => name.toLowerCase() === `${dialect.header}content-sha256`)?.[1] ??
    'UNSIGNED-PAYLOAD';
  const canonical = `${base.method}\n${base.path}\n${query}\n${canonicalHeaders(headers, signed)}\n${signed.join(';')}\n${hash}`;
  const text = `${dialect.secret}-HMAC-SHA256\n${timestamp}\n${scope}\n${hexSha256(tamper.canonicalRequest?.(canonical) ?? canonical)}`;
  const key = signingKey(dialect, options.secretKey, scope);
  const signature = hmac(key, tamper.stringToSign?.(text) ?? text).toString('hex');
  const sent = tamper.signature?.(signature) ?? signature;
  return finish(base, spec, {
    target: `${base.path}?${query}&${dialect.query}Signature=${sent}`,
    headers,
    body: base.content,
  });
}

const subResources = new Set(
  'acl cors delete lifecycle location logging notification partNumber policy requestPayment tagging torrent uploadId uploads versionId versioning versions website response-cache-control response-content-disposition response-content-encoding response-content-language response-content-type response-expires'.split(
    ' ',
  ),
);

function presignV2(
  options: SignerOptions,
  spec: PresignSpec & { readonly virtualBucket?: string },
): SignedRequest {
  const base = basics(options, spec);
  const find = (wanted: string): string =>
    base.headers.find(([name]) => name.toLowerCase() === wanted)?.[1] ?? '';
  const expires = String(
    typeof spec.expires === 'string'
      ? spec.expires
      : Math.floor(base.date.getTime() / 1000) + (spec.expires ?? 900),
  );
  // Clients sign the vendor's headers and then move them to the query.
  const own = [...base.headers, ...list(spec.query)]
    .map(([name, value]) => [name.toLowerCase(), value.trim()] as const)
    .filter(([name]) => name.startsWith('x-amz-'))
    .toSorted((a, b) => compare(a[0], b[0]))
    .map(([name, value]) => `${name}:${value}\n`)
    .join('');
  const pairs = list(spec.query);
  const sub = pairs
    .filter(([name]) => subResources.has(name))
    .toSorted((a, b) => compare(a[0], b[0]))
    .map(([name, value]) => (value === '' ? name : `${name}=${value}`))
    .join('&');
  const bucket = spec.virtualBucket === undefined ? '' : `/${spec.virtualBucket}`;
  const resource = `${bucket}${base.path}${sub === '' ? '' : `?${sub}`}`;
  const text = `${base.method}\n${find('content-md5')}\n${find('content-type')}\n${expires}\n${own}${resource}`;
  const signature = createHmac('sha1', options.secretKey)
    .update(base.tamper.stringToSign?.(text) ?? text)
    .digest('base64');
  const query = encodeQuery([
    ...pairs,
    ['AWSAccessKeyId', options.accessKey],
    ['Expires', expires],
    ['Signature', base.tamper.signature?.(signature) ?? signature],
  ]);
  return finish(base, spec, {
    target: `${base.path}?${query}`,
    headers: [['host', base.host], ...base.headers],
    body: base.content,
  });
}

function unsigned(options: SignerOptions, spec: RequestSpec): SignedRequest {
  const base = basics(options, spec);
  const mode = spec.payload ?? 'missing';
  const trailers = base.prefixed(spec.trailers);
  const headers: [string, string][] = [['host', base.host]];
  const hash = base.tamper.contentSha256 ?? contentSha256(mode, base.dialect, base.content);
  if (mode !== 'missing') headers.push([`${base.dialect.header}content-sha256`, hash]);
  if (mode === 'unsigned-trailer') headers.push(...streamingHeaders(base.dialect, spec, trailers));
  const query = encodeQuery(list(spec.query));
  return finish(base, spec, {
    target: query === '' ? base.path : `${base.path}?${query}`,
    headers: [...headers, ...base.headers],
    body: mode === 'unsigned-trailer' ? encodeUnsigned({ spec, trailers }) : base.content,
  });
}

/** Adds the unsigned parts, and applies the test's hooks. */
function finish(
  base: ReturnType<typeof basics>,
  spec: RequestSpec,
  made: Omit<SignedRequest, 'method'>,
): SignedRequest {
  const { tamper } = base;
  const body = made.body === undefined ? undefined : (tamper.body?.(made.body) ?? made.body);
  const headers = [...made.headers, ...base.prefixed(spec.unsignedHeaders)];
  const known = headers.some(([name]) => name.toLowerCase() === 'content-length');
  if (body !== undefined && !known) headers.push(['content-length', String(body.length)]);
  return {
    method: base.method,
    target: tamper.target?.(made.target) ?? made.target,
    headers: tamper.headers?.(headers) ?? headers,
    body,
  };
}

/** The request for a `fetch` handler. */
export function toRequest(signed: SignedRequest, scheme = 'http'): Request {
  const host = signed.headers.find(([name]) => name.toLowerCase() === 'host')?.[1] ?? 'localhost';
  return new Request(`${scheme}://${host}${signed.target}`, {
    method: signed.method,
    headers: signed.headers,
    body: (signed.body as Uint8Array<ArrayBuffer> | undefined) ?? null,
  });
}
