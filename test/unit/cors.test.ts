/** The CORS rule that applies to a request, found in linear time for every pattern. */
import { describe, expect, test } from 'vitest';
import type { CorsRule } from '../../src/domain/configurations/families.ts';
import { type CrossOrigin, findCorsRule } from '../../src/handlers/common/cross-origin.ts';
import { cpuMsOf } from '../support/cpu-time.ts';

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
  const stars = `${'*a'.repeat(500)}`;
  const rules = Array.from({ length: 1000 }, () => rule({ AllowedOrigin: [stars, `${'a'.repeat(999)}*`] }));
  const origin = `c${'a'.repeat(7998)}b`;
  expect(await cpuMsOf(() => expect(finds(rules, { origin })).toBe(-1))).toBeLessThan(1000);
});
