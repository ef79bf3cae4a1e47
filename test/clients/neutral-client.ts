/**
 * A client of the neutral dialect, written from the specification alone ("Authentication"): `x-store-*` headers,
 * `STORE4-HMAC-SHA256`, and bodies in signed chunks. It shares no code with the gateway or with the other signers.
 */
import { createHash, createHmac } from 'node:crypto';
import { Agent, type IncomingHttpHeaders, request } from 'node:http';
import { Readable } from 'node:stream';

export interface NeutralOptions {
  readonly url: string;
  readonly accessKey: string;
  readonly secretKey: string;
  readonly region: string;
}

export interface NeutralRequest {
  /** Not encoded; starts with a slash. */
  readonly path: string;
  readonly query?: Readonly<Record<string, string>>;
  /** Lower-case names; `x-store-` is not added. */
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Uint8Array | string;
  /** If set, the body is sent in signed chunks of this many bytes. */
  readonly chunkBytes?: number;
}

export interface NeutralAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly bytes: Buffer;
  readonly text: string;
  /** The contents of every XML element of this name, in document order. */
  all(element: string): string[];
}

const algorithm = 'STORE4-HMAC-SHA256';
const streaming = 'STREAMING-STORE4-HMAC-SHA256-PAYLOAD';
const connectionsMax = 16;

const sha256 = (data: Uint8Array | string): string => createHash('sha256').update(data).digest('hex');
const hmac = (key: Uint8Array | string, text: string): Buffer =>
  createHmac('sha256', key).update(text).digest();
const emptyHash = sha256('');

/** Everything but letters, digits and `-._~` is percent-encoded. */
const encode = (text: string): string =>
  [...Buffer.from(text)]
    .map((byte) => {
      const char = String.fromCharCode(byte);
      return /[A-Za-z0-9._~-]/.test(char) ? char : `%${byte.toString(16).toUpperCase().padStart(2, '0')}`;
    })
    .join('');
export const encodePath = (path: string): string => path.split('/').map(encode).join('/');
const encodeQuery = (query: Readonly<Record<string, string>>): string =>
  Object.entries(query)
    .map(([name, value]) => `${encode(name)}=${encode(value)}`)
    .sort()
    .join('&');

