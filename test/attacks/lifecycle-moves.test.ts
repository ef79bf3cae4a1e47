/** Transitions beside the passes of the lifecycle worker: what may cut them, what they leave, and when they end. */
import { randomBytes } from 'node:crypto';
import { setImmediate } from 'node:timers/promises';
import { expect, test } from 'vitest';
import type { Context } from '../../src/context.ts';
import { openBucket } from '../../src/domain/common/buckets.ts';
import type { LifecycleProgress } from '../../src/domain/lifecycle/progress.ts';
import { findLiveHead, objectsAt } from '../../src/metadata/objects/objects.ts';
import { type Clock, systemClock } from '../../src/ports/clock.ts';
import { carryOutLifecycles } from '../../src/workers/lifecycle.ts';
import { supervise } from '../../src/workers/supervisor.ts';
import { ShardRests, unsupervised, type Worker } from '../../src/workers/worker.ts';
import { openClusters } from '../support/clusters.ts';
import { faulty } from '../support/faulty.ts';
import { openGateway } from '../support/gateway.ts';
import { setVersioning } from '../support/gateway-bodies.ts';
import type { Client } from '../support/gateway-client.ts';
import { virtualClock } from '../support/virtual-clock.ts';

const dayMs = 86_400_000;
const never = new AbortController().signal;
const until = { timeout: 30_000, interval: 20 };
const settings = {
  SVC_STORAGE_CLASSES: 'default@hot,GLACIER_IR@cold',
  SVC_LIFECYCLE_RATE: '1000000',
};
const large = '<Filter><ObjectSizeGreaterThan>10</ObjectSizeGreaterThan></Filter>';
const moveTo = (storageClass: string) =>
  `<Transition><Days>1</Days><StorageClass>${storageClass}</StorageClass></Transition>`;
const expire = '<Expiration><Days>1</Days></Expiration>';

async function configure(client: Client, bucket: string, ...rules: readonly string[]): Promise<void> {
  const inside = rules.map((each) => `<Rule><Status>Enabled</Status>${each}</Rule>`).join('');
  const body = `<LifecycleConfiguration>${inside}</LifecycleConfiguration>`;
  const { status, text } = await client.put(`/${bucket}?lifecycle`, { body });
  expect(status, text).toBe(200);
}

const classOf = async (client: Client, path: string) =>
  (await client.head(path)).header('*-storage-class') ?? 'STANDARD';

async function pass(context: Context): Promise<void> {
  const unit = carryOutLifecycles(context);
  while ((await unit(never)) === 'busy');
}

/** Time runs faster than the present, and jumps. */
function fastClock(speed: number): Clock & { jump(ms: number): void } {
  const start = systemClock.elapsed();
  const elapsed = () => (systemClock.elapsed() - start) * speed;
  let offset = Date.UTC(2026, 0, 1, 12);
  return {
    elapsed,
    now: () => Math.floor(offset + elapsed()),
    sleep: (ms, signal) => systemClock.sleep(ms / speed, signal),
    jump(ms) {
      offset += ms;
    },
  };
}

/** Copies of what is on the cluster `hot` wait before their first byte until they are released, or their signal aborts. */
function holdCopies() {
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  const copies = { begun: 0, underWay: 0, cut: 0, release };
  const wrap = (context: Context): Context => ({
    ...context,
    bytes: faulty(context.bytes, {
      async *read(extent, range, signal) {
        if (extent.cluster === 'hot' && signal !== undefined) {
          copies.begun += 1;
          copies.underWay += 1;
          await Promise.race([
            released,
            new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true })),
          ]);
          if (signal.aborted) {
            copies.cut += 1;
            // An abort ends a copy a while later.
            for (let turns = 0; turns < 100; turns += 1) await setImmediate();
          }
          copies.underWay -= 1;
          signal.throwIfAborted();
        }
        yield* context.bytes.read(extent, range, signal);
      },
    }),
  });
  return { copies, wrap };
}

