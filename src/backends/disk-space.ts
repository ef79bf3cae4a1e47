/** The free space of one directory's disk, and the reserve that is kept for deletions (`SVC_DISK_RESERVE`). */

import { randomFillSync } from 'node:crypto';
import fs, { statfsSync, statSync } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { join } from 'node:path';
import {
  type ChunkStore,
  type DiskState,
  isStorageFull,
  type SmallWrite,
  StorageFull,
  type StorageSpace,
} from '../ports/chunk-store.ts';
import type { Clock } from '../ports/clock.ts';
import { chunkBytes } from '../ports/object-bytes.ts';

export interface DiskSpaceOptions {
  /** `metadata`, or `data:<cluster>`. */
  readonly component: string;
  readonly directory: string;
  readonly reserveBytes: number;
  readonly clock: Pick<Clock, 'elapsed'>;
  /** The other stores on the same disk, whose ballast deletions may use too. */
  readonly neighbours?: () => readonly DiskSpace[];
}

/** How often a ballast that is not whole is looked at. */
const timerMs = 2_000;
/** A measurement of the file system is used for so long; bytes that are admitted meanwhile are subtracted. */
const lookMs = 50;
const ballastBytesMax = 16 * 1024 * 1024;
/** Files that deletions may still make: a share of all inodes within these bounds. */
const inodeShare = 0.02;
const inodesMin = 16;
const inodesMax = 1024;
/** A metadata transaction seldom writes more: with less free space only deletions commit, and they may use the ballast. */
const wayBytes = 1024 * 1024;
/** Written to find out whether a disk that failed is full. */
const trialBytes = 64 * 1024;

interface Look {
  readonly at: number;
  readonly freeBytes: number;
  readonly sizeBytes: number;
  readonly freeInodes: number;
  readonly reservedInodes: number;
  readonly isSpent: boolean;
}

export class DiskSpace {
  readonly #options: DiskSpaceOptions;
  readonly #ballast: Ballast;
  readonly #ballastBytes: number;
  /** Runs while the ballast is not whole. */
  #timer: NodeJS.Timeout | undefined;
  readonly #closing = new AbortController();
  #last: Look | undefined;
  #admittedBytes = 0;
  #refilling: Promise<unknown> | undefined;

  constructor(options: DiskSpaceOptions) {
    this.#options = options;
    this.#ballastBytes = Math.min(ballastBytesMax, Math.floor(options.reserveBytes / 4));
    this.#ballast = new Ballast(options.directory, this.#ballastBytes);
    this.#refillSoon();
  }

  get component(): string {
    return this.#options.component;
  }

  get directory(): string {
    return this.#options.directory;
  }

  /** Why writes are refused; undefined where they are admitted. */
  warning(): string | undefined {
    return this.#warningOf(this.#look(), 0);
  }

  state(): DiskState {
    const look = this.#look();
    const warning = this.#warningOf(look, 0);
    const { component } = this.#options;
    return {
      component,
      freeBytes: look?.freeBytes ?? 0,
      ...(look === undefined ? {} : { sizeBytes: look.sizeBytes }),
      ...(warning === undefined ? {} : { warning }),
    };
  }

  /** Admits a write of so many bytes. @throws StorageFull below the reserve */
  take(bytes: number): void {
    const warning = this.#warningOf(this.#look(), bytes);
    if (warning !== undefined) throw new StorageFull(warning);
    this.#admittedBytes += bytes;
  }

