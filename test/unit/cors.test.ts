/** The CORS rule that applies to a request, found in linear time for every pattern. */
import { describe, expect, test } from 'vitest';
import type { CorsRule } from '../../src/domain/configurations/families.ts';
import { type CrossOrigin, findCorsRule, PatternSet } from '../../src/handlers/common/cross-origin.ts';
import { timesLonger } from '../support/cpu-time.ts';

const rule = (given: Partial<CorsRule>): CorsRule => ({
  AllowedOrigin: ['*'],
  AllowedMethod: ['GET'],
  AllowedHeader: [],
  ExposeHeader: [],
  ...given,
});
const asked = (given: Partial<CrossOrigin>): CrossOrigin => ({
  origin: 'https://a.example',
  method: 'GET',
  headers: [],
  ...given,
});
const finds = (rules: readonly CorsRule[], given: Partial<CrossOrigin>): number =>
  rules.indexOf(findCorsRule({ CORSRule: rules }, asked(given)) as CorsRule);

test('a rule with several origins applies to each of them', () => {
  const several = [rule({ AllowedOrigin: ['https://a.example', 'https://b.example'] })];
  for (const [origin, found] of [
    ['https://a.example', 0],
    ['https://b.example', 0],
    ['https://c.example', -1],
  ] as const)
    expect(finds(several, { origin }), origin).toBe(found);
});

describe('an origin fits', () => {
  test.each([
    ['*', 'null', true],
    ['*', 'https://a.example', true],
    ['https://a.example', 'https://a.example', true],
    ['https://a.example', 'https://A.example', false],
    ['https://a.example', 'https://a.example/', false],
    ['https://a.example', 'https://a.example:8080', false],
    ['*suffix', 'foo.suffix', true],
    ['*suffix', 'suffix', true],
    ['*suffix', 'foo.suffix.get', false],
    ['prefix*', 'prefix', true],
    ['prefix*', 'bla.prefix', false],
    ['start*end', 'startend', true],
    ['start*end', 'start1end', true],
    ['start*end', '0start12end', false],
    ['aba*aba', 'aba', false],
    ['aba*aba', 'ababa', false],
    ['https://*.a.example', 'https://x.y.a.example', true],
    ['https://*.a.example', 'https://a.example', false],
    ['https://a.example', 'https://a-example', false],
    ['', 'https://a.example', false],
  ])('%s against %s: %s', (pattern, origin, fits) => {
    expect(finds([rule({ AllowedOrigin: [pattern] })], { origin }) === 0).toBe(fits);
  });
});

test('the first rule that allows origin, method and every header wins', () => {
  const rules = [
    rule({ AllowedOrigin: ['https://b.example'] }),
    rule({ AllowedMethod: ['PUT'], AllowedHeader: ['Content-*', 'X-Amz-Date'] }),
    rule({ AllowedMethod: ['PUT', 'GET'], AllowedHeader: ['*'] }),
  ];
  expect(finds(rules, {})).toBe(2);
  expect(finds(rules, { origin: 'https://b.example' })).toBe(0);
  expect(finds(rules, { method: 'PUT' })).toBe(1);
  expect(finds(rules, { method: 'PUT', headers: ['content-type', 'x-amz-date'] })).toBe(1);
  expect(finds(rules, { method: 'PUT', headers: ['content-type', 'x-other'] })).toBe(2);
  expect(finds(rules, { method: 'DELETE' })).toBe(-1);
  expect(finds(rules, { method: 'get' })).toBe(-1);
});

test('a header fits without regard to case; a rule that names none allows none', () => {
  expect(finds([rule({ AllowedHeader: ['X-AMZ-*'] })], { headers: ['x-amz-date'] })).toBe(0);
  expect(finds([rule({})], { headers: ['x-amz-date'] })).toBe(-1);
});

test('a thousand rules with wildcards and long texts are searched in linear time', async () => {
  const search = (scale: number) => {
    const patterns = ['*a'.repeat(scale), `${'a'.repeat(2 * scale)}*`];
    const origin = `c${'a'.repeat(16 * scale)}b`;
    return () => {
      const rules = Array.from({ length: 1000 }, () => rule({ AllowedOrigin: patterns }));
      expect(finds(rules, { origin })).toBe(-1);
    };
  };
  // Quadratic time would be 256 times as long.
  expect(await timesLonger(search(496), search(31))).toBeLessThan(80);
});

test('the patterns of a rule are prepared once, and not for each request or header', () => {
  let reads = 0;
  const counted = {
    ...rule({}),
    get AllowedHeader() {
      reads += 1;
      return ['X-Amz-*', 'Content-*'];
    },
  };
  for (let request = 0; request < 10; request += 1)
    expect(finds([counted], { headers: ['x-amz-date', 'content-type', 'x-amz-acl'] })).toBe(0);
  expect(reads).toBe(1);
});

/** The look-ups of all sets and maps, which bound the time without a clock. */
function countLookUps(run: () => void): number {
  const [{ has }, { get }] = [Set.prototype, Map.prototype];
  let count = 0;
  Set.prototype.has = function (value) {
    count += 1;
    return has.call(this, value);
  };
  Map.prototype.get = function (key) {
    count += 1;
    return get.call(this, key);
  };
  try {
    run();
  } finally {
    Object.assign(Set.prototype, { has });
    Object.assign(Map.prototype, { get });
  }
  return count;
}

describe('a text is looked up among patterns', () => {
  const letters = [...'abcdefghijklmnopqrstuvwxyz'];
  const pairs = letters.flatMap((one) => letters.map((other) => one + other));
  test.each([
    [
      'with different beginnings and ends',
      pairs.flatMap((pair) => [`${pair}*${pair}`, `a${pair}*${pair}b`]),
      5,
    ],
    ['with one beginning', pairs.map((pair) => `a*${pair}`), 3],
    [
      'that are one end of each other',
      Array.from({ length: 300 }, (_, count) => `a*b${'a'.repeat(count)}`),
      302,
    ],
    [
      'that another one makes needless',
      Array.from({ length: 300 }, (_, count) => `a*${'b'.repeat(count + 1)}`),
      3,
    ],
    ['without an asterisk', pairs, 1],
    ['that are one asterisk', ['*'], 3],
  ])('%s', (_, patterns, most) => {
    const set = new PatternSet(patterns);
    const lookUps = countLookUps(() => set.includes(`a${'x'.repeat(400)}`));
    expect(lookUps).toBeGreaterThan(0);
    expect(lookUps).toBeLessThanOrEqual(most);
    for (const pattern of patterns) expect(set.includes(pattern.replace('*', 'xyz'))).toBe(true);
  });

  test('as each pattern alone says', () => {
    const texts = ['', 'a', 'b', 'ab', 'ba', 'aa', 'aba', 'abab', 'aabb'];
    const patterns = texts.flatMap((begin) => [begin, ...texts.map((end) => `${begin}*${end}`)]);
    const fits = (pattern: string, text: string): boolean => {
      const [begin = '', end] = pattern.split('*');
      if (end === undefined) return pattern === text;
      return text.length >= begin.length + end.length && text.startsWith(begin) && text.endsWith(end);
    };
    for (const one of patterns)
      for (const other of patterns)
        for (const text of texts)
          expect(new PatternSet([one, other]).includes(text), `${one} ${other} ${text}`).toBe(
            fits(one, text) || fits(other, text),
          );
  });
});
