/**
 * `node bench/growth.ts`: the CPU of requests as keys and buckets become more, and how long a gateway with so many takes to start.
 * `embedded` + `file`, flushed, one process for each number; they take turns of half a second within one run. The rows are seeded
 * through the metadata port, by a separate process. `--keys=`, `--buckets=` take other numbers; the first is what the others are
 * compared with, and an empty list leaves them out. Ten million keys take some 5 GB and 10 minutes.
 */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { createGateway } from '../src/admin-gateway.ts';
import { inParallel } from '../src/base/concurrency.ts';
import { configWith } from '../src/config/read-config.ts';
import { openBucket } from '../src/domain/common/buckets.ts';
import { drawVersion } from '../src/domain/common/ids.ts';
import { usageChanges } from '../src/metadata/buckets/usage.ts';
import { objectsAt } from '../src/metadata/objects/objects.ts';
import { headSlot, liveSpace, type ObjectRow } from '../src/metadata/tables.ts';
import { systemClock } from '../src/ports/clock.ts';
import { compose } from '../src/runtime/compose/compose.ts';
import { openClient } from '../test/support/gateway-client.ts';
import { Load, type LoadOptions } from './lib/load.ts';
import type { Server } from './lib/measure.ts';
import { keyOf } from './lib/operations.ts';
import { lowerQuartile } from './lib/percentile.ts';
import { cpuMicros } from './lib/process-cost.ts';
import { table } from './lib/report.ts';
import { benchCredential } from './lib/sign.ts';
import { sluice } from './lib/targets.ts';

const text = { type: 'string' } as const;
const { values } = parseArgs({
  options: {
    keys: { ...text, default: '10000,1000000,10000000' },
    buckets: { ...text, default: '100,100000' },
    dir: { ...text, default: tmpdir() },
    turns: { ...text, default: '20' },
    seconds: { ...text, default: '0.5' },
    /** As SVC_WORKERS. None by default: the passes of the first minutes would be counted as requests. */
    workers: { ...text, default: '' },
    /** Of the child process: what it seeds. */
    seed: text,
  },
});
const numbers = (list: string): readonly number[] => list.split(',').filter(Boolean).map(Number);
const [turns, seconds] = [Number(values.turns), Number(values.seconds)];
const clients = 16;
const warmSteps = 20_000;
const [minute, kib] = [60, 1024];
/** A start takes at most so long (ms). */
const startGoal = 2_000;
const growthGoal = 1.2;

/** How many keys a bucket of a load has, or how many buckets of ten keys. */
interface Size {
  readonly keys: number;
  readonly buckets?: number;
}
const keysOfBucket = 10;
const added = { storageClass: 'STANDARD', bytes: 0, objects: 1 };
/** Rows that are seeded at a time. */
const batch = 10_000;
const name = ({ keys, buckets }: Size): string =>
  `${(buckets ?? keys).toLocaleString('en')} ${buckets === undefined ? 'keys' : 'buckets'}`;

async function seed(directory: string, { keys, buckets }: Size): Promise<void> {
  const config = configWith({ SVC_DATA_DIR: directory, SVC_FSYNC: 'never', SVC_DISK_RESERVE: '0' });
  const composed = await compose(config, { credentials: [benchCredential], clock: systemClock });
  const { context } = composed;
  const client = openClient(createGateway(context, { basePath: '' }), systemClock, {
    credential: benchCredential,
  });
  const names = buckets === undefined ? ['bucket'] : Array.from({ length: buckets }, (_, n) => `bucket-${n}`);
  await inParallel(64, names, async (each) => {
    await client.put(`/${each}`);
    const bucket = await openBucket(context, each);
    for (let from = 0; from < keys; from += batch) {
      const part = Array.from({ length: Math.min(batch, keys - from) }, (_, n) => from + n);
      await inParallel(512, part, async (n) => {
        const row: ObjectRow = {
          bucketId: bucket.id,
          space: liveSpace,
          key: keyOf(n),
          slot: headSlot,
          version: drawVersion(context),
          isNull: true,
          marker: false,
          modified: context.clock.now(),
          size: 0,
          etag: 'd41d8cd98f00b204e9800998ecf8427e',
          storageClass: 'STANDARD',
          manifest: { extents: [] },
          headers: {},
          owner: benchCredential.owner,
          requestId: 'seed',
        };
        await context.metadata.commit(objectsAt(bucket), [{ put: row, expect: 'absent' }], {
          then: usageChanges(bucket, row.version, [added], row.modified),
        });
      });
    }
  });
  await composed.close();
}

