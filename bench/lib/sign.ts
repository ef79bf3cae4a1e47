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

  /** The head and the frames of a body in signed chunks, to be written around each piece of `body`. */
  chunked(call: Call, body: Uint8Array, hashes: readonly string[]): readonly (string | Uint8Array)[] {
    const { method, path, query = '' } = call;
    const extra = { name: 'x-amz-decoded-content-length', value: String(body.length) };
    const { signature, timestamp } = this.#sign({ method, path, query, payloadHash: streaming, extra });
    const pieces: (string | Uint8Array)[] = [];
    let previous = signature;
    let length = 0;
    const add = (data: Uint8Array, digest: string): void => {
      previous = hmacHex(
        this.#key,
        `AWS4-HMAC-SHA256-PAYLOAD\n${timestamp}\n${this.#scope}\n${previous}\n${emptyHash}\n${digest}`,
      );
      const head = `${data.length.toString(16)};chunk-signature=${previous}\r\n`;
      length += head.length + data.length + 2;
      pieces.push(head, data, '\r\n');
    };
    for (const [i, digest] of hashes.entries())
      add(body.subarray(i * chunkBytes, (i + 1) * chunkBytes), digest);
    add(new Uint8Array(), emptyHash);
    const names = `${signed};${extra.name}`;
    const head = `${this.#line(method, path, query)}content-encoding: aws-chunked\r\nx-amz-content-sha256: ${streaming}\r\nx-amz-date: ${timestamp}\r\n${extra.name}: ${extra.value}\r\n${this.#authorization(names, signature)}${lengthLine(length)}\r\n`;
    return [head, ...pieces];
  }

  #sign(call: {
    readonly method: string;
    readonly path: string;
    readonly query: string;
    readonly payloadHash: string;
    readonly extra?: { readonly name: string; readonly value: string };
  }): { readonly signature: string; readonly timestamp: string } {
    this.#refresh();
    const { method, path, query, payloadHash, extra } = call;
    const own = extra === undefined ? '' : `${extra.name}:${extra.value}\n`;
    const names = extra === undefined ? signed : `${signed};${extra.name}`;
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
