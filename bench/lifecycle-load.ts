/**
 * `node bench/lifecycle-load.ts`: the lifecycle worker expires the due objects of a large bucket while clients PUT and GET 4 KiB objects of
 * another bucket: how long it takes, and the throughput of the clients beside that before and after. One server with `embedded` and
 * `file`, flushed writes and default settings; the load generator shares the machine. The rows of the large bucket are written through the
 * metadata port before the server starts. `--directory` names a place for the metadata (about 900 bytes for an object).
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { inParallel } from '../src/base/concurrency.ts';
import { lifecycleTasks } from '../src/domain/lifecycle/progress.ts';
import { findTask, putTask } from '../src/metadata/background/tasks.ts';
import { findBucket, replaceBucket } from '../src/metadata/buckets/buckets.ts';
import { usageChanges } from '../src/metadata/buckets/usage.ts';
import { listAges, putAge } from '../src/metadata/objects/ages.ts';
import { objectsAt } from '../src/metadata/objects/objects.ts';
import { type BucketRow, headSlot, liveSpace, type ObjectRow } from '../src/metadata/tables.ts';
import { carryOutLifecycles } from '../src/workers/lifecycle.ts';
import { type GatewayWorld, openGateway } from '../test/support/gateway.ts';
import { loadClient, pathOf } from '../test/support/load-client.ts';
import { startServer } from '../test/support/server.ts';

const { values } = parseArgs({
  options: {
    objects: { type: 'string', default: '1000000' },
    due: { type: 'string', default: '100000' },
    seconds: { type: 'string', default: '20' },
    clients: { type: 'string', default: '16' },
    directory: { type: 'string', default: tmpdir() },
  },
});
const objects = Number(values.objects);
const dueObjects = Number(values.due);
const dayMs = 86_400_000;
const never = new AbortController().signal;
const body = Buffer.alloc(4096, 7);
const pauseMs = 500;
/** A run that takes longer is ended. */
const runMsMax = 15 * 60_000;
const rows = { perCommit: 48, atOnce: 64 } as const;

const dataDir = await mkdtemp(join(values.directory, 'sluice-lifecycle-'));

const makeRow = (bucket: BucketRow, index: number, now: number): ObjectRow => {
  // Old and young keys are mixed, as they are in a bucket that is written to each day.
  const isDue = Math.floor(((index + 1) * dueObjects) / objects) > Math.floor((index * dueObjects) / objects);
  return {
    bucketId: bucket.id,
    space: liveSpace,
    key: `${index}`.padStart(12, '0'),
    slot: headSlot,
    version: `${index}`.padStart(24, '0'),
    isNull: true,
    marker: false,
    modified: isDue ? now - 40 * dayMs : now - (index % 20) * dayMs,
    size: 0,
    etag: 'd41d8cd98f00b204e9800998ecf8427e',
    storageClass: 'STANDARD',
    manifest: { extents: [] },
    headers: {},
    owner: bucket.owner,
    requestId: 'bench',
  };
};

async function seed({ context, client }: GatewayWorld): Promise<void> {
  const { metadata } = context;
  const rule =
    '<Rule><ID>r</ID><Status>Enabled</Status><Filter/><Expiration><Days>30</Days></Expiration></Rule>';
  const configuration = `<LifecycleConfiguration>${rule}</LifecycleConfiguration>`;
  await client.put('/due');
  const found = await findBucket(metadata, 'due');
  if (found === undefined) throw new Error('the bucket is missing');
  await replaceBucket(metadata, found, { ...found.row, created: Date.now() - 50 * dayMs });
  await client.put('/due?lifecycle', { body: configuration });
  const unit = carryOutLifecycles(context);
  while ((await unit(never)) === 'busy');
  const bucket = (await findBucket(metadata, 'due'))?.row;
  if (bucket === undefined) throw new Error('the bucket is missing');
  const now = Date.now();
  const commits = Array.from({ length: Math.ceil(objects / rows.perCommit) }, (_, index) => index);
  await inParallel(rows.atOnce, commits, async (commit) => {
    const from = commit * rows.perCommit;
    const some = Array.from({ length: Math.min(rows.perCommit, objects - from) }, (_, index) =>
      makeRow(bucket, from + index, now),
    );
    const then = [
      ...usageChanges(bucket, `${commit}`, [{ storageClass: 'STANDARD', bytes: 0, objects: some.length }]),
      ...some.flatMap((row) => listAges(bucket, row).map(putAge)),
    ];
    const changes = some.map((put) => ({ put, expect: 'absent' }) as const);
    const outcome = await metadata.commit({ ...objectsAt(bucket), ways: 1 }, changes, { then });
    if (!outcome.applied) throw new Error(`a commit was refused: ${outcome.because}`);
  });
  // The pass begins when it is asked for, not at the next midnight.
  const task = await findTask(metadata, lifecycleTasks, bucket.id);
  if (task === undefined) throw new Error('the bucket has no progress');
  const state = { ...task.state, nextAt: now + dayMs };
  await putTask(metadata, lifecycleTasks, { name: bucket.id, state, expect: task.revision });
}

