/** Processes that are killed while clients write at a quota exceed nothing, and what they held becomes free. */
import { expect, test } from 'vitest';
import { quotaKills } from './quota-kills.ts';

const seed = Number(process.env['KILL_SEED'] ?? Math.floor(Math.random() * 2 ** 31));

test(`seed ${seed}: kills exceed no quota and leave no room reserved`, async () => {
  expect(await quotaKills({ kills: 3, seed })).toEqual([]);
});
