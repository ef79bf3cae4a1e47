/** What requests that are refused cost the owner of a bucket: no place under its rate limit, and nothing on its bill; and what they cost the audit log. */
import { expect, test } from 'vitest';
import { policyOf } from '../support/access.ts';
import { operatorOf } from '../support/clusters.ts';
import { alice, bob, type GatewayWorld, openGateway } from '../support/gateway.ts';
import type { Answer } from '../support/gateway-client.ts';
import { whileHeld } from '../support/held-body.ts';
import { auditRows } from '../support/recorded.ts';
import { openUsageWorld } from '../support/usage-world.ts';
import { virtualClock } from '../support/virtual-clock.ts';

const site = 'bucket.site.test';
const settings = { SVC_WEBSITE_DOMAIN: 'site.test', SVC_DOMAIN: 'example.com' };
const website =
  '<WebsiteConfiguration><IndexDocument><Suffix>index.html</Suffix></IndexDocument></WebsiteConfiguration>';
const lets = (owner: string, Action: string | readonly string[]): string =>
  policyOf({
    Principal: { AWS: owner },
    Action,
    Resource: ['arn:aws:s3:::bucket', 'arn:aws:s3:::bucket/*'],
  });

/** Alice's bucket with a website, which serves two requests a second. */
async function openLimited(policy: string) {
  const world = await openGateway({ clock: virtualClock(), settings });
  const { client } = world;
  await client.put('/bucket');
  await client.put('/bucket/index.html', { body: 'index' });
  expect((await client.put('/bucket?website', { body: website })).status).toBe(200);
  expect((await client.put('/bucket?policy', { body: policy })).status).toBe(204);
  await operatorOf(world).must('PUT', '/buckets/bucket/limits', { requestsPerSecond: 2 });
  return world;
}

const statuses = async (count: number, ask: () => Promise<Answer>): Promise<readonly number[]> => {
  const found: number[] = [];
  for (let index = 0; index < count; index += 1) found.push((await ask()).status);
  return found;
};

const deletion = '<Delete><Object><Key>index.html</Key></Object></Delete>';
const visit = (world: GatewayWorld, path: string) => world.as({ anonymous: true, host: site }).get(path);

test.each([
  ['visitors of a website', (world: GatewayWorld) => visit(world, '/')],
  [
    'DeleteObjects of anonymous callers',
    (world: GatewayWorld) => world.anonymous.post('/bucket?delete', { body: deletion }),
  ],
  ['GetReplicaSite of anonymous callers', (world: GatewayWorld) => world.anonymous.get('/bucket?replica')],
] as const)('%s that are refused use up nothing of the limit of a bucket', async (_, ask) => {
  await using world = await openLimited(lets(bob.owner, 's3:GetObject'));
  await statuses(5, () => ask(world));
  expect(await statuses(3, () => world.client.get('/bucket/index.html'))).toEqual([200, 200, 503]);
});

test('visitors of a website, and of the index at the storage address, are served within the limit of a bucket', async () => {
  await using world = await openLimited(
    policyOf({ Action: 's3:GetObject', Resource: 'arn:aws:s3:::bucket/*' }),
  );
  expect(await statuses(3, () => visit(world, '/'))).toEqual([200, 200, 503]);
  expect(await statuses(1, () => world.anonymous.get('/bucket'))).toEqual([503]);
});

test('copies from a bucket are made within its limit, and refused ones use up nothing of it', async () => {
  await using world = await openLimited(lets(bob.owner, 's3:GetObject'));
  const { client, bob: other } = world;
  await other.put('/bobs');
  const uploadId = (await other.post('/bobs/parts?uploads')).one('UploadId') ?? '';
  const copy = (key: string) => ({ headers: { '*-copy-source': `bucket/${key}` } });
  expect(await statuses(3, () => other.put('/bobs/copy', copy('secret/none')))).toEqual([403, 403, 403]);
  expect(await statuses(2, () => other.put('/bobs/copy', copy('index.html')))).toEqual([200, 200]);
  const part = `/bobs/parts?partNumber=1&uploadId=${uploadId}`;
  expect(await statuses(1, () => other.put(part, copy('index.html')))).toEqual([503]);
  expect(await statuses(1, () => client.get('/bucket/index.html'))).toEqual([503]);
  expect(await statuses(1, () => other.put('/bobs/own', { body: 'x' }))).toEqual([200]);
});

