/**
 * By hand: `npx node test/simulation/quota-long.ts [rounds] [seed]` runs schedules under quotas until one is wrong, and
 * `… quota-long.ts kills [count] [seed]` kills real processes.
 */
import { quotaKills } from './quota-kills.ts';
import { quotaRounds } from './quota-rounds.ts';

const [first, ...rest] = process.argv.slice(2);
const [count, given] = first === 'kills' ? rest : [first, ...rest];
const seed = Number(given ?? Date.now() % 2 ** 31);

console.log(`seed ${seed}`);
const wrong =
  first === 'kills'
    ? await quotaKills({ kills: Number(count ?? 100), seed, say: console.log })
    : await quotaRounds(Number(count ?? 1_000), seed);
for (const line of wrong) console.log(line);
process.exitCode = wrong.length === 0 ? 0 : 1;
