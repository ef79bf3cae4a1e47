/** Stores nothing and reads zeros: the bench's floor, which shows the handlers' own cost. */
import type { ChunkStore } from '../../ports/chunk-store.ts';

const zeros = new Uint8Array(256 * 1024);

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
      return { status: 'ok', complaints: [], pools: [pool] };
    },

    async close() {},
  };
}
