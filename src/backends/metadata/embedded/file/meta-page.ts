/**
 * The two meta pages at the beginning of lmdb's file, read without lmdb: lmdb maps the file, and a page that a truncated
 * file no longer has ends the process by SIGBUS. Layout: `MDB_meta` of liblmdb 1.0, which lmdb-js builds in.
 */
import { fstatSync, readSync } from 'node:fs';
import { join } from 'node:path';

export const dataFile = (directory: string): string => join(directory, 'data.mdb');
export const lockFile = (directory: string): string => join(directory, 'lock.mdb');

export const pageHeaderBytes = 24;
const magic = 0xbeefc0de;
const metaBytes = 168;
const guessedPageBytes = 4096;

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

function readMeta(bytes: Uint8Array): MetaPage | undefined {
  const view = new DataView(bytes.buffer, bytes.byteOffset + pageHeaderBytes, metaBytes);
  if (view.getUint32(0, true) !== magic) return undefined;
  return {
    pageBytes: view.getUint32(24, true),
    free: readTree(view, 24),
    main: readTree(view, 72),
    lastPage: Number(view.getBigUint64(120, true)),
    transaction: Number(view.getBigUint64(128, true)),
  };
}

/** The meta page of the latest commit; undefined of a file that is empty. @throws Error where there is none */
export function latestMeta(descriptor: number): MetaPage | undefined {
  if (fstatSync(descriptor).size === 0) return undefined;
  const first = readPage(descriptor, 0, guessedPageBytes);
  const metas = [first, readPage(descriptor, first?.pageBytes ?? guessedPageBytes, guessedPageBytes)];
  const latest = metas.reduce((a, b) => ((b?.transaction ?? -1) > (a?.transaction ?? -1) ? b : a));
  if (latest === undefined) throw new Error('neither of its two meta pages is one');
  return latest;
}

/** The offset of the transaction number in a meta page. */
const transactionAt = pageHeaderBytes + 128;
const bothMetas = new Uint8Array(2 * guessedPageBytes);
const inBothMetas = new DataView(bothMetas.buffer);

/**
 * The number of the latest commit, by one short read for each transaction. The meta page of an even number is the first.
 * @returns undefined where the meta pages cannot be read: other pages than of 4 KiB, or a damaged or truncated file
 */
export function latestTransaction(descriptor: number): number | undefined {
  const wanted = guessedPageBytes + pageHeaderBytes + metaBytes;
  if (readSync(descriptor, bothMetas, 0, wanted, 0) < wanted) return undefined;
  let latest: number | undefined;
  for (const page of [0, 1]) {
    const start = page * guessedPageBytes;
    if (inBothMetas.getUint32(start + pageHeaderBytes, true) !== magic) return undefined;
    const transaction = Number(inBothMetas.getBigUint64(start + transactionAt, true));
    // A file that was never written has two of number 0.
    if (transaction % 2 === page || transaction === 0) latest = Math.max(latest ?? 0, transaction);
  }
  return latest;
}

function readPage(descriptor: number, at: number, length: number): MetaPage | undefined {
  const bytes = new Uint8Array(length);
  return readSync(descriptor, bytes, 0, length, at) < pageHeaderBytes + metaBytes
    ? undefined
    : readMeta(bytes);
}