const entities: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" };
const plainText = (text: string): string =>
  text.replace(/&(#x([0-9a-f]+)|#(\d+)|\w+);/gi, (whole, name: string, hex?: string, decimal?: string) =>
    hex !== undefined || decimal !== undefined
      ? String.fromCodePoint(Number.parseInt(hex ?? decimal ?? '', hex === undefined ? 10 : 16))
      : (entities[name] ?? whole),
  );

/** The time of a signature, and the values derived from it and the secret. */
interface Moment {
  readonly timestamp: string;
  readonly scope: string;
  readonly key: Buffer;
}

/** A class because it holds connections until it is closed. */
export class NeutralClient {
  readonly #options: NeutralOptions;
  readonly #host: string;
  readonly #agent = new Agent({ keepAlive: true, maxSockets: connectionsMax });

  constructor(options: NeutralOptions) {
    this.#options = options;
    this.#host = new URL(options.url).host;
  }

  close(): void {
    this.#agent.destroy();
  }

  send(method: string, asked: NeutralRequest): Promise<NeutralAnswer> {
    const { path, query = {}, body = '', chunkBytes } = asked;
    const content = Buffer.from(body);
    const moment = this.#moment();
    const bodyHash = chunkBytes === undefined ? sha256(content) : streaming;
    const headers: Record<string, string> = {
      ...asked.headers,
      host: this.#host,
      'x-store-date': moment.timestamp,
      'x-store-content-sha256': bodyHash,
    };
    if (chunkBytes !== undefined) {
      headers['content-encoding'] = 'aws-chunked';
      headers['x-store-decoded-content-length'] = String(content.length);
    }
    const names = Object.keys(headers).sort();
    const canonical = [
      method,
      encodePath(path),
      encodeQuery(query),
      ...names.map((name) => `${name}:${headers[name]?.trim()}`),
      '',
      names.join(';'),
      bodyHash,
    ].join('\n');
    const signature = sign(moment, canonical);
    headers['authorization'] =
      `${algorithm} Credential=${this.#options.accessKey}/${moment.scope}, SignedHeaders=${names.join(';')}, Signature=${signature}`;
    const pieces =
      chunkBytes === undefined ? [content] : [...chunks(content, { chunkBytes, moment, signature })];
    headers['content-length'] = String(pieces.reduce((sum, { length }) => sum + length, 0));
    return this.#exchange(method, `${encodePath(path)}?${encodeQuery(query)}`, { headers, pieces });
  }

  /** A presigned URL, valid for this many seconds. */
  presign(method: string, path: string, expiresSeconds: number): string {
    const moment = this.#moment();
    const query = encodeQuery({
      'X-Store-Algorithm': algorithm,
      'X-Store-Credential': `${this.#options.accessKey}/${moment.scope}`,
      'X-Store-Date': moment.timestamp,
      'X-Store-Expires': String(expiresSeconds),
      'X-Store-SignedHeaders': 'host',
    });
    const canonical = [method, encodePath(path), query, `host:${this.#host}`, '', 'host', 'UNSIGNED-PAYLOAD'];
    const signature = sign(moment, canonical.join('\n'));
    return `${this.#options.url}${encodePath(path)}?${query}&X-Store-Signature=${signature}`;
  }

  #moment(): Moment {
    const timestamp = new Date().toISOString().replace(/[:-]|\.\d+/g, '');
    const parts = [timestamp.slice(0, 8), this.#options.region, 's3', 'store4_request'];
    const key = parts.reduce<Buffer | string>(hmac, `STORE4${this.#options.secretKey}`) as Buffer;
    return { timestamp, scope: parts.join('/'), key };
  }

  #exchange(
    method: string,
    target: string,
    { headers, pieces }: { readonly headers: Record<string, string>; readonly pieces: readonly Buffer[] },
  ): Promise<NeutralAnswer> {
    return new Promise((resolve, reject) => {
      const { hostname, port } = new URL(this.#options.url);
      const sent = request(
        { hostname, port, method, path: target.replace(/\?$/, ''), headers, agent: this.#agent },
        (response) => {
          const received: Buffer[] = [];
          response.on('data', (chunk: Buffer) => received.push(chunk));
          response.on('error', reject);
          response.on('end', () =>
            resolve(answerOf(response.statusCode ?? 0, response.headers, Buffer.concat(received))),
          );
        },
      );
      sent.on('error', reject);
      Readable.from(pieces, { objectMode: false }).pipe(sent);
    });
  }
}

const sign = ({ timestamp, scope, key }: Moment, canonical: string): string =>
  hmac(key, [algorithm, timestamp, scope, sha256(canonical)].join('\n')).toString('hex');

/** Each chunk's signature covers the one before it; an empty chunk ends the body. */
function* chunks(
  content: Buffer,
  { chunkBytes, moment, signature }: { chunkBytes: number; moment: Moment; signature: string },
): Generator<Buffer> {
  const { timestamp, scope, key } = moment;
  let previous = signature;
  for (let at = 0; at <= content.length + chunkBytes - 1; at += chunkBytes) {
    const data = content.subarray(at, at + chunkBytes);
    const lines = [`${algorithm}-PAYLOAD`, timestamp, scope, previous, emptyHash, sha256(data)];
    previous = hmac(key, lines.join('\n')).toString('hex');
    yield Buffer.from(`${data.length.toString(16)};chunk-signature=${previous}\r\n`);
    yield Buffer.concat([data, Buffer.from('\r\n')]);
    if (data.length === 0) return;
  }
  throw new Error('the last chunk is empty');
}

function answerOf(status: number, headers: IncomingHttpHeaders, bytes: Buffer): NeutralAnswer {
  const text = bytes.length < 2 ** 24 ? bytes.toString() : '';
  return {
    status,
    headers,
    bytes,
    text,
    all: (element) =>
      [...text.matchAll(new RegExp(`<${element}>([^<]*)</${element}>`, 'g'))].map(([, inner = '']) =>
        plainText(inner),
      ),
  };
}
