/** The pauses between attempts of conditional writes of one row. */
import { expect, test } from 'vitest';
import { pauseMs } from '../../src/domain/common/retry-in-turn.ts';

const drawn = (low: number, high: number) => ({
  random: { bytes: () => Uint8Array.of(low, high) },
});

test.each([
  [1, 2],
  [2, 4],
  [7, 128],
  [8, 250],
  [31, 250],
])('the longest pause before attempt %i is %i ms', (attempt, longest) => {
  expect(pauseMs(drawn(255, 255), attempt)).toBe(longest);
});

test('a pause is a random share of the longest one, and at least 1 ms', () => {
  expect(pauseMs(drawn(0, 0), 31)).toBe(1);
  expect(pauseMs(drawn(0, 128), 31)).toBe(126);
  expect(pauseMs(drawn(255, 127), 31)).toBe(125);
});