/** The lifecycle worker as the supervisor runs it. */
function lifecycleWorker(context: Context): Worker {
  const shards = new ShardRests(context.clock, () => undefined);
  let generation = 0;
  return {
    name: 'lifecycle',
    leased: false,
    everyMs: 1_000,
    start(_, idle) {
      generation += 1;
      return carryOutLifecycles(context, generation, { ...unsupervised, idle, shards });
    },
  };
}

test('a bucket that fails again and again does not cut the transition of another account', async () => {
  const { copies, wrap: holding } = holdCopies();
  let isFailing = false;
  let failures = 0;
  /** Looks for due buckets after a failure beside the copy. */
  let looks = 0;
  const wrap = (context: Context): Context => ({
    ...holding(context),
    metadata: faulty(context.metadata, {
      async get(at, key, ...rest) {
        const { name } = at.in as { readonly name?: string };
        if (isFailing && at.table.name === 'buckets' && name === 'failing') {
          if (copies.begun > 0) failures += 1;
          throw new Error('refused');
        }
        return context.metadata.get(at, key, ...rest);
      },
      scan(at, ...rest) {
        if (at.table.name === 'lifecycle_buckets' && failures > 0) looks += 1;
        return context.metadata.scan(at, ...rest);
      },
    }),
  });
  const clock = fastClock(20);
  const { world: opened } = await openClusters('hot,cold', { clock, settings, wrap });
  await using world = opened;
  const { client, bob, context } = world;
  await client.put('/moving');
  await configure(client, 'moving', `${large}${moveTo('GLACIER_IR')}`);
  await client.put('/moving/key', { body: 'a large object' });
  await bob.put('/failing');
  await configure(bob, 'failing', `<Filter/>${expire}`);
  await pass(context);
  clock.jump(2 * dayMs);
  isFailing = true;

  const stop = new AbortController();
  const running = supervise(context, lifecycleWorker(context), stop.signal);
  await expect.poll(() => copies.begun, until).toBeGreaterThan(0);
  await expect.poll(() => failures, until).toBeGreaterThan(0);
  await expect.poll(() => looks, until).toBeGreaterThan(1);
  copies.release();
  await expect.poll(() => classOf(client, '/moving/key'), until).toBe('GLACIER_IR');
  expect(copies.cut).toBe(0);
  // The run that has failed ends once nothing moves, and the failing bucket is tried again.
  const before = failures;
  await expect.poll(() => failures, until).toBeGreaterThan(before);
  stop.abort();
  await running;
});

test('a worker that was stopped has no transition under way', async () => {
  const { copies, wrap } = holdCopies();
  const clock = fastClock(1);
  const { world: opened } = await openClusters('hot,cold', { clock, settings, wrap });
  await using world = opened;
  const { client, context } = world;
  await client.put('/moving');
  await configure(client, 'moving', `${large}${moveTo('GLACIER_IR')}`);
  await client.put('/moving/key', { body: 'a large object' });
  await pass(context);
  clock.jump(2 * dayMs);
  const stop = new AbortController();
  const running = supervise(context, lifecycleWorker(context), stop.signal);
  await expect.poll(() => copies.underWay, until).toBe(1);
  // It waits for the copy, between two looks for due buckets.
  for (let turns = 0; turns < 100; turns += 1) await setImmediate();
  stop.abort();
  await running;
  expect(copies).toMatchObject({ underWay: 0, cut: 1 });
  expect(await classOf(client, '/moving/key')).toBe('STANDARD');
});

async function upload(client: Client, path: string, parts: readonly Buffer[]): Promise<void> {
  const uploadId = (await client.post(`${path}?uploads`)).one('UploadId');
  const done: string[] = [];
  for (const [index, body] of parts.entries()) {
    const put = await client.put(`${path}?partNumber=${index + 1}&uploadId=${uploadId}`, { body });
    done.push(`<Part><PartNumber>${index + 1}</PartNumber><ETag>${put.header('etag')}</ETag></Part>`);
  }
  const body = `<CompleteMultipartUpload>${done.join('')}</CompleteMultipartUpload>`;
  expect((await client.post(`${path}?uploadId=${uploadId}`, { body })).status).toBe(200);
}

