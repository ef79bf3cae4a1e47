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
