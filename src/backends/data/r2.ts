/**
 * Chunks in a bucket of Cloudflare R2, through a Worker's binding: an object for each. R2 stores an object whole or not at all, and
 * verifies what it reads.
 */

import { gather } from '../../base/concurrency.ts';
import { textFromBase64, textToBase64 } from '../../base/text/base64.ts';
import type { ChunkStore, StoredChunk } from '../../ports/chunk-store.ts';
import { ChunkMissing, chunkBytes, DataUnavailable, type Owner } from '../../ports/object-bytes.ts';

interface R2Listed {
  readonly key: string;
  readonly size: number;
  readonly customMetadata?: Readonly<Record<string, string>>;
}

/** The part of the binding that is used. */
export interface R2Bucket {
  put(
    key: string,
    value: Uint8Array,
    options: { readonly customMetadata: Readonly<Record<string, string>> },
  ): Promise<unknown>;
  get(
    key: string,
    options: { readonly range: { readonly offset: number; readonly length: number } },
  ): Promise<{ readonly body: ReadableStream<Uint8Array> } | null>;
  head(key: string): Promise<R2Listed | null>;
  delete(keys: string[]): Promise<void>;
  list(options: {
    readonly prefix: string;
    readonly cursor?: string;
    readonly limit?: number;
    readonly include?: ('customMetadata' | 'httpMetadata')[];
  }): Promise<{
    readonly objects: readonly R2Listed[];
    readonly truncated: boolean;
    readonly cursor?: string;
  }>;
}

/** Keys of one deletion. */
const removeMax = 1_000;
const ownerField = 'owner';
/**
 * The key of the owner. R2 takes 2 KiB of metadata, which a long key in percent-encoding would exceed. Chunks without
 * it have it in `owner`.
 */
const keyField = 'key';

/** As ASCII, because metadata are headers. */
const encodeOwner = ({ key, ...rest }: Owner): Readonly<Record<string, string>> => ({
  [ownerField]: encodeURIComponent(JSON.stringify(rest)),
  [keyField]: textToBase64(key),
});

function decodeOwner(metadata: Readonly<Record<string, string>> = {}): Owner {
  try {
    const owner = JSON.parse(decodeURIComponent(metadata[ownerField] ?? '')) as Owner;
    const key = metadata[keyField];
    return key === undefined ? owner : { ...owner, key: textFromBase64(key) };
  } catch {
    return { bucketId: '', key: '', unreadable: true };
  }
}

async function callR2<T>(call: () => Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (cause) {
    throw new DataUnavailable('R2 did not answer', { cause });
  }
}

async function* listUnder(bucket: R2Bucket, prefix: string): AsyncGenerator<R2Listed> {
  for (let cursor: string | undefined; ; ) {
    const from = cursor === undefined ? {} : { cursor };
    const page = await callR2(() => bucket.list({ prefix, include: ['customMetadata'], ...from }));
    yield* page.objects;
    if (!page.truncated) return;
    if (page.cursor === undefined || page.cursor === cursor)
      throw new DataUnavailable('R2 did not say where a listing goes on');
    cursor = page.cursor;
  }
}

async function* readBody(body: ReadableStream<Uint8Array>, signal: AbortSignal | undefined) {
  const reader = body.getReader();
  try {
    for (;;) {
      const { done, value } = await callR2(() => reader.read());
      if (done) return;
      yield value;
      signal?.throwIfAborted();
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

interface R2Options {
  /** Keys of this gateway begin with it. */
  readonly prefix?: string;
}

export function r2Chunks(bucket: R2Bucket, { prefix = 'chunks/' }: R2Options = {}): ChunkStore {
  const pool = { pool: 'r2', namespace: prefix };

  const toChunk = ({ key, size, customMetadata }: R2Listed): StoredChunk => ({
    id: key.slice(prefix.length),
    size,
    owner: decodeOwner(customMetadata),
  });

  return {
    bufferedBytesMax: chunkBytes,

    async write(id, source, { owner, size, signal }) {
      const bytes = await gather(source, { size, signal });
      await callR2(() => bucket.put(prefix + id, bytes, { customMetadata: encodeOwner(owner) }));
      return { id, size: bytes.length };
    },

    async *read({ id }, { start, end }, { signal } = {}) {
      signal?.throwIfAborted();
      const range = { offset: start, length: end - start + 1 };
      const found = await callR2(() => bucket.get(prefix + id, { range }));
      if (found === null) throw new ChunkMissing(`chunk ${id} is not in R2`);
      let left = range.length;
      for await (const bytes of readBody(found.body, signal)) {
        left -= bytes.length;
        yield bytes;
      }
      if (left !== 0) throw new DataUnavailable(`R2 ended chunk ${id} ${left} bytes early`);
    },

    async remove(refs) {
      for (let first = 0; first < refs.length; first += removeMax) {
        const keys = refs.slice(first, first + removeMax).map(({ id }) => prefix + id);
        await callR2(() => bucket.delete(keys));
      }
    },

    async *list(...prefixes) {
      for (const start of prefixes.length === 0 ? [''] : prefixes)
        for await (const listed of listUnder(bucket, prefix + start)) yield toChunk(listed);
    },

    async named(ids) {
      const found = await Promise.all(ids.map((id) => callR2(() => bucket.head(prefix + id))));
      return found.flatMap((each) => (each === null ? [] : [toChunk(each)]));
    },

    pools: [pool],

    async health() {
      await callR2(() => bucket.list({ prefix, limit: 1 }));
      // R2 reports no usage to a binding.
      return {
        status: 'ok',
        problems: [],
        pools: [{ ...pool, state: 'reachable', bytesUsed: 0, chunkCount: 0 }],
      };
    },

    async close() {},
  };
}
