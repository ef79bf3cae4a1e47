/** HTTP requests of tests to workerd, which are sent and answered as a whole. */
import { type ClientRequest, request as httpRequest, type RequestOptions } from 'node:http';

export interface WholeReply {
  readonly status: number;
  /** Name, value, name, value. */
  readonly rawHeaders: readonly string[];
  readonly body: Buffer;
}

export function sendWhole(options: RequestOptions, body: string | Uint8Array): Promise<WholeReply> {
  const { promise, resolve, reject } = Promise.withResolvers<WholeReply>();
  const request: ClientRequest = httpRequest(options);
  request.on('error', reject);
  request.on('response', (response) => {
    const chunks: Buffer[] = [];
    response.on('data', (chunk: Buffer) => chunks.push(chunk));
    response.on('error', reject);
    response.on('end', () => {
      const { statusCode = 0, rawHeaders } = response;
      resolve({ status: statusCode, rawHeaders, body: Buffer.concat(chunks) });
    });
  });
  request.end(body);
  return promise;
}
