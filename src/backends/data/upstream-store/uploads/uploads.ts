/** Multipart uploads of an upstream: begun, listed, completed, aborted. */
import { escapeText } from '../../../../protocol/formats/xml.ts';
import { begunUpload, readAnswer } from '../client/answers.ts';
import { codeIn } from '../client/client.ts';
import type { Connection } from '../client/connection.ts';
import { retrying } from '../client/retry.ts';
import { isGone, UpstreamError } from '../client/upstream-error.ts';

/** An upload of an upstream. */
export interface UpstreamUpload {
  readonly key: string;
  readonly uploadId: string;
}

/** Putting an object together may take an upstream minutes. */
const completeTimeoutMs = 10 * 60_000;

/** Not repeated: each attempt may open an upload, and two of one name could not be distinguished. */
export const beginUpload = (
  connection: Connection,
  { key, headers }: { readonly key: string; readonly headers: Readonly<Record<string, string>> },
): Promise<UpstreamUpload> =>
  retrying(connection, { isRepeatable: () => false }, async () => {
    const { bytes } = await connection.client.ask({ method: 'POST', key, query: [['uploads', '']], headers });
    return { key, uploadId: readAnswer(begunUpload, 'InitiateMultipartUploadResult', bytes).UploadId };
  });

export interface UploadedPart {
  readonly part: number;
  readonly etag: string;
}

/** Success is known only from the end of the answer, whose status is sent long before. */
export async function completeUpload(
  { client }: Connection,
  { key, uploadId }: UpstreamUpload,
  parts: readonly UploadedPart[],
): Promise<void> {
  const list = parts
    .map(
      ({ part, etag }) => `<Part><PartNumber>${part}</PartNumber><ETag>"${escapeText(etag)}"</ETag></Part>`,
    )
    .join('');
  const { bytes } = await client.ask({
    method: 'POST',
    key,
    query: [['uploadId', uploadId]],
    headers: { 'content-type': 'application/xml' },
    body: new TextEncoder().encode(`<CompleteMultipartUpload>${list}</CompleteMultipartUpload>`),
    timeoutMs: completeTimeoutMs,
  });
  const code = codeIn(bytes);
  if (code !== '')
    throw new UpstreamError(`the upstream answered 200 ${code} to the completion of ${key}`, {
      status: 200,
      code,
    });
  if (!new TextDecoder().decode(bytes).includes('CompleteMultipartUploadResult'))
    throw new UpstreamError(`the upstream did not say that ${key} is complete`);
}

/** A missing upload is no error. */
export const abortUpload = (connection: Connection, { key, uploadId }: UpstreamUpload): Promise<void> =>
  retrying(connection, {}, async () => {
    try {
      await connection.client.ask({ method: 'DELETE', key, query: [['uploadId', uploadId]] });
    } catch (cause) {
      if (!isGone(cause, 'NoSuchUpload', 'NoSuchKey')) throw cause;
    }
  });

export interface StoredObject {
  readonly size: number;
  readonly etag: string;
  readonly headers: Readonly<Record<string, string>>;
}

/** Undefined for a missing object. */
export const headObject = (connection: Connection, key: string): Promise<StoredObject | undefined> =>
  retrying(connection, {}, async () => {
    try {
      const { headers } = await connection.client.ask({ method: 'HEAD', key });
      const etag = headers['etag']?.replaceAll('"', '') ?? '';
      return { size: Number(headers['content-length']), etag, headers };
    } catch (cause) {
      if (isGone(cause, 'NoSuchKey')) return undefined;
      throw cause;
    }
  });

export const removeObject = (connection: Connection, key: string): Promise<void> =>
  retrying(connection, {}, async () => {
    try {
      await connection.client.ask({ method: 'DELETE', key });
    } catch (cause) {
      if (!isGone(cause, 'NoSuchKey')) throw cause;
    }
  });
