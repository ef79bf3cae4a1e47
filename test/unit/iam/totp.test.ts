/** One-time codes against the tables of the RFCs. */
import { describe, expect, test } from 'vitest';
import { portableHasher } from '../../../src/backends/crypto/portable.ts';
import { base32, codeAt, matchCodes, stepAt } from '../../../src/domain/iam/mfa.ts';

const hasher = portableHasher();
const seed = new TextEncoder().encode('12345678901234567890');

test('codes are those of RFC 4226, appendix D', () => {
  const codes = '755224 287082 359152 969429 338314 254676 287922 162583 399871 520489'.split(' ');
  expect(codes.map((_, step) => codeAt(hasher, seed, step))).toEqual(codes);
});

test.each([
  [59, '287082'],
  [1_111_111_109, '081804'],
  [1_111_111_111, '050471'],
  [1_234_567_890, '005924'],
  [2_000_000_000, '279037'],
  [20_000_000_000, '353130'],
])('at second %i the code is %s, as RFC 6238, appendix B, has it', (second, code) => {
  expect(codeAt(hasher, seed, stepAt(second * 1000))).toBe(code);
});

describe('a shown code', () => {
  const now = 1_234_567_890_000;
  const current = stepAt(now);
  const at = (...steps: readonly number[]): string[] =>
    steps.map((step) => codeAt(hasher, seed, current + step));
  const match = (codes: readonly string[], drift = 1, after = 0) =>
    matchCodes(hasher, seed, { codes, drift, now, after });
  test('is taken within the drift and not beyond', () => {
    expect([-2, -1, 0, 1, 2].map((step) => match(at(step)))).toEqual([
      undefined,
      current - 1,
      current,
      current + 1,
      undefined,
    ]);
  });
  test('is accepted only after the last one', () => {
    expect(match(at(0), 1, current - 1)).toBe(current);
    expect(match(at(0), 1, current)).toBeUndefined();
    expect(match(at(-1), 1, current)).toBeUndefined();
  });
  test('and another one must follow each other', () => {
    expect(match(at(-1, 0))).toBe(current);
    for (const codes of [at(0, -1), at(0, 0), at(-2, 0), at(-5, -4), ['000000', ...at(0)]])
      expect(match(codes)).toBeUndefined();
  });
});

test('base32 is that of RFC 4648', () => {
  const of = (text: string): string => base32(new TextEncoder().encode(text));
  expect(of('fooba')).toBe('MZXW6YTB');
  expect(base32(seed)).toBe('GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ');
});
