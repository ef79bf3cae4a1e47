/** Globs and ARN patterns: correct, and linear in time for every pattern (docs/security.md). */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  compileArn,
  compileGlob,
  isSearching,
  type Meter,
  matchArn,
  matchGlob,
  splitTokens,
  stepsPerCharacterMax,
} from '../../../src/auth/policy/patterns.ts';
import { isPlain, type Plain, parseTemplate } from '../../../src/auth/policy/variables.ts';

const tokensOf = (pattern: string): readonly Plain[] => {
  const tokens = parseTemplate(pattern, { at: '', variables: false, wildcards: true });
  return isPlain(tokens) ? tokens : [];
};
const matches = (pattern: string, text: string, meter?: Meter): boolean =>
  matchGlob(compileGlob(tokensOf(pattern)), text, 0, meter);

function slow(pattern: string, text: string): boolean {
  if (pattern === '') return text === '';
  if (pattern[0] === '*')
    return slow(pattern.slice(1), text) || (text !== '' && slow(pattern, text.slice(1)));
  return (
    text !== '' && (pattern[0] === '?' || pattern[0] === text[0]) && slow(pattern.slice(1), text.slice(1))
  );
}

test.each([
  ['', '', true],
  ['', 'a', false],
  ['*', '', true],
  ['*', 'a/b:c', true],
  ['?', '', false],
  ['?', '/', true],
  ['a*', 'a', true],
  ['*a', 'ba', true],
  ['a*a', 'a', false],
  ['a*a', 'aa', true],
  ['*.jpg', 'x/y.jpg', true],
  ['*.jpg', 'x.jpg.txt', false],
  ['a?c*e', 'abcde', true],
  ['*ab*ba*', 'aba', false],
  ['*ab*ba*', 'abba', true],
  ['[a]', 'a', false],
  ['.+', 'xx', false],
  ['a\\*', 'a\\b', true],
  ['a.c', 'abc', false],
])('%s on %s is %s', (pattern, text, expected) => {
  expect(matches(pattern, text)).toBe(expected);
});

/** Two runs of a pattern may not share characters of the text, even where the end of one equals the start of the other. */
test.each([
  ['*ab*bc', 'xabc', false],
  ['*ab*bc', 'xabbc', true],
  ['*ab*bc', 'abxbc', true],
  ['ab*bc', 'abc', false],
  ['ab*bc', 'abbc', true],
  ['ab*bc*', 'abc', false],
  ['ab*bc*', 'abbcx', true],
  ['*aa*aa', 'aaa', false],
  ['*aa*aa', 'aaaa', true],
  ['*aa*aa*', 'xaaax', false],
  ['*aa*aa*', 'xaaaax', true],
  ['ab*ba*ab', 'abab', false],
  ['ab*ba*ab', 'abaab', false],
  ['ab*ba*ab', 'abbaab', true],
  ['*ab*bc*cd', 'abcd', false],
  ['*ab*bc*cd', 'abbcd', false],
  ['*ab*bc*cd', 'abbccd', true],
  ['*a?*bc', 'xabc', false],
  ['*a?*bc', 'xabbc', true],
  ['*ab*?c', 'xabc', false],
  ['*ab*?c', 'xabcc', true],
  ['a?*?c', 'abc', false],
  ['a?*?c', 'abbc', true],
  ['*a?*?a*', 'xabax', false],
  ['*a?*?a*', 'xabbax', true],
  ['*ab?*?bc*', 'abxbc', false],
  ['*ab?*?bc*', 'abxxbc', true],
  ['?*?', 'a', false],
  ['?*?', 'ab', true],
  ['*?*?*', 'a', false],
  ['*?*?*', 'ab', true],
])('%s on %s is %s: runs do not overlap', (pattern, text, expected) => {
  expect(slow(pattern, text)).toBe(expected);
  expect(matches(pattern, text)).toBe(expected);
});

test('globs match what their definition says', () => {
  const letters = fc.constantFrom('a', 'b', 'c');
  const pattern = fc.string({ unit: fc.oneof(letters, fc.constantFrom('*', '?')), maxLength: 9 });
  const text = fc.string({ unit: letters, maxLength: 10 });
  fc.assert(
    fc.property(pattern, text, (glob, given) => matches(glob, given) === slow(glob, given)),
    {
      numRuns: 3000,
    },
  );
});

test('long runs with holes are found where a plain search finds them', () => {
  const run = fc.string({ unit: fc.constantFrom('a', 'b', '?'), minLength: 30, maxLength: 100 });
  const around = fc.string({ unit: fc.constantFrom('a', 'b'), maxLength: 80 });
  fc.assert(
    fc.property(run, around, around, fc.nat(200), (middle, before, after, flip) => {
      const inside = [...middle].map((letter, index) =>
        letter !== '?' ? letter : index % 2 === 0 ? 'a' : 'b',
      );
      expect(matches(`*${middle}*`, `${before}${inside.join('')}${after}`)).toBe(true);
      const at = flip % inside.length;
      inside[at] = 'x';
      const holds = (text: string): boolean =>
        [...text].some((_, from) =>
          [...middle].every(
            (letter, index) =>
              text[from + index] !== undefined && (letter === '?' || letter === text[from + index]),
          ),
        );
      const text = `${before}${inside.join('')}${after}`;
      expect(matches(`*${middle}*`, text)).toBe(holds(text));
    }),
    { numRuns: 300 },
  );
});

