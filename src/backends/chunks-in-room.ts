/** A chunk store on a disk whose reserve is kept: chunks are refused below it, removals may use it. */
import { type ChunkStore, isStorageFull, type SmallWrite } from '../ports/chunk-store.ts';
import { chunkBytes } from '../ports/object-bytes.ts';
import type { DiskRoom } from './disk-room.ts';

/** Other errors than that of a full disk are not changed. */
const yieldToClients = (room: DiskRoom, error: unknown): ReturnType<DiskRoom['yieldToClients']> =>
  isStorageFull(error) ? room.yieldToClients(error) : { error, isWorthRetry: false };

export function chunksInRoom(store: ChunkStore, room: DiskRoom): ChunkStore {
  const failed = (error: unknown): never => {
    throw yieldToClients(room, error).error;
  };
  const small = ({ bytesMax, write }: SmallWrite): SmallWrite => ({
    bytesMax,
    async write(id, bytes, owner) {
      room.take(bytes.length);
      return write(id, bytes, owner).catch(failed);
    },
  });
  return {
    ...store,
    async write(id, source, options) {
      room.take(options.size ?? chunkBytes);
      return store.write(id, source, options).catch(failed);
    },
    ...(store.small === undefined ? {} : { small: small(store.small) }),
    async remove(chunks) {
      await store.remove(chunks).catch((error: unknown) => {
        const way = yieldToClients(room, error);
        if (!way.isWorthRetry) throw way.error;
        return store.remove(chunks);
      });
    },
  };
}
