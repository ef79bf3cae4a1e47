/**
 * Excludes gateways and a compaction of one metadata file from each other. lmdb gives each process that has read the file a slot in the
 * reader table of `lock.mdb` until it closes the file, and to one process at a time the write lock, which a killed process releases.
 *
 * A gateway takes its slot first and then, for a moment, the write lock; then it compares the files with those that existed before it
 * opened them. A compaction takes the write lock first, refuses if there is any slot, and keeps the lock until it has replaced the
 * files. So either the compaction sees the slot, or the gateway sees other files.
 */
import { readFileSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { RootDatabase } from 'lmdb';
import { StoreRefused } from '../../../ports/metadata-store.ts';
import { dataFile, type LatestCommit, lockFile } from './meta-page.ts';

/** The directory where a compaction writes the new file. */
export const draftDirectory = (directory: string): string => join(directory, 'compacting');
/** The file before the latest compaction. */
export const formerFile = (directory: string): string => `${dataFile(directory)}.before-compact`;

/** Inodes; undefined where there is no such file. */
export interface OpenedFiles {
  readonly data: bigint | undefined;
  readonly lock: bigint | undefined;
}

const readInode = (path: string): bigint | undefined =>
  statSync(path, { bigint: true, throwIfNoEntry: false })?.ino;

export const identifyFiles = (directory: string): OpenedFiles => ({
  data: readInode(dataFile(directory)),
  lock: readInode(lockFile(directory)),
});

/**
 * Runs synchronously with lmdb's write lock. A store hangs at close if it did this after an asynchronous write, so it may be
 * the first write of a store alone; nothing else may use lmdb's synchronous transaction.
 */
export const underWriteLock = <T>(database: Pick<RootDatabase, 'transactionSync'>, work: () => T): T =>
  database.transactionSync(work);

type Locking = Pick<RootDatabase, 'transactionSync' | 'getWriteTxnId'>;

/** How often this process has each directory open. */
const opened = new Map<string, number>();

/**
 * Removes what a compaction left, and corrects what lmdb noted when it opened the file. Call it with a slot in the reader table.
 * @param before the files ahead of the opening
 * @returns call it at the close
 * @throws StoreRefused where a compaction has replaced the files since
 */
export function joinUsers(
  database: Locking,
  {
    directory,
    before,
    latest,
  }: { readonly directory: string; readonly before: OpenedFiles; readonly latest: LatestCommit },
): () => void {
  const count = opened.get(directory) ?? 0;
  // Another store of this process keeps compactions away already, and its writer may hold the lock and wait for this thread.
  if (count === 0)
    underWriteLock(database, () => {
      // First, because the note of other files must not be corrected by the number of these.
      assertSameFiles(directory, before);
      latest.correct(database.getWriteTxnId());
    });
  opened.set(directory, count + 1);
  return () => void opened.set(directory, (opened.get(directory) ?? 1) - 1);
}

function assertSameFiles(directory: string, before: OpenedFiles): void {
  const now = identifyFiles(directory);
  const isReplaced = (['data', 'lock'] as const).some(
    (file) => before[file] !== undefined && before[file] !== now[file],
  );
  if (isReplaced)
    throw new StoreRefused(`a compaction replaced the files of ${directory} during the start: start again`);
  rmSync(draftDirectory(directory), { recursive: true, force: true });
  rmSync(formerFile(directory), { force: true });
}

/** The reader table, and the locks that the kernel shows of processes that opened the file and have not read it yet. */
interface Users {
  readerCheck(): number;
  readerList(): string;
}

/** @throws StoreRefused where another process uses the file; call it under the write lock, before any read */
export function assertUnused(directory: string, users: Users): void {
  users.readerCheck();
  const slots = users
    .readerList()
    .split('\n')
    .flatMap((line) => /^\s*(\d+)\s+[0-9a-f]+\s/.exec(line)?.[1] ?? []);
  const pids = new Set([...slots, ...lockHolders(directory)]);
  if (pids.size === 0) return;
  throw new StoreRefused(
    `another process uses ${directory} (pid ${[...pids].join(', ')}): stop every gateway and command on it first`,
  );
}

/** Each process that has the file open holds a shared lock on the first byte of `lock.mdb`. */
function lockHolders(directory: string): readonly string[] {
  const inode = readInode(lockFile(directory));
  return kernelLocks()
    .map((line) => line.trim().split(/\s+/))
    .filter((words) => words[5]?.split(':').at(-1) === String(inode) && words[6] === '0')
    .map((words) => words[4] ?? '')
    .filter((pid) => pid !== String(process.pid));
}

function kernelLocks(): readonly string[] {
  try {
    return readFileSync('/proc/locks', 'utf8').split('\n');
  } catch {
    // Not on Linux: use the reader table only.
    return [];
  }
}
