/** Signs requests cheaply, with a cached signing key, so that the load generator is not the bottleneck. */
import { createHash, createHmac, hash } from 'node:crypto';

export const bench = {
  accessKey: 'BENCHBENCHBENCHBENCH',
  secretKey: 'bench-secret-bench-secret-bench-secret-0',
  region: 'us-east-1',
} as const;

/** The same credential in the form of the gateway's settings. */
export const benchCredential = {
  accessKey: bench.accessKey,
  secretKey: bench.secretKey,
  owner: 'bench',
  displayName: 'bench',
  root: true,
  operator: false,
} as const;

const hmac = (key: Uint8Array | string, text: string): Buffer =>
  createHmac('sha256', key).update(text).digest();
const hmacHex = (key: Uint8Array, text: string): string =>
  createHmac('sha256', key).update(text).digest('hex');
const sha256 = (text: string): string => hash('sha256', text, 'hex');
export const sha256Of = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

export const unsigned = 'UNSIGNED-PAYLOAD';
const streaming = 'STREAMING-AWS4-HMAC-SHA256-PAYLOAD';
const streamingTrailer = 'STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER';
const emptyHash = sha256('');

export interface Call {
  readonly method: string;
  /** The raw path. */
  readonly path: string;
  /** The canonical query: sorted and encoded. */
  readonly query?: string;
  readonly payloadHash?: string;
  readonly length?: number;
}

/** A body in signed chunks. */
export interface ChunkedBody {
  readonly bytes: Uint8Array;
  /** The SHA-256 of each chunk. */
  readonly hashes: readonly string[];
  /** Base64 of the CRC32C, which is sent as a signed trailer; absent: no trailer. */
  readonly crc32c?: string;
}

/** Heads of HTTP requests, ready for a socket. */
export class Signer {
  readonly #host: string;
  #second = 0;
  #timestamp = '';
  #scope = '';
  #key: Uint8Array = new Uint8Array();

  constructor(host: string) {
    this.#host = host;
  }

  /** A head with the signature in the Authorization header. */
  header({ method, path, query = '', payloadHash = emptyHash, length }: Call): string {
    const { signature, timestamp } = this.#sign({ method, path, query, payloadHash });
    return `${this.#line(method, path, query)}x-amz-content-sha256: ${payloadHash}\r\nx-amz-date: ${timestamp}\r\n${this.#authorization(signed, signature)}${lengthLine(length)}\r\n`;
  }

