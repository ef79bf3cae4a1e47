/**
 * Reads every page of lmdb's file, without lmdb: whether each page is the one that its parent means, its rows are in order
 * and inside the bounds that the parent states, every row matches its checksum, and no page of the trees is in the list of free
 * pages. lmdb checks none of this and may end the process on what it meets. Layout of pages: liblmdb 1.0 (`MDB_page`, `MDB_node`).
 */
import { readSync } from 'node:fs';
import { compareBytes } from '../key-order.ts';
import { latestMeta, type MetaPage, pageHeaderBytes, type TreeShape } from './meta-page.ts';
import { checksumBytes, readChecksum, rowChecksum } from './values.ts';

export interface PageFault {
  readonly detail: string;
  /** The row that is damaged. */
  readonly key?: Uint8Array;
  /** A page that lmdb must not read, because it may end the process there: its number, where it is a page of the rows' tree. */
  readonly page?: number;
  /** For a whole page: the keys that it may have held, from `low` up to `high`. */
  readonly low?: Uint8Array | undefined;
  readonly high?: Uint8Array | undefined;
  /** The list of free pages is damaged, and no row. */
  readonly isFreeList?: true;
}

/** A row that matches its checksum; the value is valid during the call. */
type VisitRow = (key: Uint8Array, value: Uint8Array) => void;

/** `rows` were read since the last step. */
interface PageStep {
  readonly rows: number;
  readonly faults: readonly PageFault[];
}

const nodeHeaderBytes = 8;
export const flag = { branch: 1, leaf: 2, overflow: 4 } as const;
const bigData = 1;
/** lmdb's own limit on the depth of a tree. */
const depthMax = 32;

/** The header or an entry of a page is not what lmdb expects, which it does not check everywhere. */
export class UnsoundPage extends Error {}

export interface Place {
  readonly page: number;
  readonly level: number;
  readonly low: Uint8Array | undefined;
  readonly high: Uint8Array | undefined;
}

export interface Node {
  readonly key: Uint8Array;
  readonly low: number;
  readonly flags: number;
  readonly dataAt: number;
}

/** @yields a step for each page of the trees, and one at the end @param visit meets the rows in the order of their keys */
export function* checkPages(descriptor: number, visit?: VisitRow): Generator<PageStep> {
  yield* checkTrees(descriptor, { visit });
}

/** @yields a step for each page of the rows' tree; the faults are of whole pages, because no row is verified */
export function* checkHeaders(descriptor: number): Generator<PageStep> {
  yield* checkTrees(descriptor, { headersOnly: true });
}

interface CheckOptions {
  readonly visit?: VisitRow | undefined;
  readonly headersOnly?: boolean;
}

function* checkTrees(descriptor: number, { visit, headersOnly = false }: CheckOptions): Generator<PageStep> {
  let meta: MetaPage | undefined;
  try {
    meta = latestMeta(descriptor);
  } catch (cause) {
    yield { rows: 0, faults: [{ detail: (cause as Error).message }] };
  }
  if (meta === undefined) return;
  const file = new PageFile(descriptor, meta);
  yield* new TreeCheck(file, { name: 'main', shape: meta.main, holdsRows: true, visit, headersOnly }).run();
  if (headersOnly) return;
  const freePages = new FreePages(meta.lastPage);
  const free = new TreeCheck(file, { name: 'free list', shape: meta.free, holdsRows: false, freePages });
  for (const { rows, faults } of free.run())
    yield { rows, faults: faults.map((fault) => ({ ...fault, isFreeList: true })) };
  yield { rows: 0, faults: freePages.faults(file.met).map((detail) => ({ detail, isFreeList: true })) };
}

class PageFile {
  readonly #descriptor: number;
  readonly meta: MetaPage;
  /** Pages that were met, by number: each has one place. */
  readonly met: PageSet;

  constructor(descriptor: number, meta: MetaPage) {
    this.#descriptor = descriptor;
    this.meta = meta;
    this.met = new PageSet(meta.lastPage);
  }

