/**
 * The condition operators of the IAM grammar as a table: the type that each reads, and how one value of the policy is compared with one
 * value of the request. `conditions.ts` has the meaning of missing keys, several values and negation.
 */
import { malformed, quoted } from './json.ts';
import type { KeyType } from './keys.ts';
import {
  arnSegments,
  compileArn,
  compileGlob,
  isSearching,
  matchArn,
  matchGlob,
  splitTokens,
} from './patterns.ts';
import type { PolicyRequest } from './request.ts';
import { isPlain, type Plain, parseTemplate, perRequest, type Token } from './variables.ts';

// Numbers, dates and bytes in the notation of policies; undefined for an invalid text.

/** No more digits than a double holds, so that equal means equal. */
const numberPattern = /^[+-]?\d{1,15}(?:\.\d{1,9})?$/;

const parseNumber = (text: string): number | undefined =>
  numberPattern.test(text) && text.replace(/\D/g, '').length <= 15 ? Number(text) : undefined;

const datePattern =
  /^(\d{4})(?:-(\d\d)(?:-(\d\d)(?:T(\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?(Z|[+-]\d\d(?::?\d\d)?))?)?)?$/;
const epochPattern = /^\d{5,12}(?:\.\d{1,9})?$/;

/** The offset of a written time zone from UTC, in milliseconds. */
function zoneMs(zone: string): number {
  const [, sign, hours, minutes] = /^([+-])(\d\d):?(\d\d)?$/.exec(zone) ?? [];
  return (sign === '-' ? -1 : 1) * (Number(hours ?? 0) * 60 + Number(minutes ?? 0)) * 60_000;
}

/** Milliseconds since the epoch, of a W3C date (ISO 8601) or of seconds since the epoch. */
function parseDate(text: string): number | undefined {
  if (epochPattern.test(text)) return Number(text) * 1000;
  const found = datePattern.exec(text);
  if (found === null) return undefined;
  const [
    ,
    year,
    month = '01',
    day = '01',
    hour = '00',
    minute = '00',
    second = '00',
    fraction = '0',
    zone = 'Z',
  ] = found;
  const written = `${year}-${month}-${day}T${hour}:${minute}:${second}`;
  const time = Date.parse(`${written}Z`);
  // Refuse a date such as February 30, which `Date.parse` turns into a date in March.
  if (Number.isNaN(time) || new Date(time).toISOString().slice(0, 19) !== written) return undefined;
  return time + Number(`0.${fraction}`) * 1000 - zoneMs(zone);
}

const base64Pattern = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

/** The bytes of a base64 text, as a string of characters 0 to 255. */
const parseBase64 = (text: string): string | undefined => (base64Pattern.test(text) ? atob(text) : undefined);

const utf8 = new TextEncoder();
/** The bytes of a text, as a string of characters 0 to 255. */
const decodeBinary = (text: string): string =>
  Array.from(utf8.encode(text), (byte) => String.fromCharCode(byte)).join('');

/** `true` and `false` in any case. */
function parseBool(text: string): boolean | undefined {
  const lower = text.toLowerCase();
  return lower === 'true' || lower === 'false' ? lower === 'true' : undefined;
}

// IP addresses and ranges as conditions compare them; an IPv4 address is also the IPv6 one that maps it.

/** The 128 bits as four words, most significant first; IPv4 addresses are in `::ffff:0:0/96`. */
export type Address = readonly [number, number, number, number];

const octet = /^(?:0|[1-9]\d{0,2})$/;
const group = /^[0-9a-f]{1,4}$/i;

function parseFour(text: string): number | undefined {
  const parts = text.split('.');
  if (parts.length !== 4) return undefined;
  let bits = 0;
  for (const part of parts) {
    // A leading zero is octal to some readers and decimal to others.
    if (!octet.test(part) || Number(part) > 255) return undefined;
    bits = bits * 256 + Number(part);
  }
  return bits;
}

/** Groups of sixteen bits; the last may be written as IPv4 and counts as two. */
function parseGroups(text: string, mayEndInFour: boolean): readonly number[] | undefined {
  if (text === '') return [];
  const parts = text.split(':');
  const groups: number[] = [];
  for (const [index, part] of parts.entries()) {
    const four =
      mayEndInFour && index === parts.length - 1 && part.includes('.') ? parseFour(part) : undefined;
    if (four !== undefined) groups.push(Math.floor(four / 65_536), four % 65_536);
    else if (group.test(part)) groups.push(Number.parseInt(part, 16));
    else return undefined;
  }
  return groups;
}

/** Undefined when the text is no address. */
function parseAddress(text: string): Address | undefined {
  if (!text.includes(':')) {
    const four = parseFour(text);
    return four === undefined ? undefined : [0, 0, 0xffff, four];
  }
  const halves = text.split('::');
  if (halves.length > 2) return undefined;
  const head = parseGroups(halves[0] ?? '', halves.length === 1);
  const tail = parseGroups(halves[1] ?? '', true);
  if (head === undefined || tail === undefined) return undefined;
  const missing = 8 - head.length - tail.length;
  if (halves.length === 2 ? missing < 1 : missing !== 0) return undefined;
  const groups = [...head, ...Array<number>(missing).fill(0), ...tail];
  const word = (at: number): number => (groups[at] ?? 0) * 65_536 + (groups[at + 1] ?? 0);
  return [word(0), word(2), word(4), word(6)];
}

/** The address of a peer, which may include the name of an interface (`fe80::1%eth0`). */
const parsePeer = (text: string): Address | undefined => parseAddress(text.split('%', 1)[0] ?? '');

/** All addresses of an IPv6 network of 64 bits are one: a client can use any of them. IPv4 addresses are in `::ffff:0:0/96`. */
export function toNetwork(address: string): string {
  const words = parsePeer(address);
  if (words === undefined) return address;
  const [first, second, third] = words;
  return first === 0 && second === 0 && third === 0xffff ? words.join('.') : `${first}.${second}/64`;
}

export interface Range {
  readonly base: Address;
  /** The length of the prefix, of 128 bits. */
  readonly bits: number;
}

/** `10.0.0.0/8`, `fd00::/8`, or a single address. */
export function parseRange(text: string): Range | undefined {
  const [address = '', prefix, ...rest] = text.split('/');
  const base = parseAddress(address);
  if (base === undefined || rest.length > 0) return undefined;
  const width = address.includes(':') ? 128 : 32;
  if (prefix !== undefined && (!octet.test(prefix) || Number(prefix) > width)) return undefined;
  return { base, bits: 128 - width + (prefix === undefined ? width : Number(prefix)) };
}

export function rangeContains({ base, bits }: Range, address: Address): boolean {
  for (let word = 0; word < 4; word++) {
    const count = Math.min(32, Math.max(0, bits - word * 32));
    if (count === 0) return true;
    const size = 2 ** (32 - count);
    if (Math.floor((base[word] as number) / size) !== Math.floor((address[word] as number) / size))
      return false;
  }
  return true;
}

/** Undefined: the value of the request is not of the operator's kind, so the comparison has no result. */
type Answer = boolean | undefined;
/** 'unresolved': a variable of the policy's value has no value in this request. */
export type Matcher = (value: string, request: PolicyRequest) => Answer | 'unresolved';

interface ValuePlace {
  readonly at: string;
  readonly variables: boolean;
}

export interface Operator {
  /** The key types that it can read. Text operators read the text of every key. */
  readonly types: readonly KeyType[] | 'all';
  /** True for an operator that holds when no value of the policy matches, also when the request lacks the key. */
  readonly negated: boolean;
  /** Whether `*` and `?` of the policy's value match other characters: such a value fixes nothing (`public-status.ts`). */
  readonly takesPatterns: boolean;
  /** @throws MalformedPolicy for a value that cannot be compared */
  compile(value: string, place: ValuePlace): Matcher;
}

/** Caches the last result, because the statements of a policy parse the same value of a request repeatedly. */
function once<T>(parse: (text: string) => T): (text: string) => T {
  let last: { readonly text: string; readonly parsed: T } | undefined;
  return (text) => {
    if (last === undefined || last.text !== text) last = { text, parsed: parse(text) };
    return last.parsed;
  };
}

/** Matches after replacing the variables with the values of this request. */
function dynamic<T>(
  tokens: readonly Token[],
  compile: (tokens: readonly Plain[]) => T,
  match: (compiled: T, value: string) => Answer,
): Matcher {
  if (isPlain(tokens)) {
    const compiled = compile(tokens);
    return once((value) => match(compiled, value));
  }
  const compiledFor = perRequest(tokens, (fill) => compile(fill(tokens)));
  return (value, request) => {
    const compiled = compiledFor(request);
    return compiled === undefined ? 'unresolved' : match(compiled, value);
  };
}

const joinTokens = (tokens: readonly Plain[]): string =>
  tokens.map((token) => (token.is === 'text' ? token.text : '')).join('');

function equals(fold: (text: string) => string): Operator['compile'] {
  return (input, { at, variables }) =>
    dynamic(
      parseTemplate(input, { at, variables, wildcards: false }),
      (tokens) => fold(joinTokens(tokens)),
      (expected, value) => fold(value) === expected,
    );
}

/** In characters. Longer values are not searched, because thousands of patterns could each read a whole header of 16 KiB. */
const searchedMax = 2_048;

const like: Operator['compile'] = (input, { at, variables }) =>
  dynamic(parseTemplate(input, { at, variables, wildcards: true }), compileGlob, (glob, value) =>
    value.length > searchedMax && isSearching(glob) ? undefined : matchGlob(glob, value),
  );

/** A matcher of ARN patterns. Variables are put in after the cut at colons, so none can shift a segment. */
export function compileArnPattern(input: string, { at, variables }: ValuePlace): Matcher {
  const tokens = parseTemplate(input, { at, variables, wildcards: true });
  const segments = splitTokens(tokens);
  if (segments === undefined || !/^(?:arn|\*):/.test(input))
    throw malformed(at, `${quoted(input)} is not an ARN of ${arnSegments} segments, arn:aws:s3:::name`);
  if (segments.every(isPlain)) {
    const compiled = compileArn(segments);
    return (value) => matchArn(compiled, value);
  }
  const compiledFor = perRequest(tokens, (fill) => compileArn(segments.map(fill)));
  return (value, request) => {
    const compiled = compiledFor(request);
    return compiled === undefined ? 'unresolved' : matchArn(compiled, value);
  };
}

const arn: Operator['compile'] = (input, place) => {
  if (input === '*') return () => true;
  return compileArnPattern(input, place);
};

/** Parses both sides, then compares them. */
function compared<P, R = P>(
  read: {
    readonly policy: (text: string) => P | undefined;
    readonly request: (text: string) => R | undefined;
  },
  what: string,
  holds: (value: R, expected: P) => boolean,
): Operator['compile'] {
  return (input, { at }) => {
    const expected = read.policy(input);
    if (expected === undefined) throw malformed(at, `${quoted(input)} is not ${what}`);
    return (text) => {
      const value = read.request(text);
      return value === undefined ? undefined : holds(value, expected);
    };
  };
}

const readNumber = once(parseNumber);
const readDate = once(parseDate);

const numeric = (holds: (value: number, expected: number) => boolean, negated = false): Operator => ({
  types: ['number', 'epoch', 'any'],
  negated,
  takesPatterns: false,
  compile: compared({ policy: parseNumber, request: readNumber }, 'a number', holds),
});
const date = (holds: (value: number, expected: number) => boolean, negated = false): Operator => ({
  types: ['date', 'epoch', 'any'],
  negated,
  takesPatterns: false,
  compile: compared(
    { policy: parseDate, request: readDate },
    'a date such as 2026-01-31T00:00:00Z, or seconds since the epoch',
    holds,
  ),
});

const ip: Operator['compile'] = compared(
  { policy: parseRange, request: once(parsePeer) },
  'an address or range such as 192.0.2.0/24 or 2001:db8::/32',
  (address, range) => rangeContains(range, address),
);

const same = (text: string): string => text;
const lower = (text: string): string => text.toLowerCase();
const text = (compile: Operator['compile'], negated: boolean): Operator => ({
  types: 'all',
  negated,
  takesPatterns: compile === like,
  compile,
});
const isEqual = <T>(value: T, expected: T): boolean => value === expected;

/** Every operator except `Null`, which tests whether the key exists. */
export const operators: ReadonlyMap<string, Operator> = new Map<string, Operator>([
  ['StringEquals', text(equals(same), false)],
  ['StringNotEquals', text(equals(same), true)],
  ['StringEqualsIgnoreCase', text(equals(lower), false)],
  ['StringNotEqualsIgnoreCase', text(equals(lower), true)],
  ['StringLike', text(like, false)],
  ['StringNotLike', text(like, true)],
  ['NumericEquals', numeric(isEqual)],
  ['NumericNotEquals', numeric(isEqual, true)],
  ['NumericLessThan', numeric((value, expected) => value < expected)],
  ['NumericLessThanEquals', numeric((value, expected) => value <= expected)],
  ['NumericGreaterThan', numeric((value, expected) => value > expected)],
  ['NumericGreaterThanEquals', numeric((value, expected) => value >= expected)],
  ['DateEquals', date(isEqual)],
  ['DateNotEquals', date(isEqual, true)],
  ['DateLessThan', date((value, expected) => value < expected)],
  ['DateLessThanEquals', date((value, expected) => value <= expected)],
  ['DateGreaterThan', date((value, expected) => value > expected)],
  ['DateGreaterThanEquals', date((value, expected) => value >= expected)],
  [
    'Bool',
    {
      types: ['bool', 'any'],
      negated: false,
      takesPatterns: false,
      compile: compared({ policy: parseBool, request: parseBool }, 'true or false', isEqual),
    },
  ],
  [
    'BinaryEquals',
    {
      types: ['text', 'any'],
      negated: false,
      takesPatterns: false,
      compile: compared({ policy: parseBase64, request: decodeBinary }, 'base64', isEqual),
    },
  ],
  ['IpAddress', { types: ['ip', 'any'], negated: false, takesPatterns: false, compile: ip }],
  ['NotIpAddress', { types: ['ip', 'any'], negated: true, takesPatterns: false, compile: ip }],
  // On AWS the two ARN operators behave the same.
  ['ArnEquals', { types: ['arn', 'any'], negated: false, takesPatterns: true, compile: arn }],
  ['ArnLike', { types: ['arn', 'any'], negated: false, takesPatterns: true, compile: arn }],
  ['ArnNotEquals', { types: ['arn', 'any'], negated: true, takesPatterns: true, compile: arn }],
  ['ArnNotLike', { types: ['arn', 'any'], negated: true, takesPatterns: true, compile: arn }],
]);