{
  const began = performance.now();
  await using world = await openGateway({
    backend: 'embedded+file',
    settings: { SVC_DATA_DIR: dataDir, SVC_BUCKET_SHARDS: '1' },
  });
  await seed(world);
  console.log(`${objects} objects written in ${((performance.now() - began) / 1000).toFixed(0)} s`);
}

const server = await startServer({ dataDir, env: { SVC_LOG_LEVEL: 'ERROR' } });
const client = loadClient(server.url, server.credentials.root);

/** Requests per second, until `isOver`. */
async function measure(isOver: () => boolean): Promise<number> {
  let requests = 0;
  const start = performance.now();
  await Promise.all(
    Array.from({ length: Number(values.clients) }, async (_, worker) => {
      for (let turn = 0; !isOver(); turn += 1) {
        const path = pathOf('load', `${worker}-${turn % 100}`);
        await client.expect({ method: 'PUT', path, body });
        await client.expect({ path });
        requests += 2;
      }
    }),
  );
  return (requests * 1000) / (performance.now() - start);
}

function measureFor(ms: number): Promise<number> {
  const until = performance.now() + ms;
  return measure(() => performance.now() >= until);
}

interface Progress {
  readonly state: string;
  readonly expired: number;
  readonly read: number;
}
async function findProgress(): Promise<Progress> {
  return JSON.parse((await client.expect({ path: '/admin/v1/buckets/due/lifecycle' })).text);
}
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** By the metrics, because the server counts the backlog of a pass to report its progress, which costs clients and worker. */
async function countExpired(): Promise<number> {
  const { text } = await client.expect({ path: '/metrics' });
  return Number(/^svc_lifecycle_actions_total\{action="expired"\} (\d+)/m.exec(text)?.[1] ?? 0);
}

/** The worker begins within SVC_LIFECYCLE_INTERVAL. */
async function beginPass(): Promise<void> {
  await client.expect({ method: 'POST', path: '/admin/v1/buckets/due/lifecycle/run' }, [202]);
  while ((await countExpired()) === 0) await pause(pauseMs);
}

/** Resolves with the progress at the end of the pass. */
async function endPass(): Promise<Progress> {
  const until = performance.now() + runMsMax;
  while ((await countExpired()) < dueObjects && performance.now() < until) await pause(pauseMs);
  let progress = await findProgress();
  for (; progress.state === 'running' && performance.now() < until; progress = await findProgress())
    await pause(pauseMs);
  return progress;
}

try {
  await client.expect({ method: 'PUT', path: pathOf('load') });
  const ms = Number(values.seconds) * 1000;
  await measureFor(ms / 2);
  const before = await measureFor(ms);
  await beginPass();
  let isOver = false;
  const start = performance.now();
  const running = endPass().finally(() => {
    isOver = true;
  });
  const [during, { expired, read, state }] = await Promise.all([measure(() => isOver), running]);
  const seconds = (performance.now() - start) / 1000;
  const after = await measureFor(ms);
  const without = (before + after) / 2;
  console.log(
    `${expired} of ${objects} objects expired in ${seconds.toFixed(0)} s (${state}; ${Math.round(expired / seconds)}/s), ` +
      `${(read / expired).toFixed(3)} entries read for each`,
  );
  console.log(
    `clients: ${before.toFixed(0)} requests/s before, ${during.toFixed(0)} during, ${after.toFixed(0)} after: ratio ${(during / without).toFixed(2)}`,
  );
} finally {
  client.close();
  await server.stop();
  await rm(dataDir, { recursive: true, force: true });
}
