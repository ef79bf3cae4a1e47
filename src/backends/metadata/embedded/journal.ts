/**
 * Group commit: whatever is submitted while one transaction is being flushed goes into the next one.
 * A work runs synchronously inside the transaction, alone among all processes, so that between its
 * checks and its writes stands nothing. It checks everything before it writes anything.
 *
 * Why a transaction with a callback and not lmdb's conditional puts: those cannot read, so a counter
 * cannot be added to nor an expiry judged, and they are no faster. Measured on Node 24, 2 cores, a small
 * row (fence check, absent head put, counter add), flushed; µs of CPU a commit, all threads:
 *
 *                                              16 writers   64 writers
 *     transaction(callback) for each commit          31.2         18.6
 *     nested ifVersion/ifNoExists, no counter        34.8         18.7
 *     one transaction(callback) for a batch          33.9         17.8
 *     the same with overlappingSync and flushed      39.8         19.3
 *
 * A real commit of the gateway (begin, 17-column head, counter, end, 64 writers) takes 22 µs unflushed,
 * 14 of them lmdb's own; what is left is spread thinly. One callback a batch also gives the batch a
 * memory: an epoch row is read once, a counter row read and written once, for all of its commits.
 */

import { accessSync, closeSync, constants, fstatSync, openSync, writeSync } from 'node:fs';
import {
  isStorageFull,
  isStorageReadOnly,
  StorageFull,
  StorageReadOnly,
} from '../../../ports/chunk-store.ts';
import type { Clock } from '../../../ports/clock.ts';
import { MetadataDamaged, StoreUnavailable } from '../../../ports/metadata-store.ts';
import type { DiskSpace } from '../../disk-space.ts';
import {
  type Batch,
  newBatch,
  type SubmitOptions,
  type Work,
  writeCounters,
} from '../records/ordered-store.ts';
import { isRefusedSnapshot } from './damage.ts';
import type { Database } from './environment.ts';
import { dataFile, latestMeta } from './meta-page.ts';

interface Entry {
  readonly frees: boolean;
  readonly work: Work<unknown>;
  readonly resolve: (result: never) => void;
  readonly reject: (error: unknown) => void;
  result?: unknown;
  error?: unknown;
}

/** A transaction runs on the event loop's thread: this bounds how long it holds the loop up. */
const batchLimit = 512;
/** Attempts of one transaction: the second one after a full disk got space, or after lmdb refused it unwritten. */
const attemptsMax = 2;
/** Repetitions of a batch, each without the works that met a damaged page; the rest is then run one by one. */
const batchRerunsMax = 4;
/** lmdb numbers transactions from 1, so a revision stays a safe integer for 2^37 of them. */
const revisionsPerTransaction = 2 ** 16;

export class Journal {
  readonly #database: Database;
  readonly #clock: Clock;
  readonly #space: DiskSpace | undefined;
  readonly #guard: WriteGuard;
  readonly #waiting: Entry[] = [];
  #closed = false;
  #running: Promise<void> | undefined;

  constructor(database: Database, { clock, ...guarded }: { readonly clock: Clock } & WriteGuardOptions) {
    this.#database = database;
    this.#clock = clock;
    this.#space = guarded.space;
    this.#guard = new WriteGuard(guarded);
  }

