/** A signed client over node:http: it sends target and headers unchanged, which `fetch` does not. */
import { request as httpRequest, type IncomingHttpHeaders } from 'node:http';
import { type RequestSpec, type SignedRequest, signer } from '../support/sign.ts';

export interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly bytes: Buffer;
  readonly text: string;
}

export type Send = (method: string, target: string, spec?: SendSpec) => Promise<Answer>;

export interface SendSpec extends Omit<RequestSpec, 'method' | 'path' | 'query' | 'host'> {
  /** The credential; the root user's by default. */
  readonly secretKey?: string;
}

export interface Endpoint {
  readonly url: string;
  readonly accessKey: string;
  readonly secretKey: string;
  /** Each request has a connection of its own: one that is reused may be closed meanwhile, and a write that met that may have applied. */
  readonly connectsAnew?: boolean;
}

/** `target` is the raw path, with a query of plain `name=value` pairs. */
export function sender({ url, accessKey, secretKey, connectsAnew = false }: Endpoint): Send {
  const { hostname, port, host } = new URL(url);
  return (method, target, { secretKey: other, ...spec } = {}) => {
    const [path = '', query = ''] = target.split('?');
    const signed = signer({ accessKey, secretKey: other ?? secretKey, host }).request({
      method,
      path,
      query: query === '' ? [] : query.split('&').map((pair) => pairOf(pair)),
      ...spec,
    });
    return exchange({ hostname, port, ...(connectsAnew ? { agent: false } : {}) }, signed);
  };
}

function pairOf(text: string): [string, string] {
  const [name = '', value = ''] = text.split('=');
  return [decodeURIComponent(name), decodeURIComponent(value)];
}

export function exchange(
  at: { hostname: string; port: string; agent?: false },
  signed: SignedRequest,
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const request = httpRequest(
      { ...at, method: signed.method, path: signed.target, headers: signed.headers.flat() },
      (response) => {
        const chunks: Buffer[] = [];
        response.on('data', (chunk: Buffer) => chunks.push(chunk));
        response.on('error', reject);
        response.on('end', () => {
          const bytes = Buffer.concat(chunks);
          const { statusCode: status = 0, headers } = response;
          resolve({ status, headers, bytes, text: bytes.toString() });
        });
      },
    );
    request.on('error', reject);
    request.end(signed.body);
  });
}
