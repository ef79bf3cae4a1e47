/** The headers, query parameters and tags of a request as values, with refusals that name what was wrong. */
import { fail, invalidArgument, Refusal } from '../base/errors.ts';
import { textFromBase64, textToBase64 } from '../base/text/base64.ts';
import type { UploadName } from '../domain/uploads/upload-session.ts';
import { amz, type Dialect, store } from '../protocol/dialect.ts';
import { readXml } from '../protocol/formats/codec.ts';
import { bodyMaxDefault, isHoisted } from '../protocol/operations/operations.ts';
import { tagging } from '../protocol/schemas/object.ts';
import { headerText, Query, type Wire } from '../protocol/wire.ts';
import type { AuthorizedInBucket, Identified } from './request.ts';

/** An integer parameter within a range; above `max` it is capped, as the public API does for page sizes. */
export function readCount(
  query: Query,
  name: string,
  { fallback, max }: { readonly fallback: number; readonly max: number },
): number {
  const raw = query.get(name);
  if (raw === undefined || raw === '') return fallback;
  if (!/^\d{1,10}$/.test(raw) || Number(raw) > 2 ** 31 - 1) {
    throw invalidArgument(name, raw, `${name} must be an integer between 0 and 2147483647`);
  }
  return Math.min(Number(raw), max);
}

export const isUrlEncoded = (query: Query): boolean => {
  const encoding = query.get('encoding-type');
  if (encoding === undefined) return false;
  if (encoding.toLowerCase() === 'url') return true;
  throw invalidArgument('encoding-type', encoding, 'Invalid Encoding Method specified in Request');
};