  /** @throws Error with what is wrong */
  read(page: number, { flags, pages = 1 }: { readonly flags: number; readonly pages?: number }): Buffer {
    const bytes = readPage(this.#descriptor, { meta: this.meta, page, flags, pages });
    for (let each = page; each < page + pages; each++)
      if (!this.met.add(each)) throw new Error(`page ${each} is in two places`);
    return bytes;
  }
}

interface ReadOptions {
  readonly meta: MetaPage;
  readonly page: number;
  readonly flags: number;
  readonly pages?: number;
}

/** @throws UnsoundPage */
export function readPage(descriptor: number, { meta, page, flags, pages = 1 }: ReadOptions): Buffer {
  const { pageBytes, lastPage, transaction } = meta;
  if (page < 2 || page + pages - 1 > lastPage) throw new UnsoundPage(`there is no page ${page}`);
  const bytes = Buffer.allocUnsafe(pages * pageBytes);
  if (readSync(descriptor, bytes, 0, bytes.length, page * pageBytes) < bytes.length)
    throw new UnsoundPage(`the file ends before page ${page}`);
  if (Number(bytes.readBigUInt64LE(0)) !== page) throw new UnsoundPage(`page ${page} is another one`);
  if (Number(bytes.readBigUInt64LE(8)) > transaction) throw new Error(`page ${page} is of a later commit`);
  if ((bytes.readUInt16LE(18) & 0xff) !== flags) throw new UnsoundPage(`page ${page} is of another kind`);
  return bytes;
}

interface TreeOptions {
  readonly name: string;
  readonly shape: TreeShape;
  readonly holdsRows: boolean;
  readonly headersOnly?: boolean;
  readonly visit?: VisitRow | undefined;
  /** Takes the values of the free list. */
  readonly freePages?: FreePages;
}

class TreeCheck {
  readonly #file: PageFile;
  readonly #options: TreeOptions;
  #entries = 0;
  #isDamaged = false;

  constructor(file: PageFile, options: TreeOptions) {
    this.#file = file;
    this.#options = options;
  }

  *run(): Generator<PageStep> {
    const { name, shape, headersOnly } = this.#options;
    if (shape.depth > depthMax)
      return yield { rows: 0, faults: [{ detail: `the ${name} tree has no depth` }] };
    if (shape.root === undefined) return;
    const left: Place[] = [{ page: shape.root, level: 1, low: undefined, high: undefined }];
    for (let place = left.pop(); place !== undefined; place = left.pop()) {
      const step = this.#page(place, left);
      this.#isDamaged ||= step.faults.length > 0;
      yield step;
    }
    if (this.#isDamaged || headersOnly === true || this.#entries === shape.entries) return;
    const detail = `the ${name} tree holds ${this.#entries} entries, its meta page says ${shape.entries}`;
    yield { rows: 0, faults: [{ detail }] };
  }

  #page(place: Place, left: Place[]): PageStep {
    const faults: PageFault[] = [];
    const isLeaf = place.level === this.#options.shape.depth;
    try {
      const bytes = this.#file.read(place.page, { flags: isLeaf ? flag.leaf : flag.branch });
      const nodes = nodesIn(bytes, { isLeaf, page: place.page });
      if (isLeaf && this.#options.headersOnly !== true) this.#rows(bytes, { nodes, place }, faults);
      else if (!isLeaf) this.#children(place, nodes, left);
      return { rows: isLeaf ? nodes.length : 0, faults };
    } catch (cause) {
      const { low, high, page } = place;
      const detail = (cause as Error).message;
      const isUnsound = cause instanceof UnsoundPage && this.#options.holdsRows;
      return { rows: 0, faults: [{ detail, low, high, ...(isUnsound ? { page } : {}) }] };
    }
  }

  #children(place: Place, nodes: readonly Node[], left: Place[]): void {
    for (let at = 1; at < nodes.length; at++) {
      const key = (nodes[at] as Node).key;
      const before = at === 1 ? place.low : (nodes[at - 1] as Node).key;
      const order = this.#options.holdsRows ? compareBytes : compareTransactions;
      if (isOut(key, { low: before, high: place.high, order }))
        throw new Error(`page ${place.page} has its keys out of order`);
    }
    for (let at = nodes.length - 1; at >= 0; at--) left.push(childAt(place, nodes, at));
  }

