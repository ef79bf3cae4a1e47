/**
 * `node bench/metadata-engines.ts [seconds]`: small durable commits, look-ups and pages of the record layer on lmdb (`embedded`) and on
 * SQLite in WAL mode, in turns on the same disk.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { MetadataStore } from '../src/ports/metadata-store.ts';
import { head, headsOf, talliesOf } from '../test/contract/metadata-store/tables.ts';
import { machineEngines, openMachineStore } from '../test/support/machine-stores.ts';
import { table } from './lib/report.ts';

const seconds = Number(process.argv[2] ?? 5);
const key = (index: number): string => `photos/2026/${String(index).padStart(9, '0')}.jpg`;
let next = 0;

/** What a small PUT commits: a head, the usage, and one row more. */
async function commit(store: MetadataStore): Promise<void> {
  const row = head('b', key(next++), { size: 4096, headers: { 'content-type': 'image/jpeg' } });
  const outcome = await store.commit(headsOf('b', 0), [{ put: row, expect: 'absent' }], {
    then: [{ at: talliesOf('b'), add: { className: 'c' }, by: { objects: 1, bytes: 4096 } }],
  });
  if (!outcome.applied) throw new Error('a commit was refused');
}

interface Measured {
  readonly perSecond: number;
  readonly cpuMicros: number;
  readonly p99Ms: number;
}

async function measure(writers: number, work: () => Promise<unknown>): Promise<Measured> {
  const times: number[] = [];
  const cpu = process.cpuUsage();
  const begun = performance.now();
  const end = begun + seconds * 1000;
  await Promise.all(
    Array.from({ length: writers }, async () => {
      for (let now = performance.now(); now < end; ) {
        await work();
        const after = performance.now();
        times.push(after - now);
        now = after;
      }
    }),
  );
  const tookMs = performance.now() - begun;
  const { user, system } = process.cpuUsage(cpu);
  times.sort((a, b) => a - b);
  return {
    perSecond: (times.length / tookMs) * 1000,
    cpuMicros: (user + system) / times.length,
    p99Ms: times[Math.floor(times.length * 0.99)] ?? 0,
  };
}

const figures = ({ perSecond, cpuMicros, p99Ms }: Measured): string[] => [
  perSecond.toFixed(0),
  cpuMicros.toFixed(0),
  p99Ms.toFixed(2),
];

const rows: string[][] = [['', '', 'a second', 'CPU µs each', 'p99 ms']];
for (const round of [1, 2]) {
  for (const engine of machineEngines) {
    // Not under /tmp, which may be in memory.
    const directory = await mkdtemp(join(process.cwd(), '.bench-metadata-'));
    const store = openMachineStore(engine, { directory, durable: true, intentTtlMs: 60_000 });
    next = 0;
    try {
      for (const writers of [1, 16, 64]) {
        const measured = await measure(writers, () => commit(store));
        rows.push([`${engine}, round ${round}`, `commits, ${writers} writers`, ...figures(measured)]);
      }
      const get = () => store.get(headsOf('b'), { key: key(Math.floor(Math.random() * next)), slot: '~' });
      rows.push([`${engine}, round ${round}`, 'look-ups', ...figures(await measure(1, get))]);
      const page = () =>
        store.scan(headsOf('b'), { from: { key: key(Math.floor(Math.random() * next)) } }).next(1_000);
      rows.push([`${engine}, round ${round}`, 'pages of 1,000', ...figures(await measure(1, page))]);
    } finally {
      await store.close();
      await rm(directory, { recursive: true, force: true });
    }
  }
}
process.stdout.write(`${table(rows)}\n`);
