/**
 * A small S3 client over node:http and node:https for load tests: it signs with `sign.ts`, keeps connections, and
 * reports unknown outcomes.
 */
import * as http from 'node:http';
import * as https from 'node:https';
import { encodePath, type RequestSpec, signer } from './sign.ts';

export interface Answer {
  readonly status: number;
  readonly headers: http.IncomingHttpHeaders;
  readonly body: Buffer;
  readonly text: string;
}

/** The connection broke before the answer was complete: the outcome of the request is unknown. */
export class Unanswered extends Error {}

export interface LoadClient {
  send(spec: RequestSpec): Promise<Answer>;
  /** Like `send`, but throws when the status is not one of `statuses` (default: 200 and 204). */
  expect(spec: RequestSpec, statuses?: readonly number[]): Promise<Answer>;
  close(): void;
}

export interface Keys {
  readonly accessKey: string;
  readonly secretKey: string;
}

/**
 * @param connectionsMax 1 uses a single connection, and so a single process of the server
 * @param ca the authority of the server's certificate
 */
export function loadClient(url: string, keys: Keys, connectionsMax = 64, ca?: string): LoadClient {
  const { host, hostname, port, protocol } = new URL(url);
  const options = { keepAlive: true, maxSockets: connectionsMax };
  const agent =
    protocol === 'https:'
      ? new https.Agent({ ...options, ...(ca === undefined ? {} : { ca }) })
      : new http.Agent(options);
  const { request } = protocol === 'https:' ? https : http;
  const signing = signer({ accessKey: keys.accessKey, secretKey: keys.secretKey, host });

  const send = (spec: RequestSpec): Promise<Answer> => {
    const { method, target, headers, body } = signing.request(spec);
    return new Promise((resolve, reject) => {
      const fail = (cause: unknown): void => reject(new Unanswered(`${method} ${target}`, { cause }));
      const sent = request(
        { agent, hostname, port, method, path: target, headers: headers.flat(), setHost: false },
        (response) => {
          const pieces: Buffer[] = [];
          response.on('data', (piece: Buffer) => pieces.push(piece));
          response.on('error', fail);
          response.on('close', () => {
            if (!response.complete) return fail(new Error('the answer broke off'));
            const bytes = Buffer.concat(pieces);
            const { statusCode: status = 0, headers: given } = response;
            resolve({
              status,
              headers: given,
              body: bytes,
              get text() {
                return bytes.toString('utf8');
              },
            });
          });
        },
      );
      sent.on('error', fail);
      sent.end(body);
    });
  };

  return {
    send,
    async expect(spec, statuses = [200, 204]) {
      const answer = await send(spec);
      if (statuses.includes(answer.status)) return answer;
      throw new Error(
        `${spec.method ?? 'GET'} ${spec.path} ${JSON.stringify(spec.query ?? {})}: ${answer.status} ${answer.text.slice(0, 400)}`,
      );
    },
    close: () => agent.destroy(),
  };
}

export const pathOf = (bucket: string, key = ''): string =>
  key === '' ? `/${bucket}` : `/${bucket}/${encodePath(key)}`;

/** The texts of an element, in order; enough for the answers that the tests read. */
export const elements = (xml: string, name: string): string[] =>
  [...xml.matchAll(new RegExp(`<${name}>([\\s\\S]*?)</${name}>`, 'g'))].map(([, text = '']) => decode(text));

const entities: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" };
const decode = (text: string): string =>
  text.replace(/&(?:#(\d+)|#x([0-9a-fA-F]+)|(\w+));/g, (_, dec?: string, hex?: string, name = '') =>
    dec !== undefined
      ? String.fromCodePoint(Number(dec))
      : hex !== undefined
        ? String.fromCodePoint(Number.parseInt(hex, 16))
        : (entities[name] ?? ''),
  );

/** Multipart in three calls; `uploadInParts` makes them all. */
export async function createUpload(client: LoadClient, bucket: string, key: string): Promise<string> {
  const spec = { method: 'POST', path: pathOf(bucket, key), query: { uploads: '' } };
  return elements((await client.expect(spec)).text, 'UploadId')[0] ?? '';
}

export async function uploadPart(
  client: LoadClient,
  to: { readonly bucket: string; readonly key: string; readonly uploadId: string; readonly part: number },
  body: Uint8Array,
): Promise<string> {
  const query = { uploadId: to.uploadId, partNumber: String(to.part) };
  const spec = { method: 'PUT', path: pathOf(to.bucket, to.key), query, body };
  return String((await client.expect(spec)).headers.etag);
}

/** @returns their ETags */
export async function uploadParts(
  client: LoadClient,
  to: { readonly bucket: string; readonly key: string; readonly uploadId: string },
  bodies: readonly Uint8Array[],
): Promise<readonly string[]> {
  const etags: string[] = [];
  for (const body of bodies) etags.push(await uploadPart(client, { ...to, part: etags.length + 1 }, body));
  return etags;
}

export function completeSpec(
  to: { readonly bucket: string; readonly key: string; readonly uploadId: string },
  etags: readonly string[],
): RequestSpec {
  const parts = etags.map((etag, i) => `<Part><PartNumber>${i + 1}</PartNumber><ETag>${etag}</ETag></Part>`);
  return {
    method: 'POST',
    path: pathOf(to.bucket, to.key),
    query: { uploadId: to.uploadId },
    body: `<CompleteMultipartUpload>${parts.join('')}</CompleteMultipartUpload>`,
  };
}

/** @returns the content */
export async function uploadInParts(
  client: LoadClient,
  { bucket, key }: { readonly bucket: string; readonly key: string },
  parts: readonly Uint8Array[],
): Promise<Buffer> {
  const to = { bucket, key, uploadId: await createUpload(client, bucket, key) };
  await client.expect(completeSpec(to, await uploadParts(client, to, parts)));
  return Buffer.concat(parts);
}