  #rows(page: Buffer, { nodes, place }: { nodes: readonly Node[]; place: Place }, faults: PageFault[]): void {
    // A damaged key says nothing about the place of the next one.
    let before: Uint8Array | undefined;
    for (const node of nodes) if (this.#row(page, { node, before, place }, faults)) before = node.key;
  }

  /** @returns whether it is verified */
  #row(
    page: Buffer,
    { node, before, place }: { node: Node; before: Uint8Array | undefined; place: Place },
    faults: PageFault[],
  ): boolean {
    this.#entries += 1;
    const { key } = node;
    let value: Buffer;
    try {
      value = this.#value(page, node);
      this.#options.freePages?.add(value);
      if (!this.#options.holdsRows) return true;
      const checksum = rowChecksum(key, value, { from: checksumBytes, to: value.length });
      if (value.length <= checksumBytes || readChecksum(value, 0) !== checksum)
        throw new Error('the checksum of key and value does not match');
      const { low, high } = place;
      if (
        isOut(key, { low, high, order: compareBytes }) ||
        (before !== undefined && compareBytes(before, key) >= 0)
      )
        throw new Error(`it is not in its place on page ${place.page}`);
    } catch (cause) {
      faults.push({ detail: (cause as Error).message, key });
      return false;
    }
    this.#options.visit?.(key, value);
    return true;
  }

  #value(page: Buffer, { low: length, flags, dataAt }: Node): Buffer {
    if ((flags & bigData) === 0) {
      if (flags !== 0 || dataAt + length > page.length) throw new Error('its value leaves the page');
      return page.subarray(dataAt, dataAt + length);
    }
    const { pageBytes } = this.#file.meta;
    const first = Number(page.readBigUInt64LE(dataAt));
    const pages = Math.ceil((length + pageHeaderBytes) / pageBytes);
    const bytes = this.#file.read(first, { flags: flag.overflow, pages });
    return bytes.subarray(pageHeaderBytes, pageHeaderBytes + length);
  }
}

/** The child that an entry of a branch page names. */
export function childAt(place: Place, nodes: readonly Node[], at: number): Place {
  const { key, low, flags } = nodes[at] as Node;
  return {
    page: low + flags * 2 ** 32,
    level: place.level + 1,
    low: at === 0 ? place.low : key,
    high: nodes[at + 1]?.key ?? place.high,
  };
}

interface Bounds {
  readonly low: Uint8Array | undefined;
  readonly high: Uint8Array | undefined;
  readonly order: (a: Uint8Array, b: Uint8Array) => number;
}

/** Whether a key lies outside of `low` (inclusive) to `high` (exclusive). */
const isOut = (key: Uint8Array, { low, high, order }: Bounds): boolean =>
  (low !== undefined && order(key, low) < 0) || (high !== undefined && order(key, high) >= 0);

/** The order of the free list, whose keys are the numbers of transactions, of the lowest byte first. */
const compareTransactions = (a: Uint8Array, b: Uint8Array): number =>
  compareBytes(a.toReversed(), b.toReversed());

/** @throws UnsoundPage where a node leaves the page */
export function nodesIn(
  bytes: Buffer,
  { isLeaf, page }: { readonly isLeaf: boolean; readonly page: number },
): readonly Node[] {
  const lower = bytes.readUInt16LE(20);
  const upper = bytes.readUInt16LE(22);
  const isWrong = lower % 2 !== 0 || lower > upper || upper + pageHeaderBytes > bytes.length || lower === 0;
  if (isWrong) throw new UnsoundPage(`page ${page} has no sound header`);
  return Array.from({ length: lower / 2 }, (_, index) => {
    const at = bytes.readUInt16LE(pageHeaderBytes + 2 * index) + pageHeaderBytes;
    if (at < pageHeaderBytes + upper || at + nodeHeaderBytes > bytes.length)
      throw new UnsoundPage(`page ${page} has an entry outside of itself`);
    const keyBytes = bytes.readUInt16LE(at + 6);
    const dataAt = at + nodeHeaderBytes + keyBytes;
    if (dataAt > bytes.length || (isLeaf && keyBytes === 0))
      throw new UnsoundPage(`page ${page} has a key that leaves it`);
    const key = new Uint8Array(bytes.subarray(at + nodeHeaderBytes, dataAt));
    return { key, low: bytes.readUInt32LE(at), flags: bytes.readUInt16LE(at + 4), dataAt };
  });
}

