/**
 * The two meta pages at the beginning of lmdb's file, read without lmdb: lmdb maps the file, and a page that a truncated
 * file no longer has ends the process by SIGBUS. Layout: `MDB_meta` of liblmdb 1.0, which lmdb-js builds in. Also keeps readers from
 * snapshots that begin before the latest commit (`Openings`).
 */
import { closeSync, fstatSync, openSync, readSync, type Stats, statSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';

export const dataFile = (directory: string): string => join(directory, 'data.mdb');
export const lockFile = (directory: string): string => join(directory, 'lock.mdb');

export const pageHeaderBytes = 24;
const magic = 0xbeefc0de;
const metaFlag = 8;
const dataVersion = 2;
const metaBytes = 168;
const guessedPageBytes = 4096;
const pageSizes: ReadonlySet<number> = new Set([4096, 8192, 16_384, 32_768, 65_536]);

/** The shape of a tree of pages, from the meta page. */
export interface TreeShape {
  readonly depth: number;
  readonly branchPages: number;
  readonly leafPages: number;
  readonly overflowPages: number;
  readonly entries: number;
  /** Undefined where the tree is empty. */
  readonly root: number | undefined;
}

export interface MetaPage {
  readonly pageBytes: number;
  readonly transaction: number;
  readonly lastPage: number;
  readonly free: TreeShape;
  readonly main: TreeShape;
}

const noPage = 0xffff_ffff_ffff_ffffn;

function readTree(bytes: DataView, at: number): TreeShape {
  const number = (offset: number): number => Number(bytes.getBigUint64(at + offset, true));
  const root = bytes.getBigUint64(at + 40, true);
  return {
    depth: bytes.getUint16(at + 6, true),
    branchPages: number(8),
    leafPages: number(16),
    overflowPages: number(24),
    entries: number(32),
    root: root === noPage ? undefined : Number(root),
  };
}

/** What lmdb compares before it opens the file, of the first page alone: the flag of a meta page, the magic number, and the format. */
const isFirstMeta = (page: DataView): boolean =>
  (page.getUint16(18, true) & metaFlag) !== 0 &&
  page.getUint32(pageHeaderBytes, true) === magic &&
  page.getUint16(pageHeaderBytes + 4, true) === dataVersion;

function readMeta(page: DataView): MetaPage {
  const view = new DataView(page.buffer, page.byteOffset + pageHeaderBytes, metaBytes);
  return {
    pageBytes: view.getUint32(24, true),
    free: readTree(view, 24),
    main: readTree(view, 72),
    lastPage: Number(view.getBigUint64(120, true)),
    transaction: Number(view.getBigUint64(128, true)),
  };
}

/**
 * The meta page of the latest commit, chosen as lmdb does; undefined of a file that is empty.
 * @throws Error where lmdb does not open the file: lmdb-js then ends the process by SIGSEGV
 */
export function latestMeta(descriptor: number): MetaPage | undefined {
  if (fstatSync(descriptor).size === 0) return undefined;
  const page = readPage(descriptor, 0);
  const first = page && isFirstMeta(page) ? readMeta(page) : undefined;
  if (first === undefined || !pageSizes.has(first.pageBytes))
    throw new Error('its first meta page is damaged');
  const other = readPage(descriptor, first.pageBytes);
  if (other === undefined) throw new Error('its second meta page is missing');
  const second = readMeta(other);
  return second.transaction > first.transaction ? second : first;
}

/** The offset of the transaction number in a meta page. */
const transactionAt = pageHeaderBytes + 128;
const bothMetas = new Uint8Array(2 * guessedPageBytes);
const inBothMetas = new DataView(bothMetas.buffer);

/**
 * The number of the latest commit, by one short read for each transaction. The meta page of an even number is the first.
 * @returns undefined where the meta pages cannot be read: other pages than of 4 KiB, or a damaged or truncated file
 */
function latestTransaction(descriptor: number): number | undefined {
  const requested = guessedPageBytes + pageHeaderBytes + metaBytes;
  if (readSync(descriptor, bothMetas, 0, requested, 0) < requested) return undefined;
  if (!isFirstMeta(inBothMetas)) return undefined;
  let latest: number | undefined;
  for (const page of [0, 1]) {
    const start = page * guessedPageBytes;
    const transaction = Number(inBothMetas.getBigUint64(start + transactionAt, true));
    // A file that was never written has two of number 0.
    if (transaction % 2 === page || transaction === 0) latest = Math.max(latest ?? 0, transaction);
  }
  return latest;
}

function readPage(descriptor: number, at: number): DataView | undefined {
  const bytes = new Uint8Array(pageHeaderBytes + metaBytes);
  return readSync(descriptor, bytes, 0, bytes.length, at) < bytes.length
    ? undefined
    : new DataView(bytes.buffer);
}

// Keeps a transaction from overwriting commits that it does not know. lmdb notes the number of the latest commit in `lock.mdb`, for all
// processes. In lmdb-js 3.5.6 each process that opens the file replaces that note, without a lock, by the number that it read before it
// mapped the file (`mdb_env_open2` in mdb.c). If another process has committed in between, the note names an earlier commit. The next
// transaction then begins there, and either undoes the commits after it, or fails with MDB_BAD_TXN because it meets pages of later
// commits.
//
// The two meta pages of the file always name the latest commit. So each transaction compares its number with theirs before it reads or
// writes anything, corrects the note under the write lock if necessary, and begins again.

/** The transaction read and wrote nothing; the next one begins at the latest commit. */
export class StaleTransaction extends Error {}

/** `lock.mdb` begins with a magic number, the number of its layout, and the number of the latest commit. */
const lockMagic = 0xbeef_c0de;
const noteAt = 8;
const lockHeadBytes = 16;
/** Attempts of `correctAfterOpening`; the check of the next transaction does the rest. */
const turnsMax = 10;

/**
 * Closing any descriptor of `lock.mdb` releases every lock that the process has on it, including lmdb's. So a descriptor stays open until
 * no store of this process uses the directory.
 */
interface LockUse {
  users: number;
  descriptor: number | undefined;
}
const lockUses = new Map<string, LockUse>();

/** For an open environment. Close it after the environment. */
export class LatestCommit {
  readonly #directory: string;
  readonly #data: number;
  readonly #opened: Stats;
  readonly #lock: LockUse;
  #lastRead: number | undefined;
  #isFresh = false;

  constructor(directory: string) {
    this.#directory = directory;
    this.#data = openSync(dataFile(directory), 'r');
    this.#opened = fstatSync(this.#data);
    this.#lock = lockUses.get(directory) ?? { users: 0, descriptor: undefined };
    this.#lock.users += 1;
    lockUses.set(directory, this.#lock);
  }

  /**
   * Call it first in a transaction, which holds the write lock.
   * @throws StaleTransaction where it began at an earlier commit; the note is corrected then
   */
  assertKnown(transaction: number): void {
    const latest = this.correct(transaction);
    if (latest === undefined) return;
    throw new StaleTransaction(
      `transaction ${transaction} began after commit ${latest}, because another process opened the metadata file`,
    );
  }

  /**
   * Corrects the note under the write lock.
   * @param transaction the number of the one that holds the lock
   * @returns the latest commit, where the note named an earlier one
   */
  correct(transaction: number): number | undefined {
    const latest = latestTransaction(this.#data);
    if (latest === undefined || transaction > latest) return undefined;
    this.#correctNote(latest);
    return latest;
  }

  /**
   * Corrects the note immediately after this process has opened the file, without waiting for the write lock, because readers of all
   * processes begin where it says. That may overwrite the number of a concurrent commit, so the meta pages are read again.
   */
  correctAfterOpening(): void {
    for (let turn = 0; turn < turnsMax; turn += 1) {
      const latest = latestTransaction(this.#data);
      try {
        if (latest === undefined || this.noted() >= latest) return;
      } catch (cause) {
        // A compaction is replacing the files; `joinUsers` refuses them.
        if ((cause as { readonly code?: unknown }).code === 'ENOENT') return;
        throw cause;
      }
      this.#correctNote(latest);
    }
  }

  /** Whether the path leads to the open file. Else a later start does not find what is committed. It costs one system call. */
  isInPlace(): boolean {
    return isSameFile(statSync(dataFile(this.#directory), { throwIfNoEntry: false }), this.#opened);
  }

  /** The number of the latest commit; undefined where the meta pages cannot be read. */
  read(): number | undefined {
    return latestTransaction(this.#data);
  }

  /** As `read`, by one system call for all callers of one synchronous piece of code: idle workers ask one after the other. */
  readOnce(): number | undefined {
    if (this.#isFresh) return this.#lastRead;
    this.#lastRead = this.read();
    this.#isFresh = true;
    queueMicrotask(() => {
      this.#isFresh = false;
    });
    return this.#lastRead;
  }

  /** The number of the commit with which a read that begins now begins, or of an earlier one. */
  noted(): number {
    this.#lock.descriptor ??= openSync(lockFile(this.#directory), 'r+');
    const head = new Uint8Array(lockHeadBytes);
    const numbers = new DataView(head.buffer);
    readSync(this.#lock.descriptor, head, 0, lockHeadBytes, 0);
    if (numbers.getUint32(0, true) !== lockMagic)
      throw new Error(`${lockFile(this.#directory)} is no lock file of lmdb`);
    return Number(numbers.getBigUint64(noteAt, true));
  }

  #correctNote(latest: number): void {
    // Opens the file.
    this.noted();
    const note = new Uint8Array(lockHeadBytes - noteAt);
    new DataView(note.buffer).setBigUint64(0, BigInt(latest), true);
    writeSync(this.#lock.descriptor as number, note, 0, note.length, noteAt);
  }

  close(): void {
    closeSync(this.#data);
    this.#lock.users -= 1;
    if (this.#lock.users > 0) return;
    lockUses.delete(this.#directory);
    if (this.#lock.descriptor !== undefined) closeSync(this.#lock.descriptor);
  }
}

// Keeps readers from snapshots that begin before the latest commit. While a process opens the metadata file, the note in `lock.mdb` may
// name an earlier commit until that process has corrected it (`LatestCommit`), and a snapshot begins where the note says.
//
// Each process appends a line to the file `openings` before lmdb opens the metadata file, and another line once the note is right. A
// reader begins its snapshot first and looks at the length of `openings` afterwards. If the file has not grown, no opening overlapped the
// snapshot. If it has, the reader waits for the openings, corrects the note, and begins another snapshot.
//
// The system call for that was a tenth of a small request. So a process waits for `announcedMs` between its line and its opening, and a
// reader that has looked less than `freshMs` ago does not look again: what was announced since then has not begun.
//
// A process that is paused for longer than `waitMs` while it opens the file is not waited for again before it continues.

const fileMode = 0o600;
/** An opening takes a few milliseconds. */
const waitMs = 200;
/** By the monotonic clock, which all processes of a machine share. */
const freshMs = 5;
/** Longer than `freshMs` by more than a clock of any runtime is rounded. */
const announcedMs = 10;
const pollMs = 1;
/** More than the openings that can be under way together. */
const tailBytesMax = 64 * 1024;
const begun = '+';
const ended = '-';

export class Openings {
  /** Undefined on a full or read-only disk: then openings are not announced. */
  readonly #descriptor: number | undefined;
  /** The length up to which every opening has ended, or was waited for. */
  #seen = 0;
  /** When a look at the file that found nothing began. */
  #lookedAt = Number.NEGATIVE_INFINITY;

  constructor(directory: string) {
    try {
      this.#descriptor = openSync(join(directory, 'openings'), 'a+', fileMode);
    } catch {
      // lmdb cannot write there either, and reports that.
    }
  }

  /** Announces an opening by this process, and waits until every reader looks again. @returns announces its end */
  begin(): () => void {
    this.#append(begun);
    pause(announcedMs);
    return () => this.#append(ended);
  }

  /** Whether an opening may have begun or ended since the last call of `await`; call it after the snapshot has begun. */
  haveGrown(): boolean {
    if (this.#descriptor === undefined) return false;
    const now = performance.now();
    if (now - this.#lookedAt < freshMs) return false;
    if (readSync(this.#descriptor, oneByte, 0, 1, this.#seen) > 0) return true;
    this.#lookedAt = now;
    return false;
  }

  /** Waits for the openings under way in living processes, for a bounded time. It blocks the thread, as lmdb's own locks do. */
  await(): void {
    if (this.#descriptor === undefined) return;
    for (let waited = 0; ; waited += pollMs) {
      const { size } = fstatSync(this.#descriptor);
      const tail = new Uint8Array(Math.min(size - this.#seen, tailBytesMax));
      const length = readSync(this.#descriptor, tail, 0, tail.length, size - tail.length);
      if (waited >= waitMs || !isAnyUnderWay(Buffer.from(tail.subarray(0, length)).toString('latin1'))) {
        this.#seen = size;
        return;
      }
      pause(pollMs);
    }
  }

  close(): void {
    if (this.#descriptor !== undefined) closeSync(this.#descriptor);
  }

  #append(mark: string): void {
    if (this.#descriptor === undefined) return;
    try {
      writeSync(this.#descriptor, `${mark}${process.pid}\n`);
    } catch {
      // A full disk: the gateway must start all the same, so that objects can be deleted.
    }
  }
}

const isSameFile = (a: Stats | undefined, b: Stats | undefined): boolean =>
  a !== undefined && b !== undefined && a.ino === b.ino && a.dev === b.dev;

const oneByte = new Uint8Array(1);
const neverNotified = new Int32Array(new SharedArrayBuffer(4));
/** Blocks the thread. */
const pause = (ms: number): void => void Atomics.wait(neverNotified, 0, 0, ms);

function isAnyUnderWay(lines: string): boolean {
  const open = new Map<string, number>();
  for (const line of lines.split('\n').slice(0, -1)) {
    const pid = line.slice(1);
    open.set(pid, (open.get(pid) ?? 0) + (line.startsWith(begun) ? 1 : -1));
  }
  return [...open].some(([pid, count]) => count > 0 && isAlive(Number(pid)));
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (cause) {
    // Another user's process, or a runtime without the permission to ask, counts as alive.
    return (cause as { readonly code?: unknown }).code !== 'ESRCH';
  }
}
