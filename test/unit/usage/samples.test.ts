/** The usage of a day is the specification's formula, computed exactly. */
import { expect, test } from 'vitest';
import { addSample, type ClassSamples, closeDay } from '../../../src/domain/usage/samples.ts';
import { openDice } from '../../support/dice.ts';

test('byte-seconds equal the formula for any samples, also far above 2^53', () => {
  const dice = openDice(7);
  for (let round = 0; round < 300; round += 1) {
    const count = 1 + dice.roll(40);
    const sizes = Array.from({ length: count }, () => dice.roll(2 ** 31) * dice.roll(2 ** 20));
    let samples: ClassSamples | undefined;
    for (const bytes of sizes) samples = addSample(samples, { bytes, objects: 1 });
    const { byteSeconds } = closeDay(samples as ClassSamples, { before: 0, after: 0 });
    // Twice the formula times the number of samples, in whole numbers.
    const exact = sizes.map(BigInt);
    let doubled = 2n * (exact.at(-1) ?? 0n);
    for (let i = 0; i + 1 < count; i += 1) doubled += (exact[i] ?? 0n) + (exact[i + 1] ?? 0n);
    const error = BigInt(byteSeconds) * 2n * BigInt(count) - doubled * 86_400n;
    expect(error < 0n ? -error : error).toBeLessThanOrEqual(BigInt(count));
  }
});
