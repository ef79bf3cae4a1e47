/** Chunks in memory, the default data backend and the model that the others are compared with; and `noop`, which stores nothing. */
import { gather } from '../../base/concurrency.ts';
import type { ChunkStore, StoredChunk } from '../../ports/chunk-store.ts';
import { ChunkMissing } from '../../ports/object-bytes.ts';

const yieldBytes = 256 * 1024;

export function memoryChunks(): ChunkStore {
  const chunks = new Map<string, StoredChunk & { readonly bytes: Uint8Array }>();
  let bytesUsed = 0;

  return {
    async write(id, source, { owner, size, signal }) {
      const bytes = await gather(source, { size, signal });
      if (chunks.has(id)) throw new Error(`chunk ${id} is stored already: ids are never reused`);
      chunks.set(id, { id, size: bytes.length, owner: { ...owner }, bytes });
      bytesUsed += bytes.length;
      return { id, size: bytes.length };
    },

    async *read({ id }, range, options = {}) {
      const bytes = chunks.get(id)?.bytes;
      if (!bytes) throw new ChunkMissing(`chunk ${id} is not in memory`);
      for (let at = range.start; at <= range.end; at += yieldBytes) {
        options.signal?.throwIfAborted();
        yield bytes.subarray(at, Math.min(at + yieldBytes, range.end + 1));
      }
    },

    async remove(refs) {
      for (const { id } of refs) {
        bytesUsed -= chunks.get(id)?.size ?? 0;
        chunks.delete(id);
      }
    },

    async *list(...prefixes) {
      for (const { id, size, owner } of chunks.values()) {
        if (prefixes.length === 0 || prefixes.some((prefix) => id.startsWith(prefix)))
          yield { id, size, owner };
      }
    },

    named: async (ids) =>
      ids.flatMap((id) => {
        const { size, owner } = chunks.get(id) ?? {};
        return size === undefined || owner === undefined ? [] : [{ id, size, owner }];
      }),

    async health() {
      const pool = {
        pool: 'memory',
        namespace: '',
        state: 'ok',
        bytesUsed,
        chunkCount: chunks.size,
      } as const;
      return { status: 'ok', problems: [], pools: [pool] };
    },

    async close() {},
  };
}

/** What `noop` reads. */
const zeros = new Uint8Array(256 * 1024);

/** Stores nothing and reads zeros: the bench's floor, which shows the handlers' own cost. */
export function noopChunks(): ChunkStore {
  return {
    async write(id, source, { signal }) {
      let size = 0;
      for await (const piece of source) {
        signal?.throwIfAborted();
        size += piece.length;
      }
      return { id, size };
    },

    small: {
      bytesMax: Number.POSITIVE_INFINITY,
      write: async (id, { length }) => ({ id, size: length }),
    },

    async *read(_chunk, range, options = {}) {
      for (let left = range.end - range.start + 1; left > 0; left -= zeros.length) {
        options.signal?.throwIfAborted();
        yield left < zeros.length ? zeros.subarray(0, left) : zeros;
      }
    },

    async remove() {},

    async *list() {},

    async health() {
      const pool = { pool: 'noop', namespace: '', state: 'ok', bytesUsed: 0, chunkCount: 0 } as const;
      return { status: 'ok', problems: [], pools: [pool] };
    },

    async close() {},
  };
}
