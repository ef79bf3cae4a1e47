/** By hand: `npx node test/simulation/tikv-faults-long.ts [passes] [seed]` injects every fault into TiKV, pass after pass. */
import { startOwnTikv } from '../support/engines/tikv.ts';
import { startDouble } from '../support/engines/tikv-double.ts';
import { doubleFaults, faultRounds, ownFaults } from './tikv-faults.ts';

const passes = Number(process.argv[2] ?? 20);
const seed = Number(process.argv[3] ?? Date.now() % 2 ** 31);
console.log(`seed ${seed}`);
for (let pass = 0; pass < passes; pass += 1) {
  await using own = await startOwnTikv();
  await using double = await startDouble({ drivers: 2 });
  const options = { seed: seed + 1000 * pass, say: console.log };
  const locks = async (): Promise<number> => (await double.locks()).length;
  const faults = [
    ...(await faultRounds({ engine: double, faults: doubleFaults, locks, ...options })),
    ...(await faultRounds({ engine: own, faults: ownFaults, ...options })),
  ];
  for (const fault of faults) console.log(fault);
  if (faults.length > 0) process.exit(1);
}
process.exit(0);
