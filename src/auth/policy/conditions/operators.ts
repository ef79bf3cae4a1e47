/**
 * The condition operators of the IAM grammar as a table: the type that each reads, and how one value of the policy is compared with one
 * value of the request. `conditions.ts` has the meaning of missing keys, several values and negation.
 */

import { malformed, quoted } from '../document/malformed.ts';
import {
  arnSegments,
  compileArn,
  compileGlob,
  isSearching,
  matchArn,
  matchGlob,
  splitTokens,
} from '../patterns.ts';
import type { PolicyRequest } from '../request.ts';
import { parsePeer, parseRange, rangeContains } from './addresses.ts';
import type { KeyType } from './keys.ts';
import { decodeBinary, parseBase64, parseBool, parseDate, parseNumber } from './scalars.ts';
import { isPlain, type Plain, parseTemplate, perRequest, type Token } from './variables.ts';

/** Undefined: the value of the request is not of the operator's kind, so the comparison has no result. */
export type Answer = boolean | undefined;
/** 'unresolved': a variable of the policy's value has no value in this request. */
export type Matcher = (value: string, request: PolicyRequest) => Answer | 'unresolved';

export interface ValuePlace {
  readonly at: string;
  readonly variables: boolean;
}

export interface Operator {
  /** The key types that it can read. Text operators read the text of every key. */
  readonly types: readonly KeyType[] | 'all';
  /** True for an operator that holds when no value of the policy matches, also when the request lacks the key. */
  readonly negated: boolean;
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
  return (given, { at, variables }) =>
    dynamic(
      parseTemplate(given, { at, variables, wildcards: false }),
      (tokens) => fold(joinTokens(tokens)),
      (wanted, value) => fold(value) === wanted,
    );
}

/** In characters. Longer values are not searched, because thousands of patterns could each read a whole header of 16 KiB. */
const searchedMax = 2_048;

const like: Operator['compile'] = (given, { at, variables }) =>
  dynamic(parseTemplate(given, { at, variables, wildcards: true }), compileGlob, (glob, value) =>
    value.length > searchedMax && isSearching(glob) ? undefined : matchGlob(glob, value),
  );

/** A matcher of ARN patterns. Variables are put in after the cut at colons, so none can shift a segment. */
export function compileArnPattern(given: string, { at, variables }: ValuePlace): Matcher {
  const tokens = parseTemplate(given, { at, variables, wildcards: true });
  const segments = splitTokens(tokens);
  if (segments === undefined || !/^(?:arn|\*):/.test(given))
    throw malformed(at, `${quoted(given)} is not an ARN of ${arnSegments} segments, arn:aws:s3:::name`);
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

const arn: Operator['compile'] = (given, place) => {
  if (given === '*') return () => true;
  return compileArnPattern(given, place);
};

/** Parses both sides, then compares them. */
function compared<P, R = P>(
  read: {
    readonly policy: (text: string) => P | undefined;
    readonly request: (text: string) => R | undefined;
  },
  what: string,
  holds: (value: R, wanted: P) => boolean,
): Operator['compile'] {
  return (given, { at }) => {
    const wanted = read.policy(given);
    if (wanted === undefined) throw malformed(at, `${quoted(given)} is not ${what}`);
    return (text) => {
      const value = read.request(text);
      return value === undefined ? undefined : holds(value, wanted);
    };
  };
}

const readNumber = once(parseNumber);
const readDate = once(parseDate);

const numeric = (holds: (value: number, wanted: number) => boolean, negated = false): Operator => ({
  types: ['number', 'epoch', 'any'],
  negated,
  compile: compared({ policy: parseNumber, request: readNumber }, 'a number', holds),
});
const date = (holds: (value: number, wanted: number) => boolean, negated = false): Operator => ({
  types: ['date', 'epoch', 'any'],
  negated,
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
  compile,
});
const isEqual = <T>(value: T, wanted: T): boolean => value === wanted;

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
  ['NumericLessThan', numeric((value, wanted) => value < wanted)],
  ['NumericLessThanEquals', numeric((value, wanted) => value <= wanted)],
  ['NumericGreaterThan', numeric((value, wanted) => value > wanted)],
  ['NumericGreaterThanEquals', numeric((value, wanted) => value >= wanted)],
  ['DateEquals', date(isEqual)],
  ['DateNotEquals', date(isEqual, true)],
  ['DateLessThan', date((value, wanted) => value < wanted)],
  ['DateLessThanEquals', date((value, wanted) => value <= wanted)],
  ['DateGreaterThan', date((value, wanted) => value > wanted)],
  ['DateGreaterThanEquals', date((value, wanted) => value >= wanted)],
  [
    'Bool',
    {
      types: ['bool', 'any'],
      negated: false,
      compile: compared({ policy: parseBool, request: parseBool }, 'true or false', isEqual),
    },
  ],
  [
    'BinaryEquals',
    {
      types: ['text', 'any'],
      negated: false,
      compile: compared({ policy: parseBase64, request: decodeBinary }, 'base64', isEqual),
    },
  ],
  ['IpAddress', { types: ['ip', 'any'], negated: false, compile: ip }],
  ['NotIpAddress', { types: ['ip', 'any'], negated: true, compile: ip }],
  // On AWS the two ARN operators behave the same.
  ['ArnEquals', { types: ['arn', 'any'], negated: false, compile: arn }],
  ['ArnLike', { types: ['arn', 'any'], negated: false, compile: arn }],
  ['ArnNotEquals', { types: ['arn', 'any'], negated: true, compile: arn }],
  ['ArnNotLike', { types: ['arn', 'any'], negated: true, compile: arn }],
]);
