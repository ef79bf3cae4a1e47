/** The free space of one directory's disk, and the reserve that is kept for deletions (`SVC_DISK_RESERVE`). */
import fs from 'node:fs';
import type { Clock } from '../../ports/clock.ts';
import { isStorageFull, type RoomState, StorageFull } from '../../ports/storage/storage-room.ts';
import { Ballast } from './ballast.ts';

export interface DiskRoomOptions {
  /** `metadata`, or `data:<cluster>`. */
  readonly component: string;
  readonly directory: string;
  readonly reserveBytes: number;
  readonly clock: Pick<Clock, 'elapsed'>;
  /** The other stores on the same disk, whose ballast deletions may use too. */
  readonly neighbours?: () => readonly DiskRoom[];
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

export class DiskRoom {
  readonly #options: DiskRoomOptions;
  readonly #ballast: Ballast;
  readonly #ballastBytes: number;
  /** Runs while the ballast is not whole. */
  #timer: NodeJS.Timeout | undefined;
  readonly #closing = new AbortController();
  #last: Look | undefined;
  #admittedBytes = 0;
  #refilling: Promise<unknown> | undefined;

  constructor(options: DiskRoomOptions) {
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

  state(): RoomState {
    const look = this.#look();
    const complaint = this.#complaintOf(look, 0);
    const { component } = this.#options;
    return {
      component,
      freeBytes: look?.freeBytes ?? 0,
      ...(look === undefined ? {} : { sizeBytes: look.sizeBytes }),
      ...(complaint === undefined ? {} : { complaint }),
    };
  }

  /** Admits a write of so many bytes. @throws StorageFull below the reserve */
  take(bytes: number): void {
    const complaint = this.#complaintOf(this.#look(), bytes);
    if (complaint !== undefined) throw new StorageFull(complaint);
    this.#admittedBytes += bytes;
  }

  /**
   * After a failed write: gives up the ballast where the disk is full, so that a retried deletion finds space.
   * @param frees whether the write was a deletion; other writes do not use the ballast
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
    const rooms = [this, ...(this.#options.neighbours?.() ?? [])];
    const spent = rooms.map((room) => room.#ballast.spend());
    for (const room of rooms) room.#refillSoon();
    return spent.includes(true);
  }

  async close(): Promise<void> {
    this.#closing.abort();
    clearInterval(this.#timer);
    await this.#refilling;
  }

  #complaintOf(look: Look | undefined, bytes: number): string | undefined {
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
