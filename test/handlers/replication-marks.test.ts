/** Which changes are replicated, and the replication status of versions whose tasks are dropped, retried or overtaken. */
import { createHash } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { openBucket } from '../../src/domain/common/buckets.ts';
import { beginBounds, boundQueues } from '../../src/domain/event-deliveries/queue-retention.ts';
import { isPending } from '../../src/domain/objects/replication-queue.ts';
import { queuedByHour } from '../../src/metadata/background/hourly-queues.ts';
import { findHead } from '../../src/metadata/objects/objects.ts';
import { silentTelemetry } from '../../src/ports/telemetry.ts';
import { carryOutLifecycles } from '../../src/workers/lifecycle.ts';
import { startWorkers } from '../../src/workers/registry.ts';
import { operatorOf } from '../support/clusters.ts';
import { alice } from '../support/gateway.ts';
import { onCount } from '../support/metric-calls.ts';
import { hurriedClock } from '../support/notify-world.ts';
import { tasksOf } from '../support/recorded.ts';
import {
  drained,
  leaveFenceBehind,
  link,
  modifications,
  never,
  openSite,
  refusal,
  rule,
  run,
  type Site,
  settings,
  settled,
  statusOf,
  until,
  versions,
} from '../support/replication-sites.ts';

const dayMs = 24 * 3_600_000;

async function expireAll({ world }: Site): Promise<void> {
  const body =
    '<LifecycleConfiguration><Rule><ID>r</ID><Status>Enabled</Status><Filter/><Expiration><Days>1</Days></Expiration></Rule></LifecycleConfiguration>';
  expect((await world.client.put('/bucket?lifecycle', { body })).status).toBe(200);
}

async function pass({ world }: Site): Promise<void> {
  const unit = carryOutLifecycles(world.context);
  while ((await unit(never)) === 'busy');
}

describe('a delete marker that a lifecycle rule creates', () => {
  test.each([
    ['is not replicated', 'off', 1],
    ['is replicated where SVC_REPLICATION_LIFECYCLE is on', 'on', 2],
  ])('%s', async (_, SVC_REPLICATION_LIFECYCLE, there) => {
    const clock = hurriedClock();
    const near = await openSite({ clock, settings: { ...settings, SVC_REPLICATION_LIFECYCLE } });
    const far = await openSite({ clock });
    await link(near, far);
    run(near);
    await near.world.client.put('/bucket/old', { body: 'x' });
    await settled(near, '/bucket/old', 'COMPLETED');
    await expireAll(near);
    clock.hurry(2.5 * dayMs);
    await pass(near);
    expect(await versions(near)).toHaveLength(2);
    // A marker of a client is replicated, and comes behind that of the rule.
    await near.world.client.put('/bucket/b', { body: 'x' });
    await near.world.client.delete('/bucket/b');
    await vi.waitFor(
      async () => expect((await versions(far)).filter(({ key }) => key === 'b')).toHaveLength(2),
      until,
    );
    await drained(near);
    expect((await versions(far)).filter(({ key }) => key === 'old')).toHaveLength(there);
  });
});

const headOf = async ({ world: { context } }: Site, key: string) =>
  (await findHead(context.metadata, await openBucket(context, 'bucket'), key))?.row;

test('a replica and a version whose tasks SVC_QUEUE_RETENTION drops no longer wait', async () => {
  const clock = hurriedClock();
  const sites = await Promise.all(
    [1, 2, 3].map(() => openSite({ clock, settings: { ...settings, SVC_QUEUE_RETENTION: '3h' } })),
  );
  const [a, b, c] = sites as [Site, Site, Site];
  await link(a, b);
  await link(b, c, { criteria: modifications });
  run(a);
  await a.world.client.put('/bucket/replica', { body: 'x' });
  await vi.waitFor(
    async () => expect(await headOf(b, 'replica')).toMatchObject({ replication: 'REPLICA', unsent: true }),
    until,
  );
  await b.world.client.put('/bucket/own', { body: 'x' });
  const saved = beginBounds();
  // The first look closes the hours, and one after ten minutes drops them.
  for (const ms of [5 * 3_600_000, 11 * 60_000, 11 * 60_000]) {
    clock.hurry(ms);
    await boundQueues(b.world.context, saved, never);
  }
  await drained(b);
  expect(isPending((await headOf(b, 'replica')) ?? {})).toBe(false);
  expect(await statusOf(b, '/bucket/replica')).toBe('REPLICA');
  expect(await statusOf(b, '/bucket/own')).toBe('FAILED');
});