test('long runs without holes, which repeat themselves, are found where a plain search finds them', () => {
  const run = fc.string({ unit: fc.constantFrom('a', 'a', 'a', 'b'), minLength: 31, maxLength: 70 });
  const text = fc.string({ unit: fc.constantFrom('a', 'a', 'a', 'b'), maxLength: 80 });
  fc.assert(
    fc.property(run, text, text, fc.nat(69), (wanted, before, after, cut) => {
      // Put a prefix of the run directly before it: a search that skips too far misses the run.
      const given = `${before}${wanted.slice(0, cut)}${wanted}${after}`;
      expect(matches(`*${wanted}*`, given)).toBe(true);
      expect(matches(`*${wanted}*`, given.slice(0, -1 - after.length))).toBe(
        given.slice(0, -1 - after.length).includes(wanted),
      );
      expect(matches(`*${wanted}*${wanted}*`, given)).toBe(given.split(wanted).length > 2);
      expect(matches(`*${wanted}*`, before)).toBe(before.includes(wanted));
      // With one other character in the run, the pattern does not match there.
      const at = cut % wanted.length;
      const other = `${before}${wanted.slice(0, at)}c${wanted.slice(at + 1)}${after}`;
      expect(matches(`*${wanted}*`, other)).toBe(other.includes(wanted));
      expect(matches(`*${wanted}*`, `c${wanted.slice(1)}`)).toBe(false);
    }),
    { numRuns: 500 },
  );
});

describe('no pattern costs more than a fixed number of steps per character', () => {
  const text = 'a'.repeat(1024);
  test.each([
    ['*a*a*a*a*a*a*a*a*a*a*a*a*b', text],
    [`${'*a'.repeat(500)}*b`, text],
    [`*${'a'.repeat(500)}b*`, text],
    [`*${'a'.repeat(250)}?${'a'.repeat(250)}b*`, text],
    [`*b${'a'.repeat(500)}*`, text],
    [`${'*?a'.repeat(300)}*b`, text],
    [`*${'aab'.repeat(100)}*${'aab'.repeat(100)}c*`, 'aab'.repeat(341)],
  ])('%s', (pattern, given) => {
    const meter = { steps: 0 };
    matches(pattern, given, meter);
    expect(meter.steps).toBeLessThanOrEqual(stepsPerCharacterMax * given.length + pattern.length);
  });
});

test.each([
  ['arn:aws:s3:::photos/*', 'arn:aws:s3:::photos/a/b', true],
  ['arn:aws:s3:::photos/*', 'arn:aws:s3:::photos/a:b', true],
  ['arn:aws:s3:::photos', 'arn:aws:s3:::photos/a', false],
  ['arn:aws:s3:::*', 'arn:aws:s3:::photos/a', true],
  ['arn:aws:s3:::Photos/*', 'arn:aws:s3:::photos/a', false],
  ['arn:*:s3:::photos', 'arn:aws-cn:s3:::photos', true],
  ['arn:aws:s3:*:photos', 'arn:aws:s3:::photos', undefined],
  ['arn:*:photos', 'arn:aws:s3:::photos', undefined],
  ['arn:aws:iam::*:role/x', 'arn:aws:iam::1:user:role/x', false],
  ['arn:aws:iam::1?:role/x', 'arn:aws:iam::12:role/x', true],
  ['arn:aws:s3:::a:b:*', 'arn:aws:s3:::a:b:c', true],
  ['arn:aws:iam:us-*:1?:role/x', 'arn:aws:iam:us-east-1:12:role/x', true],
  ['arn:aws:iam:us-*:1?:role/x', 'arn:aws:iam:us-:1:role/x', false],
  ['*:aws:s3:::b', 'arn:aws:s3::b', false],
  ['*:aws:s3:::b', 'brn:aws:s3:::b', false],
  ['arn:aws:s3:::*', 'arn:aws:s3', false],
  ['arn:*:s3:::b*', 'arn:aws:s3', false],
])('the ARN pattern %s on %s is %s: a wildcard stays in its segment', (pattern, arn, expected) => {
  const segments = splitTokens(tokensOf(pattern));
  const plain = segments?.map((segment) => segment.filter((token) => token.is !== 'variable'));
  expect(plain === undefined ? undefined : matchArn(compileArn(plain), arn)).toBe(expected);
});

test('a value with a colon in one segment of a pattern is not two segments of an ARN', () => {
  const segments = ['arn', 'aws:s3', 'x', '', '', 'b'].map((text) =>
    text === '' ? [] : [{ is: 'text' as const, text }],
  );
  expect(matchArn(compileArn(segments), 'arn:aws:s3:x:::b')).toBe(false);
});

test.each([
  ['a', false],
  ['*', false],
  ['a*', false],
  ['*a', false],
  ['a*b', false],
  ['*a*', true],
  ['a*b*c', true],
  ['*a*b', true],
])('the pattern %s reads a text to its end: %s', (pattern, expected) => {
  expect(isSearching(compileGlob(tokensOf(pattern)))).toBe(expected);
});
