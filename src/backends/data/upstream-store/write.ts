/** Stores an extent as one upstream object: in one request where its length is known, in parts where it is not. */
import { gather } from '../../../base/concurrency.ts';
import { fail } from '../../../base/errors.ts';
import { ContentMismatch, type Extent, type WriteOptions } from '../../../ports/object-bytes.ts';
import { etagIn, isMd5, UpstreamError } from './answers.ts';
import { retrying, type UpstreamRequest } from './client.ts';
import type { Connection } from './connection.ts';
import { wrongSha256 } from './hash-verification.ts';
import { ownerHeaders, toKey } from './names.ts';
import { UploadBody } from './upload-body.ts';
import { abortUpload, assemble, beginUpload, type UploadedPart } from './uploads.ts';

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
  readonly signal: AbortSignal | undefined;
}

/** One part is in memory at a time, so it can be sent again. */
async function writeInParts(
  connection: Connection,
  source: AsyncIterable<Uint8Array>,
  object: NewObject,
): Promise<number> {
  const { partMemory } = connection;
  if (!partMemory.take(partBytes))
    throw fail('SlowDown', 'Too many bodies of unknown length are being stored.');
  const parts = cutParts(source, object.signal);
  try {
    const first = (await parts.next()).value ?? new Uint8Array(0);
    if (first.length === partBytes) return await upload(connection, { object, first, parts });
    if (first.length > 0) await putWhole(connection, { ...object, bytes: first });
    return first.length;
  } finally {
    await parts.return(undefined);
    partMemory.give(partBytes);
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
    await assemble(connection, begun, { parts: done, size });
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
  const share = connection.budget?.open(size);
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
    const etag = etagIn(headers);
    if (isMd5(etag, headers)) confirm?.(etag);
    return etag;
  }
  const { sha256, md5 } = claimed;
  const own = md5 === undefined ? request.headers : { ...request.headers, 'content-md5': md5 };
  try {
    const { headers } = await client.ask({ ...request, method: 'PUT', headers: own, sha256 });
    const etag = etagIn(headers);
    if (await hashVerification.holdsFor(headers)) confirm?.(etag);
    return etag;
  } catch (cause) {
    const code = cause instanceof UpstreamError ? cause.code : '';
    if (code === wrongSha256) throw new ContentMismatch('sha256', { cause });
    if (code === 'BadDigest' && md5 !== undefined) throw new ContentMismatch('md5', { cause });
    throw cause;
  }
}
