/** XML bodies and requests that many tests of the front door share. */
import { createHash } from 'node:crypto';
import type { Answer, Ask, Client } from './gateway-client.ts';

export const versioning = (status: 'Enabled' | 'Suspended'): string =>
  `<VersioningConfiguration><Status>${status}</Status></VersioningConfiguration>`;

export const setVersioning = (
  client: Client,
  bucket: string,
  status: 'Enabled' | 'Suspended',
): Promise<Answer> => client.put(`/${bucket}?versioning`, { body: versioning(status) });

/** Keys, or whole contents of `<Object>` if a text starts with `<`. */
export const deletion = (objects: readonly string[], quiet = false): string =>
  `<Delete>${quiet ? '<Quiet>true</Quiet>' : ''}${objects
    .map((each) => `<Object>${each.startsWith('<') ? each : `<Key>${each}</Key>`}</Object>`)
    .join('')}</Delete>`;

export interface PartOf {
  readonly number: number;
  readonly etag: string;
  /** Further elements, such as a checksum. */
  readonly more?: string;
}
export const completion = (parts: readonly PartOf[]): string =>
  `<CompleteMultipartUpload>${parts
    .map(
      ({ number, etag, more = '' }) =>
        `<Part><PartNumber>${number}</PartNumber><ETag>${etag}</ETag>${more}</Part>`,
    )
    .join('')}</CompleteMultipartUpload>`;

export async function createUpload(client: Client, path: string, ask: Ask = {}): Promise<string> {
  const created = await client.post(`${path}?uploads`, ask);
  const id = created.one('UploadId');
  if (id === undefined) throw new Error(`no upload: ${created.text}`);
  return id;
}

export async function putPart(
  client: Client,
  path: string,
  part: {
    readonly uploadId: string;
    readonly number: number;
    readonly body: Uint8Array | string;
    readonly headers?: NonNullable<Ask['headers']>;
  },
): Promise<PartOf> {
  const { uploadId, number, body, headers = {} } = part;
  const stored = await client.put(path, { query: { uploadId, partNumber: String(number) }, body, headers });
  if (stored.status !== 200) throw new Error(`no part: ${stored.text}`);
  return { number, etag: stored.header('etag') ?? '' };
}

export const complete = (
  client: Client,
  path: string,
  {
    uploadId,
    parts,
    ask = {},
  }: { readonly uploadId: string; readonly parts: readonly PartOf[]; readonly ask?: Ask },
): Promise<Answer> => client.post(path, { query: { uploadId }, body: completion(parts), ...ask });

export const MiB = 1024 * 1024;
export const md5 = (data: Uint8Array | string): string => createHash('md5').update(data).digest('hex');
export const digest64 = (name: string, data: Uint8Array | string): string =>
  createHash(name).update(data).digest('base64');
/** Bytes in which no two offsets have the same content by chance. */
export function bytesOf(size: number, seed = 1): Uint8Array {
  const bytes = new Uint8Array(size);
  let state = seed >>> 0 || 1;
  for (let i = 0; i < size; i += 1) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    bytes[i] = state >>> 24;
  }
  return bytes;
}
