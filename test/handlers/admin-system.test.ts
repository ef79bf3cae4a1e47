/** What operators read about the installation: version, settings, leases, deletions, dead letters, and why a request was refused. */
import { expect, test } from 'vitest';
import { settings as settingsTable } from '../../src/config.ts';
import { deadLetter } from '../../src/metadata/background/queues.ts';
import type { QueueRow } from '../../src/metadata/records/queues.ts';
import { startWorkers } from '../../src/workers/registry.ts';
import { operatorOf } from '../support/clusters.ts';
import { alice, bob, openGateway } from '../support/gateway.ts';
import { virtualClock } from '../support/virtual-clock.ts';

const never = new AbortController().signal;

test('only operators read about the installation', async () => {
  await using world = await openGateway();
  for (const path of ['/version', '/settings', '/leases', '/gc', '/notify/dead-letters'])
    for (const client of [world.client, world.anonymous])
      expect((await client.get(`/admin/v1${path}`)).status).toBe(403);
});

test('GET /version names the backends', async () => {
  await using world = await openGateway({ wrap: (context) => ({ ...context, version: '1.2.3' }) });
  expect(await operatorOf(world).must('GET', '/version')).toMatchObject({
    version: '1.2.3',
    metadata: 'memory',
    data: 'memory',
    region: world.context.config.SVC_REGION,
  });
});

test('GET /settings shows each setting with its source, and no secret', async () => {
  const settings = { SVC_GC_INTERVAL: '7s', SVC_METRICS_TOKEN: 'top-secret-token' };
  await using world = await openGateway({ settings });
  const { rows } = (await operatorOf(world).must('GET', '/settings')) as {
    rows: readonly { name: string; value?: string; default?: string; source: string; doc: string }[];
  };
  const named = new Map(rows.map((row) => [row.name, row]));
  expect(named.get('SVC_GC_INTERVAL')).toMatchObject({ value: '7s', source: 'env' });
  expect(named.get('SVC_AUDIT_RETENTION')).toMatchObject({ value: '30d', default: '30d', source: 'default' });
  expect(named.get('SVC_METRICS_TOKEN')).toMatchObject({ value: '********', source: 'env' });
  expect(JSON.stringify(rows)).not.toContain('top-secret-token');
});

/** Their values name a kind, or things that are no secrets. */
const namesNoSecret = ['SVC_KMS_CREDENTIALS', 'SVC_MASTER_KEYS_RETIRED', 'SVC_PKCS11_TOKENS'];

test('every setting whose name says that its value is a secret is masked, unless it names a file', () => {
  const suspect = Object.entries<{ readonly secret?: boolean }>(settingsTable as never).filter(
    ([name]) =>
      /SECRET|TOKEN|PASSWORD|_PIN|CREDENTIALS|HEADERS|MASTER_KEY|UPSTREAMS|NOTIFY_TARGETS/.test(name) &&
      !name.endsWith('_FILE') &&
      !namesNoSecret.includes(name),
  );
  expect(suspect.length).toBeGreaterThan(5);
  for (const [name, { secret }] of suspect) expect([name, secret]).toEqual([name, true]);
});

test('GET /leases shows holders, generations and ends, and a lease that was released as free', async () => {
  const clock = virtualClock();
  await using world = await openGateway({ clock });
  const read = async () => (await operatorOf(world).must('GET', '/leases'))['rows'] as { name: string }[];
  expect(await read()).toEqual([]);
  const running = startWorkers(world.context, ['bucket-stats', 'audit-retention'], never);
  await clock.advance(5_000);
  await expect.poll(async () => (await read()).length).toBe(2);
  const held = await read();
  expect(held.map(({ name }) => name)).toEqual(
    ['bucket-stats-leader', 'audit-retention-leader'].sort().reverse(),
  );
  expect(held[0]).toMatchObject({
    holder: expect.stringMatching(/^[0-9a-f]{32}$/),
    generation: 1,
    isHeld: true,
    expires: expect.stringMatching(/Z$/),
  });
  await running.stop();
  expect((await read()).map((lease) => (lease as { isHeld?: boolean }).isHeld)).toEqual([false, false]);
});

