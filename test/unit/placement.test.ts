/** The picker: deterministic over its inputs, true to the weights, never an excluded cluster (spec items 8 and 9). */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { pick } from '../../src/domain/placement.ts';

const policy = new Map([
  ['a', 100],
  ['b', 50],
  ['c', 0],
]);

test('the same policy, exclusions and seed give the same cluster', () => {
  fc.assert(
    fc.property(
      fc.string(),
      (seed) => pick(policy, new Set(), seed) === pick(new Map([...policy].reverse()), new Set(), seed),
    ),
  );
});

test('weights are respected within one percent over 100,000 picks', () => {
  let first = 0;
  for (let i = 0; i < 100_000; i += 1) if (pick(policy, new Set(), `write-${i}`) === 'a') first += 1;
  expect(first / 100_000).toBeCloseTo(2 / 3, 2);
});

test('an excluded or weightless cluster is never picked, and nothing is when none is left', () => {
  fc.assert(fc.property(fc.string(), (seed) => pick(policy, new Set(['a']), seed) === 'b'));
  expect(pick(policy, new Set(['a', 'b']), 'seed')).toBeUndefined();
  expect(pick(new Map(), new Set(), 'seed')).toBeUndefined();
});
