import fc from 'fast-check';
import { expect, test } from 'vitest';
import { fairShare } from '../../src/domain/event-deliveries/queue-retention.ts';

test('a share is what each account may keep, and what small ones leave goes to the others', () => {
  const share = (counts: readonly number[], max: number) =>
    fairShare(new Map(counts.map((count, index) => [`account ${index}`, count])), max);
  expect(share([10, 20, 30], 60)).toBe(Number.POSITIVE_INFINITY);
  expect(share([10, 20, 40], 60)).toBe(30);
  expect(share([100, 100], 60)).toBe(30);
  expect(share([1, 1_000], 60)).toBe(59);
  fc.assert(
    fc.property(fc.array(fc.nat(50), { minLength: 1, maxLength: 20 }), fc.nat(400), (counts, max) => {
      const kept = counts.map((count) => Math.min(count, share(counts, max)));
      const sum = kept.reduce((total, count) => total + count, 0);
      expect(sum).toBeLessThanOrEqual(max);
      // No more than one row of each account is dropped without need.
      const all = counts.reduce((total, count) => total + count, 0);
      expect(sum).toBeGreaterThanOrEqual(Math.min(all, max) - counts.length);
    }),
  );
});

test.each([
  {
    rows: [
      [800, 0],
      [2_000, 2_000],
    ],
    max: 1_000,
    shares: 2_000,
  },
  {
    rows: [
      [800, 0],
      [700, 700],
    ],
    max: 1_000,
    shares: 700,
  },
  {
    rows: [
      [900, 300],
      [900, 300],
    ],
    max: 1_000,
    shares: 500,
  },
  // The others share what there is among themselves.
  {
    rows: [
      [800, 0],
      [800, 0],
      [600, 600],
    ],
    max: 1_000,
    shares: 500,
  },
  {
    rows: [
      [800, 0],
      [800, 0],
      [600, 600],
    ],
    max: 400,
    shares: 200,
  },
])(
  'with all rows and those that stay $rows and the limit $max, an account has $shares',
  ({ rows, max, shares }) => {
    expect(shareOf(rows, max)).toBe(shares);
  },
);

test('an account whose rows stay in any case takes none from another one that has fewer', () => {
  expect(
    shareOf(
      [
        [800, 0],
        [801, 801],
      ],
      1_000,
    ),
  ).toBeGreaterThanOrEqual(800);
});

/** @param rows of each account, all of them and those that stay in any case */
function shareOf(rows: readonly (readonly number[])[], max: number): number {
  const named = (of: 0 | 1) => new Map(rows.map((row, index) => [`account ${index}`, row[of] as number]));
  return fairShare(named(0), max, named(1));
}