const busy = () => refusal(503, 'SlowDown');
const tagging = (value: string): string =>
  `<Tagging><TagSet><Tag><Key>rep</Key><Value>${value}</Value></Tag></TagSet></Tagging>`;

test.each(['overdue', 'delivered'])(
  'a version whose later changes no rule selects does not stay PENDING: %s',
  async (how) => {
    const [near, far] = await Promise.all([
      openSite({ settings: { ...settings, SVC_REPLICATION_RETRY_MAX: '5s' } }),
      openSite(),
    ]);
    await link(near, far);
    const { client } = near.world;
    // One without a configuration any more, and one whose former tags do not meet the filter any more.
    await client.put('/bucket/a', { body: 'x' });
    await client.delete('/bucket?replication');
    await client.put('/bucket/a?tagging', { body: tagging('no') });
    const filter = '<Filter><Tag><Key>rep</Key><Value>yes</Value></Tag></Filter>';
    const body = rule('far')
      .replace('<Filter/>', filter)
      .replace('<DeleteMarkerReplication><Status>Enabled', '<DeleteMarkerReplication><Status>Disabled');
    expect((await client.put('/bucket?replication', { body })).text).toBe('');
    await client.put('/bucket/b', { body: 'x', headers: { 'x-amz-tagging': 'rep=yes' } });
    const tag = async (value: string) =>
      expect((await client.put('/bucket/b?tagging', { body: tagging(value) })).status).toBe(200);
    // The first one is queued, because the version met the filter before it.
    await tag('no');
    if (how === 'delivered')
      far.before = (target) => (/\/b\?replica=/.test(target) ? tag('sent') : undefined);
    else {
      far.instead = busy;
      await tag('other');
    }
    expect(await statusOf(near, '/bucket/b')).toBe('PENDING');
    run(near);
    for (const key of ['a', 'b'])
      await settled(near, `/bucket/${key}`, how === 'delivered' ? 'COMPLETED' : 'FAILED');
    expect((await headOf(near, 'b'))?.pendingStamp).toBeUndefined();
  },
);

/** As a DeleteBucket whose process ended before it raised the fence: for 30 s every commit in the bucket is refused. */
const holdClosed = async (site: Site): Promise<void> =>
  leaveFenceBehind(site, { closedAt: await site.world.context.metadata.now() });

/** Tasks of buckets that are gone. */
async function queueGone(
  { world: { context } }: Site,
  { count, account }: { count: number; account: string },
) {
  const due = await context.metadata.now();
  for (let n = 0; n < count; n += 1) {
    const task = { bucket: 'gone', bucketId: 'gone', key: `${n}`, account };
    const options = { task, id: `${account}-${n}`, due, requestId: 'request' };
    await context.metadata.apply([
      await queuedByHour(context, { queue: 'replication', slotKey: `key ${n}` }, options),
    ]);
  }
}

test.each([
  ['age', { SVC_QUEUE_RETENTION: '3h' }, { count: 40, left: 0 }],
  ['rows', { SVC_QUEUE_ROWS_MAX: '1000' }, { count: 1040, left: 1000 }],
])(
  'a bucket that a change holds closed delays only its own tasks where the queue drops some by %s',
  async (why, limits, { count, left }) => {
    const clock = hurriedClock();
    const dropped: string[] = [];
    const telemetry = {
      ...silentTelemetry,
      ...onCount({
        svc_queue_dropped_total: ({ queue, why: by }, rows) => void dropped.push(`${queue} ${by} ${rows}`),
      }),
    };
    const near = await openSite({ clock, telemetry, settings: { ...settings, ...limits } });
    await link(near, await openSite({ clock }));
    const { context, client } = near.world;
    await client.put('/bucket/own', { body: 'x' });
    // The oldest task of the account with the most is the first that goes beyond the rows.
    if (why === 'rows') clock.hurry(2 * 3_600_000);
    await queueGone(near, { count: 10, account: 'another' });
    await queueGone(near, { count: count - 10, account: alice.owner });
    const saved = beginBounds();
    const waiting = async () => (await tasksOf(context, 'replication')) as readonly { bucket: string }[];
    clock.hurry(5 * 3_600_000);
    if (why === 'age') {
      // The first pass closes the hours, which a pass after ten minutes may drop.
      await boundQueues(context, saved, never);
      clock.hurry(11 * 60_000);
    }
    await holdClosed(near);
    const { queues } = await boundQueues(context, saved, never);
    expect(await statusOf(near, '/bucket/own')).toBe('PENDING');
    expect((await waiting()).filter(({ bucket }) => bucket === 'bucket')).toHaveLength(1);
    expect(dropped).toEqual([`replication ${why} ${count - left}`]);
    expect(queues.find(({ queue }) => queue === 'replication')?.rows).toBe(left + 1);
    clock.hurry(60_000);
    await boundQueues(context, saved, never);
    expect(await statusOf(near, '/bucket/own')).toBe('FAILED');
    expect(await waiting()).toHaveLength(left);
  },
);

