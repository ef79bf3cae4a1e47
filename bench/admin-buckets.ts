/**
 * `node bench/admin-buckets.ts`: the CPU of a page of `GET /admin/v1/buckets` among many buckets: the first page, a later one, and pages by
 * filters that let many, few and no buckets through. Metadata `embedded`, nothing flushed. The buckets are created by a separate process
 * through the domain; the first request of each kind is printed beside the median of the later ones, because it also compiles the code.
 */
import { execFileSync } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { createGateway } from '../src/admin-gateway.ts';
import { inParallel } from '../src/base/concurrency.ts';
import { configWith } from '../src/config/read-config.ts';
import { createBucket } from '../src/domain/buckets/bucket.ts';
import { systemClock } from '../src/ports/clock.ts';
import { compose } from '../src/runtime/compose/compose.ts';
import { cpuMsOf } from '../test/support/cpu-time.ts';
import { alice, operator } from '../test/support/gateway.ts';
import { openClient } from '../test/support/gateway-client.ts';

const { values } = parseArgs({
  options: {
    buckets: { type: 'string', default: '100000' },
    rounds: { type: 'string', default: '21' },
    dir: { type: 'string', default: tmpdir() },
    /** Options of the child processes. */
    seed: { type: 'string' },
    run: { type: 'string' },
  },
});
const buckets = Number(values.buckets);
const goalMs = 50;
const accounts = 100;
/** One bucket of so many has versioning. */
const rarely = 1_000;
/** So many buckets, the first ones, hold an object. */
const filled = 200;
const nameOf = (n: number): string => `bucket-${String(n).padStart(6, '0')}`;

async function open(directory: string) {
  const config = configWith({ SVC_DATA_DIR: directory, SVC_FSYNC: 'never', SVC_DISK_RESERVE: '0' });
  const composed = await compose(config, { credentials: [alice, operator], clock: systemClock });
  const gateway = createGateway(composed.context, { basePath: '' });
  const as = (credential: typeof alice) => openClient(gateway, systemClock, { credential });
  return { context: composed.context, as, close: () => composed.close() };
}

async function seed(directory: string): Promise<void> {
  const { context, as, close } = await open(directory);
  const client = as(alice);
  for (let n = 0; n < filled; n += 1) {
    await client.put(`/${nameOf(n)}`);
    await client.put(`/${nameOf(n)}/key`, { body: 'content' });
  }
  const batch = 10_000;
  for (let from = filled; from < buckets; from += batch) {
    const numbers = Array.from({ length: Math.min(batch, buckets - from) }, (_, n) => from + n);
    await inParallel(256, numbers, async (n) => {
      await createBucket(context, {
        name: nameOf(n),
        owner: `account-${n % accounts}`,
        ownerName: '',
        creator: '',
        region: 'us-east-1',
        objectLock: n % rarely === 0,
        documents: {},
      });
    });
  }
  await close();
}

const pages = {
  'the first page': '',
  'a page in the middle': `after=${nameOf(Math.floor(buckets / 2))}`,
  'by prefix': 'prefix=bucket-09',
  'by owner': 'owner=account-7',
  [`by versioning, which 1 of ${rarely} buckets has`]: 'versioning=Enabled',
  'by quota, which no bucket has': 'hasQuota=true',
} as const;

async function run(directory: string): Promise<void> {
  const { as, close } = await open(directory);
  const client = as(operator);
  for (const [what, query] of Object.entries(pages)) {
    const took: number[] = [];
    let rows = 0;
    for (let round = 0; round < Number(values.rounds); round += 1)
      took.push(
        await cpuMsOf(async () => {
          const { status, text } = await client.get(`/admin/v1/buckets?${query}`);
          if (status !== 200) throw new Error(`${status} ${text}`);
          rows = JSON.parse(text).rows.length;
        }),
      );
    const [first = 0, ...later] = took;
    const median = later.toSorted((a, b) => a - b)[Math.floor(later.length / 2)] ?? first;
    console.log(
      `${what}: ${rows} rows; first request ${first.toFixed(1)} ms of CPU, median of the later ones ${median.toFixed(1)} ms`,
    );
    if (query === '') console.log(`  goal < ${goalMs} ms: ${median < goalMs ? 'met' : 'missed'}`);
  }
  await close();
}

if (values.seed !== undefined) await seed(values.seed);
else if (values.run !== undefined) await run(values.run);
else {
  const directory = await mkdtemp(join(values.dir, 'sluice-admin-buckets-'));
  const child = (...more: string[]): void =>
    void execFileSync(
      process.execPath,
      [import.meta.filename, `--buckets=${buckets}`, `--rounds=${values.rounds}`, ...more],
      { stdio: 'inherit' },
    );
  try {
    child(`--seed=${directory}`);
    child(`--run=${directory}`);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}
