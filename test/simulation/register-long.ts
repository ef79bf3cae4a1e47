/**
 * By hand: `npx node test/simulation/register-long.ts embedded|ordered-kv|wide-column|ring [rounds] [seed]` runs rounds of faults while
 * clients use keys as registers, and prints histories that are not linearizable.
 */
import { startOwnRing } from '../support/engines/cassandra.ts';
import { hurtRing, hurtStore } from './register-faults.ts';
import { contradictions, type RegisterRounds, registerRounds } from './register-rounds.ts';
import { type StoreKind, sharedRing, sharedStore } from './shared-store.ts';

const kind = process.argv[2] ?? 'embedded';
const rounds = Number(process.argv[3] ?? 50);
const seed = Number(process.argv[4] ?? Date.now() % 2 ** 31);

async function run(given: Omit<RegisterRounds, 'rounds' | 'seed'>): Promise<void> {
  const began = performance.now();
  const wrong = contradictions(await registerRounds({ ...given, rounds, seed }));
  for (const line of wrong) console.log(line);
  const minutes = ((performance.now() - began) / 60_000).toFixed(1);
  console.log(`${kind}: ${minutes} minutes, ${wrong.length === 0 ? 'linearizable' : 'WRONG'}`);
  process.exitCode = wrong.length === 0 ? 0 : 1;
}

console.log(`seed ${seed}`);
if (kind === 'ring') {
  await using ring = await startOwnRing();
  await using store = sharedRing(ring, 'registers');
  await run({ store, gateways: 2, hurt: hurtRing(ring) });
} else {
  await using store = await sharedStore(kind as StoreKind);
  const isEmbedded = kind === 'embedded';
  await run({
    store,
    gateways: isEmbedded ? 2 : 3,
    settings: isEmbedded ? { SVC_PROCESSES: '2' } : {},
    hurt: hurtStore(store),
  });
}
