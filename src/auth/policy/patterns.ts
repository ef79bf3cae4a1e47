/**
 * Globs of `*` and `?` in linear time: no regular expression is built from a client's text, and a text is read at most
 * `stepsPerCharacterMax` times per character, whatever the pattern. ARN patterns match segment by segment. A character is a UTF-16
 * unit, as in the strings that are compared.
 */
import type { Plain, Token } from './variables.ts';

/** Counts the steps of a match, so that a test can bound them without a clock. */
export interface Meter {
  steps: number;
}
/** A run this short is searched for by the engine's own `indexOf`; a longer one by its borders, one with `?` by bits. */
const wordBits = 32;
export const stepsPerCharacterMax = 2 * wordBits + 2;

/** The characters between two `*`. */
interface Run {
  /** With a NUL at every `?`, see `holes`. */
  readonly text: string;
  /** True at each `?`; undefined when there is none. */
  readonly holes: readonly boolean[] | undefined;
  /** For long runs without `?`: for each prefix, the length of its longest border (Knuth, Morris and Pratt). */
  borders: Uint16Array | undefined;
  /** For runs that are searched bit by bit: the places of the run where a character may be. */
  masks: Masks | undefined;
}

/** One array for all characters, because a separate small array for each would take more memory than its bits. */
interface Masks {
  readonly words: number;
  /** Where the bits of a character begin; a character that the run does not contain uses those of the holes, at 0. */
  readonly at: ReadonlyMap<number, number>;
  readonly bits: Uint32Array;
}

export interface Glob {
  /** One run without `*`: the whole text. Else the first run is the beginning of the text, and the last its end. */
  readonly runs: readonly Run[];
}

function toRun(tokens: readonly Plain[]): Run {
  const text = tokens.map((token) => (token.is === 'text' ? token.text : '\0')).join('');
  if (!tokens.some((token) => token.is === 'one'))
    return { text, holes: undefined, borders: undefined, masks: undefined };
  const holes = tokens.flatMap((token) =>
    token.is === 'text' ? Array<boolean>(token.text.length).fill(false) : [true],
  );
  return { text, holes, borders: undefined, masks: undefined };
}

export function compileGlob(tokens: readonly Plain[]): Glob {
  const runs: Plain[][] = [[]];
  for (const token of tokens) {
    if (token.is === 'any') runs.push([]);
    else runs.at(-1)?.push(token);
  }
  return { runs: runs.map(toRun) };
}

function standsAt({ text: run, holes }: Run, text: string, at: number): boolean {
  if (holes === undefined) return text.startsWith(run, at);
  if (at + run.length > text.length) return false;
  for (let index = 0; index < run.length; index++)
    if (holes[index] !== true && run.charCodeAt(index) !== text.charCodeAt(at + index)) return false;
  return true;
}

const isHole = (run: Run, index: number): boolean => run.holes?.[index] === true;

/** For each character the places of the run where it may be, as bits; at 0 the places where any character may be. */
function buildMasks(run: Run): Masks {
  const words = Math.ceil(run.text.length / wordBits);
  const at = new Map<number, number>();
  for (let index = 0; index < run.text.length; index++) {
    const code = run.text.charCodeAt(index);
    if (!isHole(run, index) && !at.has(code)) at.set(code, (at.size + 1) * words);
  }
  const bits = new Uint32Array((at.size + 1) * words);
  const set = (begin: number, index: number): void => {
    const word = begin + Math.floor(index / wordBits);
    bits[word] = (bits[word] as number) | (1 << (index % wordBits));
  };
  for (let index = 0; index < run.text.length; index++) if (isHole(run, index)) set(0, index);
  for (const begin of at.values()) bits.copyWithin(begin, 0, words);
  for (let index = 0; index < run.text.length; index++)
    if (!isHole(run, index)) set(at.get(run.text.charCodeAt(index)) as number, index);
  return { words, at, bits };
}

function computeBorders(text: string): Uint16Array {
  const borders = new Uint16Array(text.length);
  for (let index = 1, length = 0; index < text.length; index++) {
    while (length > 0 && text.charCodeAt(index) !== text.charCodeAt(length))
      length = borders[length - 1] as number;
    if (text.charCodeAt(index) === text.charCodeAt(length)) length += 1;
    borders[index] = length;
  }
  return borders;
}

/** At most two comparisons a character, even for repetitive runs. */
function searchText(run: Run, text: string, range: { readonly from: number; readonly to: number }): number {
  run.borders ??= computeBorders(run.text);
  const { text: pattern, borders } = run;
  for (let index = range.from, length = 0; index < range.to; index++) {
    const code = text.charCodeAt(index);
    while (length > 0 && pattern.charCodeAt(length) !== code) length = borders[length - 1] as number;
    if (pattern.charCodeAt(length) === code) length += 1;
    if (length === pattern.length) return index + 1 - length;
  }
  return -1;
}

const asciiCodes = 128;
/**
 * Where the bits of each ASCII character begin, for the run that was searched for last: a policy asks the same run for
 * many texts. Looking each character up in the map of the run takes twice the time of a search, and one table for all
 * runs takes no memory of theirs. `node bench/micro.ts patterns` prints both, and what filling the table costs.
 */
const asciiAt = new Uint32Array(asciiCodes);
/** Those that fill the table. */
let asciiMasks: Masks | undefined;

function fillAscii(masks: Masks): void {
  asciiAt.fill(0);
  for (const [code, begin] of masks.at) if (code < asciiCodes) asciiAt[code] = begin;
  asciiMasks = masks;
}

interface BitSearch {
  readonly from: number;
  readonly to: number;
  readonly masks: Masks;
}

