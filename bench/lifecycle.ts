/**
 * `node bench/lifecycle.ts`: what the lifecycle worker takes for the objects that are due among many that are not, how many entries of the
 * age index it reads for each, and the CPU of a pass over many buckets with nothing due. Metadata `embedded`; rows are written through the
 * metadata port, in this process.
 */
import { parseArgs } from 'node:util';
import { inParallel } from '../src/base/concurrency.ts';
import { openBucket } from '../src/domain/common/buckets.ts';
import { emptyTally, lifecycleTasks } from '../src/domain/lifecycle/progress.ts';
import { findTask, putTask } from '../src/metadata/background/tasks.ts';
import { usageChanges } from '../src/metadata/buckets/usage.ts';
import { ageChanges, listLifecycleBucket } from '../src/metadata/objects/ages.ts';
import { objectsAt } from '../src/metadata/objects/objects.ts';
import { headSlot, liveSpace, type ObjectRow } from '../src/metadata/tables.ts';
import { carryOutLifecycles } from '../src/workers/lifecycle.ts';
import { type GatewayWorld, openGateway, operator } from '../test/support/gateway.ts';

const { values } = parseArgs({
  options: {
    objects: { type: 'string', default: '1000000' },
    due: { type: 'string', default: '100000' },
    buckets: { type: 'string', default: '10000' },
  },
});
const dayMs = 86_400_000;
const never = new AbortController().signal;
const atOnce = 256;

async function pass({ context }: GatewayWorld): Promise<void> {
  const unit = carryOutLifecycles(context);
  while ((await unit(never)) === 'busy');
}

async function seed({ context }: GatewayWorld): Promise<void> {
  const bucket = await openBucket(context, 'bucket');
  const now = Date.now();
  const due = Number(values.due);
  const each = async (index: number): Promise<void> => {
    const isOld = index < due;
    const row: ObjectRow = {
      bucketId: bucket.id,
      space: liveSpace,
      // Old and young keys are mixed, as they are in a bucket that is written to each day.
      key: `${((index * 7919) % 1_000_003).toString(36)}/${index}`,
      slot: headSlot,
      version: `${index}`.padStart(24, '0'),
      isNull: true,
      marker: false,
      modified: isOld ? now - 40 * dayMs + index : now - (index % 20) * dayMs,
      size: 0,
      etag: 'd41d8cd98f00b204e9800998ecf8427e',
      storageClass: 'STANDARD',
      manifest: { extents: [] },
      headers: {},
      owner: bucket.owner,
      requestId: 'bench',
    };
    const delta = { storageClass: 'STANDARD', bytes: 0, objects: 1 };
    const then = [
      ...usageChanges(bucket, `${index}`, [delta]),
      ...ageChanges({ ...bucket, created: now - 50 * dayMs }, { before: [], after: [row] }),
    ];
    await context.metadata.commit(objectsAt(bucket), [{ put: row, expect: 'absent' }], { then });
  };
  await inParallel(
    atOnce,
    Array.from({ length: Number(values.objects) }, (_, index) => index),
    each,
  );
}

async function idle(world: GatewayWorld): Promise<void> {
  const { metadata } = world.context;
  const count = Number(values.buckets);
  for (let each = 0; each < count; each += 1) {
    const id = `idle-${each}`;
    await metadata.apply([listLifecycleBucket({ id, name: id }, 'token')]);
    const first = { upload: 0, noncurrent: 0, current: 0, marker: 0, restored: 0 };
    const times = { startedAt: 0, finishedAt: 0, nextAt: Date.now() + dayMs };
    const state = {
      bucket: id,
      token: 'token',
      indexing: { at: 'done' } as const,
      first,
      tally: emptyTally,
      byRule: {},
      ...times,
    };
    await putTask(metadata, lifecycleTasks, { name: id, state, expect: 'absent' });
  }
  await pass(world);
  const before = process.cpuUsage();
  await pass(world);
  const { user, system } = process.cpuUsage(before);
  console.log(
    `a pass over ${count} buckets with nothing due: ${((user + system) / 1000).toFixed(0)} ms of CPU`,
  );
}

await using world = await openGateway({
  backend: 'embedded+file',
  settings: { SVC_LIFECYCLE_RATE: '1000000', SVC_DISK_RESERVE: '0' },
});
const { client } = world;
await client.put('/bucket');
const rules =
  '<Rule><ID>r</ID><Status>Enabled</Status><Filter/><Expiration><Days>30</Days></Expiration></Rule>';
await client.put('/bucket?lifecycle', { body: `<LifecycleConfiguration>${rules}</LifecycleConfiguration>` });
await pass(world);
const seeding = performance.now();
await seed(world);
console.log(`${values.objects} objects written in ${((performance.now() - seeding) / 1000).toFixed(0)} s`);
// The rows have an earlier day than the bucket: a new configuration begins at the first day again.
const bucket = await openBucket(world.context, 'bucket');
const first = Math.floor((Date.now() - 50 * dayMs) / dayMs);
const task = await findTask(world.context.metadata, lifecycleTasks, bucket.id);
if (task === undefined) throw new Error('the bucket has no progress');
const firsts = { upload: first, noncurrent: first, current: first, marker: first, restored: first };
const state = { ...task.state, first: firsts, nextAt: 0 };
await putTask(world.context.metadata, lifecycleTasks, { name: bucket.id, state, expect: task.revision });
const cpu = process.cpuUsage();
const start = performance.now();
await pass(world);
const seconds = (performance.now() - start) / 1000;
const { user, system } = process.cpuUsage(cpu);
const reply = await world.as({ credential: operator }).get('/admin/v1/buckets/bucket/lifecycle');
const { expired, read } = JSON.parse(reply.text) as { readonly expired: number; readonly read: number };
console.log(
  `${expired} of ${values.objects} objects expired in ${seconds.toFixed(1)} s (${Math.round(expired / seconds)}/s), ` +
    `${((user + system) / expired).toFixed(0)} µs of CPU each; ${(read / expired).toFixed(3)} entries read for each`,
);
await idle(world);