/** Gives the row of a version another size, which counts for a turn. Its bytes need not be there. */
async function pretendSize({ metadata }: Context, path: readonly [string, string]): Promise<void> {
  const [name, key] = path;
  const bucket = await openBucket({ metadata }, name);
  const found = await findLiveHead(metadata, bucket, key);
  if (found === undefined) throw new Error('the version is missing');
  const put = { ...found.row, size: 800 * 1024 ** 2 };
  await metadata.commit(objectsAt(bucket), [{ put, expect: found.revision }]);
}

test('versions that have more bytes than a turn move in one piece each, if the time suffices', async () => {
  let commits = 0;
  let looks = 0;
  const wrap = (context: Context): Context => ({
    ...context,
    metadata: faulty(context.metadata, {
      commit(at, ...rest) {
        if (at.table.name === 'objects') commits += 1;
        return context.metadata.commit(at, ...rest);
      },
      scan(at, ...rest) {
        if (at.table.name === 'lifecycle_buckets') looks += 1;
        return context.metadata.scan(at, ...rest);
      },
    }),
  });
  const clock = virtualClock(Date.UTC(2026, 0, 1, 12));
  const { world: opened } = await openClusters('hot,cold', {
    clock,
    settings: { ...settings, SVC_LIFECYCLE_BYTES_RATE: '1TiB' },
    wrap,
  });
  await using world = opened;
  const { client, context } = world;
  await client.put('/moving');
  await configure(client, 'moving', `${large}${moveTo('GLACIER_IR')}`);
  const part = randomBytes(5 * 1024 ** 2);
  const keys = ['one', 'two', ...Array.from({ length: 20 }, (_, index) => `whole-${index}`)];
  for (const key of keys) {
    if (key.startsWith('whole')) await client.put(`/moving/${key}`, { body: 'a large object' });
    else await upload(client, `/moving/${key}`, [part, part, part.subarray(1)]);
    await pretendSize(context, ['moving', key]);
  }
  await pass(context);
  clock.jump(2 * dayMs);
  commits = 0;
  looks = 0;
  await pass(context);
  for (const key of keys) expect(await classOf(client, `/moving/${key}`)).toBe('GLACIER_IR');
  // For each version one of its bytes, and one of its class.
  expect(commits).toBe(2 * keys.length);
  // The worker does not look for due buckets after each of them.
  expect(looks).toBeLessThan(keys.length);
});

test('a transition that a turn of the pass did not reach is carried out after the pass', async () => {
  const clock = virtualClock(Date.UTC(2026, 0, 1, 12));
  let isSlow = false;
  const wrap = (context: Context): Context => ({
    ...context,
    metadata: faulty(context.metadata, {
      async commit(at, ...rest) {
        // As long as a turn, and once.
        if (isSlow && at.table.name === 'objects') await clock.advance(6_000);
        if (at.table.name === 'objects') isSlow = false;
        return context.metadata.commit(at, ...rest);
      },
    }),
  });
  await using world = await openGateway({ clock, settings: { SVC_LIFECYCLE_RATE: '1000000' }, wrap });
  const { client, context } = world;
  await client.put('/bucket');
  await setVersioning(client, 'bucket', 'Enabled');
  const remove =
    '<NoncurrentVersionExpiration><NoncurrentDays>1</NoncurrentDays></NoncurrentVersionExpiration>';
  await configure(client, 'bucket', `${large}${remove}${moveTo('STANDARD_IA')}`);
  // The former version of `a` is removed in the turn that ends before its present one, whose transition is not the first of the page.
  for (const key of ['a', 'a', 'b']) await client.put(`/bucket/${key}`, { body: 'a large object' });
  await pass(context);
  clock.jump(2 * dayMs);
  isSlow = true;
  await pass(context);
  expect((await client.get('/bucket?versions')).all('Key')).toEqual(['a', 'b']);
  for (const key of ['a', 'b']) expect(await classOf(client, `/bucket/${key}`)).toBe('STANDARD_IA');
});

