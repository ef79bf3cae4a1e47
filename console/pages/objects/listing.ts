/**
 * One level of a bucket as the storage protocol lists it: pages of at most 1,000 entries, in the order of keys. Only
 * the pages around what is seen are in memory; of the others the page keeps the token and the count, so that a list of
 * any length costs the same.
 */
import { useQuery } from '@tanstack/react-query';
import { useState } from 'preact/hooks';
import { storage } from '../../storage/client.ts';
import { childrenOf, decodeName, textIn } from '../../storage/xml.ts';
import { Changes, useChanges } from '../../ui/changes.ts';
import type { RowWindow } from '../../ui/table.tsx';

export interface Folder {
  readonly is: 'folder';
  readonly key: string;
}

export interface StoredObject {
  readonly is: 'object';
  readonly key: string;
  readonly size: number;
  readonly modified: string;
  readonly storageClass: string;
  readonly etag: string;
}

export type Entry = Folder | StoredObject;

interface Page {
  readonly entries: readonly Entry[];
  readonly next: string | undefined;
}

interface PageAsk {
  readonly bucket: string;
  readonly prefix: string;
  /** '' for the first page. */
  readonly token: string;
  /** All keys below the prefix instead of one level. */
  readonly isDeep?: boolean;
  readonly signal?: AbortSignal;
}

async function readPage({ bucket, prefix, token, isDeep = false, signal }: PageAsk): Promise<Page> {
  const query = {
    'list-type': '2',
    delimiter: isDeep ? undefined : '/',
    'encoding-type': 'url',
    prefix: prefix === '' ? undefined : prefix,
    'continuation-token': token === '' ? undefined : token,
  };
  const { xml } = await storage({
    method: 'GET',
    bucket,
    query,
    ...(signal === undefined ? {} : { signal }),
  });
  if (xml === undefined) return { entries: [], next: undefined };
  const folders = childrenOf(xml, 'CommonPrefixes').map(
    (each): Folder => ({ is: 'folder', key: decodeName(textIn(each, 'Prefix')) }),
  );
  const objects = childrenOf(xml, 'Contents').map(
    (each): StoredObject => ({
      is: 'object',
      key: decodeName(textIn(each, 'Key')),
      size: Number(textIn(each, 'Size') ?? 0),
      modified: textIn(each, 'LastModified') ?? '',
      storageClass: textIn(each, 'StorageClass') ?? 'STANDARD',
      etag: textIn(each, 'ETag') ?? '',
    }),
  );
  const entries: readonly Entry[] =
    folders.length === 0
      ? objects
      : [...folders, ...objects].sort((one, other) => compareKeys(one.key, other.key));
  return { entries, next: textIn(xml, 'NextContinuationToken') };
}

/** All objects below a prefix, page by page. @throws Refused, Unreachable, AbortError */
export async function* objectsBelow(
  bucket: string,
  prefix: string,
  signal: AbortSignal,
): AsyncGenerator<readonly StoredObject[]> {
  let token: string | undefined = '';
  while (token !== undefined) {
    const page: Page = await readPage({ bucket, prefix, token, isDeep: true, signal });
    yield page.entries.filter(isObject);
    token = page.next;
  }
}

export const isObject = (entry: Entry): entry is StoredObject => entry.is === 'object';

/** The order of the gateway, which is that of the bytes of UTF-8: surrogates come after all other code units. */
const rank = (unit: number): number => (unit < 0xd800 ? unit : unit < 0xe000 ? unit + 0x2000 : unit - 0x800);
function compareKeys(one: string, other: string): number {
  const length = Math.min(one.length, other.length);
  for (let at = 0; at < length; at += 1) {
    const difference = rank(one.charCodeAt(at)) - rank(other.charCodeAt(at));
    if (difference !== 0) return difference;
  }
  return one.length - other.length;
}

