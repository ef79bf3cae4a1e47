/** Stores an extent as one upstream object: in one request where its length is known, in parts where it is not. */

import { gather } from '../../../base/concurrency.ts';
import { fail } from '../../../base/errors.ts';
import { fromHex } from '../../../base/text/hex.ts';
import { decodeUtf8 } from '../../../base/text/utf8.ts';
import { compositeEtag, type Hasher } from '../../../ports/cryptography.ts';
import {
  ContentMismatch,
  type Extent,
  PartsChanged,
  UploadGone,
  type WriteOptions,
} from '../../../ports/object-bytes.ts';
import { escapeText } from '../../../protocol/formats/codec.ts';
import { begunUpload, etagIn, isGone, isMd5, readAnswer, requireEtag, UpstreamError } from './answers.ts';
import { codeIn, retrying, type UpstreamRequest } from './client.ts';
import { wrongSha256 } from './hash-verification.ts';
import { type Connection, ownerHeaders, ownerIn, toKey } from './names.ts';
import { UploadBody } from './upload-body.ts';

/** The most that an upstream takes in one request. */
export const singleMax = 5 * 1024 ** 3;
/** The least that a part may have; as many of them as an upload may have are ten times `singleMax`. */
const partBytes = 5 * 1024 * 1024;

export async function writeExtent(
  connection: Connection,
  source: AsyncIterable<Uint8Array>,
  { cluster, id, owner, size, confirm, claimed, signal }: WriteOptions,
): Promise<Extent> {
  const object: NewObject = {
    key: toKey(connection.prefix, id),
    headers: ownerHeaders(owner),
    bucketId: owner.bucketId,
    confirm,
    claimed,
    signal,
  };
  if (size === undefined || size > singleMax) {
    const written = await writeInParts(connection, source, object);
    return { cluster, id, size: written };
  }
  // An empty extent is stored as no object: only check that the source is empty.
  if (size === 0) await gather(source, { size, signal });
  else await put(connection, { ...object, source, size });
  return { cluster, id, size };
}

interface NewObject extends Pick<WriteOptions, 'confirm' | 'claimed'> {
  readonly key: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly bucketId: string;
  readonly signal: AbortSignal | undefined;
}

/** One part is in memory at a time, so it can be sent again. */
async function writeInParts(
  connection: Connection,
  source: AsyncIterable<Uint8Array>,
  object: NewObject,
): Promise<number> {
  const { partMemory } = connection;
  if (!partMemory.take(partBytes, object.bucketId))
    throw fail('SlowDown', 'Too many bodies of unknown length are being stored.');
  const parts = cutParts(source, object.signal);
  try {
    const first = (await parts.next()).value ?? new Uint8Array(0);
    if (first.length === partBytes) return await upload(connection, { object, first, parts });
    if (first.length > 0) await putWhole(connection, { ...object, bytes: first });
    return first.length;
  } finally {
    await parts.return(undefined);
    partMemory.give(partBytes, object.bucketId);
  }
}

/** All in one buffer: each is valid until the next is requested. */
async function* cutParts(
  source: AsyncIterable<Uint8Array>,
  signal: AbortSignal | undefined,
): AsyncGenerator<Uint8Array, undefined> {
  const buffer = new Uint8Array(partBytes);
  let filled = 0;
  for await (const piece of source) {
    for (let rest = piece; rest.length > 0; ) {
      signal?.throwIfAborted();
      const fitting = rest.subarray(0, partBytes - filled);
      buffer.set(fitting, filled);
      filled += fitting.length;
      rest = rest.subarray(fitting.length);
      if (filled < partBytes) continue;
      yield buffer;
      filled = 0;
    }
  }
  if (filled > 0) yield buffer.subarray(0, filled);
}

async function upload(
  connection: Connection,
  input: {
    readonly object: NewObject;
    readonly first: Uint8Array;
    readonly parts: AsyncIterable<Uint8Array>;
  },
): Promise<number> {
  const { key, headers, signal } = input.object;
  const begun = await beginUpload(connection, { key, headers });
  try {
    const done: UploadedPart[] = [];
    let size = 0;
    const send = async (bytes: Uint8Array): Promise<void> => {
      const part = done.length + 1;
      const query = [
        ['partNumber', String(part)],
        ['uploadId', begun.uploadId],
      ] as const;
      done.push({ part, etag: await putWhole(connection, { key, query, bytes, signal }) });
      size += bytes.length;
    };
    await send(input.first);
    for await (const bytes of input.parts) await send(bytes);
    await assemble(connection, begun, { parts: done, size, isOnlyList: true });
    return size;
  } catch (cause) {
    // The caller queues the extent, which removes what this leaves; report the first error.
    await abortUpload(connection, begun).catch(() => {});
    throw cause;
  }
}

// Stores a body of known length in one request: an object, or a part of an upload.

/** A body of at most so many bytes is gathered first: then it can be sent again. */
export const smallMax = 128 * 1024;

interface Put extends Pick<WriteOptions, 'confirm' | 'claimed'> {
  readonly key: string;
  readonly query?: UpstreamRequest['query'] | undefined;
  readonly headers?: UpstreamRequest['headers'] | undefined;
  readonly source: AsyncIterable<Uint8Array>;
  readonly size: number;
  readonly signal?: AbortSignal | undefined;
}

/** @returns the ETag, without quotes */
export async function put(connection: Connection, { source, size, ...request }: Put): Promise<string> {
  const { signal } = request;
  if (size <= smallMax)
    return putWhole(connection, { ...request, bytes: await gather(source, { size, signal }) });
  const share = connection.budget?.open(size, { account: connection.account });
  const body = new UploadBody(source, { size, share, signal });
  try {
    await share?.take(signal);
    const attempt = () => send(connection, { ...request, body });
    return await retrying(connection, { signal, isRepeatable: () => !body.isBegun }, attempt);
  } finally {
    share?.close();
    await body.stop();
  }
}

