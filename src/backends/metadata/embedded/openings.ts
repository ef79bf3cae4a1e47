/**
 * Keeps readers from snapshots that begin before the latest commit. While a process opens the metadata file, the note in `lock.mdb` may
 * name an earlier commit until that process has corrected it (`meta-page.ts`), and a snapshot begins where the note says.
 *
 * Each process appends a line to the file `openings` before lmdb opens the metadata file, and another line once the note is right. A
 * reader begins its snapshot first and looks at the length of `openings` afterwards. If the file has not grown, no opening overlapped the
 * snapshot. If it has, the reader waits for the openings, corrects the note, and begins another snapshot.
 *
 * A process that is paused for longer than `waitMs` while it opens the file is not waited for again before it continues.
 */
import { closeSync, fstatSync, openSync, readSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';

const fileMode = 0o600;
/** An opening takes a few milliseconds. */
const waitMs = 200;
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

  constructor(directory: string) {
    try {
      this.#descriptor = openSync(join(directory, 'openings'), 'a+', fileMode);
    } catch {
      // lmdb cannot write there either, and reports that.
    }
  }

  /** Announces an opening by this process. @returns announces its end */
  begin(): () => void {
    this.#append(begun);
    return () => this.#append(ended);
  }

  /** Whether an opening has begun or ended since the last call of `await`. It costs one read system call. */
  haveGrown(): boolean {
    return this.#descriptor !== undefined && readSync(this.#descriptor, oneByte, 0, 1, this.#seen) > 0;
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
      Atomics.wait(neverNotified, 0, 0, pollMs);
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

const oneByte = new Uint8Array(1);
const neverNotified = new Int32Array(new SharedArrayBuffer(4));

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