/**
 * The pages that lmdb's free list names, compared with those that its trees use: the next commits overwrite a page that
 * is both. A record of the list has a count of entries, then the entries: the number of a page, 0 for none, or -n
 * before the first of n adjacent pages (`mdb_midl_insert` in midl.c of lmdb-js 3.5.6).
 */
const entryBytes = 8;
/** The faults name no more pages than these. */
const namedMax = 8;

/** A set of pages, one bit each. */
export class PageSet {
  readonly #lastPage: number;
  readonly #bits: Uint8Array;

  constructor(lastPage: number) {
    this.#lastPage = lastPage;
    this.#bits = new Uint8Array(Math.ceil((lastPage + 1) / 8));
  }

  has(page: number): boolean {
    return ((this.#bits[page >>> 3] as number) & (1 << (page & 7))) !== 0;
  }

  /** @returns false where the page was in the set */
  add(page: number): boolean {
    if (this.has(page)) return false;
    this.#bits[page >>> 3] = (this.#bits[page >>> 3] as number) | (1 << (page & 7));
    return true;
  }

  /** The pages of both sets, which are of one file. */
  *shared(other: PageSet): Generator<number> {
    for (let at = 0; at < this.#bits.length; at++) {
      if (((this.#bits[at] as number) & (other.#bits[at] as number)) === 0) continue;
      const end = Math.min(8 * at + 7, this.#lastPage);
      for (let page = 8 * at; page <= end; page++) if (this.has(page) && other.has(page)) yield page;
    }
  }
}

export class FreePages {
  readonly #lastPage: number;
  readonly #free: PageSet;
  readonly #twice: PageSet;

  constructor(lastPage: number) {
    this.#lastPage = lastPage;
    this.#free = new PageSet(lastPage);
    this.#twice = new PageSet(lastPage);
  }

  /** @throws Error where the record is not one of a free list */
  add(record: Buffer): void {
    const entries = record.length / entryBytes - 1;
    const count = entries < 0 ? -1 : Number(record.readBigInt64LE(0));
    if (!Number.isInteger(entries) || count < 0 || count > entries)
      throw new Error('a record of the free list has no sound count');
    let pages = 1;
    for (let index = 1; index <= count; index++) {
      const entry = Number(record.readBigInt64LE(index * entryBytes));
      if (entry < 0) pages = -entry;
      if (entry <= 0) continue;
      this.#addRun(entry, pages);
      pages = 1;
    }
  }

  #addRun(first: number, pages: number): void {
    if (first < 2 || first + pages - 1 > this.#lastPage)
      throw new Error(`the free list names ${pages} pages from ${first}, which the file does not have`);
    for (let page = first; page < first + pages; page++) if (!this.#free.add(page)) this.#twice.add(page);
  }

  /** What is wrong, in a sentence each. @param used the pages of the trees */
  faults(used: PageSet): readonly string[] {
    return [
      ...named(this.#free.shared(used), 'in use and in the free list'),
      ...named(this.#twice.shared(this.#twice), 'in the free list twice'),
    ];
  }
}

function named(pages: Iterable<number>, what: string): readonly string[] {
  const listed: number[] = [];
  let count = 0;
  for (const page of pages) {
    count += 1;
    if (listed.length < namedMax) listed.push(page);
  }
  if (count === 0) return [];
  if (count === 1) return [`page ${listed[0]} is ${what}`];
  const more = count === listed.length ? '' : ` and ${count - listed.length} more`;
  return [`pages ${listed.join(', ')}${more} are ${what}`];
}
