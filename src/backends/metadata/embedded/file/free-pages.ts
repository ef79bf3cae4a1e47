/**
 * The pages that lmdb's free list names, compared with those that its trees use: the next commits overwrite a page that is both. A record of
 * the list has a count of entries, then the entries: the number of a page, 0 for none, or -n before the first of n adjacent pages
 * (`mdb_midl_insert` in midl.c of lmdb-js 3.5.6).
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