/** Where a page begins and ends, kept while its entries are not. */
interface Mark {
  readonly token: string;
  /** The last key of a page that another one follows. */
  readonly end: string | undefined;
  /** Undefined: not read yet. */
  readonly count: number | undefined;
}

const firstMarks: readonly Mark[] = [{ token: '', end: undefined, count: undefined }];

/** Entries of the page that no later page has: what was uploaded meanwhile moves the end of a page that is read again. */
const entriesOf = ({ end }: Mark, { entries }: Page): readonly Entry[] =>
  end === undefined || compareKeys(entries.at(-1)?.key ?? '', end) <= 0
    ? entries
    : entries.filter(({ key }) => compareKeys(key, end) <= 0);

/** What a page that was read says of where pages begin. The same list where it says nothing new. */
function learn(marks: readonly Mark[], at: number, page: Page): readonly Mark[] {
  const mark = marks[at];
  if (mark === undefined) return marks;
  const entries = entriesOf(mark, page);
  const last = entries.at(-1)?.key;
  const isOpen = mark.end === undefined;
  // A page has at most 1,000 entries: with new keys in it, its old end is now in a page between it and the next.
  const isSplit =
    page.next !== undefined &&
    last !== undefined &&
    (mark.end === undefined || (entries.length === page.entries.length && compareKeys(last, mark.end) < 0));
  if (isSplit) {
    const between: Mark = { token: page.next, end: mark.end, count: undefined };
    const before: Mark = { ...mark, end: last, count: entries.length };
    return [...marks.slice(0, at), before, between, ...marks.slice(at + 1)];
  }
  // What followed the last page is gone when it has no successor any more.
  if (!isOpen || mark.count !== entries.length)
    return mark.count === entries.length ? marks : marks.with(at, { ...mark, count: entries.length });
  return marks;
}

/** So many rows before and after those that are seen are in memory. */
const marginRows = 300;

/** A level of any length: rows by their index, of which those near to what is seen are loaded. */
export class Listing implements RowWindow<Entry> {
  readonly #level: Pick<PageAsk, 'bucket' | 'prefix'>;
  #marks = firstMarks;
  #starts: readonly number[] = [0, 0];
  /** By token. */
  readonly #pages = new Map<string, Page>();
  readonly #reading = new Set<string>();
  #span: readonly [from: number, to: number] = [0, 0];
  #error: unknown;
  readonly #changes = new Changes();

  constructor(level: Pick<PageAsk, 'bucket' | 'prefix'>) {
    this.#level = level;
  }

  /** Of all pages that were read. */
  get length(): number {
    return this.#starts.at(-1) ?? 0;
  }

