/** Replication and time: resyncs of a span of time, and versions of sites whose clock was wrong. */
import { describe, expect, test, vi } from 'vitest';
import { type Clock, systemClock } from '../../src/ports/clock.ts';
import { operatorOf } from '../support/clusters.ts';
import { operator } from '../support/gateway.ts';
import {
  alike,
  drained,
  link,
  openSite,
  run,
  type Site,
  settled,
  until,
  versions,
} from '../support/replication-sites.ts';

const hourMs = 60 * 60 * 1000;

interface WrongClock extends Clock {
  /** How far its time is ahead of the right one (ms). */
  aheadMs: number;
}
const wrongClock = (aheadMs: number): WrongClock => {
  const clock: WrongClock = { ...systemClock, aheadMs, now: () => systemClock.now() + clock.aheadMs };
  return clock;
};

describe('a resync of a span of time', () => {
  const first = Math.floor(Date.now() / 1000) * 1000 - 5 * hourMs;
  const at = (n: number): string => new Date(first + n * hourMs).toISOString();
  let clock: Clock & { fixed: number | undefined };

  /** Keys 0, 1, 2 and 3, an hour apart, which the peer does not have. */
  async function openHours(): Promise<{ readonly near: Site; readonly far: Site }> {
    const own: typeof clock = {
      ...systemClock,
      fixed: undefined,
      now: () => own.fixed ?? systemClock.now(),
    };
    clock = own;
    const [near, far] = [await openSite({ clock }), await openSite()];
    for (let n = 0; n < 4; n += 1) {
      clock.fixed = first + n * hourMs;
      await near.world.client.put(`/bucket/${n}`, { body: `${n}` });
    }
    clock.fixed = undefined;
    await link(near, far);
    run(near);
    return { near, far };
  }

  test.each([
    ['since', { since: at(2) }, ['2', '3']],
    ['until', { until: at(1) }, ['0']],
    ['both', { since: at(1), until: at(3) }, ['1', '2']],
    ['neither', {}, ['0', '1', '2', '3']],
  ] as const)('sends the versions from `since` on and before `until`: %s', async (_, span, keys) => {
    const { near, far } = await openHours();
    const admin = operatorOf(near.world);
    const begun = await admin.must('POST', '/replication/resync/bucket', span);
    expect(begun).toMatchObject({ state: 'running', ...span });
    const done = { state: 'done', read: 4, queued: keys.length, ...span };
    await vi.waitFor(
      async () => expect(await admin.must('GET', '/replication/resync/bucket')).toMatchObject(done),
      until,
    );
    await drained(near);
    expect((await versions(far)).map(({ key }) => key)).toEqual(keys);
  });

  test('is refused when its end is not after its begin, or is no time', async () => {
    const { near } = await openHours();
    const admin = operatorOf(near.world);
    for (const [span, says] of [
      [{ since: at(2), until: at(2) }, 'since must be before until'],
      [{ since: at(2), until: at(1) }, 'since must be before until'],
      [{ since: '2026-01-31' }, '2026-01-31T12:00:00Z'],
      [{ until: '2026-13-31T12:00:00Z' }, 'until is no time of the calendar'],
    ] as const) {
      const { status, text } = await near.world
        .as({ credential: operator })
        .post('/admin/v1/replication/resync/bucket', { body: JSON.stringify(span) });
      expect([status, text]).toEqual([400, expect.stringContaining(says)]);
    }
    expect((await admin.ask('GET', '/replication/resync/bucket')).status).toBe(404);
  });
});

test('versions for a peer whose clock is two hours off arrive, in order, when its clock is right again', async () => {
  const clock = wrongClock(-2 * hourMs);
  const [near, far] = [await openSite(), await openSite({ clock })];
  await link(near, far);
  run(near);
  for (const body of ['one', 'two']) await near.world.client.put('/bucket/a', { body });
  await vi.waitFor(async () => {
    const { destinations } = await operatorOf(near.world).must('GET', '/replication/status');
    const message = expect.stringContaining('RequestTimeTooSkewed: correct the clock');
    expect(destinations).toMatchObject([{ state: 'failing', waiting: 2, lastError: { message } }]);
  }, until);
  expect(far.taken).toEqual([]);
  clock.aheadMs = 0;
  await alike(near, far);
  await settled(near, '/bucket/a', 'COMPLETED');
  expect((await far.world.client.get('/bucket/a')).text).toBe('two');
  // What the peer wrote while its clock was behind is older than what it writes now.
  await far.world.client.put('/bucket/a', { body: 'three' });
  expect((await far.world.client.get('/bucket/a')).text).toBe('three');
});

test('a version from a clock that was three days ahead is FAILED with the reason, and arrives by a retry two days later', async () => {
  const [here, there] = [wrongClock(72 * hourMs), wrongClock(0)];
  const [near, far] = [await openSite({ clock: here }), await openSite({ clock: there })];
  await near.world.client.put('/bucket/early', { body: 'x' });
  here.aheadMs = 0;
  await link(near, far);
  run(near);
  const admin = operatorOf(near.world);
  await admin.must('POST', '/replication/resync/bucket', {});
  await settled(near, '/bucket/early', 'FAILED');
  // Versions of other keys are sent meanwhile.
  await near.world.client.put('/bucket/other', { body: 'y' });
  await settled(near, '/bucket/other', 'COMPLETED');
  const { failed } = await admin.must('GET', '/replication/failed');
  expect(failed).toMatchObject([
    { key: 'early', error: expect.stringMatching(/more than 24 hours ahead.*Correct the clocks/) },
  ]);
  here.aheadMs = 49 * hourMs;
  there.aheadMs = 49 * hourMs;
  expect(await admin.must('POST', '/replication/retry', { peer: 'far' })).toMatchObject({ retried: 1 });
  await alike(near, far);
  await settled(near, '/bucket/early', 'COMPLETED');
});