/** Shift-and algorithm: bit `i` of the state means that the run's first `i + 1` characters end here. */
function searchBits(run: Run, text: string, range: { readonly from: number; readonly to: number }): number {
  run.masks ??= buildMasks(run);
  if (asciiMasks !== run.masks) fillAscii(run.masks);
  return (run.masks.words === 1 ? searchWord : searchWords)(run, text, { ...range, masks: run.masks });
}

/** Most runs have a state of one word, which stays in a register. */
function searchWord({ text: { length } }: Run, text: string, { from, to, masks }: BitSearch): number {
  const { at, bits } = masks;
  const lastBit = 1 << (length - 1);
  for (let index = from, state = 0; index < to; index++) {
    const code = text.charCodeAt(index);
    const mask = code < asciiCodes ? (asciiAt[code] as number) : (at.get(code) ?? 0);
    state = ((state << 1) | 1) & (bits[mask] as number);
    if ((state & lastBit) !== 0) return index + 1 - length;
  }
  return -1;
}

function searchWords({ text: { length } }: Run, text: string, { from, to, masks }: BitSearch): number {
  const { words, at, bits } = masks;
  const state = new Uint32Array(words);
  const lastBit = 1 << ((length - 1) % wordBits);
  for (let index = from; index < to; index++) {
    const code = text.charCodeAt(index);
    const mask = code < asciiCodes ? (asciiAt[code] as number) : (at.get(code) ?? 0);
    let carry = 1;
    for (let word = 0; word < words; word++) {
      const before = state[word] as number;
      state[word] = ((before << 1) | carry) & (bits[mask + word] as number);
      carry = before >>> (wordBits - 1);
    }
    if (((state[words - 1] as number) & lastBit) !== 0) return index + 1 - length;
  }
  return -1;
}

/** The first position of the run in the range, or -1. */
function search(
  run: Run,
  text: string,
  range: { readonly from: number; readonly to: number; readonly meter: Meter | undefined },
): number {
  const { from, to, meter } = range;
  const size = run.text.length;
  if (size > to - from) return -1;
  const short = run.holes === undefined && size <= wordBits;
  const found = short
    ? text.indexOf(run.text, from)
    : (run.holes === undefined ? searchText : searchBits)(run, text, range);
  const at = found < 0 || found + size > to ? -1 : found;
  if (meter !== undefined)
    meter.steps += ((at < 0 ? to : at + size) - from) * (short ? size : Math.ceil(size / wordBits));
  return at;
}

/** Whether a text must be searched, not just compared at both ends. */
export const isSearching = ({ runs }: Glob): boolean => runs.length > 2;

/** @param start where in the text the part begins that is to match */
export function matchGlob({ runs }: Glob, text: string, start = 0, meter?: Meter): boolean {
  const first = runs[0] as Run;
  if (meter !== undefined) meter.steps += first.text.length;
  if (runs.length === 1) return text.length - start === first.text.length && standsAt(first, text, start);
  const last = runs[runs.length - 1] as Run;
  if (meter !== undefined) meter.steps += last.text.length;
  const end = text.length - last.text.length;
  let at = start + first.text.length;
  if (at > end || !standsAt(first, text, start) || !standsAt(last, text, end)) return false;
  for (let index = 1; index < runs.length - 1; index++) {
    const run = runs[index] as Run;
    const found = search(run, text, { from: at, to: end, meter });
    if (found < 0) return false;
    at = found + run.text.length;
  }
  return true;
}

/** `arn:partition:service:region:account:resource`, of which only the last may hold colons. */
export const arnSegments = 6;

/** The six segments, or undefined when the text is no ARN. */
export function splitArn(text: string): readonly string[] | undefined {
  const parts = text.split(':');
  if (parts.length < arnSegments || parts[0] !== 'arn') return undefined;
  return [...parts.slice(0, arnSegments - 1), parts.slice(arnSegments - 1).join(':')];
}

/** The tokens of each segment, split at colons of the policy's text, not of a variable's value. Undefined when it is no ARN. */
export function splitTokens(tokens: readonly Token[]): readonly (readonly Token[])[] | undefined {
  const segments: Token[][] = [[]];
  for (const token of tokens) {
    if (token.is !== 'text') {
      segments.at(-1)?.push(token);
      continue;
    }
    const parts = token.text.split(':');
    const capacity = arnSegments - segments.length;
    const pieces =
      parts.length > capacity ? [...parts.slice(0, capacity), parts.slice(capacity).join(':')] : parts;
    for (const [index, text] of pieces.entries()) {
      if (index > 0) segments.push([]);
      if (text !== '') segments.at(-1)?.push({ is: 'text', text });
    }
  }
  return segments.length === arnSegments ? segments : undefined;
}

export interface ArnGlob {
  /** The first five segments and their colons, where they hold no wildcard: compared as one text. */
  readonly head: string | undefined;
  readonly segments: readonly Glob[];
}

export function compileArn(segments: readonly (readonly Plain[])[]): ArnGlob {
  const heads = segments.slice(0, arnSegments - 1);
  const isLiteral = heads.every((tokens) => tokens.every((token) => token.is === 'text'));
  const head = heads.map(
    (tokens) => `${tokens.map((token) => (token.is === 'text' ? token.text : '')).join('')}:`,
  );
  // A variable's value may hold a colon; such a head must not pass for two segments.
  const isWhole = head.every((text) => text.indexOf(':') === text.length - 1);
  return { head: isLiteral && isWhole ? head.join('') : undefined, segments: segments.map(compileGlob) };
}

export function matchArn({ head, segments }: ArnGlob, arn: string): boolean {
  if (head !== undefined)
    return arn.startsWith(head) && matchGlob(segments[arnSegments - 1] as Glob, arn, head.length);
  const parts = splitArn(arn);
  return parts !== undefined && segments.every((glob, index) => matchGlob(glob, parts[index] as string));
}
