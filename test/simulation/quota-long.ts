/** By hand: `npx node test/simulation/quota-long.ts [rounds] [seed]` runs schedules under quotas until one is wrong. */
import { quotaRounds } from './quota-rounds.ts';

const rounds = Number(process.argv[2] ?? 1_000);
const seed = Number(process.argv[3] ?? Date.now() % 2 ** 31);

console.log(`seed ${seed}`);
const wrong = await quotaRounds(rounds, seed);
for (const line of wrong) console.log(line);
process.exitCode = wrong.length === 0 ? 0 : 1;
