/** By hand: `npx node test/simulation/ring-long.ts [rounds] [seed]` injects faults into a ring of three nodes until a check fails. */
import { startOwnRing } from '../support/engines/cassandra.ts';
import { ringRounds } from './ring-rounds.ts';

const rounds = Number(process.argv[2] ?? 20);
const seed = Number(process.argv[3] ?? Date.now() % 2 ** 31);

console.log(`seed ${seed}`);
await using ring = await startOwnRing();
const wrong = await ringRounds({ ring, rounds, seed, say: console.log });
for (const line of wrong) console.log(line);
process.exitCode = wrong.length === 0 ? 0 : 1;
