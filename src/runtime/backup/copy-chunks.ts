/**
 * Copies the chunks of a `file` cluster to another directory, also while a gateway writes. Chunks never change: a file that the target has
 * is copied again only when it grew or was compacted. Files that say which process writes or compacts a segment, and summaries, are left
 * out: the segments of a copy have no writer, and a summary can be computed again.
 */
import { constants } from 'node:fs';
import { copyFile, open, opendir, rename, rm, stat, utimes } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { inParallel } from '../../base/concurrency.ts';
import { amountLeft } from '../../domain/common/task-progress.ts';
import type { TaskAmount } from '../../metadata/records/tasks.ts';
import { makePrivateDirectory } from '../secret-file.ts';

/** The mark of the installation, which each cluster has. */
export const markName = 'installation.json';
/** Copies at a time. */
const copiesAtOnce = 4;
/** File systems and system calls round times. */
const sameMs = 2;
/** Names that are held in memory at a time. */
const namesAtOnce = 1_000;
const readBytes = 1024 * 1024;

export interface Copied {
  files: number;
  bytes: number;
  /** Files that the target had already. */
  kept: number;
  keptBytes: number;
}

const isCopied = (name: string): boolean => !/\.(?:open|lock|sum|part)$/.test(name);
/** A segment before the list of its removed chunks, which may name chunks that were appended meanwhile. */
const folders = ['segments', 'large'] as const;

/** @throws the signal's reason */
export async function copyChunks(
  from: string,
  to: string,
  {
    signal,
    copied,
    unreadable,
    report = () => {},
  }: {
    readonly signal: AbortSignal;
    /** Changes with each file. */
    readonly copied: Copied;
    /** Gets the paths of files that the disk cannot read. Absent: the first of them ends the copy. */
    readonly unreadable?: string[];
    /** Called after each file. */
    readonly report?: () => void;
  },
): Promise<void> {
  await makePrivateDirectory(to);
  for (const folder of folders)
    for await (const batch of batches(join(from, folder), folder)) {
      await inParallel(copiesAtOnce, batch, async (path) => {
        signal.throwIfAborted();
        await copyOne(join(from, path), join(to, path), copied).catch(async (cause: unknown) => {
          if (unreadable === undefined || !(await isUnreadable(join(from, path), cause))) throw cause;
          await rm(join(to, `${path}.part`), { force: true });
          unreadable.push(join(from, path));
        });
        report();
      });
      for (const directory of new Set(batch.map((path) => dirname(join(to, path)))))
        await flush(directory).catch(ignoreMissing);
    }
  await copyOne(join(from, markName), join(to, markName), copied);
}

/** The files that a copy of the chunks copies or finds, and their bytes. */
export async function measureChunks(
  sources: readonly string[],
  signal: AbortSignal,
): Promise<Required<TaskAmount>> {
  let [count, bytes] = [0, 0];
  for (const from of sources)
    for (const folder of folders)
      for await (const batch of batches(join(from, folder), folder)) {
        signal.throwIfAborted();
        const sizes = await inParallel(copiesAtOnce, batch, (path) =>
          fileSize(join(from, path)).catch(ignoreFailedDisk),
        );
        for (const size of sizes) {
          count += size === undefined ? 0 : 1;
          bytes += size ?? 0;
        }
      }
  return { count, bytes };
}

/** Files that a copy has copied or found, and what is left of all of them. */
export function measureCopy(copied: Copied, all: Required<TaskAmount>) {
  const done = { count: copied.files + copied.kept, bytes: copied.bytes + copied.keptBytes };
  return { done, left: amountLeft(all, done) };
}

/** Removes files that the source no longer has. @throws where the source itself is gone, such as a disk that is not mounted any more */
export async function pruneChunks(from: string, to: string, signal: AbortSignal): Promise<number> {
  await stat(join(from, markName));
  let removed = 0;
  for (const folder of folders)
    for await (const batch of batches(join(to, folder), folder)) {
      for (const path of batch) {
        signal.throwIfAborted();
        // A file that the disk cannot read now may be needed from this copy.
        if ((await fileSize(join(from, path)).catch(ignoreFailedDisk)) !== undefined) continue;
        await rm(join(to, path), { force: true });
        removed += 1;
      }
    }
  return removed;
}

/** The paths of the files below a directory, from `name` on; none where it does not exist. */
async function* batches(directory: string, name: string): AsyncGenerator<readonly string[]> {
  let batch: string[] = [];
  for await (const path of walk(directory, name)) {
    batch.push(path);
    if (batch.length < namesAtOnce) continue;
    yield batch;
    batch = [];
  }
  yield batch;
}

async function* walk(directory: string, name: string): AsyncGenerator<string> {
  const entries = await opendir(directory).catch(ignoreMissing);
  if (entries === undefined) return;
  for await (const entry of entries) {
    const path = `${name}/${entry.name}`;
    if (entry.isDirectory()) yield* walk(join(directory, entry.name), path);
    else if (isCopied(entry.name)) yield path;
  }
}

async function copyOne(from: string, to: string, copied: Copied): Promise<void> {
  const source = await stat(from).catch(ignoreMissing);
  // Removed since it was listed: gc had begun before the backup did, so no row of the snapshot names it.
  if (source === undefined) return;
  const target = await stat(to).catch(ignoreMissing);
  if (target?.size === source.size && Math.abs(target.mtimeMs - source.mtimeMs) < sameMs) {
    copied.kept += 1;
    copied.keptBytes += source.size;
    return;
  }
  const draft = `${to}.part`;
  await makePrivateDirectory(dirname(to));
  const isThere = await copyFile(from, draft, constants.COPYFILE_FICLONE).then(() => true, ignoreMissing);
  if (isThere === undefined) return;
  await utimes(draft, source.atimeMs / 1000, source.mtimeMs / 1000);
  await flush(draft);
  await rename(draft, to);
  copied.files += 1;
  copied.bytes += source.size;
}

/** After a power cut the target is the former file or the whole new one, once its directory is flushed. */
export async function copyWhole(from: string, to: string): Promise<void> {
  const draft = `${to}.part`;
  await copyFile(from, draft);
  await flush(draft);
  await rename(draft, to);
}

export async function flush(path: string): Promise<void> {
  const handle = await open(path, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

const fileSize = async (path: string): Promise<number | undefined> =>
  (await stat(path).catch(ignoreMissing))?.size;

function ignoreMissing(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error;
}

const isOfDisk = (error: unknown): boolean => (error as { readonly code?: unknown } | null)?.code === 'EIO';

/** The size that a file is taken to have. */
function ignoreFailedDisk(error: unknown): number {
  if (!isOfDisk(error)) throw error;
  return 0;
}

/** Whether a copy failed because of its source. The error of a copy does not tell, so this reads the source again. */
async function isUnreadable(path: string, cause: unknown): Promise<boolean> {
  if (!isOfDisk(cause)) return false;
  try {
    const file = await open(path, 'r');
    try {
      const bytes = new Uint8Array(readBytes);
      while ((await file.read(bytes)).bytesRead > 0);
    } finally {
      await file.close();
    }
    return false;
  } catch (error) {
    return isOfDisk(error);
  }
}