  /** Resolves once the transaction that ran `work` is durable. */
  submit<Result>(work: Work<Result>, { frees = false }: SubmitOptions = {}): Promise<Result> {
    if (this.#closed) return Promise.reject(new Error('the metadata store is closed'));
    return new Promise<Result>((resolve, reject) => {
      this.#waiting.push({ work, frees, resolve: resolve as (result: never) => void, reject });
      this.#running ??= this.#transactAll();
    });
  }

  /** Refuses further work and waits for what was submitted. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.#running;
    this.#guard.close();
  }

  /**
   * One transaction at a time: works that arrive during its flush share the next one. If the next one already waited inside lmdb, the
   * writers would split into two halves that alternate, with batches of half the size.
   */
  async #transactAll(): Promise<void> {
    while (this.#waiting.length > 0) await this.#transact();
    this.#running = undefined;
  }

  async #transact(): Promise<void> {
    const failure = this.#guard.failure();
    if (failure !== undefined) {
      for (const entry of this.#waiting.splice(0, batchLimit)) entry.reject(failure);
      // Commits that arrive next start another transaction, a turn of the event loop later.
      await new Promise((resolve) => setImmediate(resolve));
      return;
    }
    const shortage = this.#space?.shortage();
    if (shortage === undefined) {
      const left = await this.#attempt([]);
      if (left.length > 0) await this.#runWithout(left);
      return;
    }
    const taken = this.#waiting.splice(0);
    for (const entry of taken) if (!entry.frees) entry.reject(shortage);
    const freeing = taken.filter(({ frees }) => frees);
    this.#waiting.unshift(...freeing.splice(batchLimit));
    if (freeing.length > 0) return this.#runWithout(await this.#attempt(freeing));
    await new Promise((resolve) => setImmediate(resolve));
  }

  /**
   * lmdb commits nothing of a transaction that has met a damaged page: its other works run again without those that met it.
   * @param left works of a transaction that failed so
   */
  async #runWithout(left: readonly Entry[]): Promise<void> {
    let rest = left;
    for (let rerun = 1; rerun <= batchRerunsMax && rest.length > 1; rerun += 1)
      rest = await this.#attempt([...rest]);
    for (const entry of rest) await this.#attempt([entry]);
  }

  /**
   * A transaction that met a full disk wrote nothing: it runs again once the ballast has been given up.
   * @param taken its works; none: those that wait
   * @returns works that must run again, because another one of the transaction met a damaged page
   */
  async #attempt(taken: Entry[]): Promise<readonly Entry[]> {
    let batch: Batch | undefined;
    for (let attempt = 1; attempt <= attemptsMax; attempt += 1) {
      try {
        await this.#database.transaction(() => {
          if (this.#space?.shortage() !== undefined && taken.some(({ frees }) => frees))
            this.#guard.ensureHeadroom();
          if (taken.length === 0) taken.push(...this.#waiting.splice(0, batchLimit));
          batch = this.#run(taken);
        });
        for (const committed of batch?.committed ?? []) committed();
        for (const entry of taken) {
          if (entry.error === undefined) entry.resolve(entry.result as never);
          else entry.reject(entry.error);
        }
        return [];
      } catch (error) {
        const reason = await findReason(error);
        const isRefused = isRefusedSnapshot(reason);
        const damaged = taken.filter((entry) => entry.error instanceof MetadataDamaged);
        if (isRefused && damaged.length > 0) {
          for (const entry of damaged) entry.reject(entry.error);
          return taken.filter((entry) => !damaged.includes(entry));
        }
        const frees = taken.some((entry) => entry.frees);
        const way = this.#space?.yieldToClients(reason, { frees }) ?? { error: reason, isWorthRetry: false };
        if (way.isWorthRetry)
          for (const other of taken.filter((entry) => !entry.frees)) {
            taken.splice(taken.indexOf(other), 1);
            other.reject(way.error);
          }
        if (isRefused) this.#database.onRefused?.(reason);
        const isWorthRetry = way.isWorthRetry || isRefused;
        if (isWorthRetry && attempt < attemptsMax && !hasOverrun(reason)) continue;
        // If it failed before it began, its works are still waiting.
        if (taken.length === 0) taken.push(...this.#waiting.splice(0, batchLimit));
        const failure = this.#guard.classify(way.error);
        for (const entry of taken) entry.reject(failure);
        return [];
      }
    }
    return [];
  }