/** The URL encoding of listings: everything except unreserved characters and `/`. */
export const urlEncode = (text: string): string =>
  encodeURIComponent(text)
    .replace(/[!'()*]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`)
    .replaceAll('%2F', '/');

const encoder = new TextEncoder();
/** Reused: nothing reads what is written to it. */
const scratch = new Uint8Array(16 * 1024);

/** Bytes of a text in UTF-8. The text is encoded by pieces, so that a long one costs no memory. */
export function utf8Length(text: string): number {
  let bytes = 0;
  for (let rest = text; ; ) {
    const { read, written } = encoder.encodeInto(rest, scratch);
    bytes += written;
    if (read === rest.length) return bytes;
    rest = rest.slice(read);
  }
}

export const isOneOf = <const T extends readonly string[]>(choices: T, raw: string): raw is T[number] =>
  choices.includes(raw);

/** Drops what is undefined, so that optional properties are absent and not undefined. */
export function defined<T extends object>(fields: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  const retained: { [K in keyof T]?: Exclude<T[K], undefined> } = {};
  for (const name of Object.keys(fields) as (keyof T)[]) {
    const value = fields[name];
    if (value !== undefined) retained[name] = value as Exclude<T[keyof T], undefined>;
  }
  return retained;
}

// Object keys: at most 1024 bytes of UTF-8, never NUL (public API).

export const keyBytesMax = 1024;

/** @throws KeyTooLongError, InvalidArgument */
export function assertKey(key: string): void {
  assertLength(key);
  if (key === '' || key.includes('\0')) {
    throw fail('InvalidArgument', {
      message: 'A key has at least one character and never NUL.',
      elements: { ArgumentName: 'key' },
    });
  }
  if (!key.isWellFormed()) throw fail('InvalidURI', 'The key is not valid UTF-8.');
}

/**
 * Checks a text that a listing compares with keys: a prefix, a marker, the position in a token.
 * @throws KeyTooLongError, InvalidArgument for a text that no key can have
 */
function assertPlace(text: string, name: string): string {
  assertLength(text);
  if (text.includes('\0') || !text.isWellFormed()) {
    throw fail('InvalidArgument', {
      message: `${name} must be UTF-8 without NUL, as keys are.`,
      elements: { ArgumentName: name },
    });
  }
  return text;
}

/** The parameter as such a place, '' when it is absent. */
export const positionIn = (query: Query, name: string): string => assertPlace(query.get(name) ?? '', name);

function assertLength(text: string): void {
  // Three bytes a unit at most: short keys, nearly all, need no encoding.
  if (text.length * 3 > keyBytesMax && utf8Length(text) > keyBytesMax) {
    throw fail('KeyTooLongError', { elements: { Size: utf8Length(text), MaxSizeAllowed: keyBytesMax } });
  }
}

// Continuation tokens: base64url of JSON in our own format; literal markers of older clients work too.

interface Token {
  /** The last key or common prefix of the page before. */
  readonly after: string;
}

export const writeToken = (token: Token): string =>
  textToBase64(JSON.stringify(token)).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');

/** @throws InvalidArgument for an empty token; any other text than a token is taken as a literal marker */
export function readToken(raw: string | undefined): Token | undefined {
  if (raw === undefined) return undefined;
  if (raw === '') {
    throw invalidArgument('continuation-token', raw, 'The continuation token provided is incorrect');
  }
  const token = decode(raw) ?? { after: raw };
  assertPlace(token.after, 'continuation-token');
  return token;
}

function decode(raw: string): Token | undefined {
  try {
    const value: unknown = JSON.parse(textFromBase64(raw.replaceAll('-', '+').replaceAll('_', '/')));
    if (typeof value === 'object' && value !== null && 'after' in value && typeof value.after === 'string') {
      return { after: value.after };
    }
  } catch {
    // Not base64url, not UTF-8 or not JSON: a literal marker.
  }
  return undefined;
}

export const readUploadName = ({ bucket, key, query }: AuthorizedInBucket): UploadName => ({
  bucket,
  key,
  uploadId: query.get('uploadId') ?? '',
});

// The headers of a request's dialect, by bare name: `storage-class` is `x-amz-storage-class` or its neutral twin.

type Named = Pick<Identified, 'own'>;

export const header = ({ own }: Named, bareName: string): string | undefined => own.get(bareName);

/** A header that has one of these values. @throws InvalidArgument */
export function readChoice<const T extends readonly string[]>(
  request: Named,
  bareName: string,
  choices: T,
): T[number] | undefined {
  const raw = header(request, bareName);
  if (raw === undefined || isOneOf(choices, raw)) return raw;
  throw noChoice(bareName, raw, choices);
}

/** A header that is `true` or `false`, in any case. @throws InvalidArgument */
export function readFlag(request: Named, bareName: string): boolean | undefined {
  const raw = header(request, bareName);
  const word = raw?.toLowerCase();
  if (raw === undefined || word === 'true' || word === 'false')
    return raw === undefined ? raw : word === 'true';
  throw noChoice(bareName, raw, ['true', 'false']);
}

const noChoice = (ArgumentName: string, ArgumentValue: string, choices: readonly string[]) =>
  invalidArgument(ArgumentName, ArgumentValue, `${ArgumentName} must be one of ${choices.join(', ')}`);

/** The headers of the request's dialect whose bare names start with `prefix`, as `[rest of the name, value]`. */
export function headersUnder({ own }: Named, prefix: string): [string, string][] {
  const found: [string, string][] = [];
  for (const [name, value] of own)
    if (name.startsWith(prefix)) found.push([name.slice(prefix.length), value]);
  return found;
}

/**
 * The request's dialect headers by bare name. A request without a dialect may use the headers of both, and those of the public API
 * take precedence. Presigners move headers into the query, where the signature covers them: these are included (public API).
 */
export function ownHeaders(
  { headers }: Wire,
  query: Query,
  dialect: Dialect | undefined,
): ReadonlyMap<string, string> {
  const own = new Map<string, string>();
  for (const { headerPrefix } of dialect === undefined ? [amz, store] : [dialect]) {
    for (const name of headers.names()) {
      if (!name.startsWith(headerPrefix)) continue;
      const bareName = name.slice(headerPrefix.length);
      if (!own.has(bareName)) own.set(bareName, headers.get(name) ?? '');
    }
  }
  if (dialect === undefined) return own;
  for (const [name, value] of query.pairs) {
    const lower = name.toLowerCase();
    if (!lower.startsWith(dialect.headerPrefix)) continue;
    const bareName = lower.slice(dialect.headerPrefix.length);
    if (!isHoisted(bareName)) continue;
    const text = headerText(lower, value);
    if (!own.has(bareName)) own.set(bareName, text);
  }
  return own;
}

// The tags of objects, from the `tagging` header (a query string) or from a body, as the public API bounds them.

export type Tags = readonly (readonly [string, string])[];

const tagsMax = 10;

const keyMax = 128;

const valueMax = 256;

const allowed = /^[\p{L}\p{Z}\p{N}_.:/=+\-@]*$/u;

/** The tags of a header value. @throws InvalidArgument, InvalidTag or BadRequest naming the tag */
export function parseTags(raw: string | undefined): Tags {
  if (raw === undefined || raw === '') return [];
  const tags = readPairs(raw);
  checkCount(tags);
  const names = new Set(tags.map(([key]) => key));
  if (names.size !== tags.length || names.has('')) throw malformedHeader(raw);
  return checkTags(tags);
}

function readPairs(raw: string): Tags {
  try {
    return new Query(raw).pairs;
  } catch (cause) {
    if (cause instanceof Refusal) throw malformedHeader(raw);
    throw cause;
  }
}

const malformedHeader = (raw: string): Refusal =>
  invalidArgument(
    'tagging',
    raw,
    'The tagging header shall be encoded as UTF-8 then URL-encoded query parameters without tag name duplicates.',
  );

/** The tags of a body. @throws MalformedXML, InvalidTag or BadRequest naming the tag */
export function tagsIn(body: Uint8Array): Tags {
  const { TagSet } = readXml(tagging, 'Tagging', body, { maxBytes: bodyMaxDefault });
  return checkTagging(TagSet.map(({ Key, Value }) => [Key, Value] as const));
}

/** Tags in the order of their keys. @throws InvalidTag or BadRequest naming the tag */
export function checkTagging(tags: Tags): Tags {
  checkCount(tags);
  for (const [i, [key]] of tags.entries()) {
    if (tags.findIndex(([each]) => each === key) < i)
      throw invalidTag('Cannot provide multiple Tags with the same key', key);
  }
  return checkTags(tags);
}

function checkCount(tags: Tags): void {
  if (tags.length > tagsMax) throw fail('BadRequest', `Object tags cannot be greater than ${tagsMax}`);
}

/** The tags in the order of their keys, as the public service shows them. */
function checkTags(tags: Tags): Tags {
  for (const tag of tags) checkTag(tag);
  return tags.toSorted(([a], [b]) => (a < b ? -1 : 1));
}

/** @throws InvalidTag naming the key */
export function checkTag([key, value]: Tags[number]): void {
  const isKeyRight =
    key !== '' &&
    Array.from(key).length <= keyMax &&
    allowed.test(key) &&
    !key.toLowerCase().startsWith('aws:');
  if (!isKeyRight) throw invalidTag('The TagKey you have provided is invalid', key);
  if (Array.from(value).length > valueMax || !allowed.test(value))
    throw invalidTag('The TagValue you have provided is invalid', key);
}

const invalidTag = (message: string, key: string) =>
  fail('InvalidTag', { message, elements: { TagKey: key } });
