/**
 * A file of allocated blocks that a store gives up when its disk is full. So a limit that the file system does not report (a quota,
 * another program that writes) still leaves space for deletions.
 *
 * `reserve` holds the blocks. `reserve.spent` is the same file, truncated: every process sees by its name that the disk was full, also
 * after a restart, until another `reserve` has been written. A rename and a truncation need no free block and no free inode.
 */
import { randomFillSync } from 'node:crypto';
import fs from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { join } from 'node:path';

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
