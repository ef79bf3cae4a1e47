/** The connections to an upstream are shared among accounts, however many slow requests one of them has. */
import { expect, onTestFinished, test, vi } from 'vitest';
import { behindFaults } from '../support/behind-faults.ts';
import { bytesOf } from '../support/gateway-bodies.ts';

const settings = { SVC_UPSTREAM_TIMEOUT: '20s' };
/** More than the gateway has connections. */
const readsMax = 1_500;

test('reads that the upstream does not answer do not delay a read of another account', async () => {
  await using behind = await behindFaults();
  const { way } = behind;
  const world = await behind.open({ settings });
  onTestFinished(() => world.close());
  const { client, bob } = world;
  await client.put('/alices');
  await bob.put('/bobs');
  const body = bytesOf(64 * 1024);
  for (const [name, of] of [
    ['alices', client],
    ['bobs', bob],
  ] as const)
    expect((await of.put(`/${name}/key`, { body })).status).toBe(200);
  way.fail(({ method }) => method === 'GET', { stall: true });
  let answered = 0;
  const reads = Array.from({ length: readsMax }, async () => {
    await bob.get('/bobs/key');
    answered += 1;
  });
  let stalled = 0;
  await vi.waitFor(
    () => {
      stalled += way.seen().length;
      expect(stalled).toBeGreaterThanOrEqual(1_024);
    },
    { timeout: 60_000, interval: 10 },
  );
  way.repair();
  const read = await client.get('/alices/key');
  expect([read.status, read.bytes.length]).toEqual([200, body.length]);
  expect(answered).toBe(0);
  // The stalled connections end, and the reads are tried again.
  await way.leave();
  await way.comeBack();
  await Promise.all(reads);
});