test('the backlog of a bucket whose transitions run counts all entries once another pass waits', async () => {
  const { copies, wrap } = holdCopies();
  const clock = virtualClock(Date.UTC(2026, 0, 1, 12));
  const { world: opened, admin } = await openClusters('hot,cold', { clock, settings, wrap });
  await using world = opened;
  const { client, context } = world;
  await client.put('/moving');
  await configure(
    client,
    'moving',
    `<Filter><And><Prefix>small</Prefix><ObjectSizeGreaterThan>10</ObjectSizeGreaterThan></And></Filter>${expire}`,
    `<Filter><And><Prefix>tall</Prefix><ObjectSizeGreaterThan>10</ObjectSizeGreaterThan></And></Filter>${moveTo('GLACIER_IR')}`,
  );
  await client.put('/moving/small', { body: 'x' });
  await client.put('/moving/tall', { body: 'a large object' });
  await pass(context);
  clock.jump(2 * dayMs);
  const running = pass(context);
  await expect.poll(() => copies.underWay, until).toBe(1);
  const report = () => admin.must('GET', '/buckets/moving/lifecycle');
  expect(await report()).toMatchObject({ state: 'running', backlog: 1 });
  await admin.must('POST', '/buckets/moving/lifecycle/run');
  expect(await report()).toMatchObject({ backlog: 2 });
  copies.release();
  await running;
  expect(await report()).toMatchObject({ state: 'done', backlog: 0 });
});

test('the worker rests only once all buckets of an account had turns for their transitions', async () => {
  const clock = virtualClock(Date.UTC(2026, 0, 1, 12));
  const buckets = ['first', 'second', 'third'];
  /** Whose passes have ended, and left a transition. */
  const ended = new Set<string>();
  const wrap = (context: Context): Context => ({
    ...context,
    metadata: faulty(context.metadata, {
      async commit(at, changes, ...rest) {
        const isExpiry = at.table.name === 'objects' && changes.some((each) => 'remove' in each);
        // The other account's deletions take longer than the transition that runs then.
        if (isExpiry && ended.size === buckets.length)
          for (let turns = 0; turns < 500; turns += 1) await setImmediate();
        const outcome = await context.metadata.commit(at, changes, ...rest);
        for (const each of at.table.name === 'tasks' && clock.elapsed() > 0 ? changes : []) {
          const { state } = 'put' in each ? (each.put as unknown as { state: LifecycleProgress }) : {};
          if (state?.moves !== undefined && state.finishedAt !== undefined) ended.add(state.bucket);
        }
        return outcome;
      },
    }),
  });
  await using world = await openGateway({ clock, settings: { SVC_LIFECYCLE_RATE: '1000000' }, wrap });
  const { client, bob, context } = world;
  for (const bucket of buckets) {
    await client.put(`/${bucket}`);
    await configure(client, bucket, `${large}${moveTo('STANDARD_IA')}`);
    await client.put(`/${bucket}/key`, { body: 'a large object' });
  }
  for (let index = 0; index < 6; index += 1) {
    await bob.put(`/other-${index}`);
    await configure(bob, `other-${index}`, `<Filter/>${expire}`);
    await bob.put(`/other-${index}/key`, { body: 'x' });
  }
  await pass(context);
  clock.jump(2 * dayMs);
  await clock.advance(1);
  await pass(context);
  expect(ended.size).toBe(buckets.length);
  for (const bucket of buckets) expect(await classOf(client, `/${bucket}/key`)).toBe('STANDARD_IA');
});