interface PutWhole extends Omit<Put, 'source' | 'size'> {
  readonly bytes: Uint8Array;
}

const putWhole = (connection: Connection, { bytes, ...request }: PutWhole): Promise<string> =>
  // A name is used once, so the second of two equal requests changes nothing.
  retrying(connection, { signal: request.signal }, () => send(connection, { ...request, body: bytes }));

type Sent = Omit<Put, 'source' | 'size'> & Pick<UpstreamRequest, 'body'>;

async function send(connection: Connection, { confirm, claimed, ...request }: Sent): Promise<string> {
  const { client, hashVerification } = connection;
  if (claimed === undefined) {
    const { headers } = await client.ask({ ...request, method: 'PUT' });
    const etag = requireEtag(headers, `PUT ${request.key}`);
    if (isMd5(etag, headers)) confirm?.(etag);
    return etag;
  }
  const { sha256, md5 } = claimed;
  const own = md5 === undefined ? request.headers : { ...request.headers, 'content-md5': md5 };
  try {
    const { headers } = await client.ask({ ...request, method: 'PUT', headers: own, sha256 });
    const etag = requireEtag(headers, `PUT ${request.key}`);
    if (await hashVerification.holdsFor(headers)) confirm?.(etag);
    return etag;
  } catch (cause) {
    const code = cause instanceof UpstreamError ? cause.code : '';
    if (code === wrongSha256) throw new ContentMismatch('sha256', { cause });
    if (code === 'BadDigest' && md5 !== undefined) throw new ContentMismatch('md5', { cause });
    throw cause;
  }
}

// Multipart uploads of an upstream: begun, listed, completed, aborted.

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

interface UploadedPart {
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
  if (!decodeUtf8(bytes).includes('CompleteMultipartUploadResult'))
    throw new UpstreamError(`the upstream did not say that ${key} is complete`);
}

/** A missing upload is no error. */
export const abortUpload = (connection: Connection, { key, uploadId }: UpstreamUpload): Promise<void> =>
  remove(connection, { key, query: [['uploadId', uploadId]] }, ['NoSuchUpload', 'NoSuchKey']);

export const removeObject = (connection: Connection, key: string): Promise<void> =>
  remove(connection, { key }, ['NoSuchKey']);

const remove = (
  connection: Connection,
  request: Pick<UpstreamRequest, 'key' | 'query'>,
  goneCodes: readonly string[],
): Promise<void> =>
  retrying(connection, {}, async () => {
    try {
      const { bytes } = await connection.client.ask({ ...request, method: 'DELETE' });
      if (bytes.length > 0)
        throw new UpstreamError(`DELETE ${request.key} was answered by a page, not as an S3 service does`);
    } catch (cause) {
      if (!isGone(cause, ...goneCodes)) throw cause;
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
      const headers = await readHead(connection, key);
      return { size: Number(headers['content-length']), etag: etagIn(headers), headers };
    } catch (cause) {
      if (isGone(cause, 'NoSuchKey')) return undefined;
      throw cause;
    }
  });

/** A refusal of HEAD has no code, so a proxy's looks like the upstream's: a GET of one byte is refused with a code. */
export async function readHead(
  { client }: Pick<Connection, 'client'>,
  key: string,
  signal?: AbortSignal,
): Promise<Readonly<Record<string, string>>> {
  try {
    const { headers } = await client.ask({ method: 'HEAD', key, signal });
    requireEtag(headers, `HEAD ${key}`);
    return headers;
  } catch (cause) {
    const { status } = cause instanceof UpstreamError ? cause : { status: 0 };
    if (status !== 404 && status !== 400) throw cause;
    const { body } = await client.send({ method: 'GET', key, headers: { range: 'bytes=0-0' }, signal });
    body.destroy();
    throw cause;
  }
}

// Completes an upload so that the request can be repeated, whatever its first outcome was.

const refusedParts: ReadonlySet<string> = new Set(['InvalidPart', 'InvalidPartOrder', 'EntityTooSmall']);

interface Assembly {
  readonly parts: readonly UploadedPart[];
  readonly size: number;
  /** Whether an object under the name can only be of these parts. */
  readonly isOnlyList: boolean;
}

/**
 * @throws PartsChanged where the upstream has other parts, UploadGone where it has neither the upload nor what these
 *   parts make
 */
export async function assemble(
  connection: Connection,
  upload: UpstreamUpload,
  { parts, size, isOnlyList }: Assembly,
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
      if (stored?.size === size) {
        if (stored.etag === etagOfParts(connection.hasher, parts)) return;
        if (isOnlyList && !isMd5OfParts(stored) && ownerIn(stored.headers) !== undefined) return;
      }
      throw new UploadGone(`the upstream has no upload ${upload.uploadId}`, { cause });
    }
  });
}

/** Whether the ETag of an object in parts says which parts those are. */
const isMd5OfParts = ({ etag, headers }: StoredObject): boolean =>
  /^[0-9a-f]{32}-\d+$/.test(etag) && isMd5(etag.slice(0, 32), headers);

/** The ETag that the upstream gives an object in parts, where those of the parts are their MD5; undefined where they are not. */
const etagOfParts = (hasher: Hasher, parts: readonly UploadedPart[]): string | undefined =>
  parts.every(({ etag }) => /^[0-9a-f]{32}$/.test(etag))
    ? compositeEtag(
        hasher,
        parts.map(({ etag }) => fromHex(etag)),
      )
    : undefined;
