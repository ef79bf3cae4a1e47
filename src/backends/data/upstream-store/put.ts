/** Stores a body of known length in one request: an object, or a part of an upload. */

import { gather } from '../../../base/gather.ts';
import { ContentMismatch, type WriteOptions } from '../../../ports/storage/object-bytes.ts';
import type { UpstreamRequest } from './client/client.ts';
import type { Connection } from './client/connection.ts';
import { etagIn, isMd5 } from './client/etag.ts';
import { retrying } from './client/retry.ts';
import { UpstreamError } from './client/upstream-error.ts';
import { UploadBody } from './uploads/upload-body.ts';
import { wrongSha256 } from './vouching.ts';

/** A body of at most so many bytes is gathered first: then it can be sent again. */
export const smallMax = 128 * 1024;

export interface Put extends Pick<WriteOptions, 'confirm' | 'claimed'> {
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

export interface PutWhole extends Omit<Put, 'source' | 'size'> {
  readonly bytes: Uint8Array;
}

export const putWhole = (connection: Connection, { bytes, ...request }: PutWhole): Promise<string> =>
  // A name is used once, so the second of two equal requests changes nothing.
  retrying(connection, { signal: request.signal }, () => send(connection, { ...request, body: bytes }));

type Sent = Omit<Put, 'source' | 'size'> & Pick<UpstreamRequest, 'body'>;

async function send(connection: Connection, { confirm, claimed, ...request }: Sent): Promise<string> {
  const { client, vouching } = connection;
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
    if (await vouching.holdsFor(headers)) confirm?.(etag);
    return etag;
  } catch (cause) {
    const code = cause instanceof UpstreamError ? cause.code : '';
    if (code === wrongSha256) throw new ContentMismatch('sha256', { cause });
    if (code === 'BadDigest' && md5 !== undefined) throw new ContentMismatch('md5', { cause });
    throw cause;
  }
}