  at(index: number): Entry | undefined {
    const page = pageAt(this.#starts, index);
    return this.#entriesAt(page)[index - (this.#starts[page] ?? 0)];
  }

  /** The rows in memory. */
  get loaded(): readonly Entry[] {
    return this.#marks.flatMap((_, page) => this.#entriesAt(page));
  }

  get hasMore(): boolean {
    return this.#marks.at(-1)?.count === undefined;
  }

  get isBusy(): boolean {
    return this.#reading.size > 0;
  }

  get error(): unknown {
    return this.#error;
  }

  /** Calls back after each change. @returns stops it */
  listen(listener: () => void): () => void {
    return this.#changes.listen(listener);
  }

  /** These rows are on the screen: reads the pages around them, and drops those that are far away. */
  readonly see = (first: number, last: number): void => {
    const from = pageAt(this.#starts, first - marginRows);
    const to = pageAt(this.#starts, last + marginRows);
    if (from === this.#span[0] && to === this.#span[1]) return;
    this.#span = [from, to];
    const near = new Set(this.#marks.slice(from, to + 1).map(({ token }) => token));
    for (const token of this.#pages.keys()) if (!near.has(token)) this.#pages.delete(token);
    if (this.#error === undefined) this.#readMissing();
  };

  readonly loadMore = (): void => {
    const last = this.#marks.length - 1;
    this.#span = [Math.min(this.#span[0], last), last];
    this.retry();
  };

  readonly retry = (): void => {
    this.#error = undefined;
    this.#readMissing();
  };

  /** Reads the pages around what is seen again, because something has changed. @throws Refused, Unreachable */
  async readAgain(): Promise<void> {
    this.#error = undefined;
    const [from, to] = this.#span;
    for (const { token } of this.#marks.slice(from, to + 1)) await this.#read(token);
    this.#changes.publish();
  }

  #entriesAt(page: number): readonly Entry[] {
    const mark = this.#marks[page];
    const read = mark && this.#pages.get(mark.token);
    return mark === undefined || read === undefined ? [] : entriesOf(mark, read);
  }

  #readMissing(): void {
    const [from, to] = this.#span;
    for (const { token } of this.#marks.slice(from, to + 1))
      if (!this.#pages.has(token) && !this.#reading.has(token))
        this.#read(token).catch((cause: unknown) => {
          this.#error = cause;
          this.#changes.publish();
        });
    this.#changes.publish();
  }

  async #read(token: string): Promise<void> {
    this.#reading.add(token);
    try {
      const page = await readPage({ ...this.#level, token });
      const at = this.#marks.findIndex((mark) => mark.token === token);
      this.#marks = learn(this.#marks, at, page);
      this.#starts = startsOf(this.#marks);
      // What is seen may have moved on meanwhile.
      if (at >= this.#span[0] && at <= this.#span[1]) this.#pages.set(token, page);
    } finally {
      this.#reading.delete(token);
      this.#changes.publish();
    }
  }
}

/** The listing of a level. It is read again where anything of the bucket has changed. */
export function useListing(bucket: string, prefix: string, enabled: boolean) {
  const [listing] = useState(() => new Listing({ bucket, prefix }));
  useChanges(listing);
  const query = useQuery({
    queryKey: ['s3', bucket, 'entries', prefix],
    queryFn: async () => {
      await listing.readAgain();
      return Date.now();
    },
    enabled,
    gcTime: 0,
  });
  return {
    listing,
    isRead: query.data !== undefined,
    error: query.error ?? listing.error,
    retry: () => {
      listing.retry();
      query.refetch().catch(() => {});
    },
  };
}

/** The index of the first row of each page, and of what follows the last. */
function startsOf(marks: readonly Mark[]): readonly number[] {
  const starts = [0];
  for (const { count = 0 } of marks) starts.push((starts.at(-1) ?? 0) + count);
  return starts;
}

/** The page of a row; the last one for rows that were not read yet. */
function pageAt(starts: readonly number[], index: number): number {
  let low = 0;
  let high = starts.length - 2;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if ((starts[middle] ?? 0) <= index) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** Control characters and those that turn the direction of text are shown, because a hidden one makes a name deceive. */
export const visible = (text: string): string =>
  text.replace(
    // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is made visible.
    /[\u0000-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g,
    (char) => `‹U+${char.charCodeAt(0).toString(16).toUpperCase().padStart(4, '0')}›`,
  );

/** The name within the level: what follows the last `/` before it. */
export const nameOf = (key: string): string => key.slice(key.lastIndexOf('/', key.length - 2) + 1);

/** Where a level is in the address. Browsers change `.`, `..` and empty parts of a path, so such prefixes are a parameter. */
export function placeOf(prefix: string): { readonly splat: string; readonly prefix: string | undefined } {
  const parts = prefix.split('/');
  const isPath =
    prefix === '' || (parts.at(-1) === '' && parts.slice(0, -1).every((part) => !/^\.{0,2}$/.test(part)));
  return isPath ? { splat: prefix.slice(0, -1), prefix: undefined } : { splat: '', prefix };
}

export const prefixAt = (splat = '', prefix: string | undefined): string =>
  prefix ?? (splat === '' ? '' : `${splat.replace(/\/$/, '')}/`);
