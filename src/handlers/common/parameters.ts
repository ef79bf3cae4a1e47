/** Reading headers and query parameters into values, with refusals that name what was wrong. */
import { fail } from '../../errors/refusal.ts';
import type { Query } from '../../protocol/request/wire.ts';

/** An integer parameter within a range; above `max` it is capped, as the public API does for page sizes. */
export function readCount(
  query: Query,
  name: string,
  { fallback, max }: { readonly fallback: number; readonly max: number },
): number {
  const raw = query.get(name);
  if (raw === undefined || raw === '') return fallback;
  if (!/^\d{1,10}$/.test(raw) || Number(raw) > 2 ** 31 - 1) {
    throw fail('InvalidArgument', {
      message: `${name} must be an integer between 0 and 2147483647`,
      elements: { ArgumentName: name, ArgumentValue: raw },
    });
  }
  return Math.min(Number(raw), max);
}

/** An HTTP date; a malformed one counts as absent (RFC 9110 §13.1.3). */
export function parseHttpDate(raw: string | undefined): number | undefined {
  const ms = raw === undefined ? Number.NaN : Date.parse(raw);
  return Number.isNaN(ms) ? undefined : ms;
}

export const isUrlEncoded = (query: Query): boolean => {
  const encoding = query.get('encoding-type');
  if (encoding === undefined || encoding === '') return false;
  if (encoding.toLowerCase() === 'url') return true;
  throw fail('InvalidArgument', {
    message: 'Invalid Encoding Method specified in Request',
    elements: { ArgumentName: 'encoding-type', ArgumentValue: encoding },
  });
};

/** The URL encoding of listings: everything except unreserved characters and `/`. */
export const urlEncode = (text: string): string =>
  encodeURIComponent(text)
    .replace(/[!'()*]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`)
    .replaceAll('%2F', '/');

/** Bytes of a text in UTF-8. */
export const utf8Length = (text: string): number => encoder.encode(text).length;
const encoder = new TextEncoder();

/** Drops what is undefined, so that optional properties are absent and not undefined. */
export function defined<T extends object>(fields: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  const kept: { [K in keyof T]?: Exclude<T[K], undefined> } = {};
  for (const name of Object.keys(fields) as (keyof T)[]) {
    const value = fields[name];
    if (value !== undefined) kept[name] = value as Exclude<T[keyof T], undefined>;
  }
  return kept;
}
