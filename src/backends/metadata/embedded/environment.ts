/**
 * Opens the lmdb environment of the embedded backend with the options that make it durable, shared by processes and unlimited in size.
 *
 * One unnamed database holds everything: a second one would add its own root path to every commit, and a commit writes 4 KiB pages.
 * The first byte of a key is its kind (`records/codec.ts`).
 */
import {
  chmodSync,
  closeSync,
  existsSync,
  fstatSync,
  fsyncSync,
  mkdirSync,
  openSync,
  statSync,
} from 'node:fs';
import { dirname } from 'node:path';
import { open, type RootDatabaseOptionsWithPath } from 'lmdb';
import { isStorageReadOnly } from '../../../ports/chunk-store.ts';
import { StoreRefused } from '../../../ports/metadata-store.ts';
import { textKeyIn } from '../records/codec.ts';
import { checkPages } from './check-pages.ts';
import { CheckedDatabase, type RawDatabase } from './checked-database.ts';
import { DamagedPages, nameNotedPages, ReadNotes } from './damaged-pages.ts';
import { identifyFiles, joinUsers } from './exclusive-use.ts';
import { dataFile, LatestCommit, latestMeta, Openings } from './meta-page.ts';
import { checksumBytes, keysFor, Values } from './values.ts';

export type Database = CheckedDatabase;

export function openEnvironment(directory: string, durable: boolean): Database {
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  // lmdb makes its files 0600; a directory that existed before may be open to others.
  if ((statSync(directory).mode & 0o077) !== 0) chmodSync(directory, 0o700);
  const before = identifyFiles(directory);
  assertNotTruncated(directory);
  nameNoted(directory);
  const values = new Values();
  const openings = new Openings(directory);
  const endOpening = openings.begin();
  const giveUp = (): void => {
    endOpening();
    openings.close();
  };
  const database = openFiles(giveUp, {
    path: directory,
    // A directory whose name has a dot in it would else be taken for a file.
    noSubdir: false,
    keyEncoder: keysFor(values),
    encoder: values,
    ...({ permissionsMode: 0o600 } as object),
    // On by default, it makes a commit visible and acknowledged before it is flushed.
    overlappingSync: false,
    // The journal makes its own batches; those of lmdb would reject a promise without a handler when a commit fails.
    eventTurnBatching: false,
    noSync: !durable,
    // lmdb-js keeps the free pages that it knows from one transaction to the next, and allocates some twice when a reader begins at an
    // earlier commit than readers before it. That is possible after another process opened the file (`LatestCommit`).
    ...({ maxFreeSpaceToRetain: 0 } as object),
    // No mapSize: the map then doubles as it fills, in every process.
  });
  if (durable) for (const path of [directory, dirname(directory)]) flushDirectory(path);
  const latest = new LatestCommit(directory);
  latest.correctAfterOpening();
  endOpening();
  const damagedPages = new DamagedPages(directory);
  const notes = new ReadNotes(directory);
  const checked = new CheckedDatabase(database, { values, latest, openings, damagedPages, notes });
  try {
    // Its read takes the slot in the reader table that keeps compactions away.
    if (isNewFile(checked)) checked.beginWith(() => noteFormat(checked));
    checked.onClose = joinUsers(database, { directory, before, latest });
  } catch (cause) {
    void checked.close();
    throw cause;
  }
  return checked;
}

/** A file that cannot be read without lmdb is refused by what follows. */
function nameNoted(directory: string): void {
  try {
    nameNotedPages(directory, { forgets: true });
  } catch {
    // The notes stay for the next process.
  }
}

/** @throws StoreRefused on a read-only file system */
function openFiles(onFailure: () => void, options: RootDatabaseOptionsWithPath): RawDatabase {
  try {
    return open<unknown, Uint8Array>(options);
  } catch (cause) {
    onFailure();
    throw explainFailure(cause, options.path);
  }
}

/** What a failed opening throws: a read-only file system is no fault of ours. */
export const explainFailure = (cause: unknown, path: string | undefined): unknown =>
  isStorageReadOnly(cause) ? new StoreRefused(`the file system of ${path} is read-only`, { cause }) : cause;

/**
 * lmdb maps the file, and reading a page beyond the end of a truncated file kills the process by SIGBUS. A sound file may lack its last
 * pages while they are free, so a file that is shorter than its meta page says is read completely before it is mapped.
 * @throws StoreRefused
 */
function assertNotTruncated(directory: string): void {
  const path = dataFile(directory);
  if (!existsSync(path)) return;
  const descriptor = openSync(path, 'r');
  try {
    const meta = latestMeta(descriptor);
    if (meta === undefined || fstatSync(descriptor).size >= (meta.lastPage + 1) * meta.pageBytes) return;
    for (const { faults } of checkPages(descriptor))
      if (faults[0] !== undefined) throw new Error(faults[0].detail);
  } catch (cause) {
    const why = (cause as Error).message;
    throw new StoreRefused(`${path} is damaged: ${why}; docs/recovery.md says what to do`, { cause });
  } finally {
    closeSync(descriptor);
  }
}

/** lmdb flushes the files; the directory must be flushed so that their names are durable. */
function flushDirectory(path: string): void {
  const descriptor = openSync(path, 'r');
  try {
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

// The format of the data directory: which bytes a release of sluice finds in lmdb's file.

/** 1: rows without a checksum. 2: a checksum before every value. */
const storeFormat = 2;

const formatKey = textKeyIn('catalog', '');

/** Notes the format; the first transaction of a new file does. */
const noteFormat = (database: CheckedDatabase): void => database.put(formatKey, storeFormat);

/** @returns whether the file is new @throws StoreRefused where it has another format */
function isNewFile(database: CheckedDatabase): boolean {
  database.refresh();
  const found = database.get(formatKey);
  if (found === storeFormat) return false;
  if (found === undefined && database.isEmpty()) return true;
  const has = found === undefined ? 'has no note of its format' : `has format ${String(found)}`;
  throw new StoreRefused(
    `the data directory ${has}, and this release reads format ${storeFormat}: ` +
      'an earlier or later release wrote it, or its first row is damaged; docs/recovery.md says what to do',
  );
}

/** @param value of the first row, with its checksum @throws StoreRefused where it is no note of this format */
export function assertFormat(value: Uint8Array | undefined): void {
  if (value?.length === checksumBytes + 1 && value[checksumBytes] === storeFormat) return;
  throw new StoreRefused(
    `the metadata file has no note of format ${storeFormat}; docs/recovery.md says what to do`,
  );
}
