/** Our TiKV client with the same work as client-go in engines/tikv/peer, in a separate process; prints one line of JSON. */
import { parseArgs } from 'node:util';
import { TikvClient } from '../../src/backends/tikv/client.ts';

const text = { type: 'string' } as const;
const { values } = parseArgs({
  options: { pd: text, op: text, 'in-flight': text, seconds: text, keys: text, page: text, template: text },
});
const inFlight = Number(values['in-flight'] ?? 1);
const seconds = Number(values.seconds ?? 2);
const keys = Number(values.keys ?? 10_000);
const page = Number(values.page ?? 1000);
const client = new TikvClient({ endpoints: (values.pd ?? '').split(',') });

const encoder = new TextEncoder();
/** A key with a counter of eight digits. */
const template =
  values.template === undefined ? Buffer.from('bench/00000000') : Buffer.from(values.template, 'hex');
const digitsAt = template.lastIndexOf('00000000');
const keyOf = (i: number): Uint8Array => {
  const key = Buffer.from(template);
  key.write(String(i).padStart(8, '0'), digitsAt, 'latin1');
  return key;
};
const below = (end: number): number => Math.floor(Math.random() * end);
const high = keyOf(99_999_999);
const value = new Uint8Array(300);

const steps: Readonly<Record<string, () => Promise<unknown>>> = {
  get: () => client.get(keyOf(below(keys))),
  scan: async () => {
    const low = keyOf(below(keys - page));
    return (await client.snapshot()).scan({ low, high, limit: page, reverse: false });
  },
  put: () =>
    client.transact(async (transaction) => {
      const key = encoder.encode(`put/${Math.random().toString(36)}${Math.random().toString(36)}`);
      await transaction.lock([key]);
      transaction.put(key, value);
    }),
};

async function run(step: () => Promise<unknown>): Promise<number[]> {
  const took: number[] = [];
  const until = performance.now() + seconds * 1000;
  const worker = async (): Promise<void> => {
    for (let began = performance.now(); began < until; began = performance.now()) {
      await step();
      took.push(performance.now() - began);
    }
  };
  await Promise.all(Array.from({ length: inFlight }, worker));
  return took;
}

const step = steps[values.op ?? 'get'];
if (step === undefined) throw new Error(`--op=${values.op} is none of ${Object.keys(steps).join(', ')}`);
await run(step);
const before = process.cpuUsage();
const began = performance.now();
const took = (await run(step)).toSorted((a, b) => a - b);
const elapsed = performance.now() - began;
const { user, system } = process.cpuUsage(before);
const micros = (share: number): number => (took[Math.floor(share * (took.length - 1))] ?? 0) * 1000;
const figures = {
  perSecond: (took.length / elapsed) * 1000,
  p50: micros(0.5),
  p99: micros(0.99),
  cpu: (user + system) / took.length,
};
process.stdout.write(`${JSON.stringify(figures)}\n`);
await client.close();
