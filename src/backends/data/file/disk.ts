/**
 * The files of the file store: the system calls, and the layout of a data directory (below). The calls are apart so that a test can make
 * them fail. What the page cache answers is read and written synchronously, because a hand-over to the thread pool costs more than the call
 * (5 µs against 1.4 for 4 KiB, 63 against 26 for 256 KiB). After a slow call, the next calls run in the thread pool.
 */
import fs from 'node:fs';
import { open } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import type { Clock } from '../../../ports/clock.ts';
import { ChunkDamaged, ChunkMissing, DataUnavailable, type Owner } from '../../../ports/object-bytes.ts';
import type { Random } from '../../../ports/random.ts';

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

// The layout of a data directory:
//
// segments/<segment>.seg    small chunks one after another; appended to by the process that created it only
//          <segment>.open   exists while that process may append; removing it seals the segment
//          <segment>.dead   the offsets of removed chunks, appended to by every process
//          <segment>.sum    a summary of a sealed segment; can be computed again
//          <segment>.lock   a process compacts it
// large/<first of id>/<id>  a chunk in a file of its own
// temporary/                files that are being written; their names say which process does (maker.ts)

/** Only the server's account may read the bytes of tenants, also in a directory that was created with wider modes. */
export const fileMode = 0o600;
export const directoryMode = 0o700;

/** Ids sort by time: the first characters keep a directory's files, and a listing's, together. */
const groupCharacters = 5;

export interface Layout {
  readonly segments: string;
  readonly large: string;
  readonly temporary: string;
}

export function makeLayout(directory: string): Layout {
  const layout = {
    segments: join(directory, 'segments'),
    large: join(directory, 'large'),
    temporary: join(directory, 'temporary'),
  };
  for (const path of [directory, ...Object.values(layout)]) {
    fs.mkdirSync(path, { recursive: true, mode: directoryMode });
    narrow(path);
  }
  return layout;
}

/** Takes the rights of group and others from a directory that existed before. */
function narrow(path: string): void {
  const { mode } = fs.statSync(path);
  if ((mode & 0o077) === 0) return;
  try {
    fs.chmodSync(path, directoryMode);
  } catch (error) {
    // Another account owns the directory; its files are private all the same.
    if ((error as { code?: string }).code !== 'EPERM') throw error;
  }
}

type SegmentFile = 'seg' | 'open' | 'dead' | 'sum' | 'lock';

export const segmentPath = (layout: Layout, segment: string, file: SegmentFile): string =>
  `${layout.segments}/${segment}.${file}`;

/** Sorts by time of creation and is never drawn twice. */
export function newName({ clock, random }: { readonly clock: Clock; readonly random: Random }): string {
  let drawn = '';
  for (const byte of random.bytes(8)) drawn += (byte & 31).toString(32);
  return Math.floor(clock.now()).toString(32).padStart(9, '0') + drawn;
}

export const largeGroup = (id: string): string => id.slice(0, groupCharacters);
export const largePath = (layout: Layout, id: string): string => `${layout.large}/${largeGroup(id)}/${id}`;

/** Whether a group of large chunks can contain ids with this prefix. */
export const groupMatches = (group: string, prefix: string): boolean =>
  group.startsWith(prefix.slice(0, groupCharacters));

/** A small chunk's locator: segment, offset and header length, so that one read gets it all. */
export interface Place {
  readonly segment: string;
  readonly offset: number;
  readonly headerBytes: number;
}

export const formatPlace = ({ segment, offset, headerBytes }: Place): string =>
  `${segment}.${offset.toString(36)}.${headerBytes.toString(36)}`;

export function parsePlace(at: string): Place {
  const first = at.indexOf('.');
  const second = at.indexOf('.', first + 1);
  const offset = Number.parseInt(at.slice(first + 1, second), 36);
  const headerBytes = Number.parseInt(at.slice(second + 1), 36);
  const segment = at.slice(0, first);
  // The locator comes from metadata, but it becomes part of a path: validate it.
  if (!/^[0-9a-v]+$/.test(segment) || !(offset >= 0) || !(headerBytes > 0)) {
    throw new Error(`${JSON.stringify(at)} is not a chunk's place`);
  }
  return { segment, offset, headerBytes };
}

export const isMissing = (error: unknown): boolean => (error as { code?: string } | null)?.code === 'ENOENT';
/** Whether there is a file. `existsSync` would answer false for a device that fails, and a segment would be taken for removed or sealed. */
export const isThere = (path: string): boolean => fs.statSync(path, { throwIfNoEntry: false }) !== undefined;
export const isTaken = (error: unknown): boolean => (error as { code?: string } | null)?.code === 'EEXIST';

/** Tells a file from a copy of it, by one system call. */
export interface FileIdentity {
  readonly dev: number;
  readonly ino: number;
}

/** Whether a path leads to this file: it was neither removed nor replaced. */
export function leadsTo(path: string, { dev, ino }: FileIdentity): boolean {
  const found = fs.statSync(path, { throwIfNoEntry: false });
  return found?.ino === ino && found.dev === dev;
}

/**
 * What the system says of a device that fails, of a mount or a server of files that is gone, of a root that is no directory any more, and
 * of a file system that the kernel has made read-only.
 */
const unavailableCodes: ReadonlySet<unknown> = new Set([
  'EIO',
  'ENODEV',
  'ENOTDIR',
  'ENXIO',
  'EREMOTEIO',
  'EROFS',
  'ESTALE',
]);

/** Whether the directories of the store are there; they are not where a disk is unmounted. */
export const isPresent = ({ segments, large, temporary }: Layout): boolean =>
  [segments, large, temporary].every((path) => {
    try {
      return fs.statSync(path).isDirectory();
    } catch {
      return false;
    }
  });

const storeUnavailable = (layout: Layout, cause?: unknown): DataUnavailable => {
  const reason = cause instanceof Error ? cause.message : 'it is missing or not mounted';
  return new DataUnavailable(`the chunk store at ${dirname(layout.segments)} is unavailable: ${reason}`, {
    cause,
  });
};

/** The owner of bytes whose record cannot be read. */
export const unreadableOwner: Owner = { bucketId: '', key: '', unreadable: true };

/** Whether an error concerns one file of a store that is there: the disk cannot read its sectors, or it is damaged. */
export const isOfOneFile = (layout: Layout, error: unknown): boolean =>
  error instanceof ChunkDamaged || ((error as { code?: string } | null)?.code === 'EIO' && isPresent(layout));

/** @throws DataUnavailable where a missing file would say nothing of the chunk, because the whole store is missing */
export function assertPresent(layout: Layout): void {
  if (!isPresent(layout)) throw storeUnavailable(layout);
}

/**
 * Throws `DataUnavailable` in place of an error of a store that is away, and the error itself otherwise: a full disk and damaged or missing
 * chunks of a store that is there.
 */
export function rethrowFailure(layout: Layout, error: unknown): never {
  const { code } = Object(error) as { readonly code?: unknown };
  if (unavailableCodes.has(code)) throw storeUnavailable(layout, error);
  if ((isMissing(error) || error instanceof ChunkMissing) && !isPresent(layout))
    throw storeUnavailable(layout, error);
  throw error;
}

/** Segments present, oldest first. */
export function segmentNames(layout: Layout): string[] {
  const names: string[] = [];
  for (const name of fs.readdirSync(layout.segments))
    if (name.endsWith('.seg')) names.push(name.slice(0, -4));
  return names.sort();
}
