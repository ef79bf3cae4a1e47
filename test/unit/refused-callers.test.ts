/** How refusals are counted in the audit log where there are more kinds of them than a process keeps. */
import { expect, test } from 'vitest';
import type { Identity } from '../../src/auth/identity.ts';
import { Recording } from '../../src/gateway/recording.ts';
import type { AuditRow } from '../../src/metadata/records/audit.ts';
import type { Wire } from '../../src/protocol/wire.ts';
import { faulty } from '../support/faulty.ts';
import { openGateway, operator } from '../support/gateway.ts';
import { virtualClock } from '../support/virtual-clock.ts';

test('refusals of more than 10,000 kinds that are not written yet are counted by account', async () => {
  const clock = virtualClock();
  await using world = await openGateway({ clock, settings: { SVC_AUDIT_REFUSALS: '0' } });
  await world.client.put('/bucket');
  const wire = { method: 'DELETE', remote: '::1' } as Wire;
  const refuse = (owner: string, requestId: string) => {
    const identity = { accessKey: owner, owner, root: true } as NonNullable<Identity>;
    const request = { requestId, wire, action: 'DeleteObject', identity, bucketName: 'bucket', key: 'key' };
    return new Recording(world.context, request).end({ status: 403, code: 'AccessDenied' });
  };
  for (let n = 0; n < 10_000; n += 1) await refuse(`p${n}-account`, `p${n}`);
  for (let round = 0; round < 3; round += 1) expect((await world.bob.delete('/bucket/key')).status).toBe(403);
  await refuse('p0-account', 'again');
  await clock.advance(5_000);
  const countsOf = async (account: string) => {
    const counts: unknown[] = [];
    let after = '';
    do {
      const query = `identity=${account}&limit=1000${after}`;
      const { rows, next } = JSON.parse(
        (await world.as({ credential: operator }).get(`/admin/v1/audit?${query}`)).text,
      );
      counts.push(...rows.map(({ action, error, count }: AuditRow) => [action, error, count]));
      after = next === undefined ? '' : `&after=${encodeURIComponent(next)}`;
    } while (after !== '');
    return counts;
  };
  expect(await countsOf('bob-account')).toEqual([['*', '4xx', 3]]);
  expect(await countsOf('p0-account')).toEqual([['DeleteObject', 'AccessDenied', 2]]);
});

test.each([
  [false, 2],
  [true, 1],
])(
  'timers that end with their request: %s; the rests after a refusal: %i',
  async (hasRequestScopedTimers, rests) => {
    const virtual = virtualClock();
    let rested = 0;
    const clock = {
      ...virtual,
      hasRequestScopedTimers,
      sleep(ms: number, signal?: AbortSignal) {
        if (ms === 1_000) rested += 1;
        return virtual.sleep(ms, signal);
      },
    };
    await using world = await openGateway({
      clock,
      settings: { SVC_AUDIT_REFUSALS: '0' },
      // They rest as long.
      wrap: (context) => ({ ...context, lateWrites: faulty(context.lateWrites, { async add() {} }) }),
    });
    await world.client.put('/bucket');
    rested = 0;
    for (let round = 1; round <= 2; round += 1) {
      expect((await world.bob.delete('/bucket/key')).status).toBe(403);
      await virtual.advance(5_000);
      // A loop would outlive the request that began it, and its next timer would never end.
      expect(rested).toBe(rests * round);
    }
  },
);
