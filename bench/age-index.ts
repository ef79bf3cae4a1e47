/**
 * `node bench/age-index.ts`: what the age index adds to the CPU of a 4 KiB PUT, for new keys and for overwrites. Two
 * buckets of one gateway take turns, one of which has a lifecycle configuration. Metadata `embedded`, chunks discarded;
 * requests are signed and handled in this process.
 */
import { parseArgs } from 'node:util';
import { openGateway } from '../test/support/gateway.ts';
import { median } from './lib/percentile.ts';

const { values } = parseArgs({
  options: { rounds: { type: 'string', default: '30' }, puts: { type: 'string', default: '500' } },
});
const puts = Number(values.puts);
const body = new Uint8Array(4096).fill(7);

await using world = await openGateway({
  backend: 'embedded+file',
  settings: { SVC_DATA_BACKEND: 'noop', SVC_DISK_RESERVE: '0' },
});
const { client } = world;
for (const bucket of ['plain', 'indexed']) await client.put(`/${bucket}`);
const rule =
  '<Rule><ID>r</ID><Status>Enabled</Status><Filter/><Expiration><Days>30</Days></Expiration></Rule>';
await client.put('/indexed?lifecycle', { body: `<LifecycleConfiguration>${rule}</LifecycleConfiguration>` });

/** CPU µs of one PUT. */
async function measure(bucket: string, firstKey: number): Promise<number> {
  const before = process.cpuUsage();
  for (let at = 0; at < puts; at += 20)
    await Promise.all(
      Array.from({ length: 20 }, (_, n) => client.put(`/${bucket}/${firstKey + at + n}`, { body })),
    );
  const { user, system } = process.cpuUsage(before);
  return (user + system) / puts;
}

for (const [name, keyAt] of [
  ['new keys', (round: number) => round * puts],
  ['overwrites', () => 0],
] as const) {
  const costs = { plain: [] as number[], indexed: [] as number[] };
  for (let round = 0; round < Number(values.rounds); round += 1)
    for (const bucket of round % 2 === 0 ? (['plain', 'indexed'] as const) : (['indexed', 'plain'] as const))
      costs[bucket].push(await measure(bucket, keyAt(round)));
  const [plain, indexed] = [median(costs.plain), median(costs.indexed)];
  console.log(
    `${name}: ${plain.toFixed(0)} µs without the index, ${indexed.toFixed(0)} µs with it, ratio ${(indexed / plain).toFixed(2)}`,
  );
}
