/**
 * `node bench/inventory.ts`: how long an inventory of many objects takes, and the memory of the process that writes it.
 * Metadata `embedded`, nothing flushed. The rows are seeded through the metadata port, by a separate process.
 */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate } from 'node:timers';
import { parseArgs } from 'node:util';
import { createGateway } from '../src/admin-gateway.ts';
import { inParallel } from '../src/base/concurrency.ts';
import { configWith } from '../src/config/read-config.ts';
import { openBucket } from '../src/domain/common/buckets.ts';
import { drawVersion } from '../src/domain/common/ids.ts';
import { objectsAt } from '../src/metadata/objects/objects.ts';
import { headSlot, liveSpace, type ObjectRow } from '../src/metadata/tables.ts';
import { systemClock } from '../src/ports/clock.ts';
import { compose } from '../src/runtime/compose/compose.ts';
import { writeInventories } from '../src/workers/inventory.ts';
import { alice } from '../test/support/gateway.ts';
import { openClient } from '../test/support/gateway-client.ts';

const { values } = parseArgs({
  options: {
    objects: { type: 'string', default: '1000000' },
    dir: { type: 'string', default: tmpdir() },
    /** Options of the child processes. */
    seed: { type: 'string' },
    run: { type: 'string' },
    format: { type: 'string', default: 'CSV' },
  },
});
const objects = Number(values.objects);
const mib = 2 ** 20;
const goals = { seconds: 60, mib: 256 } as const;
const formats = ['CSV', 'Parquet'] as const;

async function open(directory: string) {
  const config = configWith({ SVC_DATA_DIR: directory, SVC_FSYNC: 'never', SVC_DISK_RESERVE: '0' });
  const composed = await compose(config, { credentials: [alice], clock: systemClock });
  const { context } = composed;
  const client = openClient(createGateway(context, { basePath: '' }), systemClock, { credential: alice });
  return { context, client, close: () => composed.close() };
}

const policy = JSON.stringify({
  Version: '2012-10-17',
  Statement: [
    {
      Effect: 'Allow',
      Principal: { Service: 's3.amazonaws.com' },
      Action: 's3:PutObject',
      Resource: 'arn:aws:s3:::lists/*',
    },
  ],
});
const fields =
  'Size LastModifiedDate StorageClass ETag IsMultipartUploaded ReplicationStatus EncryptionStatus ChecksumAlgorithm ObjectOwner';
const configuration = (format: string): string =>
  `<InventoryConfiguration><Id>${format}</Id><IsEnabled>true</IsEnabled><Destination><S3BucketDestination><Bucket>arn:aws:s3:::lists</Bucket><Format>${format}</Format></S3BucketDestination></Destination><Schedule><Frequency>Daily</Frequency></Schedule><IncludedObjectVersions>Current</IncludedObjectVersions><OptionalFields>${fields
    .split(' ')
    .map((field) => `<Field>${field}</Field>`)
    .join('')}</OptionalFields></InventoryConfiguration>`;

async function seed(directory: string): Promise<void> {
  const { context, client, close } = await open(directory);
  for (const bucket of ['bucket', 'lists']) await client.put(`/${bucket}`);
  await client.put('/lists?policy', { body: policy });
  const bucket = await openBucket(context, 'bucket');
  const batch = 10_000;
  for (let from = 0; from < objects; from += batch) {
    const numbers = Array.from({ length: Math.min(batch, objects - from) }, (_, n) => from + n);
    await inParallel(256, numbers, async (n) => {
      const row: ObjectRow = {
        bucketId: bucket.id,
        space: liveSpace,
        key: `data/${n % 1_000}/object-${String(n).padStart(9, '0')}`,
        slot: headSlot,
        version: drawVersion(context),
        isNull: true,
        marker: false,
        modified: context.clock.now(),
        size: n,
        etag: n.toString(16).padStart(32, '0'),
        storageClass: 'STANDARD',
        manifest: { extents: [] },
        headers: {},
        owner: alice.owner,
        requestId: 'seed',
      };
      await context.metadata.commit(objectsAt(bucket), [{ put: row, expect: 'absent' }]);
    });
  }
  await close();
}

/** The peak memory in MiB, from the kernel. */
function memory(name: 'RssAnon' | 'VmRSS'): number {
  const found = new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(readFileSync('/proc/self/status', 'utf8'));
  return Number(found?.[1]) / 1024;
}

async function run(directory: string, format: string): Promise<void> {
  const { context, client, close } = await open(directory);
  await client.put(`/bucket?inventory&id=${format}`, { body: configuration(format) });
  const peak = { anonymous: 0, all: 0 };
  const before = memory('RssAnon');
  const sample = setInterval(() => {
    peak.anonymous = Math.max(peak.anonymous, memory('RssAnon'));
    peak.all = Math.max(peak.all, memory('VmRSS'));
  }, 50);
  // The longest time without a turn of the event loop, during which no request is served.
  let longest = 0;
  let last = performance.now();
  const turn = (): void => {
    longest = Math.max(longest, performance.now() - last);
    last = performance.now();
    turning = setImmediate(turn);
  };
  let turning = setImmediate(turn);
  const start = performance.now();
  const { user, system } = process.cpuUsage();
  const unit = writeInventories(context);
  const signal = new AbortController().signal;
  while ((await unit(signal)) === 'busy');
  const seconds = (performance.now() - start) / 1000;
  const cpu = process.cpuUsage();
  clearInterval(sample);
  clearImmediate(turning);
  const listed = await client.get('/lists?list-type=2');
  const bytes = listed.all('Size').reduce((sum, size) => sum + Number(size), 0);
  const isMet = seconds < goals.seconds && peak.anonymous < goals.mib;
  console.log(
    `${format}: ${objects} objects in ${seconds.toFixed(1)} s (${((cpu.user + cpu.system - user - system) / 1e6).toFixed(1)} s of CPU), ${(bytes / mib).toFixed(1)} MiB of files; anonymous memory ${before.toFixed(0)} MiB before, ${peak.anonymous.toFixed(0)} at its peak, RSS with the mapped file ${peak.all.toFixed(0)}; longest turn ${longest.toFixed(0)} ms; goal < ${goals.seconds} s and < ${goals.mib} MiB: ${isMet ? 'met' : 'missed'}`,
  );
  await close();
}

if (values.seed !== undefined) await seed(values.seed);
else if (values.run !== undefined) await run(values.run, values.format);
else {
  const directory = await mkdtemp(join(values.dir, 'sluice-inventory-'));
  const child = (...more: string[]): void =>
    void execFileSync(process.execPath, [import.meta.filename, `--objects=${objects}`, ...more], {
      stdio: 'inherit',
    });
  try {
    child(`--seed=${directory}`);
    for (const format of formats) child(`--run=${directory}`, `--format=${format}`);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}
