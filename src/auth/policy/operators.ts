/**
 * The condition operators of the IAM grammar as a table: the type that each reads, and how one value of the policy is compared with one
 * value of the request. `conditions.ts` has the meaning of missing keys, several values and negation.
 */
import { parsePeer, parseRange, rangeContains } from '../../base/text/ip-address.ts';
import { byteString } from '../../base/text/utf8.ts';
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

/** `true` and `false` in any case. */
function parseBool(text: string): boolean | undefined {
  const lower = text.toLowerCase();
  return lower === 'true' || lower === 'false' ? lower === 'true' : undefined;
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
      compile: compared({ policy: parseBase64, request: byteString }, 'base64', isEqual),
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
