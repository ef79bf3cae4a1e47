/** Gateways that die, stall, and lose answers never exceed a quota, and leave no room reserved. The seed is printed with what failed. */
import { expect, test } from 'vitest';
import { quotaRounds } from './quota-rounds.ts';

const seed = Number(process.env['SEED'] ?? Date.now() % 2 ** 31);

test(`seed ${seed}: no schedule exceeds a quota, and what is free afterwards can be filled`, async () => {
  expect(await quotaRounds(60, seed)).toEqual([]);
});
