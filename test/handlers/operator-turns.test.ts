/** Listings, exports and redrives of operators over many rows are served in turns: requests of other clients are answered meanwhile. */
import { setImmediate } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { audited } from '../../src/metadata/audit.ts';
import { deadLetter } from '../../src/metadata/background/queues.ts';
import { closeBucketDay, trafficChanges } from '../../src/metadata/buckets/usage.ts';
import { policyOf } from '../support/access.ts';
import { alice, operator } from '../support/gateway.ts';
import { hourMs, openUsageWorld, type UsageWorld } from '../support/usage-world.ts';

const rows = 12_000;
const buckets = 800;
const day = '2026-01-01';

const batches = async (
  count: number,
  write: (indexes: readonly number[]) => Promise<unknown>,
): Promise<void> => {
  const size = 500;
  for (let at = 0; at < count; at += size)
    await write(Array.from({ length: size }, (_, index) => at + index));
};

async function furnish(world: UsageWorld): Promise<void> {
  const { metadata } = world.context;
  const now = world.clock.now();
  const owner = alice.owner;
  const about = (index: number) => ({ bucketId: `id-${index}`, bucket: `bucket-${index}`, day });
  const amounts = { requestsA: 1, requestsB: 1, requestsFree: 0, ingressBytes: 1, egressBytes: 1 };
  const counted = { byteSeconds: '1', objectCountAvg: 1, objectCountMax: 1, samples: 2, computedAt: now };
  await batches(rows, async (indexes) => {
    for (const index of indexes)
      await closeBucketDay(metadata, `id-${index}`, [
        { ...about(index), ...counted, owner, storageClass: 'STANDARD' },
      ]);
    await metadata.apply(
      indexes.flatMap((index) => [
        audited(
          {
            ...{ action: 'PutObject', status: 200, principal: '', accessKey: 'key', source: '127.0.0.1' },
            ...{ resource: `bucket:bucket-${index}`, account: owner, id: `row-${index}`, time: now - index },
          },
          { retentionMs: 1000 * hourMs },
        ),
        ...trafficChanges(
          { ...about(index), ...amounts, requester: owner, payer: owner, writer: 'w' },
          now + 10_000 * hourMs,
        ),
        ...deadLetter(
          {
            ...{ queue: 'notify', slot: 0, due: now, id: `letter-${index}`, attempts: 1, requestId: '' },
            task: { sink: 'hook', message: {} },
          },
          { error: 'gone', now, expiresAt: now + 1000 * hourMs, bucket: 'bucket-0' },
        ),
      ]),
    );
  });
  // Each has a policy of its own, which the list of buckets reads.
  for (let index = 0; index < buckets; index += 1) {
    await world.client.put(`/bucket-${index}`);
    const Resource = `arn:aws:s3:::bucket-${index}/*`;
    const body = policyOf({ Principal: { AWS: 'bob-account' }, Action: 's3:GetObject', Resource });
    await world.client.put(`/bucket-${index}?policy`, { body });
  }
  await world.client.put('/bucket-0/key', { body: 'x' });
}

const cpuMs = (): number => {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
};

test('while an operator lists, exports or redrives many rows, no request of another client waits for more than a part of it', async () => {
  await using world = await openUsageWorld('memory', { settings: { SVC_USAGE_ROLLUP_SAMPLES_PER_DAY: '2' } });
  await world.rollUp();
  await world.hours(24);
  await furnish(world);
  world.clock.jump(48 * hourMs);
  // The day of the test is virtual. Its turns are a quarter as long as real ones, so that a fast machine needs several of them too.
  Object.assign(world.clock, { elapsed: () => performance.now() * 4 });
  const client = world.as({ credential: operator });
  // Reads all letters, and changes none of them.
  const body = JSON.stringify({ bucket: 'bucket-0', id: 'none' });
  const asks: readonly { readonly path: string; readonly body?: string }[] = [
    { path: '/buckets?limit=1000' },
    { path: '/audit/export' },
    ...['', '&format=focus', '&of=traffic'].map((more) => ({ path: `/usage/export?day=${day}${more}` })),
    { path: '/notify/redrive', body },
    { path: '/notify/discard', body },
  ];
  const seen: Record<string, readonly [turns: number, longest: number]> = {};
  for (const { path, ...posted } of asks) {
    let isRunning = true;
    const start = cpuMs();
    const method = posted.body === undefined ? 'get' : 'post';
    const asked = client[method](`/admin/v1${path}`, posted).finally(() => {
      isRunning = false;
    });
    let longest = 0;
    let turns = 0;
    // CPU time and not time, because other processes of the machine wait for nothing of ours.
    for (let before = start; isRunning; turns += 1) {
      await setImmediate();
      if (isRunning) expect((await world.client.get('/bucket-0/key')).status).toBe(200);
      const now = cpuMs();
      longest = Math.max(longest, now - before);
      before = now;
    }
    const answer = await asked;
    expect([path, answer.status]).toEqual([path, 200]);
    seen[path] = [turns, longest / (cpuMs() - start)];
  }
  for (const [path, [turns, longest]] of Object.entries(seen)) {
    expect([path, turns > 4, longest < 1 / 2], JSON.stringify(seen)).toEqual([path, true, true]);
  }
});
