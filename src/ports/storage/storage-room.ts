/** Free disk space. A write is refused below a reserve, so that deletions always find space for their rows. */

/** The disk is full, or its reserve has been reached: deletions work, and further data is refused. */
export class StorageFull extends Error {}

/** The file system accepts no writes; stored data can be read. */
export class StorageReadOnly extends Error {}

/** The free space of a component. */
export interface RoomState {
  /** `metadata`, or `data:<cluster>`. */
  readonly component: string;
  readonly freeBytes: number;
  /** Of the whole disk; absent while it is not known. */
  readonly sizeBytes?: number;
  /** The reason why the component takes no more data; absent when it does. */
  readonly complaint?: string;
}

export interface StorageRoom {
  /** Every component whose disk this process can measure; none for stores on other machines. */
  states(): readonly RoomState[];
  /** The reason why nothing more can be stored, when metadata or every data cluster has a complaint. */
  complaint(): string | undefined;
}

/** ENOSPC and EDQUOT, as Node calls them and as lmdb numbers them. */
const fullCodes: ReadonlySet<unknown> = new Set(['ENOSPC', 'EDQUOT', 28, 122]);
/** EROFS, likewise. */
const readOnlyCodes: ReadonlySet<unknown> = new Set(['EROFS', 30]);
/** The largest number of nested causes that are followed. */
const depthMax = 8;

/** Whether an error, or one of its causes, says that a disk is full. */
export const isStorageFull = (error: unknown): boolean => says(error, StorageFull, fullCodes);

/** Whether an error, or one of its causes, says that a file system is read-only. */
export const isStorageReadOnly = (error: unknown): boolean => says(error, StorageReadOnly, readOnlyCodes);

function says(error: unknown, kind: typeof StorageFull, codes: ReadonlySet<unknown>): boolean {
  let cause = error;
  for (let depth = 0; depth < depthMax && cause instanceof Error; depth += 1) {
    if (cause instanceof kind || codes.has((cause as { code?: unknown }).code)) return true;
    cause = cause.cause;
  }
  return false;
}
