/** The name of an extent upstream, and the back-reference beside it. */
import type { Owner } from '../../../ports/storage/object-bytes.ts';
import { amz } from '../../../protocol/dialect.ts';
import { encode } from '../../../signing/encode.ts';

/** An extent is one object upstream, so its number is always this one; it ends the id in a listing by prefix. */
const ending = '.0';

export const toKey = (prefix: string, id: string): string => `${prefix}${id}${ending}`;

/** Undefined for what is not called as extents are. */
export const parseKey = (prefix: string, key: string): string | undefined =>
  key.startsWith(prefix) && key.endsWith(ending) && /^[\w.-]+$/.test(key.slice(prefix.length))
    ? key.slice(prefix.length, -ending.length)
    : undefined;

const meta = `${amz.headerPrefix}meta-sluice-`;
/** The owner's key is readable for people, as far as it fits: upstreams take 2 KiB of metadata. */
const names = { key: `${meta}key`, longKey: `${meta}key-base64`, rest: `${meta}owner` } as const;
const readableMax = 1400;

export function ownerHeaders({ key, ...rest }: Owner): Readonly<Record<string, string>> {
  const readable = encode(key);
  return {
    ...(readable.length <= readableMax ? { [names.key]: readable } : { [names.longKey]: toBase64(key) }),
    [names.rest]: JSON.stringify(rest),
  };
}

/** Undefined for an object that no gateway stored. */
export function ownerIn(headers: Readonly<Record<string, string>>): Owner | undefined {
  const { [names.key]: readable, [names.longKey]: long, [names.rest]: rest } = headers;
  try {
    const key = readable !== undefined ? decodeURIComponent(readable) : long && fromBase64(long);
    if (key === undefined || rest === undefined) return undefined;
    const { bucketId, ...others } = JSON.parse(rest) as Omit<Owner, 'key'>;
    return { bucketId, key, ...others };
  } catch {
    return undefined;
  }
}

const toBase64 = (text: string): string => btoa(String.fromCharCode(...new TextEncoder().encode(text)));
const fromBase64 = (text: string): string =>
  new TextDecoder().decode(Uint8Array.from(atob(text), (char) => char.charCodeAt(0)));
