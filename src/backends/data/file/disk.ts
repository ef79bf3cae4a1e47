/**
 * The system calls of the file store, apart so that a test can make them fail. What the page cache
 * answers is read and written synchronously: a hand-over to the thread pool costs more than the call (on
 * our machine 1.4 µs against 5 for 4 KiB, 26 against 63 for 256 KiB). A disk that makes us wait is not
 * waited for: after a slow call the next ones go to the pool.
 */
import fs from 'node:fs';
import { open } from 'node:fs/promises';
import { promisify } from 'node:util';
import type { Clock } from '../../../ports/clock.ts';

/** A synchronous call that takes longer than this has waited for the disk. */
const slowMs = 1;
/** This many calls after a slow one are handed to the thread pool. */
const patience = 64;
/** Larger pieces take long enough to be worth the hand-over when written: fresh pages cost 2 µs each. */
const writeSyncBytesMax = 128 * 1024;

const readInPool = promisify(fs.read);
const writeInPool = promisify(fs.write);
const fdatasyncInPool = promisify(fs.fdatasync);
const flushed = Promise.resolve();

export interface Disk {
  /** The number of bytes read, less than requested only at the end of the file. */
  read(fd: number, into: Uint8Array, position: number): Promise<number>;
  write(fd: number, bytes: Uint8Array, position: number): Promise<void>;
  /** Durable on return, the file's length included; nothing at all under `SVC_FSYNC=never`. */
  flush(fd: number): Promise<void>;
  /** Makes names created in or removed from a directory durable. */
  flushDirectory(path: string): Promise<void>;
}

export function nodeDisk({ clock, durable }: { readonly clock: Clock; readonly durable: boolean }): Disk {
  const directories = new Map<string, { running: Promise<void>; next: Promise<void> | undefined }>();
  let readsInPool = 0;
  let writesInPool = 0;

  async function flushOnce(path: string): Promise<void> {
    const handle = await open(path, 'r');
    try {
      await handle.sync();
    } finally {
      await handle.close();
    }
  }

  return {
    async read(fd, into, position) {
      if (readsInPool > 0) {
        readsInPool--;
        return (await readInPool(fd, into, 0, into.length, position)).bytesRead;
      }
      const from = clock.elapsed();
      const count = fs.readSync(fd, into, 0, into.length, position);
      if (clock.elapsed() - from > slowMs) readsInPool = patience;
      return count;
    },

    async write(fd, bytes, position) {
      for (let done = 0; done < bytes.length; ) {
        const rest = done === 0 ? bytes : bytes.subarray(done);
        if (writesInPool > 0 || rest.length > writeSyncBytesMax) {
          if (writesInPool > 0) writesInPool--;
          const { bytesWritten } = await writeInPool(fd, rest, 0, rest.length, position + done);
          done += bytesWritten;
        } else {
          const from = clock.elapsed();
          done += fs.writeSync(fd, rest, 0, rest.length, position + done);
          if (clock.elapsed() - from > slowMs) writesInPool = patience;
        }
      }
    },

    flush: (fd) => (durable ? fdatasyncInPool(fd) : flushed),

    /** Callers that arrive during a flush share the next one. */
    async flushDirectory(path) {
      if (!durable) return;
      const state = directories.get(path);
      if (state) {
        const { running } = state;
        state.next ??= running.catch(() => {}).then(() => begin(path));
        return state.next;
      }
      return begin(path);
    },
  };

  function begin(path: string): Promise<void> {
    const running = flushOnce(path);
    const state = { running, next: undefined };
    directories.set(path, state);
    const forget = (): void => {
      if (directories.get(path) === state && state.next === undefined) directories.delete(path);
    };
    running.then(forget, forget);
    return running;
  }
}
