/**
 * A file of real blocks that a store gives up when its disk is full. A limit that the file system does not report (a quota,
 * another program that writes) then still leaves space for deletions.
 *
 * `reserve` holds the blocks. `reserve.spent` is the same file, truncated: every process sees by its name that the disk was
 * full, also after a restart, until another `reserve` has been written. A rename and a truncation need no free block and no free inode.
 */
import { randomFillSync } from 'node:crypto';
import fs from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { join } from 'node:path';

const pieceBytes = 1024 * 1024;

export class Ballast {
  readonly #path: string;
  readonly #spentPath: string;
  readonly #draftPath: string;
  readonly #sizeBytes: number;

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

  /** Gives the blocks back to the file system; true when there were any. */
  spend(): boolean {
    try {
      fs.renameSync(this.#path, this.#spentPath);
    } catch {
      // Another process was first, or there is none.
    }
    const spent = [this.#spentPath, this.#draftPath].map(empty);
    return spent.includes(true);
  }

  /**
   * Writes the blocks and names the file `reserve`. Processes that do so at once write the same file.
   * @returns false where the disk has no room for it
   */
  async refill(signal: AbortSignal): Promise<boolean> {
    try {
      const file = await open(this.#draftPath, 'w', 0o600);
      try {
        await this.#write(file, signal);
        await file.sync();
        if ((await file.stat()).size !== this.#sizeBytes) return false;
        fs.renameSync(this.#draftPath, this.#path);
        fs.rmSync(this.#spentPath, { force: true });
        return true;
      } finally {
        await file.close();
        // Where it was not renamed.
        fs.rmSync(this.#draftPath, { force: true });
      }
    } catch {
      // No room, or the directory cannot be written: the next look tries again.
      return false;
    }
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