test('DeleteObjects beyond the limit of a bucket is refused as a whole, and deletes nothing', async () => {
  await using world = await openLimited(lets(bob.owner, 's3:GetObject'));
  const { client } = world;
  expect(await statuses(2, () => client.get('/bucket/index.html'))).toEqual([200, 200]);
  const body = `<Delete>${'<Object><Key>index.html</Key></Object><Object><Key>other</Key></Object>'.repeat(20)}</Delete>`;
  const answer = await client.post('/bucket?delete', { body });
  expect([answer.status, answer.code]).toEqual([503, 'SlowDown']);
  await operatorOf(world).must('DELETE', '/buckets/bucket/limits');
  expect((await client.get('/bucket/index.html')).status).toBe(200);
});

test('a stranger that is refused puts nothing on the bill of a bucket, however it asks', async () => {
  await using world = await openUsageWorld();
  const { client, anonymous } = world;
  await client.put('/bucket');
  await client.put('/bucket/key', { body: 'content' });
  expect((await client.put('/bucket?policy', { body: lets(bob.owner, 's3:GetObject') })).status).toBe(204);
  const body = 'x'.repeat(10_000);
  const found = [
    await anonymous.get('/bucket/key?versionId=no-version'),
    await anonymous.get('/bucket/key', { headers: { '*-expected-bucket-owner': 'x' } }),
    await anonymous.put('/bucket/key?tagging', { body }),
    await anonymous.put('/bucket?inventory&id=i', { body }),
    await anonymous.put('/bucket/key?retention', { body }),
    await anonymous.post('/bucket?delete', { body: deletion }),
    await anonymous.post('/bucket', { body, headers: { 'content-type': 'text/plain' } }),
    await anonymous.put('/bucket?policy&versionId=x', { body }),
    await anonymous.send('PATCH', '/bucket/key', { body }),
  ];
  expect(found.map(({ status }) => status)).toEqual([400, 403, 400, 400, 400, 200, 412, 400, 405]);
  await expect
    .poll(async () => {
      await world.clock.advance(10_000);
      await world.clock.settle();
      return world.rows('/buckets/bucket/traffic');
    })
    .toEqual([expect.objectContaining({ requester: alice.owner, requestsA: 2, requestsB: 0 })]);
  // What it is allowed is on the bill.
  expect((await world.bob.get('/bucket/key')).status).toBe(200);
  await expect
    .poll(async () => {
      await world.clock.advance(10_000);
      await world.clock.settle();
      return (await world.rows('/buckets/bucket/traffic')).map(({ requester }) => requester);
    })
    .toEqual([alice.owner, bob.owner]);
});

test('audit rows of refusals count for the minute in which the request ends', async () => {
  const clock = virtualClock(Date.UTC(2026, 0, 1, 12));
  const never = { tamper: { signature: () => '0'.repeat(64) } };
  const limits = { SVC_AUDIT_UNKNOWN_CALLERS: '5', SVC_AUDIT_REFUSALS: '5' };
  await using world = await openGateway({ clock, settings: limits });
  await world.client.put('/bucket');
  const wrongDigest = { body: 'abc', headers: { 'content-md5': 'AAAAAAAAAAAAAAAAAAAAAA==' } };
  const held = { method: 'PUT', path: '/bucket/key', ask: wrongDigest };
  const refuse = async () => {
    for (let round = 0; round < 10; round += 1) await world.client.delete('/bucket/key', never);
  };
  const depth = 3;
  const nested = async (left: number): Promise<void> => {
    if (left === 0) {
      clock.jump(61_000);
      return refuse();
    }
    expect((await whileHeld(world.client, held, () => nested(left - 1))).code).toBe('BadDigest');
    await refuse();
  };
  await nested(depth);
  await clock.advance(5_000);
  const rows = (await auditRows(world.context)).filter(({ error }) => error !== undefined);
  const ofAction = (name: string) =>
    rows.flatMap(({ action, count = 1 }) => (action === name ? [count] : [])).sort();
  expect(ofAction('DeleteObject')).toEqual([1, 1, 1, 1, 1, 10 * (depth + 1) - 5]);
  expect(ofAction('PutObject')).toEqual([1, 1, 1]);
});
