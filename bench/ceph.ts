/**
 * `node bench/ceph.ts`: the chunk store of `cluster-pool` beside `rados bench`, on one real cluster, in turns, at the same
 * concurrency: writes and reads of 4 MiB and 4 KiB, and the lag of the event loop meanwhile. Compare the ratios.
 */
import { randomBytes } from 'node:crypto';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { setImmediate as turn } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { type ClusterPool, clusterPool } from '../src/backends/data/cluster-pool/cluster-pool.ts';
import { koffiDriver } from '../src/backends/data/cluster-pool/koffi-pool.ts';
import { ReadBudget } from '../src/backends/data/cluster-pool/read-budget.ts';
import type { ChunkRef } from '../src/ports/chunk-store.ts';
import { systemClock } from '../src/ports/clock.ts';
import { type CephCluster, startCeph } from '../test/support/engines/ceph.ts';

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '4' },
    rounds: { type: 'string', default: '3' },
    concurrency: { type: 'string', default: '16' },
  },
});
const [seconds, rounds, concurrency] = [values.seconds, values.rounds, values.concurrency].map(Number) as [
  number,
  number,
  number,
];
const pool = 'chunks';
const owner = { bucketId: 'bench', key: 'a/key/of/usual/length.bin' };
/** The size of the arrays in which a client's bytes arrive. */
const pieceBytes = 64 * 1024;

interface Figure {
  readonly perSecond: number;
  readonly lagP99Ms?: number;
}

const parts = [
  { size: 4 << 20, goal: 0.9 },
  { size: 4096, goal: 0.6 },
];

await using ceph = await startCeph([pool]);
const store = clusterPool({
  driver: await koffiDriver(),
  address: { id: 'a', conf: ceph.conf, user: ceph.user, opTimeoutMs: 30_000, monTimeoutMs: 10_000 },
  pools: { fallback: { pool, namespace: '' }, byClass: {} },
  clock: systemClock,
  inFlightBytesMax: 64 << 20,
  readBudget: new ReadBudget({ bytesMax: 64 << 20, aheadBytes: 4 << 20 }),
});
let isMet = true;
for (const { size, goal } of parts) {
  const ours: Figure[][] = [[], []];
  const theirs: Figure[][] = [[], []];
  // The first round warms up both.
  for (let round = 0; round <= rounds; round += 1) {
    const [rados, sluice] = [await radosBench(ceph, size), await ourBench(store, size)];
    if (round === 0) continue;
    for (const at of [0, 1]) {
      theirs[at]?.push(rados[at] as Figure);
      ours[at]?.push(sluice[at] as Figure);
    }
  }
  for (const [at, name] of ['write', 'read'].entries()) {
    if (!report({ name, size, goal }, ours[at] ?? [], theirs[at] ?? [])) isMet = false;
  }
}
await store.close();
process.exitCode = isMet ? 0 : 1;

function report(
  { name, size, goal }: { readonly name: string; readonly size: number; readonly goal: number },
  ours: readonly Figure[],
  theirs: readonly Figure[],
): boolean {
  const rate = (figures: readonly Figure[]): number =>
    figures.reduce((sum, { perSecond }) => sum + perSecond, 0) / figures.length;
  const [mine, other] = [rate(ours), rate(theirs)];
  const lag = Math.max(...ours.map(({ lagP99Ms = 0 }) => lagP99Ms));
  const met = mine / other >= goal && lag < 50;
  const mib = (perSecond: number): string => `${((perSecond * size) / 2 ** 20).toFixed(0)} MiB/s`;
  process.stdout.write(
    `${name} ${size >= 2 ** 20 ? '4 MiB' : '4 KiB'} at ${concurrency}: sluice ${mine.toFixed(0)}/s (${mib(mine)}), rados bench ${other.toFixed(0)}/s (${mib(other)}): ÷ ${(mine / other).toFixed(2)}, goal ${goal}; event-loop lag p99 ${lag.toFixed(1)} ms, goal < 50: ${met ? 'met' : 'MISSED'}\n`,
  );
  return met;
}

async function radosBench({ rados }: CephCluster, size: number): Promise<readonly Figure[]> {
  const common = ['-t', String(concurrency), '--run-name', `bench-${size}`];
  const run = async (...args: readonly string[]): Promise<Figure> => {
    const said = await rados('-p', pool, 'bench', String(seconds), ...args, ...common);
    const found = /^Bandwidth \(MB\/sec\):\s+([\d.]+)/m.exec(said)?.[1];
    if (found === undefined) throw new Error(`rados bench says ${said}`);
    return { perSecond: (Number(found) * 2 ** 20) / size };
  };
  const written = await run('write', '-b', String(size), '--no-cleanup');
  const read = await run('seq');
  await rados('-p', pool, 'cleanup', '--run-name', `bench-${size}`);
  return [written, read];
}

async function ourBench(store: ClusterPool, size: number): Promise<readonly Figure[]> {
  const content = randomBytes(size);
  const run = randomBytes(6).toString('hex');
  const chunks: ChunkRef[] = [];
  let begun = 0;
  const written = await measured(async () => {
    chunks.push(await store.write(`${run}.${begun++}`, inPieces(content), { owner, size }));
  });
  let read = 0;
  const figure = await measured(async () => {
    const chunk = chunks[read++ % chunks.length] as ChunkRef;
    let got = 0;
    for await (const bytes of store.read(chunk, { start: 0, end: size - 1 })) got += bytes.length;
    if (got !== size) throw new Error(`${got} bytes of ${size}`);
  });
  await store.remove(chunks);
  return [written, figure];
}

async function* inPieces(content: Uint8Array): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < content.length; at += pieceBytes) yield content.subarray(at, at + pieceBytes);
}

async function measured(once: () => Promise<void>): Promise<Figure> {
  const lag = monitorEventLoopDelay({ resolution: 5 });
  const begin = performance.now();
  const end = begin + seconds * 1000;
  let count = 0;
  lag.enable();
  const work = async (): Promise<void> => {
    while (performance.now() < end) {
      // Start each write in a separate turn, as clients do. Writes that start in one turn would run in step and be late together.
      await turn();
      await once();
      count += 1;
    }
  };
  await Promise.all(Array.from({ length: concurrency }, work));
  lag.disable();
  return { perSecond: (count * 1000) / (performance.now() - begin), lagP99Ms: lag.percentile(99) / 1e6 };
}