test('where a bucket is closed while its tasks are dropped, those whose failures are stored are removed', async () => {
  const clock = hurriedClock();
  const near = await openSite({ clock, settings: { ...settings, SVC_QUEUE_RETENTION: '3h' } });
  await link(near, await openSite({ clock }));
  const { context, client } = near.world;
  // Tasks of one key are in one slot, and 16 at a time have read the bucket.
  const paths: string[] = [];
  for (let n = 0; n < 20; n += 1) {
    const put = await client.put('/bucket/key', { body: 'x' });
    paths.push(`/bucket/key?versionId=${put.header('*-version-id')}`);
  }
  const saved = beginBounds();
  clock.hurry(5 * 3_600_000);
  await boundQueues(context, saved, never);
  clock.hurry(11 * 60_000);
  const { commit } = context.metadata;
  let commits = 0;
  const spy = vi
    .spyOn(context.metadata, 'commit')
    .mockImplementation(async (...call: Parameters<typeof commit>) => {
      const [{ table }] = call;
      if (table.name === 'objects') {
        commits += 1;
        if (commits === 1) await holdClosed(near);
      }
      return commit.apply(context.metadata, call);
    });
  onTestFinished(() => void spy.mockRestore());
  await boundQueues(context, saved, never);
  const statuses = await Promise.all(paths.map((path) => statusOf(near, path)));
  expect(new Set(statuses)).toEqual(new Set(['FAILED', 'PENDING']));
  const pending = statuses.filter((status) => status === 'PENDING');
  expect(await tasksOf(context, 'replication')).toHaveLength(pending.length);
});

test('a task that is given up leaves the status of its version to the task of a later change', async () => {
  const clock = hurriedClock();
  const near = await openSite({ clock, settings: { ...settings, SVC_REPLICATION_RETRY_MAX: '2h' } });
  const far = await openSite({ clock });
  await link(near, far);
  far.instead = (method, target) =>
    method === 'PUT' && target.includes('/bucket/a') ? refusal(403, 'AccessDenied') : undefined;
  const { client } = near.world;
  await client.put('/bucket/a', { body: 'x' });
  clock.hurry(3_600_000);
  const body = '<Tagging><TagSet><Tag><Key>k</Key><Value>v</Value></Tag></TagSet></Tagging>';
  expect((await client.put('/bucket/a?tagging', { body })).status).toBe(200);
  // The first task is overdue, the second is not.
  clock.hurry(1.5 * 3_600_000);
  run(near);
  await vi.waitFor(async () => {
    clock.hurry(1_000);
    const { failed } = await operatorOf(near.world).must('GET', '/replication/failed');
    expect(failed).toHaveLength(1);
  }, until);
  expect(await statusOf(near, '/bucket/a')).toBe('PENDING');
  far.instead = undefined;
  await vi.waitFor(async () => {
    clock.hurry(60_000);
    expect(await statusOf(near, '/bucket/a')).toBe('COMPLETED');
  }, until);
});

