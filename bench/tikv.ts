/**
 * `node bench/tikv.ts [--part=client,door,writers]` on one real PD and store, in turns, at the same concurrency:
 * our TiKV client beside client-go; the front door beside the bare client; many writers to one bucket beside as many to
 * buckets of their own. Compare the ratios.
 */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { parseArgs, promisify } from 'node:util';
import { TikvClient } from '../src/backends/tikv/client.ts';
import { startOwnTikv } from '../test/support/engines/tikv.ts';
import { byHands } from './lib/by-hands.ts';
import { Door } from './lib/door.ts';
import { Inside } from './lib/inside.ts';
import type { OperationName } from './lib/operations.ts';
import { median } from './lib/percentile.ts';
import { seedHeads } from './tikv/seed.ts';

const text = { type: 'string' } as const;
const { values } = parseArgs({
  options: {
    part: { ...text, default: 'client,door,writers' },
    seconds: { ...text, default: '2' },
    rounds: { ...text, default: '3' },
    keys: { ...text, default: '1000000' },
  },
});
const [seconds, rounds, keys] = [values.seconds, values.rounds, values.keys].map(Number) as [
  number,
  number,
  number,
];
const parts = values.part.split(',');
const root = join(import.meta.dirname, '..');
const prefix = 'bench-gateway/';
const run = promisify(execFile);

interface Figures {
  readonly perSecond: number;
  /** µs */
  readonly p50: number;
  readonly p99: number;
  /** µs of an operation. */
  readonly cpu: number;
}

const say = (line: string): void => void process.stdout.write(`${line}\n`);
const row = (name: string, cells: readonly string[]): void =>
  say(`${name.padEnd(28)}${cells.map((cell) => cell.padStart(14)).join('')}`);
const micros = (value: number): string => `${value.toFixed(0)} µs`;

interface Asked {
  readonly op: string;
  readonly inFlight: number;
  readonly endpoint: string;
  /** The prefix in hex, as in the seeded rows; the client uses its own keys when absent. */
  readonly template?: string;
}

const asProgram = ({ op, inFlight, endpoint, template }: Asked): string[] => [
  ...['-pd', endpoint, '-op', op, '-in-flight', String(inFlight), '-seconds', String(seconds)],
  ...(template === undefined ? [] : ['-template', template, '-keys', String(keys)]),
];

/** The last line of the output, because client-go logs before it. */
const figuresOf = ({ stdout }: { readonly stdout: string }): Figures =>
  JSON.parse(stdout.trim().split('\n').at(-1) ?? '') as Figures;

const ours = async (asked: Asked): Promise<Figures> => {
  const args = asProgram(asked).map((each) => each.replace(/^-(?=[a-z])/, '--'));
  return figuresOf(await run(process.execPath, [join(root, 'bench/tikv/client.ts'), ...args]));
};
const clientGo = async (asked: Asked): Promise<Figures> =>
  figuresOf(
    await run(join(root, '.cache/engines/tikv-peer'), asProgram(asked), { maxBuffer: 64 * 1024 * 1024 }),
  );

/** Goals: latency within 2× of client-go, at most 50 µs of CPU for a get at 32 in flight. */
async function beside(endpoint: string): Promise<void> {
  await run(join(root, 'engines/tikv/install.sh'), [join(root, '.cache/engines'), 'peer']);
  const client = new TikvClient({ endpoints: [endpoint] });
  for (let at = 0; at < 10_000; at += 1_000)
    await client.transact(async (transaction) => {
      for (let i = at; i < at + 1_000; i += 1)
        transaction.put(Buffer.from(`bench/${String(i).padStart(8, '0')}`), Buffer.alloc(300, 7));
    });
  await client.close();
  row('our client, client-go', ['p50', 'its p50', '÷', 'CPU', 'its CPU']);
  for (const op of ['get', 'scan', 'put'])
    for (const inFlight of [1, 32]) {
      const pairs: [Figures, Figures][] = [];
      for (let i = 0; i < rounds; i += 1)
        pairs.push([await ours({ op, inFlight, endpoint }), await clientGo({ op, inFlight, endpoint })]);
      const of = (which: 0 | 1, what: keyof Figures): number =>
        median(pairs.map((pair) => pair[which][what]));
      row(`${op}, ${inFlight} in flight`, [
        micros(of(0, 'p50')),
        micros(of(1, 'p50')),
        (of(0, 'p50') / of(1, 'p50')).toFixed(2),
        micros(of(0, 'cpu')),
        micros(of(1, 'cpu')),
      ]);
    }
}

/** Goals: GET ≤ 1.3× the bare read, a list page ≤ 1.5× the bare scan of the same thousand rows out of a million. */
async function frontDoor(door: Door, endpoint: string): Promise<void> {
  const client = new TikvClient({ endpoints: [endpoint] });
  await door.send('PUT', '/many');
  await door.putFirst('many');
  const keyOf = await seedHeads({ client, prefix, first: 'object-00000000', count: keys });
  await client.close();
  const template = keyOf(0).toString('hex');
  await door.send('PUT', '/fresh');
  await using inside = await Inside.open(door.env);
  const asked: Partial<Record<OperationName, () => Promise<void>>> = {
    get: inside.asking('GET', '/many/object-00000000'),
    list: inside.asking('GET', '/many', 'list-type=2&max-keys=1000'),
  };
  row(`front door, bare client; ${keys} keys`, ['p50', 'bare p50', '÷', 'a second', 'bare']);
  const cases: readonly [OperationName, string, string][] = [
    ['get', 'many', 'get'],
    ['stat', 'many', 'get'],
    ['list', 'many', 'scan'],
    ['put', 'fresh', 'put'],
    ['delete', 'many', 'put'],
  ];
  for (const [operation, bucket, op] of cases)
    for (const clients of [1, 16]) {
      const floor = await ours({ op, inFlight: clients, endpoint, template });
      const front = await door.measured({ operation, bucket, clients, count: keys });
      const say = (name: string, { p50, perSecond }: Pick<Figures, 'p50' | 'perSecond'>): void =>
        row(`${operation}, ${clients} in flight${name}`, [
          micros(p50),
          micros(floor.p50),
          (p50 / floor.p50).toFixed(2),
          perSecond.toFixed(0),
          floor.perSecond.toFixed(0),
        ]);
      say('', front);
      const asking = asked[operation];
      if (asking === undefined) continue;
      // The first turn is a warm-up.
      for (let turn = 0; turn < 2; turn += 1) {
        const { p50, perSecond } = await byHands(asking, { hands: clients, seconds: seconds * rounds });
        if (turn === 1) say(', no HTTP', { p50: p50 * 1000, perSecond });
      }
    }
}

/** Goal: writes to one bucket reach at least 0.8 of the rate to 64 buckets. */
async function writers(door: Door): Promise<void> {
  const { one, many } = await door.writers();
  row('64 writers', ['one bucket', '64 buckets', '÷']);
  row('PUT of 4 KiB a second', [one.toFixed(0), many.toFixed(0), (one / many).toFixed(2)]);
}

await using engine = await startOwnTikv();
const [endpoint = ''] = engine.endpoints;
if (parts.includes('client')) await beside(endpoint);
if (parts.includes('door') || parts.includes('writers')) {
  const env = { SVC_META_BACKEND: 'ordered-kv', SVC_KV_PD_ENDPOINTS: endpoint, SVC_KV_PREFIX: prefix };
  await using door = await Door.open({ env, seconds, rounds });
  if (parts.includes('door')) await frontDoor(door, endpoint);
  if (parts.includes('writers')) await writers(door);
}
