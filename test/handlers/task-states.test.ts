/** The states of shared tasks fit into a row, however many tenants, rules and changes they tell of. */
import { expect, test } from 'vitest';
import { DeliveryRates, readRates } from '../../src/domain/event-deliveries/rates.ts';
import { beginHistory, readHealthHistory, recordHealth } from '../../src/domain/storage/storage-health.ts';
import { carryOutLifecycles } from '../../src/workers/lifecycle.ts';
import { frozenClock } from '../support/frozen-clock.ts';
import { openGateway, operator } from '../support/gateway.ts';
import { virtualClock } from '../support/virtual-clock.ts';

test('of the rates of a thousand targets with long ids those of the most events are stored', async () => {
  const clock = frozenClock();
  await using world = await openGateway({ clock });
  const rates = new DeliveryRates(world.context);
  for (let n = 0; n < 1_000; n += 1)
    rates.telemetry.count('svc_notify_delivered_total', { target: String(n).padStart(80, 'b') });
  rates.telemetry.count('svc_notify_delivered_total', { target: 'hook' }, 100);
  clock.time += 10_000;
  await rates.store();
  const stored = [...(await readRates(world.context.metadata))];
  expect(stored[0]).toEqual(['hook', 10]);
  expect(stored.length).toBeGreaterThan(100);
  expect(stored.length).toBeLessThan(1_001);
});

test('a store that refuses the rates ends no delivery', async () => {
  const clock = frozenClock();
  await using world = await openGateway({ clock });
  let refusals = 0;
  const refuse = async () => {
    refusals += 1;
    throw new Error('refused');
  };
  const metadata = { ...world.context.metadata, now: refuse, get: refuse, commit: refuse };
  const rates = new DeliveryRates({ ...world.context, metadata } as never);
  clock.time += 10_000;
  rates.telemetry.count('svc_notify_delivered_total', { target: 'hook' });
  await rates.store();
  expect(refusals).toBeGreaterThan(0);
});

test('a day of changing health with long warnings is stored, without its oldest changes', async () => {
  const clock = frozenClock();
  await using world = await openGateway({ clock });
  const { context } = world;
  const term = await beginHistory(context, 1);
  for (let n = 0; n < 144; n += 1) {
    const clusters = Array.from({ length: 5 }, (_, each) => ({
      cluster: `c${each}`,
      status: 'HEALTH_WARN',
      problems: [String.fromCharCode(0x4e00 + n).repeat(200)],
      pools: [],
    }));
    const bytes = { ...context.bytes, health: async () => clusters };
    expect(await recordHealth({ ...context, bytes } as never, term)).toBe(true);
    clock.time += 600_000;
  }
  const history = await readHealthHistory(context);
  expect(history?.isCut).toBe(true);
  expect(history?.changes.at(-1)?.at).toBe(clock.time - 600_000);
  expect(history?.changes.length).toBeGreaterThan(3);
});

test('a bucket with 150 lifecycle rules whose ids have 255 characters finishes its pass', async () => {
  const clock = virtualClock();
  await using world = await openGateway({ clock, settings: { SVC_LIFECYCLE_RATE: '1000000' } });
  const { client, context } = world;
  await client.put('/bucket');
  const rules = Array.from({ length: 150 }, (_, n) => {
    const id = String(n).padStart(255, '"');
    return `<Rule><ID>${id}</ID><Status>Enabled</Status><Filter><Prefix>${n}/</Prefix></Filter><Expiration><Days>1</Days></Expiration></Rule>`;
  });
  const put = await client.put('/bucket?lifecycle', {
    body: `<LifecycleConfiguration>${rules.join('')}</LifecycleConfiguration>`,
  });
  expect(put.text).toBe('');
  for (let n = 0; n < 150; n += 1) await client.put(`/bucket/${n}/a`, { body: 'x' });
  clock.jump(3 * 86_400_000);
  const unit = carryOutLifecycles(context);
  while ((await unit(new AbortController().signal)) === 'busy');
  expect((await client.get('/bucket?list-type=2')).all('Key')).toEqual([]);
  const text = await world.as({ credential: operator }).get('/admin/v1/buckets/bucket/lifecycle');
  expect(JSON.parse(text.text)).toMatchObject({ state: 'done', read: 150 });
});
