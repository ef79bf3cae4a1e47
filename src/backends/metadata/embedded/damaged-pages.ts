/**
 * The pages of the metadata file that lmdb must not read. A forward step of lmdb onto a page whose header is damaged ends the process, so
 * scans stop before such a page. The file `damaged-pages` beside `data.mdb` names the known ones for every process. `sluice fsck` writes
 * it, the primary process after a worker process ended by a fault of memory, and each process that opens the file after
 * another one has died while it read (`ReadNotes`, docs/adr/0036-first-contact-with-a-damaged-page.md). A page that is
 * sound again, or that the tree no longer uses, is ignored.
 */
import { randomBytes } from 'node:crypto';
import {
  closeSync,
  existsSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { MetadataDamaged } from '../../../ports/metadata-store.ts';
import { hasEnded, processIdentity } from '../../process-identity.ts';
import { compareBytes, type Span } from '../key-order.ts';
import {
  checkHeaders,
  childAt,
  flag,
  type Node,
  nodesIn,
  type PageFault,
  type Place,
  readPage,
  UnsoundPage,
} from './check-pages.ts';
import { showKey } from './damage.ts';
import { dataFile, latestMeta, type MetaPage, Openings } from './meta-page.ts';

// Where this process reads in the metadata file, noted ahead of each step that can end the process on a damaged page. The
// notes of a process that has died lead to the page at once, without a search of the whole file: the next process that
// opens the file names the page before it reads, and so does the primary process.
//
// A process has a file `reading-<random>` beside `data.mdb`, mode 0600, with its identity and a ring of the last keys
// from which it read. A key that is in the ring is not written again, so that reads that repeat, as those of an idle
// gateway, write nothing. A clean close removes the file.

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

interface ReadNote {
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

interface LeftNotes {
  readonly path: string;
  /** The newest first. */
  readonly notes: readonly ReadNote[];
}

/** The notes of processes that have died, as far as it is known; those of an earlier boot are empty. */
function leftNotes(directory: string): readonly LeftNotes[] {
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

/** A damaged page and its surroundings, as they were when it was found. Undefined bounds are the ends of the file. */
export interface DamagedRange {
  readonly page: number;
  /** The keys that the page may have held. */
  readonly low: Uint8Array | undefined;
  readonly high: Uint8Array | undefined;
  /** The last row before the page: lmdb's next step leads onto the page. Undefined where the page before is damaged too. */
  readonly last: Uint8Array | undefined;
  /**
   * The rows of the pages on either side, which are not removed: lmdb merges a page that has become nearly empty with a
   * neighbour, and would take the damaged page for an empty one.
   */
  readonly fixedFrom: Uint8Array | undefined;
  readonly fixedTo: Uint8Array | undefined;
}

/** The largest number of pages that are named, because each read compares its key with them. */
export const rangesMax = 1_000;
/** lmdb merges pages that are less than a quarter full; the pages whose rows stay are together fuller than this. */
const fixedFill = 1 / 3;
const pagesAtOnce = 16;
/** Attempts to read a path of the tree between two commits. */
const attemptsMax = 20;

/** The read or write would lead lmdb onto a damaged page, or beside it. */
export class PageDamaged extends MetadataDamaged {
  readonly range: DamagedRange;

  constructor(range: DamagedRange, why: string) {
    const key = range.low ?? Uint8Array.of(0);
    const { table, row } = showKey(key);
    const cause = new Error(`page ${range.page} of the metadata file is damaged`);
    super(`${cause.message}, from row ${row} of ${table} on: ${why}`, { table, row, key, cause });
    this.range = range;
  }
}

/** The rest of a span behind a damaged page. In descending order nothing is left: lmdb does not step over the page. */
export function passedPage(span: Span, { high }: DamagedRange): Span {
  const isEnd = span.reverse || high === undefined || compareBytes(high, span.high) >= 0;
  return { ...span, low: isEnd ? span.high : high };
}

export class DamagedPages {
  readonly #directory: string;
  /** In the order of their keys. */
  #ranges: readonly DamagedRange[] = [];

  constructor(directory: string) {
    this.#directory = directory;
    this.load();
  }

  /** Reads again what any process has found. */
  load(): void {
    const path = damagedPagesFile(this.#directory);
    this.#ranges = existsSync(path) ? inTree(this.#directory, (tree) => readList(path, tree)) : [];
  }

  /** Names the unsound pages among `faults` for every process. */
  mark(faults: readonly PageFault[]): void {
    if (faults.length > 0) this.#ranges = markDamaged(this.#directory, faults);
  }

  get isEmpty(): boolean {
    return this.#ranges.length === 0;
  }

  /** The first damaged page that a forward scan from `key` may meet. @throws PageDamaged where it may be the page of `key` */
  nextFrom(key: Uint8Array): DamagedRange | undefined {
    if (this.isEmpty) return undefined;
    const range = this.#ranges.find(({ high }) => isBelow(key, high));
    if (range !== undefined && isBehind(key, range)) throw new PageDamaged(range, 'its rows cannot be read');
    return range;
  }

  /** Whether no row is between `key` and a damaged page behind it; the tree of the latest commit is read. */
  isLastBefore(key: Uint8Array, { low }: DamagedRange): boolean {
    if (low === undefined) return false;
    const last = inTree(this.#directory, (tree) => lastKey(findLeaf(tree, low, 'before')));
    return last !== undefined && compareBytes(last, key) === 0;
  }

  /** @throws PageDamaged where a look-up of `key` leads to a damaged page */
  assertReadable(key: Uint8Array): void {
    if (this.isEmpty) return;
    const range = this.#ranges.find(({ low, high }) => isFrom(key, low) && isBelow(key, high));
    if (range !== undefined) throw new PageDamaged(range, 'its rows cannot be read');
  }

  /** @throws PageDamaged where scans would not find a new row under `key` */
  assertWritable(key: Uint8Array): void {
    this.nextFrom(key);
  }

  /** @throws PageDamaged where the removal of a row may have lmdb merge its page with a damaged one */
  assertRemovable(key: Uint8Array): void {
    if (this.isEmpty) return;
    const range = this.#ranges.find(
      ({ fixedFrom, fixedTo }) => isFrom(key, fixedFrom) && isBelow(key, fixedTo),
    );
    if (range !== undefined) throw new PageDamaged(range, 'rows of the pages beside it cannot be removed');
  }
}

const isFrom = (key: Uint8Array, low: Uint8Array | undefined): boolean =>
  low === undefined || compareBytes(key, low) >= 0;
const isBelow = (key: Uint8Array, high: Uint8Array | undefined): boolean =>
  high === undefined || compareBytes(key, high) < 0;
const isBehind = (key: Uint8Array, { low, last }: DamagedRange): boolean =>
  last === undefined ? isFrom(key, low) : compareBytes(key, last) > 0;

/** Names the unsound pages among `faults` for every process. @returns all known ones */
function markDamaged(directory: string, faults: readonly PageFault[]): readonly DamagedRange[] {
  const path = damagedPagesFile(directory);
  let ranges: readonly DamagedRange[] = [];
  // Another process that names pages in the same moment may replace the list by one without these.
  for (let attempt = 0; attempt < attemptsMax; attempt += 1) {
    ranges = inTree(directory, (tree) => mergeRanges(tree, { path, faults }));
    if (attempt > 0 && isListed(path, ranges)) break;
    try {
      const draft = `${path}.${process.pid}`;
      writeFileSync(draft, ranges.map(formatRange).join(''), { mode: 0o600 });
      renameSync(draft, path);
    } catch {
      // On a full or read-only disk this process alone knows the pages.
      return ranges;
    }
  }
  // Other processes read the list again when the file of openings has grown.
  const openings = new Openings(directory);
  openings.begin()();
  openings.close();
  return ranges;
}

/** The unsound pages among `faults`, and those that are in the list. */
function mergeRanges(
  tree: Tree,
  { path, faults }: { readonly path: string; readonly faults: readonly PageFault[] },
): readonly DamagedRange[] {
  const found = faults.flatMap((fault) => surroundings(tree, fault) ?? []);
  const known = existsSync(path) ? readList(path, tree) : [];
  const pages = new Set(found.map(({ page }) => page));
  return sorted([...found, ...known.filter(({ page }) => !pages.has(page))]).slice(0, rangesMax);
}

function isListed(path: string, ranges: readonly DamagedRange[]): boolean {
  const listed = new Set(readRanges(path).map(({ page }) => page));
  return ranges.every(({ page }) => listed.has(page));
}

/** Leaf pages that are read from a note on: the one before it, and one for each row that may lie between two notes. */
const leavesPerNote = rowsPerNote + 2;

/**
 * Names the pages on which processes have died: those that are unsound where they read last. It reads them without lmdb.
 * @returns how many of them were not named before
 */
export function nameNotedPages(directory: string, { forgets }: { readonly forgets: boolean }): number {
  const left = leftNotes(directory);
  if (left.length === 0 || !existsSync(dataFile(directory))) return 0;
  const faults = inTree(directory, (tree) => {
    const seen = new Set<number>();
    const notes = left.flatMap((each) => each.notes);
    return notes.flatMap((note) => [...unsoundFrom(tree, { note, seen })]);
  });
  const path = damagedPagesFile(directory);
  const named = new Set(existsSync(path) ? readRanges(path).map(({ page }) => page) : []);
  if (faults.length > 0) markDamaged(directory, faults);
  // Only now, so that the notes of this death are read again where this process ends as well.
  if (forgets) for (const each of left) rmSync(each.path, { force: true });
  return faults.filter(({ page }) => page !== undefined && !named.has(page)).length;
}

interface Walk {
  readonly note: ReadNote;
  /** Leaf pages that another walk has read. */
  readonly seen: Set<number>;
}

/**
 * The unsound pages from the leaf before a key on, because that one may be read as its neighbour; in descending order
 * from its own leaf on.
 */
function* unsoundFrom(tree: Tree, { note: { key, reverse }, seen }: Walk): Generator<PageFault> {
  let leaves = 0;
  const left: (Place & { readonly isOnPath: boolean })[] = [{ ...treeRoot(tree), isOnPath: true }];
  for (let place = left.pop(); place !== undefined && leaves < leavesPerNote; place = left.pop()) {
    const { page, low, high, isOnPath } = place;
    if (seen.has(page)) {
      leaves += 1;
      continue;
    }
    const { nodes, isLeaf } = readNodes(tree, place);
    if (nodes === undefined) yield { detail: `page ${page} is unsound`, page, low, high };
    if (nodes === undefined || isLeaf) {
      seen.add(page);
      leaves += 1;
      continue;
    }
    const first = isOnPath && !reverse ? childFor(nodes, key, 'before') : 0;
    const last = isOnPath && reverse ? childFor(nodes, key, 'at') : nodes.length - 1;
    for (let each = first; each <= last; each += 1) {
      // The next one to be read is pushed last.
      const at = reverse ? each : first + last - each;
      const isNearest = at === (reverse ? last : first);
      left.push({ ...childAt(place, nodes, at), isOnPath: isOnPath && isNearest });
    }
  }
}

/**
 * Looks for unsound pages beside working processes and without lmdb: a process that has met one is gone, and the next
 * one would end there too.
 * @returns how many are known then
 */
export async function findDamagedPages(directory: string): Promise<number> {
  const descriptor = openSync(dataFile(directory), 'r');
  const faults: PageFault[] = [];
  try {
    let pages = 0;
    // Without a snapshot some of its pages may be in use again when it reads them; `markDamaged` reads the path of each page once more.
    for (const step of checkHeaders(descriptor)) {
      faults.push(
        ...step.faults.filter(({ page }) => page !== undefined).slice(0, rangesMax - faults.length),
      );
      pages += 1;
      if (pages % pagesAtOnce === 0) await new Promise((resolve) => setImmediate(resolve));
    }
  } finally {
    closeSync(descriptor);
  }
  return faults.length > 0 ? markDamaged(directory, faults).length : 0;
}

export const damagedPagesFile = (directory: string): string => join(directory, 'damaged-pages');

interface Tree {
  readonly descriptor: number;
  readonly meta: MetaPage;
}

/** Reads paths of the tree of one commit: pages that it uses are not written again before the next one. */
function inTree<T>(directory: string, read: (tree: Tree) => T): T {
  const descriptor = openSync(dataFile(directory), 'r');
  try {
    for (let attempt = 1; ; attempt += 1) {
      const meta = latestMeta(descriptor);
      if (meta === undefined) throw new Error(`${dataFile(directory)} is empty`);
      let result: T | undefined;
      let failure: unknown;
      try {
        result = read({ descriptor, meta });
      } catch (cause) {
        failure = cause;
      }
      const isOfOneCommit = latestMeta(descriptor)?.transaction === meta.transaction;
      if (!isOfOneCommit && attempt < attemptsMax) continue;
      if (failure !== undefined) throw failure;
      return result as T;
    }
  } finally {
    closeSync(descriptor);
  }
}

interface Leaf extends Place {
  /** Undefined where the page, or a branch page above it, is unsound. */
  readonly nodes: readonly Node[] | undefined;
  /** The part of the page that is in use. */
  readonly fill: number;
}

/** The place of the root. Its page means nothing where the tree is empty: `readNodes` reads none then. */
const treeRoot = ({ meta }: Tree): Place => ({
  page: meta.main.root ?? 0,
  level: 1,
  low: undefined,
  high: undefined,
});

interface ReadPlace {
  /** Undefined where the page is unsound. */
  readonly nodes: readonly Node[] | undefined;
  readonly isLeaf: boolean;
  readonly fill: number;
}

function readNodes({ descriptor, meta }: Tree, { page, level }: Place): ReadPlace {
  // A process that was killed before its first commit leaves a tree without pages, which is sound. Page 0 is a meta page.
  if (meta.main.root === undefined) return { nodes: [], isLeaf: true, fill: 0 };
  const isLeaf = level >= meta.main.depth;
  try {
    const bytes = readPage(descriptor, { meta, page, flags: isLeaf ? flag.leaf : flag.branch });
    const nodes = nodesIn(bytes, { isLeaf, page });
    const free = (bytes.readUInt16LE(22) - bytes.readUInt16LE(20)) / meta.pageBytes;
    return { nodes, isLeaf, fill: 1 - free };
  } catch (cause) {
    if (!(cause instanceof UnsoundPage)) throw cause;
    return { nodes: undefined, isLeaf, fill: 0 };
  }
}

/** The leaf page that holds `key`, or the one `before` it; without a key, the first one, or the last one. */
function findLeaf(tree: Tree, key: Uint8Array | undefined, side: 'at' | 'before'): Leaf {
  let place = treeRoot(tree);
  for (;;) {
    const { nodes, isLeaf, fill } = readNodes(tree, place);
    if (nodes === undefined || isLeaf) return { ...place, nodes, fill };
    place = childAt(place, nodes, childFor(nodes, key, side));
  }
}

function childFor(nodes: readonly Node[], key: Uint8Array | undefined, side: 'at' | 'before'): number {
  if (key === undefined) return side === 'at' ? 0 : nodes.length - 1;
  // The first entry stands for all keys below the second one.
  let index = 0;
  for (let at = 1; at < nodes.length; at += 1) {
    const order = compareBytes((nodes[at] as Node).key, key);
    if (side === 'at' ? order > 0 : order >= 0) break;
    index = at;
  }
  return index;
}

const lastKey = ({ nodes }: Leaf): Uint8Array | undefined => nodes?.at(-1)?.key;

/** @returns undefined where the page is not in its place in this tree, or is sound */
function surroundings(tree: Tree, { page, low }: Pick<PageFault, 'page' | 'low'>): DamagedRange | undefined {
  const found = findLeaf(tree, low, 'at');
  if (found.nodes !== undefined || found.page !== page) return undefined;
  const { high } = found;
  let fixedFrom = low;
  for (let fill = 0; fixedFrom !== undefined && fill < fixedFill; ) {
    const leaf = findLeaf(tree, fixedFrom, 'before');
    if (leaf.nodes === undefined) break;
    fill += leaf.fill;
    fixedFrom = leaf.low;
  }
  let fixedTo = high;
  for (let fill = 0; fixedTo !== undefined && fill < fixedFill; ) {
    const leaf = findLeaf(tree, fixedTo, 'at');
    if (leaf.nodes === undefined) break;
    fill += leaf.fill;
    fixedTo = leaf.high;
  }
  const last = low && lastKey(findLeaf(tree, low, 'before'));
  return { page, low, high, last, fixedFrom, fixedTo };
}

const keyNames = ['low', 'high', 'last', 'fixedFrom', 'fixedTo'] as const;

/** A line: the number of the page, and the keys, in hexadecimal digits or `-`. */
const formatRange = (range: DamagedRange): string =>
  `${[range.page, ...keyNames.map((name) => (range[name] === undefined ? '-' : Buffer.from(range[name]).toString('hex')))].join(' ')}\n`;

function parseRange(line: string): DamagedRange {
  const [page, ...keys] = line.split(' ');
  const [low, high, last, fixedFrom, fixedTo] = keys.map((key) =>
    key === '-' ? undefined : new Uint8Array(Buffer.from(key, 'hex')),
  );
  return { page: Number(page), low, high, last, fixedFrom, fixedTo };
}

const readRanges = (path: string): readonly DamagedRange[] =>
  readFileSync(path, 'utf8')
    .split('\n')
    .filter((line) => line !== '')
    .slice(0, rangesMax)
    .map(parseRange);

/** The pages of the list that are still damaged, with the surroundings that they had when they were found. */
const readList = (path: string, tree: Tree): readonly DamagedRange[] =>
  sorted(readRanges(path).filter((range) => surroundings(tree, range) !== undefined));

const sorted = (ranges: readonly DamagedRange[]): readonly DamagedRange[] =>
  ranges.toSorted((a, b) => compareBytes(a.low ?? Uint8Array.of(), b.low ?? Uint8Array.of()));
