/** Lifecycle at a site in the middle of a chain: a replica that waits to be sent on stays until the next site has it. */
import { expect, test, vi } from 'vitest';
import { type Clock, systemClock } from '../../src/ports/clock.ts';
import { carryOutLifecycles } from '../../src/workers/lifecycle.ts';
import { operatorOf } from '../support/clusters.ts';
import {
  alike,
  link,
  modifications,
  never,
  openSite,
  refusal,
  run,
  type Site,
  settled,
  statusOf,
  until,
  versions,
} from '../support/replication-sites.ts';

const dayMs = 24 * 60 * 60 * 1000;
/** A pass tries again after ten minutes what it could not do. */
const againMs = 11 * 60 * 1000;

interface Chain {
  readonly sites: readonly [Site, Site, Site];
  /** Moves the clock of all three sites forward. */
  readonly jump: (ms: number) => void;
}

/** Versions that `a` gets are replicas at `b`, and `b` sends them on to `c`. The replicator of `a` runs. */
async function openChain(): Promise<Chain> {
  let aheadMs = 0;
  const clock: Clock = { ...systemClock, now: () => systemClock.now() + aheadMs };
  const open = () => openSite({ clock });
  const [a, b, c] = [await open(), await open(), await open()];
  await link(a, b);
  await link(b, c, { criteria: modifications });
  run(a);
  return {
    sites: [a, b, c],
    jump(ms) {
      aheadMs += ms;
    },
  };
}

async function expireNoncurrent({ world }: Site): Promise<void> {
  const inside =
    '<NoncurrentVersionExpiration><NoncurrentDays>1</NoncurrentDays></NoncurrentVersionExpiration>';
  const body = `<LifecycleConfiguration><Rule><ID>r</ID><Status>Enabled</Status><Filter/>${inside}</Rule></LifecycleConfiguration>`;
  expect((await world.client.put('/bucket?lifecycle', { body })).status).toBe(200);
}

async function pass({ world }: Site): Promise<void> {
  const unit = carryOutLifecycles(world.context);
  while ((await unit(never)) === 'busy');
}

const progress = ({ world }: Site) => operatorOf(world).must('GET', '/buckets/bucket/lifecycle');

async function putTwo({ world }: Site): Promise<void> {
  for (const body of ['one', 'two']) await world.client.put('/bucket/key', { body });
}

test('a replica that waits to be sent on is not expired, and is once the next site has it', async () => {
  const { sites, jump } = await openChain();
  const [a, b, c] = sites;
  await expireNoncurrent(b);
  await putTwo(a);
  await alike(a, b);
  jump(2.5 * dayMs);
  await pass(b);
  expect(await versions(b)).toHaveLength(2);
  expect(await progress(b)).toMatchObject({ noncurrent: 0, undone: 1 });
  run(b);
  await alike(a, c);
  await vi.waitFor(async () => {
    jump(againMs);
    await pass(b);
    expect(await versions(b)).toHaveLength(1);
  }, until);
  expect(await versions(c)).toHaveLength(2);
});

test('a replica that is never sent on, because nothing selects it, expires when its rule says so', async () => {
  const { sites, jump } = await openChain();
  const [a, b, c] = sites;
  await expireNoncurrent(c);
  run(b);
  await putTwo(a);
  await alike(a, c);
  jump(2.5 * dayMs);
  await pass(c);
  expect(await versions(c)).toHaveLength(1);
  expect(await versions(b)).toHaveLength(2);
});

test('a replica that a resync queues again waits too', async () => {
  const { sites, jump } = await openChain();
  const [a, b, c] = sites;
  await putTwo(a);
  await alike(a, b);
  run(b);
  await alike(a, c);
  // The next site lost the older version, and does not answer while a resync queues it.
  const [, older] = await versions(c);
  await c.world.client.delete(`/bucket/key?versionId=${older?.id}`);
  c.instead = () => refusal(503, 'ServiceUnavailable');
  await operatorOf(b.world).must('POST', '/replication/resync/bucket', {
    status: 'all',
    restoreRemoved: true,
  });
  await vi.waitFor(
    async () =>
      expect(await operatorOf(b.world).must('GET', '/replication/resync/bucket')).toMatchObject({
        state: 'done',
        queued: 2,
      }),
    until,
  );
  await expireNoncurrent(b);
  jump(2.5 * dayMs);
  await pass(b);
  expect(await versions(b)).toHaveLength(2);
  c.instead = undefined;
  await alike(a, c);
});

test.each([
  ['is not queued again', false],
  ['an operator queues again', true],
] as const)('a replica that was given up and %s', async (_, isRetried) => {
  const { sites, jump } = await openChain();
  const [a, b, c] = sites;
  await expireNoncurrent(b);
  c.instead = (method) => (method === 'PUT' ? refusal(400, 'InvalidRequest') : undefined);
  await putTwo(a);
  await alike(a, b);
  run(b);
  const admin = operatorOf(b.world);
  const failed = () => admin.must('GET', '/replication/failed');
  await vi.waitFor(async () => expect(await failed()).toMatchObject({ failed: [{}, {}] }), until);
  c.instead = () => refusal(503, 'ServiceUnavailable');
  if (isRetried)
    expect(await admin.must('POST', '/replication/retry', { peer: 'far' })).toMatchObject({ retried: 2 });
  jump(2.5 * dayMs);
  await pass(b);
  expect(await versions(b)).toHaveLength(isRetried ? 2 : 1);
  expect(await progress(b)).toMatchObject(isRetried ? { undone: 1 } : { noncurrent: 1 });
});

test('a version that failed is PENDING again once an operator queues it, and waits for the destination', async () => {
  const { sites, jump } = await openChain();
  const [a, b] = sites;
  b.instead = (method) => (method === 'PUT' ? refusal(400, 'InvalidRequest') : undefined);
  await expireNoncurrent(a);
  await putTwo(a);
  await settled(a, '/bucket/key', 'FAILED');
  b.instead = () => refusal(503, 'ServiceUnavailable');
  const admin = operatorOf(a.world);
  await vi.waitFor(
    async () => expect(await admin.must('GET', '/replication/failed')).toMatchObject({ failed: [{}, {}] }),
    until,
  );
  await admin.must('POST', '/replication/retry', { peer: 'far' });
  expect(await statusOf(a, '/bucket/key')).toBe('PENDING');
  jump(2.5 * dayMs);
  await pass(a);
  expect(await versions(a)).toHaveLength(2);
  b.instead = undefined;
  await alike(a, b);
});
