/**
 * Blocks behind the last page of lmdb's file. On a full disk a deletion needs new pages, and space that the ballast gives back may be taken by
 * another program first. The space is therefore turned into blocks of the file itself, where lmdb writes its next pages without a new block.
 */
import { fstatSync, writeSync } from 'node:fs';
import { StorageFull } from '../../../../ports/storage/storage-room.ts';
import type { DiskRoom } from '../../../disk-room/disk-room.ts';
import { latestMeta } from './meta-page.ts';

/** The transactions of many deletions: the pages that one frees are used again by the second after it. */
const targetBytes = 2 * 1024 * 1024;
/** Below this the file is extended. */
const lowBytes = 512 * 1024;
/** What the transaction of a deletion may need. */
const bytesMin = 64 * 1024;
const piece = new Uint8Array(64 * 1024);

/**
 * Call it inside a write transaction: no other process may use the pages behind the last one meanwhile.
 * @throws StorageFull where there is not enough space for a deletion
 */
export function ensureHeadroom(descriptor: number, room: Pick<DiskRoom, 'spend'>): void {
  const meta = latestMeta(descriptor);
  if (meta === undefined) return;
  const end = (meta.lastPage + 1) * meta.pageBytes;
  let size = Math.max(end, fstatSync(descriptor).size);
  if (size - end >= lowBytes) return;
  room.spend();
  try {
    while (size - end < targetBytes) size += writeSync(descriptor, piece, 0, piece.length, size);
  } catch {
    // The disk is full: what was written counts.
  }
  if (size - end < bytesMin)
    throw new StorageFull(`metadata: no space is left for a deletion (${size - end} bytes)`);
}
