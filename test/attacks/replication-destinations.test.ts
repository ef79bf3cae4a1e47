/** Destinations of replication rules: each must exist where it can be asked for, and a tenant chooses no label of a metric. */
import { expect, onTestFinished, test, vi } from 'vitest';
import { countWaiting } from '../../src/domain/replication/peers.ts';
import { foldRepeats } from '../../src/telemetry/log.ts';
import { startWorkers } from '../../src/workers/registry.ts';
import { operatorOf } from '../support/clusters.ts';
import { alice, bob, openGateway } from '../support/gateway.ts';
import { setVersioning } from '../support/gateway-bodies.ts';
import { allow, openUser } from '../support/iam-users.ts';
import { makeRole, roleArnOf } from '../support/replication-role.ts';
import { keys, never, openSite, refusal, settings, until } from '../support/replication-sites.ts';

const ruleTo = (to: string, owner = bob.owner): string =>
  `<ReplicationConfiguration><Role>${roleArnOf(owner)}</Role><Rule><ID>r</ID><Priority>1</Priority><Filter/>
   <Status>Enabled</Status><Destination><Bucket>${to}</Bucket></Destination>
   <DeleteMarkerReplication><Status>Disabled</Status></DeleteMarkerReplication></Rule></ReplicationConfiguration>`;
const unset = [404, 'ReplicationConfigurationNotFoundError'];

async function openWorld() {
  const world = await openGateway({ settings });
  onTestFinished(() => world.close());
  await world.bob.put('/att');
  await setVersioning(world.bob, 'att', 'Enabled');
  await makeRole(world, { root: bob });
  return world;
}

test('a rule for the peer `default` is refused where there is none, and nothing is queued', async () => {
  const world = await openWorld();
  const put = await world.bob.put('/att?replication', { body: ruleTo('arn:aws:s3:::made-up') });
  expect([put.status, put.code], put.text).toEqual([400, 'InvalidRequest']);
  expect(put.text).toContain('Destination bucket must exist.');
  expect(put.text).toContain('arn:sluice:replication::&lt;peer&gt;:&lt;bucket&gt;');
  const got = await world.bob.get('/att?replication');
  expect([got.status, got.code]).toEqual(unset);
  await world.bob.put('/att/k', { body: 'x' });
  expect([...(await countWaiting(world.context))]).toEqual([]);
});

test.each([['arn:aws:s3:::made-up'], ['arn:sluice:replication::nowhere:bucket']])(
  'a user without iam:PassRole learns nothing about the peer of %s',
  async (to) => {
    const world = await openWorld();
    const user = await openUser(world, 'ann', { root: bob, policy: allow('s3:*') });
    const put = await world.as(user).put('/att?replication', { body: ruleTo(to) });
    expect([put.status, put.code], put.text).toEqual([403, 'AccessDenied']);
  },
);

test.each([
  ['gateway', undefined],
  ['other service', refusal(404, 'NoSuchBucket')],
])('a rule to a bucket that the peer does not have is refused and changes nothing: %s', async (_, answer) => {
  const [near, far] = [await openSite(), await openSite()];
  if (answer !== undefined)
    far.instead = (_method, target) => (target.includes('missing') ? answer : undefined);
  await operatorOf(near.world).must('PUT', '/replication/peers/far', { ...keys, endpoint: far.endpoint });
  const good = ruleTo('arn:sluice:replication::far:bucket', alice.owner);
  expect((await near.world.client.put('/bucket?replication', { body: good })).text).toBe('');
  const before = (await near.world.client.get('/bucket?replication')).text;
  const bad = ruleTo('arn:sluice:replication::far:missing', alice.owner);
  const put = await near.world.client.put('/bucket?replication', { body: bad });
  expect([put.status, put.code], put.text).toEqual([400, 'InvalidRequest']);
  expect(put.text).toContain('Destination bucket must exist.');
  expect((await near.world.client.get('/bucket?replication')).text).toBe(before);
});

test('destinations that a tenant makes up while the peer is away are no labels, and one line', async () => {
  const labels = new Map<string, Set<string>>();
  const lines: string[] = [];
  const world = await openWorld();
  await operatorOf(world).must('PUT', '/replication/peers/far', {
    ...{ accessKey: 'peerkey', secretKey: 'secret-secret', endpoint: 'http://127.0.0.1:9' },
    accounts: [{ account: '*' }],
  });
  const made = 40;
  for (let i = 0; i < made; i += 1) {
    const body = ruleTo(`arn:sluice:replication::far:made-up-${i}`);
    expect((await world.bob.put('/att?replication', { body })).text).toBe('');
    await world.bob.put('/att/k', { body: 'x' });
  }
  const { telemetry } = world.context;
  const replace: typeof telemetry.replace = (name, samples) => {
    const known = labels.get(name) ?? new Set();
    for (const [label] of samples) known.add(JSON.stringify(label));
    labels.set(name, known);
    telemetry.replace(name, samples);
  };
  // As the processes of the gateway write lines.
  const log = foldRepeats(
    (level, message, fields) => level === 'WARN' && lines.push(`${message} ${JSON.stringify(fields)}`),
    () => {},
  );
  const context = { ...world.context, telemetry: { ...telemetry, replace, log } };
  const running = startWorkers(context, ['replicator'], never);
  onTestFinished(() => running.stop());
  await vi.waitFor(
    () => expect(labels.get('svc_replication_pending_versions')?.size).toBeGreaterThan(0),
    until,
  );
  await vi.waitFor(() => expect(lines.length).toBeGreaterThan(0), until);
  await new Promise((resolve) => setTimeout(resolve, 3_000));
  await running.stop();
  for (const what of ['pending_versions', 'pending_bytes', 'oldest_pending_seconds'])
    expect([...(labels.get(`svc_replication_${what}`) ?? [])]).toEqual(['{"peer":"far"}']);
  expect(lines.filter((line) => line.includes('made-up')).length, lines.join('\n')).toBe(1);
});