test('GET /gc counts what is queued for deletion by cluster, with the age of the oldest', async () => {
  const clock = virtualClock();
  await using world = await openGateway({ clock });
  await world.client.put('/bucket');
  for (const key of ['a', 'b']) {
    await world.client.put(`/bucket/${key}`, { body: 'content' });
    await world.client.delete(`/bucket/${key}`);
    await clock.advance(30_000);
  }
  const [cluster] = world.context.bytes.clusters;
  const read = () => operatorOf(world).must('GET', '/gc');
  expect(await read()).toEqual({
    clusters: [{ cluster, extents: 2, oldestSeconds: 60 }],
    elsewhere: 0,
    isCut: false,
  });
  await world.gc();
  expect((await read())['clusters']).toEqual([{ cluster, extents: 0, oldestSeconds: 0 }]);
});

test('GET /notify/dead-letters lists them newest first, in pages', async () => {
  await using world = await openGateway();
  for (const id of ['one', 'two', 'three']) {
    const task = { sink: 'hook', message: { Records: [{ id }] } };
    const row: QueueRow = {
      queue: 'notify',
      slot: 0,
      due: 1_000,
      id,
      task,
      attempts: 3,
      requestId: `R-${id}`,
    };
    const now = Date.now() + ['one', 'two', 'three'].indexOf(id);
    await world.context.metadata.apply(
      deadLetter(row, { error: 'refused', now, expiresAt: now + 60_000, bucket: '' }),
    );
  }
  const admin = operatorOf(world);
  const first = await admin.must('GET', '/notify/dead-letters?limit=2');
  expect((first['rows'] as { id: string }[]).map(({ id }) => id)).toEqual(['three', 'two']);
  const second = await admin.must('GET', `/notify/dead-letters?limit=2&after=${first['next']}`);
  expect(second).toEqual({
    rows: [
      {
        time: expect.any(String),
        since: '1970-01-01T00:00:01.000Z',
        requestId: 'R-one',
        target: 'hook',
        id: 'one',
        attempts: 3,
        error: 'refused',
        message: { Records: [{ id: 'one' }] },
      },
    ],
  });
  expect((await admin.ask('GET', '/notify/dead-letters?after=x')).status).toBe(400);
});

test('POST /why explains a request of the audit log by its id', async () => {
  await using world = await openGateway();
  await world.client.put('/bucket');
  const policy = {
    Version: '2012-10-17',
    Statement: [
      {
        Sid: 'NotBob',
        Effect: 'Deny',
        Principal: { AWS: `arn:aws:iam::${bob.owner}:root` },
        Action: 's3:PutObject',
        Resource: 'arn:aws:s3:::bucket/*',
      },
    ],
  };
  await world.client.put('/bucket?policy', { body: JSON.stringify(policy) });
  const refused = await world.bob.put('/bucket/key', { body: 'x' });
  expect(refused.status).toBe(403);
  const admin = operatorOf(world);
  const requestId = refused.header('*-request-id');
  expect(await admin.must('POST', '/why', { requestId })).toMatchObject({
    allowed: false,
    by: { policy: 'bucket policy', sid: 'NotBob' },
    request: {
      action: 'PutObject',
      status: 403,
      error: 'AccessDenied',
      accessKey: bob.accessKey,
      bucket: 'bucket',
      key: 'key',
    },
  });
  expect(await admin.must('POST', '/why', { requestId, accessKey: alice.accessKey })).toMatchObject({
    allowed: true,
  });
  expect((await admin.ask('POST', '/why', { requestId: 'unknown' })).status).toBe(400);
  expect((await admin.ask('POST', '/why', { bucket: 'bucket' })).status).toBe(400);
});