test('a retry of a failed version that loses a race with another change queues it with its mark', async () => {
  const [near, far] = [await openSite(), await openSite()];
  await link(near, far);
  far.instead = (method, target) =>
    method === 'PUT' && target.includes('/bucket/a') ? refusal(400, 'InvalidArgument') : undefined;
  const stop = new AbortController();
  const { context, client } = near.world;
  run(near);
  await client.put('/bucket/a', { body: 'x' });
  await settled(near, '/bucket/a', 'FAILED');
  // The first commit of the retry is refused, as by a move of the object's bytes.
  const { commit } = context.metadata;
  let refused = 0;
  const spy = vi
    .spyOn(context.metadata, 'commit')
    .mockImplementation((...call: Parameters<typeof commit>) => {
      const [{ table }] = call;
      if (table.name === 'objects' && refused === 0) {
        refused += 1;
        return Promise.resolve({ applied: false, because: 'conflict' } as Awaited<ReturnType<typeof commit>>);
      }
      return commit.apply(context.metadata, call);
    });
  onTestFinished(() => void spy.mockRestore());
  far.before = (target) =>
    target.includes('/bucket/a')
      ? new Promise((resolve) => stop.signal.addEventListener('abort', resolve))
      : undefined;
  onTestFinished(() => stop.abort());
  await operatorOf(near.world).must('POST', '/replication/retry', { bucket: 'bucket' });
  expect(refused).toBe(1);
  expect(await statusOf(near, '/bucket/a')).toBe('PENDING');
});

test('failures of a destination are counted on after a change of the leader, until it takes a version', async () => {
  const clock = hurriedClock();
  const [near, far] = [await openSite({ clock }), await openSite({ clock })];
  await link(near, far);
  far.instead = () => refusal(503, 'SlowDown');
  await near.world.client.put('/bucket/a', { body: 'x' });
  const failures = async (): Promise<number> => {
    const { destinations } = await operatorOf(near.world).must('GET', '/replication/status');
    return (destinations as [{ failures?: number }])[0]?.failures ?? 0;
  };
  const first = startWorkers(near.world.context, ['replicator'], never);
  const failed = (times: number) =>
    vi.waitFor(async () => {
      clock.hurry(5_000);
      expect(await failures()).toBeGreaterThanOrEqual(times);
    }, until);
  await failed(3);
  await first.stop();
  const before = await failures();
  run(near);
  await vi.waitFor(async () => {
    clock.hurry(5_000);
    expect(await failures()).not.toBe(before);
  }, until);
  expect(await failures()).toBeGreaterThan(before);
  far.instead = undefined;
  clock.hurry(60_000);
  await settled(near, '/bucket/a', 'COMPLETED');
});

/** A service that takes keys as paths, as MinIO does, and knows no replicas. */
async function openPathService(objects: Map<string, string>): Promise<string> {
  const server = createServer(async (request, reply) => {
    const { pathname, searchParams } = new URL(request.url ?? '/', 'http://service');
    const key = decodeURIComponent(pathname.slice('/bucket/'.length)).replace(/^\/+/, '');
    let body = '';
    for await (const chunk of request) body += chunk;
    const prefix = searchParams.get('prefix') ?? '';
    const listed = [...objects.keys()].filter((each) => each.startsWith(prefix));
    if (request.method === 'GET' && key !== '')
      return reply.writeHead(404).end('<Error><Code>NoSuchKey</Code></Error>');
    if (request.method === 'GET')
      return reply.end(
        `<ListBucketResult>${listed.map((each) => `<Key>${each}</Key>`).join('')}</ListBucketResult>`,
      );
    if (request.method === 'PUT') objects.set(key, body);
    const found = objects.get(key);
    if (request.method === 'DELETE') {
      objects.delete(key);
      return reply.writeHead(204).end();
    }
    if (found === undefined) return reply.writeHead(404).end();
    const etag = `"${createHash('md5').update(found).digest('hex')}"`;
    return reply.writeHead(200, { etag }).end();
  }).listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

test('a key that another service stores under another name is not COMPLETED, and replaces no other object there', async () => {
  const near = await openSite();
  const objects = new Map([['lead', 'another object']]);
  await link(near, { ...near, endpoint: await openPathService(objects) });
  run(near);
  for (const key of ['/lead', '/free', 'plain']) await near.world.client.put(`/bucket/${key}`, { body: 'x' });
  await settled(near, '/bucket/plain', 'COMPLETED');
  for (const key of ['/lead', '/free']) await settled(near, `/bucket/${key}`, 'FAILED');
  expect([...objects.keys()].toSorted()).toEqual(['lead', 'plain']);
  expect(objects.get('lead')).toBe('another object');
  const { failed } = await operatorOf(near.world).must('GET', '/replication/failed');
  const error = expect.stringContaining('another name');
  expect(failed).toMatchObject([{ error }, { error }]);
});
