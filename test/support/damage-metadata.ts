/** Damages the metadata file of the embedded store at a chosen place. */
import { open, readFile } from 'node:fs/promises';

const pageBytes = 4096;
const header = 24;

/** Writes only the bytes that differ, because a store may have the file open. */
export async function patchFile(path: string, patch: (bytes: Buffer) => void): Promise<void> {
  const bytes = await readFile(path);
  const before = Buffer.from(bytes);
  patch(bytes);
  const file = await open(path, 'r+');
  for (let at = 0; at < bytes.length; at += 1) {
    if (bytes[at] !== before[at]) await file.write(bytes, at, 1, at);
  }
  await file.close();
}

export interface BranchEntry {
  readonly key: Uint8Array;
  /** Offset of the number of the page that the entry names. */
  readonly at: number;
  readonly keyAt: number;
  readonly page: number;
}

/** The number of the root page of the rows. */
const rootPage = (bytes: Buffer): number => Number(bytes.readBigUInt64LE(latestMeta(bytes) + 72 + 40));

/** The entries of a branch page, by default the root page. Layout: `MDB_meta`, `MDB_page`, `MDB_node`. */
export function branchEntries(bytes: Buffer, page = rootPage(bytes)): BranchEntry[] {
  const root = page * pageBytes;
  if ((bytes.readUInt16LE(root + 18) & 1) === 0) throw new Error(`page ${page} is no branch page`);
  return Array.from({ length: bytes.readUInt16LE(root + 20) / 2 }, (_, index) => {
    const at = root + header + bytes.readUInt16LE(root + header + 2 * index);
    const keyAt = at + 8;
    const key = bytes.subarray(keyAt, keyAt + bytes.readUInt16LE(at + 6));
    return { key, at, keyAt, page: bytes.readUInt32LE(at) };
  });
}

/** Overwrites a page of the rows' tree with zeros: the one that holds `key`, or that names the page of it. */
export async function zeroPage(path: string, key: Uint8Array, kind: 'leaf' | 'branch'): Promise<void> {
  await patchFile(path, (bytes) => {
    const isBranch = (page: number): boolean => (bytes.readUInt16LE(page * pageBytes + 18) & 1) !== 0;
    const pages = [rootPage(bytes)];
    for (let page = pages[0] as number; isBranch(page); pages.push(page)) {
      const entries = branchEntries(bytes, page);
      const entry = entries.findLast((each, index) => index === 0 || Buffer.compare(each.key, key) <= 0);
      page = entry?.page as number;
    }
    const page = pages.at(kind === 'leaf' ? -1 : -2) as number;
    if (page === rootPage(bytes)) throw new Error('the tree has no such page below its root');
    bytes.fill(0, page * pageBytes, (page + 1) * pageBytes);
  });
}

/** Flips a bit of the last non-zero byte of `text`, in every copy in the file. @returns the number of copies */
export async function flipText(path: string, text: string): Promise<number> {
  let flips = 0;
  await patchFile(path, (bytes) => {
    const wanted = Buffer.from(text);
    for (let at = bytes.indexOf(wanted); at >= 0; at = bytes.indexOf(wanted, at + 1)) {
      const last = at + text.replace('\0', '').length - 1;
      bytes[last] = (bytes[last] as number) ^ 2;
      flips += 1;
    }
  });
  if (flips === 0) throw new Error(`the file does not have ${JSON.stringify(text)}`);
  return flips;
}

/** The offset of `MDB_meta` of the latest commit. */
function latestMeta(bytes: Buffer): number {
  const transaction = (page: number): bigint => bytes.readBigUInt64LE(page * pageBytes + header + 128);
  return (transaction(1) > transaction(0) ? pageBytes : 0) + header;
}

/** The number of levels of the free list's tree. */
export const freeListDepth = (bytes: Buffer): number => bytes.readUInt16LE(latestMeta(bytes) + 24 + 6);

export interface FreeListEntry {
  /** Offset of the entry. */
  readonly at: number;
  readonly page: number;
}

/** The root page of the rows, and the single pages of a free list that is one page. Layout: `MDB_meta`, `midl.c`. */
export function freeList(bytes: Buffer): {
  readonly root: number;
  readonly entries: readonly FreeListEntry[];
} {
  const number = (at: number): number => Number(bytes.readBigInt64LE(at));
  const meta = latestMeta(bytes);
  const list = number(meta + 24 + 40) * pageBytes;
  if ((bytes.readUInt16LE(list + 18) & 2) === 0) throw new Error('the root of the free list is no leaf page');
  const entries: FreeListEntry[] = [];
  for (let node = 0; node < bytes.readUInt16LE(list + 20) / 2; node += 1) {
    const at = list + header + bytes.readUInt16LE(list + header + 2 * node);
    if (bytes.readUInt16LE(at + 4) !== 0) continue;
    const data = at + 8 + bytes.readUInt16LE(at + 6);
    for (let index = 1; index <= number(data); index += 1) {
      const page = number(data + 8 * index);
      // Skip the first page of a block.
      if (page > 0 && number(data + 8 * (index - 1)) >= 0) entries.push({ at: data + 8 * index, page });
    }
  }
  return { root: number(meta + 72 + 40), entries };
}