  /**
   * After a failed write, where the disk is full: if the write was a deletion, gives up the ballast, so that its retry finds space.
   * @param frees whether the write was a deletion, or may give up the ballast for later ones, as those of chunks do
   * @returns the error to report: `StorageFull` where that was the cause
   */
  yieldToClients(
    cause: unknown,
    { frees = true }: { readonly frees?: boolean } = {},
  ): { readonly error: unknown; readonly isWorthRetry: boolean } {
    if (!isStorageFull(cause) && !this.#isFull()) return { error: cause, isWorthRetry: false };
    const isWorthRetry = frees && this.spend();
    const { component, directory } = this.#options;
    return {
      error: new StorageFull(`${component}: no space is left in ${directory}`, { cause }),
      isWorthRetry,
    };
  }

  /** Why only deletions may commit now; undefined where everything may. */
  shortage(): StorageFull | undefined {
    const look = this.#look();
    if (look === undefined) return undefined;
    const { component, directory, reserveBytes } = this.#options;
    // What the ballast has given back belongs to deletions until the reserve is free again.
    const bytesMin = look.isSpent ? Math.max(wayBytes, reserveBytes) : wayBytes;
    return look.freeBytes >= bytesMin
      ? undefined
      : new StorageFull(`${component}: no space is left in ${directory} (${look.freeBytes} bytes)`);
  }

  /** Gives up the ballast of every store on this disk. @returns whether there was any */
  spend(): boolean {
    this.#last = undefined;
    const disks = [this, ...(this.#options.neighbours?.() ?? [])];
    const spent = disks.map((space) => space.#ballast.spend());
    for (const space of disks) space.#refillSoon();
    return spent.includes(true);
  }

  async close(): Promise<void> {
    this.#closing.abort();
    clearInterval(this.#timer);
    await this.#refilling;
  }

  #warningOf(look: Look | undefined, bytes: number): string | undefined {
    // A directory whose space cannot be measured fails the write itself, with its own reason.
    if (look === undefined) return undefined;
    const { component, directory, reserveBytes } = this.#options;
    const free = look.freeBytes - this.#admittedBytes;
    if (free - bytes < reserveBytes)
      return `${component}: ${Math.max(0, free)} bytes are free in ${directory}, and SVC_DISK_RESERVE keeps ${reserveBytes} for deletions`;
    if (look.freeInodes < look.reservedInodes)
      return `${component}: ${look.freeInodes} files can still be made in ${directory}, and ${look.reservedInodes} are kept for deletions`;
    if (look.isSpent) return `${component}: writes in ${directory} met a full disk or quota`;
    return undefined;
  }

  #look(): Look | undefined {
    const { clock, directory } = this.#options;
    const now = clock.elapsed();
    if (this.#last !== undefined && now - this.#last.at < lookMs) return this.#last;
    try {
      const { bsize, blocks, bavail, files, ffree } = fs.statfsSync(directory);
      this.#last = {
        at: now,
        freeBytes: bsize * bavail,
        sizeBytes: bsize * blocks,
        freeInodes: ffree,
        // File systems without a fixed number of inodes report none.
        reservedInodes:
          files > 0 ? Math.min(inodesMax, Math.max(inodesMin, Math.floor(files * inodeShare))) : 0,
        isSpent: this.#ballast.isSpent,
      };
    } catch {
      this.#last = undefined;
    }
    this.#admittedBytes = 0;
    // The process that has spent it may be dead.
    if (this.#last?.isSpent === true) this.#refillSoon();
    return this.#last;
  }

  #refillSoon(): void {
    if (this.#timer !== undefined || this.#closing.signal.aborted) return;
    this.#timer = setInterval(() => this.#tick(), timerMs);
    // Deno's timers are numbers.
    this.#timer.unref?.();
  }

  #tick(): void {
    if (this.#refilling !== undefined) return;
    if (this.#ballast.isWhole) {
      clearInterval(this.#timer);
      this.#timer = undefined;
      return;
    }
    const look = this.#look();
    if (look === undefined || look.freeBytes < this.#options.reserveBytes + this.#ballastBytes) return;
    this.#refilling = this.#ballast.refill(this.#closing.signal).finally(() => {
      this.#refilling = undefined;
      this.#last = undefined;
    });
  }

  /** lmdb reports a short write, which is what a full disk makes of it, as an input/output error. */
  #isFull(): boolean {
    const path = `${this.#options.directory}/reserve.trial-${process.pid}`;
    try {
      fs.writeFileSync(path, Buffer.alloc(trialBytes));
      return false;
    } catch (error) {
      return isStorageFull(error);
    } finally {
      fs.rmSync(path, { force: true });
    }
  }
}

// A file of allocated blocks that a store gives up when its disk is full. So a limit that the file system does not report (a quota,
// another program that writes) still leaves space for deletions.
//
// `reserve` holds the blocks. `reserve.spent` is the same file, truncated: every process sees by its name that the disk was full, also
// after a restart, until another `reserve` has been written. A rename and a truncation need no free block and no free inode.

const pieceBytes = 1024 * 1024;
/** A draft that does not change for this many checks, two seconds apart, has no writer. */
const looksMax = 30;

export class Ballast {
  readonly #path: string;
  readonly #spentPath: string;
  readonly #draftPath: string;
  readonly #sizeBytes: number;
  /** The draft of another process, as last seen. */
  #draft: { readonly written: number | undefined; readonly looks: number } = { written: undefined, looks: 0 };

  constructor(directory: string, sizeBytes: number) {
    this.#path = join(directory, 'reserve');
    this.#spentPath = join(directory, 'reserve.spent');
    this.#draftPath = join(directory, 'reserve.draft');
    this.#sizeBytes = sizeBytes;
  }

  get isSpent(): boolean {
    return fs.existsSync(this.#spentPath);
  }

  get isWhole(): boolean {
    return !this.isSpent && fs.statSync(this.#path, { throwIfNoEntry: false })?.size === this.#sizeBytes;
  }

  /** Returns the blocks to the file system; true when there were any. */
  spend(): boolean {
    // After the rename, another process that writes the draft no longer takes it for its own.
    const spent = [this.#path, this.#draftPath].map((path) => {
      try {
        fs.renameSync(path, this.#spentPath);
      } catch {
        // Another process was first, or there is none.
      }
      return empty(this.#spentPath);
    });
    return spent.includes(true);
  }

  /**
   * Writes the blocks and names the file `reserve`. One process at a time does: a second writer would truncate what the
   * first has written, and a file with holes has too few blocks.
   * @returns false where the disk has no room for it, or another process is writing
   */
  async refill(signal: AbortSignal): Promise<boolean> {
    try {
      this.#removeStaleDraft();
      const file = await open(this.#draftPath, 'wx', 0o600);
      let isNamed = false;
      try {
        await this.#write(file, signal);
        await file.sync();
        const { size, ino } = await file.stat();
        if (size !== this.#sizeBytes || !this.#isDraft(ino)) return false;
        fs.renameSync(this.#draftPath, this.#path);
        isNamed = true;
        fs.rmSync(this.#spentPath, { force: true });
        return true;
      } finally {
        if (!isNamed) await this.#discard(file);
        await file.close();
      }
    } catch {
      // No room, another process writes, or the directory cannot be written: the next look tries again.
      return false;
    }
  }

  /** Another process may have given it up and renamed it. */
  #isDraft(ino: number): boolean {
    return fs.statSync(this.#draftPath, { throwIfNoEntry: false })?.ino === ino;
  }

  async #discard(file: FileHandle): Promise<void> {
    await file.truncate(0);
    if (this.#isDraft((await file.stat()).ino)) fs.rmSync(this.#draftPath, { force: true });
  }

  /** Removes the draft of a process that was killed while it wrote. */
  #removeStaleDraft(): void {
    const written = fs.statSync(this.#draftPath, { throwIfNoEntry: false })?.mtimeMs;
    const looks = written !== undefined && written === this.#draft.written ? this.#draft.looks + 1 : 0;
    this.#draft = { written, looks };
    if (looks >= looksMax) fs.rmSync(this.#draftPath, { force: true });
  }

  async #write(file: FileHandle, signal: AbortSignal): Promise<void> {
    // Random bytes, because a file system may compress zeros.
    const piece = randomFillSync(Buffer.allocUnsafe(Math.min(pieceBytes, this.#sizeBytes)));
    for (let at = 0; at < this.#sizeBytes && !signal.aborted; at += piece.length)
      await file.write(piece, 0, Math.min(piece.length, this.#sizeBytes - at), at);
  }
}

/** @returns whether the file held anything */
function empty(path: string): boolean {
  const size = fs.statSync(path, { throwIfNoEntry: false })?.size ?? 0;
  if (size > 0) fs.truncateSync(path, 0);
  return size > 0;
}

// A chunk store on a disk whose reserve is kept: chunks are refused below it, removals may use it.

/** Other errors than that of a full disk are not changed. */
const yieldToClients = (space: DiskSpace, error: unknown): ReturnType<DiskSpace['yieldToClients']> =>
  isStorageFull(error) ? space.yieldToClients(error) : { error, isWorthRetry: false };

export function chunksWithReserve(store: ChunkStore, space: DiskSpace): ChunkStore {
  const failed = (error: unknown): never => {
    throw yieldToClients(space, error).error;
  };
  const small = ({ bytesMax, write }: SmallWrite): SmallWrite => ({
    bytesMax,
    async write(id, bytes, owner) {
      space.take(bytes.length);
      return write(id, bytes, owner).catch(failed);
    },
  });
  return {
    ...store,
    async write(id, source, options) {
      space.take(options.size ?? chunkBytes);
      return store.write(id, source, options).catch(failed);
    },
    ...(store.small === undefined ? {} : { small: small(store.small) }),
    async remove(chunks) {
      await store.remove(chunks).catch((error: unknown) => {
        const way = yieldToClients(space, error);
        if (!way.isWorthRetry) throw way.error;
        return store.remove(chunks);
      });
    },
  };
}

// The disks of a gateway: those of its stores, by component.

type Shared = Pick<DiskSpaceOptions, 'reserveBytes' | 'clock'>;
/** A disk on which no reserve is kept (`SVC_DISK_RESERVE=0`): operators see its space all the same. */
type MeasuredDisk = Pick<DiskSpaceOptions, 'component' | 'directory'>;

export class DiskSpaces implements StorageSpace {
  readonly #shared: Shared;
  readonly #disks: DiskSpace[] = [];
  readonly #measured: MeasuredDisk[] = [];

  constructor(shared: Shared) {
    this.#shared = shared;
  }

  /** Undefined where no reserve is kept: the disk is then only measured. */
  open(component: string, directory: string): DiskSpace | undefined {
    if (this.#shared.reserveBytes === 0) {
      this.#measured.push({ component, directory });
      return undefined;
    }
    const neighbours = (): readonly DiskSpace[] =>
      this.#disks.filter((each) => each !== space && findDisk(each.directory) === findDisk(directory));
    const space = new DiskSpace({ ...this.#shared, component, directory, neighbours });
    this.#disks.push(space);
    return space;
  }

  states(): readonly DiskState[] {
    return [
      ...this.#disks.map((space) => space.state()),
      ...this.#measured.flatMap((disk) => measureDisk(disk) ?? []),
    ];
  }

  warning(): string | undefined {
    // It is asked before each write: disks without a reserve have no problem to report, and are not measured.
    let ofData: string | undefined;
    let hasSpace = false;
    for (const space of this.#disks) {
      const warning = space.warning();
      if (space.component === 'metadata' && warning !== undefined) return warning;
      if (space.component === 'metadata') continue;
      if (warning === undefined) hasSpace = true;
      ofData ??= warning;
    }
    // A write goes to one cluster, so space on any of them is enough.
    return hasSpace ? undefined : ofData;
  }

  async close(): Promise<void> {
    await Promise.all(this.#disks.map((space) => space.close()));
  }
}

/** The device; undefined where the directory does not exist yet. */
const findDisk = (directory: string): number | undefined =>
  statSync(directory, { throwIfNoEntry: false })?.dev;

/** Undefined where the space cannot be measured, for example because the directory does not exist. */
function measureDisk({ component, directory }: MeasuredDisk): DiskState | undefined {
  try {
    const { bsize, blocks, bavail } = statfsSync(directory);
    return { component, freeBytes: bsize * bavail, sizeBytes: bsize * blocks };
  } catch {
    return undefined;
  }
}
