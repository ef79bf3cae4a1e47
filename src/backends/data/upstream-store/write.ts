/** Stores an extent as one upstream object: in one request where its length is known, in parts where it is not. */

import { gather } from '../../../base/gather.ts';
import { fail } from '../../../errors/refusal.ts';
import type { Extent, WriteOptions } from '../../../ports/storage/object-bytes.ts';
import type { Connection } from './client/connection.ts';
import { ownerHeaders, toKey } from './names.ts';
import { put, putWhole } from './put.ts';
import { assemble } from './uploads/assemble.ts';
import { abortUpload, beginUpload, type UploadedPart } from './uploads/uploads.ts';

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
  given: {
    readonly object: NewObject;
    readonly first: Uint8Array;
    readonly parts: AsyncIterable<Uint8Array>;
  },
): Promise<number> {
  const { key, headers, signal } = given.object;
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
    await send(given.first);
    for await (const bytes of given.parts) await send(bytes);
    await assemble(connection, begun, { parts: done, size });
    return size;
  } catch (cause) {
    // The caller queues the extent, which removes what this leaves; report the first error.
    await abortUpload(connection, begun).catch(() => {});
    throw cause;
  }
}
