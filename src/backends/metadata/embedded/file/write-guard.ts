/**
 * Keeps lmdb from transactions that it cannot write, because lmdb 3.5.6 does harm when it fails to:
 *
 * - For a page that it cannot write it formats a message into 100 bytes without a bound (`mdb_page_flush` in mdb.c), which
 *   may overwrite the heap of the process. The file system is therefore asked before each transaction.
 * - After a meta page that it cannot write, the next transaction never begins and keeps a thread of Node's pool. The store
 *   therefore commits nothing more after a failure that this guard did not foresee, and the process has to be replaced.
 */
import { accessSync, closeSync, constants, fstatSync, openSync, writeSync } from 'node:fs';
import {
  isStorageFull,
  isStorageReadOnly,
  StorageFull,
  StorageReadOnly,
} from '../../../../ports/chunk-store.ts';
import { StoreUnavailable } from '../../../../ports/metadata-store.ts';
import type { DiskRoom } from '../../../disk-room.ts';
import { dataFile, latestMeta } from './meta-page.ts';

export interface WriteGuardOptions {
  readonly directory: string;
  readonly room?: DiskRoom | undefined;
  /** Called once, when the store will not commit again: the process should be replaced. */
  readonly onBroken?: ((cause: unknown) => void) | undefined;
}

/** The capacity of lmdb's buffer, without the terminating zero. */
const messageBytesMax = 99;
const nothing = new Uint8Array(1);
const writeMessage = 'Attempting to write page';

export class WriteGuard {
  readonly #options: WriteGuardOptions;
  readonly #path: string;
  #descriptor: number | undefined;
  #broken: StoreUnavailable | undefined;

  constructor(options: WriteGuardOptions) {
    this.#options = options;
    this.#path = dataFile(options.directory);
  }

  /** Why lmdb must not be given a transaction now. */
  failure(): Error | undefined {
    if (this.#broken !== undefined) return this.#broken;
    try {
      accessSync(this.#path, constants.W_OK);
      // ext4 after an error of the disk grants access and refuses writes: one of no bytes finds out and changes nothing.
      this.#descriptor ??= openSync(this.#path, 'r+');
      writeSync(this.#descriptor, nothing, 0, 0, 0);
    } catch (cause) {
      if (isStorageFull(cause)) return cause as Error;
      if (isStorageReadOnly(cause))
        return new StorageReadOnly('the file system of the metadata is read-only', { cause });
    }
    return undefined;
  }

  /** Inside a transaction on a full disk. @throws StorageFull */
  ensureHeadroom(): void {
    const { room } = this.#options;
    if (room !== undefined && this.#descriptor !== undefined) ensureHeadroom(this.#descriptor, room);
  }

  close(): void {
    if (this.#descriptor !== undefined) closeSync(this.#descriptor);
    this.#descriptor = undefined;
  }

  /**
   * Judges a transaction that failed.
   * @returns the error for its callers
   */
  classify(error: unknown): Error {
    const isOfSystem = readErrno(error) > 0;
    const isFull = isStorageFull(error);
    const failure = isOfSystem && !isFull ? StoreUnavailable : Error;
    const reported = new failure('the metadata store could not commit', { cause: error });
    if ((isOfSystem && !isFull) || hasOverrun(error)) this.#break(reported);
    return reported;
  }

  #break(cause: Error): void {
    if (this.#broken !== undefined) return;
    this.#broken = new StoreUnavailable('the metadata store does not commit until this process is replaced', {
      cause,
    });
    this.#options.onBroken?.(cause);
  }
}

/** lmdb's own codes are negative. */
function readErrno(error: unknown): number {
  const { code } = (error ?? {}) as { readonly code?: unknown };
  return typeof code === 'number' ? code : 0;
}

/** Whether lmdb's message was longer than its buffer, so that heap memory after it was overwritten. */
export function hasOverrun(error: unknown): boolean {
  const depthMax = 4;
  let cause = error;
  for (let depth = 0; depth < depthMax && cause instanceof Error; depth += 1) {
    const at = cause.message.indexOf(writeMessage);
    if (at >= 0 && cause.message.length - at > messageBytesMax) return true;
    cause = cause.cause;
  }
  return false;
}

// Blocks behind the last page of lmdb's file. On a full disk a deletion needs new pages, and space that the ballast gives back may be taken by
// another program first. The space is therefore turned into blocks of the file itself, where lmdb writes its next pages without a new block.

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
function ensureHeadroom(descriptor: number, room: Pick<DiskRoom, 'spend'>): void {
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