  /** A head with the signature in the query. */
  presigned({ method, path, length }: Call): string {
    this.#refresh();
    const credential = encodeURIComponent(`${bench.accessKey}/${this.#scope}`);
    const query = `X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=${credential}&X-Amz-Date=${this.#timestamp}&X-Amz-Expires=900&X-Amz-SignedHeaders=host`;
    const canonical = `${method}\n${path}\n${query}\nhost:${this.#host}\n\nhost\n${unsigned}`;
    const signature = hmacHex(this.#key, this.#toSign(canonical));
    return `${this.#line(method, path, `${query}&X-Amz-Signature=${signature}`)}${lengthLine(length)}\r\n`;
  }

  /** The head and the frames of a body in signed chunks, to be written around each piece of its content. */
  chunked(call: Call, { bytes, hashes, crc32c }: ChunkedBody): readonly (string | Uint8Array)[] {
    const { method, path, query = '' } = call;
    const payloadHash = crc32c === undefined ? streaming : streamingTrailer;
    const extra = [['x-amz-decoded-content-length', String(bytes.length)]];
    if (crc32c !== undefined) extra.push(['x-amz-trailer', checksumName]);
    const { signature, timestamp } = this.#sign({ method, path, query, payloadHash, extra });
    const pieces: (string | Uint8Array)[] = [];
    let previous = signature;
    let length = 0;
    const sign = (algorithm: string, signedHashes: string): void => {
      previous = hmacHex(
        this.#key,
        `${algorithm}\n${timestamp}\n${this.#scope}\n${previous}\n${signedHashes}`,
      );
    };
    const add = (...parts: (string | Uint8Array)[]): void => {
      for (const part of parts) length += part.length;
      pieces.push(...parts);
    };
    for (const [i, digest] of hashes.entries()) {
      const content = bytes.subarray(i * chunkBytes, (i + 1) * chunkBytes);
      sign('AWS4-HMAC-SHA256-PAYLOAD', `${emptyHash}\n${digest}`);
      add(`${content.length.toString(16)};chunk-signature=${previous}\r\n`, content, '\r\n');
    }
    sign('AWS4-HMAC-SHA256-PAYLOAD', `${emptyHash}\n${emptyHash}`);
    add(`0;chunk-signature=${previous}\r\n`);
    if (crc32c !== undefined) {
      sign('AWS4-HMAC-SHA256-TRAILER', sha256(`${checksumName}:${crc32c}\n`));
      add(`${checksumName}:${crc32c}\r\nx-amz-trailer-signature:${previous}\r\n`);
    }
    add('\r\n');
    const names = [signed, ...extra.map(([name]) => name)].join(';');
    const lines = extra.map(([name, value]) => `${name}: ${value}\r\n`).join('');
    const head = `${this.#line(method, path, query)}content-encoding: aws-chunked\r\nx-amz-content-sha256: ${payloadHash}\r\nx-amz-date: ${timestamp}\r\n${lines}${this.#authorization(names, signature)}${lengthLine(length)}\r\n`;
    return [head, ...pieces];
  }

  #sign(call: {
    readonly method: string;
    readonly path: string;
    readonly query: string;
    readonly payloadHash: string;
    /** Further signed headers, sorted by name. */
    readonly extra?: readonly (readonly string[])[];
  }): { readonly signature: string; readonly timestamp: string } {
    this.#refresh();
    const { method, path, query, payloadHash, extra = [] } = call;
    const own = extra.map(([name, value]) => `${name}:${value}\n`).join('');
    const names = [signed, ...extra.map(([name]) => name)].join(';');
    const canonical = `${method}\n${path}\n${query}\nhost:${this.#host}\nx-amz-content-sha256:${payloadHash}\nx-amz-date:${this.#timestamp}\n${own}\n${names}\n${payloadHash}`;
    return { signature: hmacHex(this.#key, this.#toSign(canonical)), timestamp: this.#timestamp };
  }

  #toSign(canonical: string): string {
    return `AWS4-HMAC-SHA256\n${this.#timestamp}\n${this.#scope}\n${sha256(canonical)}`;
  }

  #line(method: string, path: string, query: string): string {
    return `${method} ${path}${query === '' ? '' : `?${query}`} HTTP/1.1\r\nhost: ${this.#host}\r\n`;
  }

  #authorization(names: string, signature: string): string {
    return `authorization: AWS4-HMAC-SHA256 Credential=${bench.accessKey}/${this.#scope}, SignedHeaders=${names}, Signature=${signature}\r\n`;
  }

  #refresh(): void {
    const second = Math.floor(Date.now() / 1000);
    if (second === this.#second) return;
    this.#second = second;
    this.#timestamp = new Date(second * 1000).toISOString().replace(/[:-]|\.\d{3}/g, '');
    const day = this.#timestamp.slice(0, 8);
    const scope = `${day}/${bench.region}/s3/aws4_request`;
    if (scope === this.#scope) return;
    this.#scope = scope;
    this.#key = scope.split('/').reduce<Uint8Array | string>(hmac, `AWS4${bench.secretKey}`) as Uint8Array;
  }
}

const checksumName = 'x-amz-checksum-crc32c';
const signed = 'host;x-amz-content-sha256;x-amz-date';
const lengthLine = (length: number | undefined): string =>
  length === undefined ? '' : `content-length: ${length}\r\n`;

/** The chunk size of the SDKs. */
export const chunkBytes = 64 * 1024;

export function chunkHashes(body: Uint8Array): readonly string[] {
  const hashes: string[] = [];
  for (let at = 0; at < body.length; at += chunkBytes)
    hashes.push(sha256Of(body.subarray(at, at + chunkBytes)));
  return hashes;
}
