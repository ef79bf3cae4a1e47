/** GetRequestHistory: what an operator sees of the requests of the last minutes. */
import { expect, test } from 'vitest';
import { RequestHistory } from '../../src/base/recent-entries.ts';
import { openGateway, operator } from '../support/gateway.ts';
import { virtualClock } from '../support/virtual-clock.ts';

test('GetRequestHistory counts requests of the storage protocol by minute, by result, and not those of operators', async () => {
  const clock = virtualClock();
  await using world = await openGateway({ clock });
  const admin = world.as({ credential: operator });
  const ask = async (query = '') => JSON.parse((await admin.get(`/admin/v1/requests/history${query}`)).text);
  await world.client.put('/bucket');
  await world.client.put('/bucket/key', { body: 'x' });
  await world.client.get('/bucket/missing');
  await world.anonymous.get('/bucket/key');
  await clock.advance(5 * 60_000);
  await world.client.get('/bucket/key');
  for (let n = 0; n < 3; n += 1) await admin.get('/admin/v1/clusters');
  const { total, points, stepSeconds, processes } = await ask();
  expect([stepSeconds, processes, points.length]).toEqual([60, 1, 15]);
  expect(total).toMatchObject({ requests: 5, refused: 2, failed: 0 });
  expect(total.p99Ms).toBeGreaterThanOrEqual(total.p50Ms);
  expect(points.at(-6)).toMatchObject({ requests: 4, refused: 2 });
  expect(points.at(-1)).toMatchObject({ requests: 1, refused: 0 });
  expect(points[0]).toEqual({ at: points[0].at, requests: 0, refused: 0, failed: 0, perSecond: 0 });
  const day = await ask('?minutes=1440');
  expect([day.stepSeconds, day.points.length, day.total.requests]).toEqual([300, 288, 5]);
  await clock.advance(24 * 60 * 60_000);
  expect((await ask('?minutes=1440')).total.requests).toBe(0);
  expect((await world.client.get('/admin/v1/requests/history')).status).toBe(403);
});

test('the history of requests tells percentiles to a fifth, and counts every duration', () => {
  const history = new RequestHistory();
  for (const [index, durationMs] of [0, 0.1, 1, 1, 1, 1, 1, 1, 1, 900_000_000].entries())
    history.add(60_000 + index, { status: index === 9 ? 503 : 200, durationMs });
  const [[minute = 0, counters = []] = []] = history.read(60_000, 1);
  expect([minute, counters.slice(0, 3)]).toEqual([1, [10, 0, 1]]);
  expect(counters.slice(3).reduce((sum, count) => sum + count, 0)).toBe(10);
});
