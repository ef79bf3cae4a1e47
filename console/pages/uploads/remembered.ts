/**
 * Multipart uploads that a reload does not end: their ids and the marks of their files, in the browser's database. The parts themselves
 * are at the gateway. A browser may forbid storage; then an upload lasts as long as the page.
 */
import type { FileMark } from './sources.ts';

export interface Remembered {
  readonly id: string;
  /** The access key that began it. */
  readonly owner: string;
  readonly bucket: string;
  readonly key: string;
  readonly name: string;
  readonly type: string;
  readonly mark: FileMark;
  readonly uploadId: string;
  readonly partBytes: number;
  readonly isOverwriting: boolean;
  readonly isPaused: boolean;
  /** It is to be aborted at the gateway, which did not answer yet. */
  readonly isCancelled: boolean;
  readonly handle: FileSystemFileHandle | undefined;
}

const table = 'uploads';

const open = (): Promise<IDBDatabase> =>
  new Promise((resolve, reject) => {
    const request = indexedDB.open('sluice-uploads', 1);
    request.onupgradeneeded = () => request.result.createObjectStore(table, { keyPath: 'id' });
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });

async function ask<T>(mode: IDBTransactionMode, run: (rows: IDBObjectStore) => IDBRequest<T>): Promise<T> {
  const database = await open();
  try {
    return await new Promise<T>((resolve, reject) => {
      const transaction = database.transaction(table, mode);
      const request = run(transaction.objectStore(table));
      transaction.oncomplete = () => resolve(request.result);
      transaction.onerror = () => reject(transaction.error);
      transaction.onabort = () => reject(transaction.error);
    });
  } finally {
    database.close();
  }
}

export async function remember(row: Remembered): Promise<void> {
  // Some browsers cannot store a handle.
  await ask('readwrite', (rows) => rows.put(row)).catch(() =>
    ask('readwrite', (rows) => rows.put({ ...row, handle: undefined })).catch(() => {}),
  );
}

export async function forget(id: string): Promise<void> {
  await ask('readwrite', (rows) => rows.delete(id)).catch(() => {});
}

export async function rememberedOf(owner: string): Promise<readonly Remembered[]> {
  const rows = await ask<Remembered[]>('readonly', (all) => all.getAll()).catch(() => []);
  return rows.filter((row) => row.owner === owner);
}

/** Another tab may send it. @returns how to let it go; undefined where another tab has it */
export function lockUpload(id: string): Promise<(() => void) | undefined> {
  // Browsers have locks on secure addresses only.
  if (navigator.locks === undefined) return Promise.resolve(() => {});
  return new Promise((resolve) => {
    const held = new Promise<void>((letGo) => {
      navigator.locks
        .request(`sluice-upload-${id}`, { signal: AbortSignal.timeout(lockMs) }, () => {
          resolve(letGo);
          return held;
        })
        .catch(() => resolve(undefined));
    });
  });
}

/** A page that was reloaded waits until the one before has let go. */
const lockMs = 2_000;
