/** The kinds of plain settings: numbers with a range, choices, switches, texts and lists. */
import { parseBytes } from '../base/text/byte-size.ts';
import { fault, type Read, type Setting, value } from './setting.ts';

interface Ranged {
  readonly fallback: string;
  readonly doc: string;
  /** Both ends are allowed. */
  readonly range: readonly [string, string];
  /** Default `refused`. */
  readonly outside?: 'refused' | 'clamped';
}

/** A number in some unit, between two bounds written in the same unit. */
function ranged(
  parse: (text: string) => number | undefined,
  kind: { readonly name: string; readonly example: string },
  { fallback, doc, range, outside = 'refused' }: Ranged,
): Setting<number> {
  const rangeText = `[${range[0]}, ${range[1]}]`;
  const [low = Number.NaN, high = Number.NaN] = range.map(parse);
  const read = (text: string): Read<number> => {
    const parsed = parse(text);
    if (parsed === undefined) return fault(`is not a ${kind.name} such as ${kind.example}`);
    if (parsed >= low && parsed <= high) return value(parsed);
    if (outside === 'refused') return fault(`is outside ${rangeText}`);
    const end = parsed < low ? 0 : 1;
    return { value: end === 0 ? low : high, warning: `is outside ${rangeText}: ${range[end]} is used` };
  };
  return { kind: kind.name, doc, fallback, range: rangeText, outside, read };
}

/** Milliseconds, written as a Go duration. */
export const duration = (ranges: Ranged): Setting<number> =>
  ranged(parseDuration, { name: 'duration', example: '90s or 1h30m' }, ranges);

/** Bytes, written with a binary unit. */
export const bytes = (ranges: Ranged): Setting<number> =>
  ranged(parseBytes, { name: 'size', example: '512MiB' }, ranges);

const parseInteger = (text: string): number | undefined =>
  /^-?\d{1,15}$/.test(text) ? Number(text) : undefined;
export const integer = (ranges: Ranged): Setting<number> =>
  ranged(parseInteger, { name: 'whole number', example: ranges.fallback }, ranges);

export function powerOfTwo(ranges: Ranged): Setting<number> {
  const number = integer(ranges);
  const read = (text: string): Read<number> => {
    const result = number.read(text);
    if ('faults' in result || Number.isInteger(Math.log2(result.value))) return result;
    return fault('is not a power of two');
  };
  return { ...number, kind: 'power of two', read };
}

interface Choices<T extends readonly string[]> {
  readonly of: T;
  readonly fallback: T[number];
  readonly doc: string;
  /** Values of the specification that this build cannot serve: refused by name, never listed. */
  readonly notBuilt?: readonly string[];
}

export function choice<const T extends readonly string[]>({
  of,
  fallback,
  doc,
  notBuilt = [],
}: Choices<T>): Setting<T[number]> {
  const read = (text: string): Read<T[number]> => {
    const chosen = of.find((known) => known === text);
    if (chosen !== undefined) return value(chosen);
    const why = notBuilt.includes(text) ? 'is not built into this version; it is one of' : 'is not one of';
    return fault(`${why} ${of.join(', ')}`);
  };
  return { kind: of.map((known) => `\`${known}\``).join(' or '), doc, fallback, read };
}

const switchTexts: Readonly<Record<string, boolean>> = { on: true, true: true, off: false, false: false };
/** `on`/`off` and `true`/`false` are the same; the flag may be given without a value. */
export const toggle = (fallback: 'on' | 'off' | 'true' | 'false', doc: string): Setting<boolean> => ({
  kind: fallback === 'on' || fallback === 'off' ? '`on` or `off`' : '`true` or `false`',
  doc,
  fallback,
  bareFlag: 'true',
  read: (text) => {
    const known = Object.hasOwn(switchTexts, text) ? switchTexts[text] : undefined;
    return known === undefined ? fault('is not one of on, off, true, false') : value(known);
  },
});

interface Text {
  readonly kind: string;
  readonly doc: string;
  readonly fallback?: string;
  readonly pattern?: RegExp;
  /** Continues `NAME=value …` when the pattern does not match. */
  readonly otherwise?: string;
}
export const text = ({ kind, doc, fallback, pattern, otherwise }: Text): Setting<string> => ({
  kind,
  doc,
  fallback,
  read: (input) => (pattern?.test(input) === false ? fault(otherwise ?? `is not a ${kind}`) : value(input)),
});

/** Longest list that a setting takes. */
const itemsMax = 1024;

interface List<T> {
  readonly kind: string;
  readonly doc: string;
  /** Reads one trimmed item. */
  readonly item: (text: string) => Read<T>;
}
/** A comma list; faults name the item. */
export const list = <T>({ kind, doc, item }: List<T>): Setting<readonly T[]> => ({
  kind,
  doc,
  fallback: '',
  read: (input) => {
    const texts = input
      .split(',')
      .map((part) => part.trim())
      .filter((part) => part !== '');
    if (texts.length > itemsMax) return fault(`has more than ${itemsMax} items`);
    const read = texts.map((part) => ({ part, result: item(part) }));
    const faults = read.flatMap(({ part, result }) =>
      'faults' in result ? result.faults.map((reason) => `: "${part}" ${reason}`) : [],
    );
    if (faults.length > 0) return { faults };
    return value(read.flatMap(({ result }) => ('value' in result ? [result.value] : [])));
  },
});

// Durations as Go writes them, also in days.

const unitMs: Readonly<Record<string, number>> = {
  ns: 1e-6,
  us: 1e-3,
  µs: 1e-3,
  ms: 1,
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};
const durationText = /^(?:\d+(?:\.\d+)?(?:ns|us|µs|ms|s|m|h|d))+$/;

/** Milliseconds of `90s`, `1h30m`, `30d` or `0`; undefined when the text is no durationText. */
export function parseDuration(text: string): number | undefined {
  if (text === '0') return 0;
  if (text.length > 40 || !durationText.test(text)) return undefined;
  let sum = 0;
  for (const [, count = '', unit = ''] of text.matchAll(/(\d+(?:\.\d+)?)(ns|us|µs|ms|s|m|h|d)/gy)) {
    sum += Number(count) * (unitMs[unit] ?? 0);
  }
  return sum;
}
