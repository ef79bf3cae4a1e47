/** Versions that wait for longer than SVC_REPLICATION_RETRY_MAX. */
import { expect, test, vi } from 'vitest';
import { operatorOf } from '../support/clusters.ts';
import { hurriedClock } from '../support/notify-world.ts';
import {
  alike,
  link,
  openSite,
  refusal,
  run,
  settings,
  settled,
  statusOf,
  until,
} from '../support/replication-sites.ts';

test('versions that are older than SVC_REPLICATION_RETRY_MAX when the gateway starts do not become FAILED by one refusal', async () => {
  const clock = hurriedClock();
  const near = await openSite({ clock, settings: { ...settings, SVC_REPLICATION_RETRY_MAX: '1s' } });
  const far = await openSite();
  let refused = 0;
  far.instead = () => {
    refused += 1;
    return refusal(503, 'SlowDown');
  };
  await link(near, far);
  await near.world.client.put('/bucket/a', { body: 'one' });
  clock.hurry(10_000);
  run(near);
  await vi.waitFor(() => expect(refused).toBeGreaterThan(0), until);
  far.instead = undefined;
  await settled(near, '/bucket/a', 'COMPLETED');
});

test('after SVC_REPLICATION_RETRY_MAX versions are FAILED, and arrive after a retry', async () => {
  const clock = hurriedClock();
  const near = await openSite({ clock, settings: { ...settings, SVC_REPLICATION_RETRY_MAX: '1s' } });
  const far = await openSite();
  far.instead = () => refusal(503, 'SlowDown');
  await link(near, far);
  run(near);
  await near.world.client.put('/bucket/a', { body: 'one' });
  await vi.waitFor(async () => {
    clock.hurry(1_000);
    expect(await statusOf(near, '/bucket/a')).toBe('FAILED');
  }, until);
  far.instead = undefined;
  // The destination rests after its failures.
  clock.hurry(60_000);
  const admin = operatorOf(near.world);
  expect(await admin.must('POST', '/replication/retry', { peer: 'far' })).toEqual({
    retried: 1,
    isTruncated: false,
  });
  await alike(near, far);
  await settled(near, '/bucket/a', 'COMPLETED');
  expect(await admin.must('GET', '/replication/failed')).toMatchObject({ failed: [] });
});
