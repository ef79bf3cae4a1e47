/** Which changes are replicated, and the replication status of versions whose tasks are dropped, retried or overtaken. */
import { createHash } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { openBucket } from '../../src/domain/common/buckets.ts';
import { boundQueues, firstLook } from '../../src/domain/event-deliveries/queue-retention.ts';
import { isPending } from '../../src/domain/objects/replication-queue.ts';
import { findHead } from '../../src/metadata/objects/objects.ts';
import { carryOutLifecycles } from '../../src/workers/lifecycle.ts';
import { startWorkers } from '../../src/workers/registry.ts';
import { operatorOf } from '../support/clusters.ts';
import { hurriedClock } from '../support/notify-world.ts';
import {
  drained,
  link,
  modifications,
  never,
  openSite,
  refusal,
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
  const looks = firstLook();
  // The first look closes the hours, and one after ten minutes drops them.
  for (const ms of [5 * 3_600_000, 11 * 60_000, 11 * 60_000]) {
    clock.hurry(ms);
    await boundQueues(b.world.context, looks, never);
  }
  await drained(b);
  expect(isPending((await headOf(b, 'replica')) ?? {})).toBe(false);
  expect(await statusOf(b, '/bucket/replica')).toBe('REPLICA');
  expect(await statusOf(b, '/bucket/own')).toBe('FAILED');
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
