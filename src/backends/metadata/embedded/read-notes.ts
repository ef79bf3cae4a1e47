/**
 * Where this process reads in the metadata file, noted ahead of each step that can end the process on a damaged page (`damaged-pages.ts`). The
 * notes of a process that has died lead to the page at once, without a search of the whole file: the next process that opens the file names the
 * page before it reads, and so does the primary process.
 *
 * A process has a file `reading-<random>` beside `data.mdb`, mode 0600, with its identity and a ring of the last keys from which it read. A key that is
 * in the ring is not written again, so that reads that repeat, as those of an idle gateway, write nothing. A clean close removes the file.
 */
import { randomBytes } from 'node:crypto';
import { closeSync, openSync, readdirSync, readFileSync, rmSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { hasEnded, processIdentity } from '../../process-identity.ts';

const prefix = 'reading-';
const fileMode = 0o600;
/** Slots of the ring. The scans and look-ups of an idle gateway begin at fewer keys. */
const slots = 64;
const identityBytes = 256;
/** A number that grows, the length of the key, the direction, and the key. */
const slotBytes = 2_048;
const slotHeaderBytes = 8;
const keyBytesMax = slotBytes - slotHeaderBytes;
/** A scan notes its place again after so many rows, so a note leads to the page after at most as many leaf pages. */
export const rowsPerNote = 64;
/** Files of dead processes that are read at once: each opening removes those that it has read. */
const filesMax = 256;

export interface ReadNote {
  readonly key: Uint8Array;
  readonly reverse: boolean;
}

export class ReadNotes {
  readonly #path: string;
  /** Undefined on a full or read-only disk: then nothing is noted. */
  readonly #descriptor: number | undefined;
  readonly #ring: (string | undefined)[] = Array.from({ length: slots });
  readonly #known = new Set<string>();
  readonly #slot = Buffer.alloc(slotBytes);
  #count = 0;

  constructor(directory: string) {
    this.#path = join(directory, `${prefix}${randomBytes(8).toString('hex')}`);
    try {
      this.#descriptor = openSync(this.#path, 'wx', fileMode);
      const identity = Buffer.alloc(identityBytes);
      identity.write(processIdentity() ?? `pid/${process.pid}`);
      writeSync(this.#descriptor, identity, 0, identityBytes, 0);
    } catch {
      // lmdb cannot write there either, and reports that.
    }
  }

  /** Call it ahead of a read from `key` on. It costs a look-up, and for a key that is not in the ring one write system call. */
  note(key: Uint8Array, reverse = false): void {
    if (this.#descriptor === undefined || key.length > keyBytesMax) return;
    const text = Buffer.from(key.buffer, key.byteOffset, key.length).toString('latin1');
    const name = reverse ? `-${text}` : `+${text}`;
    if (this.#known.has(name)) return;
    const index = this.#count % slots;
    const former = this.#ring[index];
    if (former !== undefined) this.#known.delete(former);
    this.#ring[index] = name;
    this.#known.add(name);
    this.#count += 1;
    this.#slot.writeUInt32LE(this.#count % 2 ** 32, 0);
    this.#slot.writeUInt16LE(key.length, 4);
    this.#slot.writeUInt16LE(reverse ? 1 : 0, 6);
    this.#slot.set(key, slotHeaderBytes);
    try {
      const length = slotHeaderBytes + key.length;
      writeSync(this.#descriptor, this.#slot, 0, length, identityBytes + index * slotBytes);
    } catch {
      // A full disk: the read itself goes on.
    }
  }

  close(): void {
    if (this.#descriptor === undefined) return;
    closeSync(this.#descriptor);
    rmSync(this.#path, { force: true });
  }
}

export interface LeftNotes {
  readonly path: string;
  /** The newest first. */
  readonly notes: readonly ReadNote[];
}

/** The notes of processes that have died, as far as it is known; those of an earlier boot are empty. */
export function leftNotes(directory: string): readonly LeftNotes[] {
  const names = readdirSync(directory).filter((name) => name.startsWith(prefix));
  return names.slice(0, filesMax).flatMap((name) => {
    const path = join(directory, name);
    let bytes: Buffer;
    try {
      bytes = readFileSync(path);
    } catch {
      // Another process has removed it.
      return [];
    }
    const [identity = ''] = bytes.toString('latin1', 0, identityBytes).split('\0', 1);
    if (isRunning(identity)) return [];
    return [{ path, notes: isOfEarlierBoot(identity) ? [] : readSlots(bytes.subarray(identityBytes)) }];
  });
}

function readSlots(bytes: Buffer): readonly ReadNote[] {
  const found: (ReadNote & { readonly number: number })[] = [];
  for (let at = 0; at + slotHeaderBytes < bytes.length; at += slotBytes) {
    const number = bytes.readUInt32LE(at);
    const start = at + slotHeaderBytes;
    const end = start + bytes.readUInt16LE(at + 4);
    if (number === 0 || end > bytes.length) continue;
    found.push({
      number,
      key: new Uint8Array(bytes.subarray(start, end)),
      reverse: bytes.readUInt16LE(at + 6) === 1,
    });
  }
  return found.toSorted((a, b) => b.number - a.number);
}

/** What ended all processes of the machine was no page, and its pages are in no cache now: to read them would delay the start. */
function isOfEarlierBoot(identity: string): boolean {
  const own = processIdentity();
  return own !== undefined && !identity.startsWith('pid/') && identity.split('/')[0] !== own.split('/')[0];
}

/** A process of an earlier boot, or of a container that was started again, runs no more, or loses only its notes. */
function isRunning(identity: string): boolean {
  const own = processIdentity();
  if (own === undefined || identity.startsWith('pid/')) return canSignal(Number(identity.split('/')[1]));
  const isOfHere = identity.split('/').slice(0, 2).join('/') === own.split('/').slice(0, 2).join('/');
  return isOfHere && !hasEnded(identity);
}

function canSignal(pid: number): boolean {
  if (pid === process.pid) return true;
  try {
    process.kill(pid, 0);
    return true;
  } catch (cause) {
    return (cause as { readonly code?: unknown }).code !== 'ESRCH';
  }
}
