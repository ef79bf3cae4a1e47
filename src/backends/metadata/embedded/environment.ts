/**
 * Opens the lmdb environment of the embedded backend, with the choices that make it durable, shared by
 * processes and unlimited in size (facts.md, "lmdb").
 *
 * One unnamed database holds everything: a second one would add its own root path to every commit, and
 * a commit writes 4 KiB pages. The first byte of a key tells what it is; `space` lists them.
 */
import { chmodSync, closeSync, fsyncSync, mkdirSync, openSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { open, type RootDatabase } from 'lmdb';
import { Packr } from 'msgpackr';
import { decodeText } from '../node-text.ts';
import { readSome, type Wanted } from '../packed-row.ts';

export type Database = RootDatabase<unknown, Uint8Array>;

/** First bytes of keys that are not rows; a row's is the first letter of its table's name. */
export const space = { catalog: 1, fence: 2, epoch: 3, expiry: 4 } as const;

/** lmdb's limit with 4 KiB pages is 1978; an expiry key is 8 bytes longer than its row's. */
export const keyBytesMax = 1978 - 8;

const keys = {
  writeKey(key: Uint8Array, target: Buffer, start: number): number {
    target.set(key, start);
    return start + key.length;
  },
  /** From Node's pool: to allocate each by itself takes longer than to read it. */
  readKey: (source: Buffer, start: number, end: number): Uint8Array =>
    Buffer.from(source.subarray(start, end)),
};

let wanted: Wanted | undefined;

/** Rows are arrays; nothing in them may need a structure that another process has yet to learn. */
class Values extends Packr {
  override decode(bytes: Uint8Array, end: number): unknown {
    return wanted === undefined ? super.decode(bytes, end) : readSome(bytes, wanted, decodeText);
  }
}

/** What `read` gets from a database are rows with the wanted values alone. */
export function readingOnly<T>(some: Wanted | undefined, read: () => T): T {
  wanted = some;
  try {
    return read();
  } finally {
    wanted = undefined;
  }
}

export function openEnvironment(directory: string, durable: boolean): Database {
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  // lmdb makes its files 0600; a directory that existed before may be open to others.
  if ((statSync(directory).mode & 0o077) !== 0) chmodSync(directory, 0o700);
  const database: Database = open<unknown, Uint8Array>({
    path: directory,
    // A directory whose name has a dot in it would else be taken for a file.
    noSubdir: false,
    keyEncoder: keys,
    encoder: new Values({ useRecords: false, encodeUndefinedAsNil: true, copyBuffers: true } as object),
    ...({ permissionsMode: 0o600 } as object),
    // On by default, it makes a commit visible and acknowledged before it is flushed.
    overlappingSync: false,
    // The journal makes its own batches; lmdb's would reject a promise that nobody holds when a commit fails.
    eventTurnBatching: false,
    noSync: !durable,
    // No mapSize: the map then doubles as it fills, in every process.
  });
  if (durable) for (const path of [directory, dirname(directory)]) flushDirectory(path);
  return database;
}

/** The files themselves are flushed by lmdb; that they are there at all is the directory's to remember. */
function flushDirectory(path: string): void {
  const descriptor = openSync(path, 'r');
  try {
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

/** A key of our own: the space's byte and what follows. */
export function keyIn(name: keyof typeof space, rest: Uint8Array): Uint8Array {
  const key = new Uint8Array(rest.length + 1);
  key[0] = space[name];
  key.set(rest, 1);
  return key;
}

const encoder = new TextEncoder();
export const textKeyIn = (name: keyof typeof space, rest: string): Uint8Array =>
  keyIn(name, encoder.encode(rest));
