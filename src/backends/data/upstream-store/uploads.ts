/** Multipart uploads of an upstream: begun, listed, completed, aborted. */

import { toHex } from '../../../base/text/hex.ts';
import type { Hasher } from '../../../ports/cryptography.ts';
import { PartsChanged, UploadGone } from '../../../ports/object-bytes.ts';
import { escapeText } from '../../../protocol/formats/codec.ts';
import { begunUpload, isGone, readAnswer, UpstreamError } from './answers.ts';
import { codeIn, retrying } from './client.ts';
import type { Connection } from './connection.ts';

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
async function completeUpload(
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

interface StoredObject {
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

// Completes an upload so that the request can be repeated, whatever its first outcome was.

const refusedParts: ReadonlySet<string> = new Set(['InvalidPart', 'InvalidPartOrder', 'EntityTooSmall']);

/**
 * @throws PartsChanged where the upstream has other parts, UploadGone where it has neither the upload nor what these
 *   parts make
 */
export async function assemble(
  connection: Connection,
  upload: UpstreamUpload,
  { parts, size }: { readonly parts: readonly UploadedPart[]; readonly size: number },
): Promise<void> {
  await retrying(connection, {}, async () => {
    try {
      await completeUpload(connection, upload, parts);
    } catch (cause) {
      if (cause instanceof UpstreamError && refusedParts.has(cause.code))
        throw new PartsChanged(`the upstream answered ${cause.code}`, { cause });
      if (!isGone(cause, 'NoSuchUpload')) throw cause;
      // An earlier request for the same may have been done without its answer coming through.
      const stored = await headObject(connection, upload.key);
      if (stored?.size === size && stored.etag === compositeEtag(connection.hasher, parts)) return;
      throw new UploadGone(`the upstream has no upload ${upload.uploadId}`, { cause });
    }
  });
}

/** The composite ETag, where the ETags of parts are their MD5; undefined where they are not. */
function compositeEtag(hasher: Hasher, parts: readonly UploadedPart[]): string | undefined {
  const md5 = hasher.create('md5');
  for (const { etag } of parts) {
    if (!/^[0-9a-f]{32}$/.test(etag)) return undefined;
    md5.update(Uint8Array.from({ length: 16 }, (_, i) => Number.parseInt(etag.slice(2 * i, 2 * i + 2), 16)));
  }
  return `${toHex(md5.digest())}-${parts.length}`;
}
