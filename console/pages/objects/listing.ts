/** One level of a bucket, in pages of 1,000, as the storage protocol lists it. */
import { useInfiniteQuery } from '@tanstack/react-query';
import { storage } from '../../storage/client.ts';
import { childrenOf, textIn } from '../../storage/xml.ts';

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
}

export type Entry = Folder | StoredObject;

/** Keys are asked for in URL encoding, because XML cannot hold every character that a key may have. */
const decode = (text = ''): string => decodeURIComponent(text.replaceAll('+', ' '));

interface Page {
  readonly entries: readonly Entry[];
  readonly next: string | undefined;
}

async function readPage(bucket: string, prefix: string, token: string, signal: AbortSignal): Promise<Page> {
  const query = {
    'list-type': '2',
    delimiter: '/',
    'encoding-type': 'url',
    prefix: prefix === '' ? undefined : prefix,
    'continuation-token': token === '' ? undefined : token,
  };
  const { xml } = await storage({ method: 'GET', bucket, query, signal });
  if (xml === undefined) return { entries: [], next: undefined };
  const folders = childrenOf(xml, 'CommonPrefixes').map(
    (each): Folder => ({ is: 'folder', key: decode(textIn(each, 'Prefix')) }),
  );
  const objects = childrenOf(xml, 'Contents').map(
    (each): StoredObject => ({
      is: 'object',
      key: decode(textIn(each, 'Key')),
      size: Number(textIn(each, 'Size') ?? 0),
      modified: textIn(each, 'LastModified') ?? '',
      storageClass: textIn(each, 'StorageClass') ?? 'STANDARD',
    }),
  );
  return { entries: [...folders, ...objects], next: textIn(xml, 'NextContinuationToken') };
}

export function useEntries(bucket: string, prefix: string, enabled: boolean) {
  const query = useInfiniteQuery({
    queryKey: ['s3', bucket, 'entries', prefix],
    queryFn: ({ pageParam, signal }) => readPage(bucket, prefix, pageParam, signal),
    initialPageParam: '',
    getNextPageParam: ({ next }) => next,
    enabled,
  });
  return { ...query, entries: query.data?.pages.flatMap(({ entries }) => entries) };
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
