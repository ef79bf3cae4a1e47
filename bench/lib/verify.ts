/** Verifies what `sign.ts` signs, with no more than that takes: for the floors. */
import { createHmac, hash } from 'node:crypto';
import { crc32c } from '../../src/backends/crypto/node.ts';
import { bench } from './sign.ts';

export interface SignedRequest {
  readonly method: string;
  readonly path: string;
  readonly query: string;
  readonly headers: { get(name: string): string | undefined };
}

/** The head of a request, without the empty line after it. */
export function readRequest(text: string): SignedRequest {
  const [first = '', ...lines] = text.split('\r\n');
  const [method = '', target = ''] = first.split(' ');
  const [path = '', query = ''] = target.split('?');
  const fieldOf = (line: string, colon: number) =>
    [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()] as const;
  return { method, path, query, headers: new Map(lines.map((line) => fieldOf(line, line.indexOf(':')))) };
}

const empty = hash('sha256', '', 'hex');
let [scope, key] = ['', Buffer.alloc(0)];

const sign = (...lines: readonly string[]): string =>
  createHmac('sha256', key).update(lines.join('\n')).digest('hex');

export function assertSame(one: unknown, other: unknown): void {
  if (one !== other) throw new Error(`${one} is not ${other}`);
}

const authorization = /=[^/]+\/([^,]+), SignedHeaders=([^,]+), Signature=(.+)/;

/** @returns the signature */
export function verifyRequest({ method, path, query, headers }: SignedRequest): string {
  const [, own = '', names = '', signature] = authorization.exec(headers.get('authorization') ?? '') ?? [];
  if (own !== scope) {
    key = Buffer.from(`AWS4${bench.secretKey}`);
    for (const part of own.split('/')) key = createHmac('sha256', key).update(part).digest();
    scope = own;
  }
  let fields = '';
  for (const name of names.split(';')) fields += `${name}:${headers.get(name)}\n`;
  const canonical = `${method}\n${path}\n${query}\n${fields}\n${names}\n${headers.get('x-amz-content-sha256')}`;
  const date = headers.get('x-amz-date') ?? '';
  assertSame(signature, sign('AWS4-HMAC-SHA256', date, scope, hash('sha256', canonical, 'hex')));
  return signature ?? '';
}

/** @returns the content of a body, which is one signed chunk with a signed trailer, or signed as it is; and its CRC32C */
export function verifyContent(
  body: Buffer,
  { headers }: SignedRequest,
  seed: string,
): { readonly content: Buffer; readonly crc: number } {
  const payload = headers.get('x-amz-content-sha256') ?? '';
  if (!payload.startsWith('STREAMING')) {
    assertSame(payload, hash('sha256', body, 'hex'));
    return { content: body, crc: crc32c(body) };
  }
  const date = headers.get('x-amz-date') ?? '';
  let previous = seed;
  /** @returns the content of the chunk at a place */
  const chunk = (at: number): Buffer => {
    const end = body.indexOf('\r\n', at);
    const [size = '', signature = ''] = body.toString('latin1', at, end).split(';chunk-signature=');
    const bytes = body.subarray(end + 2, end + 2 + Number.parseInt(size, 16));
    const sha256 = hash('sha256', bytes, 'hex');
    assertSame(signature, sign('AWS4-HMAC-SHA256-PAYLOAD', date, scope, previous, empty, sha256));
    previous = signature;
    return bytes;
  };
  const content = chunk(0);
  const last = chunk(content.byteOffset - body.byteOffset + content.length + 2);
  const [line = '', trailer = ''] = body.toString('latin1', last.byteOffset - body.byteOffset).split('\r\n');
  const sha256 = hash('sha256', `${line}\n`, 'hex');
  assertSame(trailer.split(':')[1], sign('AWS4-HMAC-SHA256-TRAILER', date, scope, previous, sha256));
  const crc = crc32c(content);
  const digest = Buffer.from([crc >>> 24, crc >>> 16, crc >>> 8, crc]).toString('base64');
  assertSame(line.split(':')[1], digest);
  return { content, crc };
}
