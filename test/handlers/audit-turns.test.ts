/** Long reads of operators leave the event loop to other requests, also where the store answers at once. */
import { expect, test } from 'vitest';
import { audited } from '../../src/metadata/audit.ts';
import { retainAudit } from '../../src/workers/retention.ts';
import { operatorOf } from '../support/clusters.ts';
import { alice, type GatewayWorld, openGateway, operator } from '../support/gateway.ts';
import { slowClock, type VirtualClock } from '../support/virtual-clock.ts';

const hourMs = 3_600_000;
const start = Date.UTC(2026, 0, 1);
const retentionMs = 30 * 24 * hourMs;
const rowCount = 1_000;

/** An hour with many rows, which is sealed. */
async function furnished() {
  const clock = slowClock(start);
  const world = await openGateway({ clock, backend: 'embedded+file' });
  const row = {
    action: 'PutObject',
    resource: 'bucket:bucket',
    status: 200,
    principal: '',
    accessKey: '',
    account: '',
    source: '127.0.0.1',
  };
  const rows = Array.from({ length: rowCount }, (_, i) =>
    audited({ ...row, id: `row-${i}`, time: start + i }, { retentionMs }),
  );
  await world.context.metadata.apply(rows);
  await clock.advance(hourMs + 16 * 60_000);
  const unit = retainAudit(world.context, 1);
  const sealing = await turnsOf({ clock }, async () => {
    while ((await unit(new AbortController().signal)) !== 'idle');
  });
  return { world, clock, sealing };
}

/** How often the request left the event loop to others. */
async function turnsOf({ clock }: { readonly clock: VirtualClock }, ask: () => Promise<unknown>) {
  const before = clock.slept.length;
  await ask();
  return clock.slept.slice(before).filter((ms) => ms === 0).length;
}

test('exports without a match, listings, verifications, look-ups and seals of the audit log', async () => {
  const opened = await furnished();
  await using world = opened.world;
  // One for each page of each slot.
  expect(opened.sealing).toBeGreaterThanOrEqual(16);
  const client = world.as({ credential: operator });
  const get = (path: string) => async () => expect((await client.get(`/admin/v1${path}`)).status).toBe(200);
  expect(await turnsOf(opened, get('/audit/export?bucket=none'))).toBeGreaterThan(rowCount);
  expect(await turnsOf(opened, get('/audit?bucket=none'))).toBeGreaterThan(rowCount);
  expect(await turnsOf(opened, get('/audit/verify'))).toBeGreaterThanOrEqual(16);
  const xml = async () => expect((await client.get('/?audit&bucket=none')).status).toBe(200);
  expect(await turnsOf(opened, xml)).toBeGreaterThan(rowCount);
  const unknown = async () => {
    const { status, json } = await operatorOf(world).ask('POST', '/why', { requestId: '0123456789ABCDEF' });
    expect([status, json['message']]).toEqual([400, expect.stringContaining('The audit log has no request')]);
  };
  expect(await turnsOf(opened, unknown)).toBeGreaterThan(100);
});

test.each([
  ['GET', '/admin/v1/audit/export?bucket=none'],
  ['GET', '/admin/v1/audit?bucket=none'],
  ['GET', '/admin/v1/audit/verify'],
  ['POST', '/admin/v1/why'],
  ['GET', '/?audit&bucket=none'],
  ['GET', `/admin/v1/accounts/${alice.owner}`],
  ['GET', `/admin/v1/iam/users/${alice.owner}/usage`],
])('%s %s reads no further once its client has disconnected', async (method, path) => {
  const opened = await furnished();
  await using world = opened.world;
  const { clock } = opened;
  const { sleep } = clock;
  for (let i = 0; i < 120; i += 1) await world.client.put(`/bucket-${i}`);
  const client = world.as({ credential: operator });
  const left = new AbortController();
  const before = clock.slept.length;
  clock.sleep = (...given) => {
    if (clock.slept.length === before + 5) left.abort();
    return sleep(...given);
  };
  const body = method === 'POST' ? JSON.stringify({ requestId: '0123456789ABCDEF' }) : undefined;
  const asking = client.send(method, path, {
    signal: left.signal,
    ...(body === undefined ? {} : { body, headers: { 'content-type': 'application/json' } }),
  });
  // The export fails after its head was sent: the client reads an incomplete body.
  await asking.catch(() => undefined);
  expect(left.signal.aborted).toBe(true);
  expect(clock.slept.length - before).toBeLessThan(10);
});

test('a look-up of a request that is not in a long log ends, and says how to find an older one', async () => {
  await using world = await openGateway({ settings: { SVC_AUDIT_RETENTION: '800d' } });
  const { status, json } = await operatorOf(world).ask('POST', '/why', { requestId: '0123456789ABCDEF' });
  expect([status, json['message']]).toEqual([400, expect.stringContaining('GET /admin/v1/audit?requestId=')]);
});

test('the sum of what an account’s many buckets hold', async () => {
  const opened = await furnished();
  await using world = opened.world;
  for (let i = 0; i < 20; i += 1) await world.client.put(`/bucket-${i}`);
  const shown = async () => expect(await accountOf(world)).toMatchObject({ bytes: 0, objects: 0 });
  expect(await turnsOf(opened, shown)).toBeGreaterThan(0);
});

const accountOf = (world: GatewayWorld) => operatorOf(world).must('GET', `/accounts/${alice.owner}`);