type Case = Pick<LoadOptions, 'operation' | 'size'>;
/** GETs and listings see the empty objects of the seed, so PUTs come last. */
const cases: Readonly<Record<string, Case>> = {
  HEAD: { operation: 'stat', size: 0 },
  'GET of an empty object': { operation: 'get', size: 0 },
  'LIST of 100 keys': { operation: 'list-after', size: 0 },
  'PUT of 4 KiB': { operation: 'put-trailer', size: 4 * kib },
};

interface Side extends Size {
  readonly server: Server;
  readonly startMs: number;
  readonly bytes: number;
}

async function openSide(size: Size): Promise<Side> {
  const data = mkdtempSync(join(values.dir, 'sluice-growth-'));
  const arguments_ = [import.meta.filename, `--dir=${data}`, `--seed=${JSON.stringify(size)}`];
  execFileSync(process.execPath, arguments_, { stdio: 'inherit' });
  const bytes = statSync(join(data, 'metadata', 'data.mdb')).blocks * 512;
  const begun = performance.now();
  const running = await sluice({ SVC_WORKERS: values.workers })({
    directory: values.dir,
    data,
    processes: '1',
  });
  return { ...size, server: { ...running, name: name(size) }, startMs: performance.now() - begun, bytes };
}

async function compare(load: Load, each: Case, sides: readonly Side[]): Promise<readonly number[]> {
  const costs = sides.map((): number[] => []);
  const from = sides.map(() => 0);
  const run = async (at: number, options: { readonly seconds: number; readonly turns?: number }) => {
    const { server, keys, buckets } = sides[at] as Side;
    const target = buckets === undefined ? { keys } : { keys, buckets };
    const result = await load.run({
      ...{ ...server, ...each, ...target, ...options },
      ...{ bucket: 'bucket', isScattered: true, clients, from: from[at] as number },
    });
    from[at] = (from[at] as number) + 4 * result.count + clients;
    return result;
  };
  for (const at of sides.keys()) await run(at, { seconds: minute, turns: warmSteps });
  for (let turn = 0; turn < turns; turn++)
    for (const place of sides.keys()) {
      const at = turn % 2 === 0 ? place : sides.length - 1 - place;
      const { pid } = (sides[at] as Side).server;
      const before = cpuMicros(pid);
      const { count } = await run(at, { seconds });
      costs[at]?.push((cpuMicros(pid) - before) / count);
    }
  return costs.map(lowerQuartile);
}

async function measure(load: Load, sizes: readonly Size[]): Promise<void> {
  if (sizes.length === 0) return;
  const sides: Side[] = [];
  try {
    for (const size of sizes) sides.push(await openSide(size));
    const rows = [['', ...sides.map(({ server }) => server.name), 'ratios']];
    const row = (title: string, figures: readonly number[], goal: (figure: number) => boolean): void => {
      const [first = Number.NaN, ...others] = figures;
      const ratios = others.map((figure) => (figure / first).toFixed(2)).join(', ');
      if (!others.every(goal)) process.exitCode = 1;
      const isMissed = others.every(goal) ? '' : ' MISSED';
      rows.push([title, ...figures.map((figure) => figure.toFixed(0)), `${ratios}${isMissed}`]);
    };
    for (const [title, each] of Object.entries(cases)) {
      const found = await compare(load, each, sides);
      row(`${title}, µs`, found, (figure) => figure <= growthGoal * (found[0] as number));
    }
    row(
      'start, ms',
      sides.map(({ startMs }) => startMs),
      (figure) => figure <= startGoal,
    );
    row(
      'metadata, MiB',
      sides.map(({ bytes }) => bytes / kib ** 2),
      () => true,
    );
    process.stdout.write(`${table(rows, 1)}\n`);
  } finally {
    await Promise.all(sides.map(({ server }) => server.stop()));
  }
}

if (values.seed !== undefined) await seed(values.dir, JSON.parse(values.seed) as Size);
else {
  const load = new Load(4, { sleeps: true });
  try {
    await measure(
      load,
      numbers(values.keys).map((keys) => ({ keys })),
    );
    await measure(
      load,
      numbers(values.buckets).map((buckets) => ({ keys: keysOfBucket, buckets })),
    );
  } finally {
    load.close();
  }
}