  #run(entries: readonly Entry[]): Batch {
    let revision = this.#database.transactionId * revisionsPerTransaction;
    const batch = newBatch(this.#clock.now(), () => revision++);
    for (const entry of entries) {
      entry.error = undefined;
      try {
        entry.result = entry.work(batch);
      } catch (error) {
        entry.error = error ?? new Error('a work failed');
      }
    }
    writeCounters(this.#database, batch);
    return batch;
  }
}

/** A loaded event loop may take so long from one promise to the next. */
const reasonWaitMs = 1_000;

/** lmdb says why a commit failed (a full disk, say) by another promise, a moment later. */
async function findReason(error: unknown): Promise<unknown> {
  const later = (error as { readonly commitError?: Promise<never> }).commitError;
  if (later === undefined) return error;
  const moment = new Promise((resolve) => setTimeout(resolve, reasonWaitMs, error));
  return Promise.race([later.catch((reason: unknown) => reason), moment]);
}

// Reads of lmdb never wait, so a walk over many pages would hold the event loop until its end, and with it every request of the process.
// Each page asks here first: once the walks of one turn of the loop have taken a while, they go on in the next turn.

/** How long scans may hold the event loop together. */
const turnMs = 10;

export class LoopTurn {
  readonly #clock: Pick<Clock, 'elapsed'>;
  readonly #assertOpen: () => void;
  /** When the first page of the present turn was read; undefined before. */
  #since: number | undefined;

  /** @param assertOpen throws when the store was closed meanwhile */
  constructor(clock: Pick<Clock, 'elapsed'>, assertOpen: () => void) {
    this.#clock = clock;
    this.#assertOpen = assertOpen;
  }

  /** Whether the next page must wait for `next`. */
  isOver(): boolean {
    const now = this.#clock.elapsed();
    if (this.#since !== undefined) return now - this.#since >= turnMs;
    this.#since = now;
    setImmediate(() => {
      this.#since = undefined;
    });
    return false;
  }

  /** Resolves in the next turn. */
  async next(): Promise<void> {
    await new Promise((resolve) => setImmediate(resolve));
    this.#assertOpen();
  }
}

// The write guard keeps lmdb from transactions that it cannot write, because lmdb 3.5.6 does harm when it fails to:
// - For a page that it cannot write it formats a message into 100 bytes without a bound (`mdb_page_flush` in mdb.c),
//   which may overwrite the heap of the process. The guard therefore asks the file system before each transaction.
// - After a meta page that it cannot write, the next transaction never begins and keeps a thread of Node's pool. The store therefore
//   commits nothing more after a failure that this guard did not foresee, and the process has to be replaced.

interface WriteGuardOptions {
  readonly directory: string;
  readonly space?: DiskSpace | undefined;
  /** Called once, when the store will not commit again: the process should be replaced. */
  readonly onBroken?: ((cause: unknown) => void) | undefined;
}

/** The capacity of lmdb's buffer, without the terminating zero. */
const messageBytesMax = 99;
const nothing = new Uint8Array(1);
const writeMessage = 'Attempting to write page';

class WriteGuard {
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
    const { space } = this.#options;
    if (space !== undefined && this.#descriptor !== undefined) ensureHeadroom(this.#descriptor, space);
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
    // The database refused the transaction, and lmdb wrote nothing.
    if (error instanceof StoreUnavailable) return error;
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
function hasOverrun(error: unknown): boolean {
  const depthMax = 4;
  let cause = error;
  for (let depth = 0; depth < depthMax && cause instanceof Error; depth += 1) {
    const at = cause.message.indexOf(writeMessage);
    if (at >= 0 && cause.message.length - at > messageBytesMax) return true;
    cause = cause.cause;
  }
  return false;
}

// Blocks behind the last page of lmdb's file. On a full disk a deletion needs new pages, and space that the ballast
// gives back may be taken by another program first. The space is therefore turned into blocks of the file itself, where
// lmdb writes its next pages without a new block.

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
function ensureHeadroom(descriptor: number, space: Pick<DiskSpace, 'spend'>): void {
  const meta = latestMeta(descriptor);
  if (meta === undefined) return;
  const end = (meta.lastPage + 1) * meta.pageBytes;
  let size = Math.max(end, fstatSync(descriptor).size);
  if (size - end >= lowBytes) return;
  space.spend();
  try {
    while (size - end < targetBytes) size += writeSync(descriptor, piece, 0, piece.length, size);
  } catch {
    // The disk is full: what was written counts.
  }
  if (size - end < bytesMin)
    throw new StorageFull(`metadata: no space is left for a deletion (${size - end} bytes)`);
}
