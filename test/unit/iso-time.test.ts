/** Formatted times equal those of `Date`, without the part of a second. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { isoTime } from '../../src/protocol/formats/iso-time.ts';

const ofDate = (ms: number): string => new Date(Math.floor(Math.trunc(ms) / 1000) * 1000).toISOString();

test('any moment is written as Date writes its second', () => {
  fc.assert(
    fc.property(fc.integer({ min: -1e14, max: 8.64e15 }), fc.integer({ min: -2e8, max: 2e8 }), (ms, step) => {
      for (const moment of [ms, Math.min(ms + step, 8.64e15)]) expect(isoTime(moment)).toBe(ofDate(moment));
    }),
  );
});

test.each([0, -1, 1.5, -0.5, 999, 86_399_999, 86_400_000, 1_764_000_000_007, 253_402_300_800_000])(
  '%d, too',
  (ms) => {
    expect(isoTime(ms)).toBe(ofDate(ms));
  },
);
