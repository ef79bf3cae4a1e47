/** A bucket that an operator gives to another account does not show it what the former owner used and paid. */
import { expect, test } from 'vitest';
import { policyOf } from '../support/access.ts';
import { operatorOf } from '../support/clusters.ts';
import { alice, bob } from '../support/gateway.ts';
import type { Client } from '../support/gateway-client.ts';
import { openUsageWorld, type UsageWorld } from '../support/usage-world.ts';

const rowsOf = async (client: Client, path: string): Promise<readonly Record<string, unknown>[]> => {
  const { status, text } = await client.get(`/admin/v1${path}`);
  expect(status, text).toBe(200);
  return JSON.parse(text).rows;
};

const letAll = (owner: string): string =>
  policyOf({ Principal: { AWS: owner }, Action: 's3:*', Resource: 'arn:aws:s3:::bucket/*' });

/** alice's bucket is bob's since the second day. */
async function openGiven(): Promise<UsageWorld> {
  const world = await openUsageWorld();
  await world.client.put('/bucket');
  await world.client.put('/bucket/key', { body: 'x'.repeat(1_000) });
  await world.clock.advance(10_000);
  await world.hours(26);
  await operatorOf(world).must('PUT', '/buckets/bucket/owner', { owner: bob.owner });
  await world.bob.get('/bucket/key');
  await world.clock.advance(10_000);
  await world.clock.settle();
  await world.hours(24);
  return world;
}

test('the usage of a bucket shows its owner the days since it became the owner, and an operator all days', async () => {
  await using world = await openGiven();
  const days = (await world.rows()).map(({ day }) => day);
  expect(days).toEqual(['2026-01-01', '2026-01-02']);
  expect((await rowsOf(world.bob, '/buckets/bucket/usage')).map(({ day }) => day)).toEqual(['2026-01-02']);
  const [listed] = await rowsOf(world.bob, `/usage/buckets?owner=${bob.owner}&days=2`);
  expect(listed).toMatchObject({ name: 'bucket', bytes: [null, expect.any(Number)] });
  const [own] = await rowsOf(world.client, `/iam/users/${alice.owner}/usage`);
  expect(own).toMatchObject({ bucket: 'bucket', day: '2026-01-01' });
});

test('the traffic of a bucket shows its owner the rows that it pays, and an operator all rows', async () => {
  await using world = await openGiven();
  const payers = async (rows: Promise<readonly Record<string, unknown>[]>): Promise<readonly unknown[]> => [
    ...new Set((await rows).map(({ payer }) => payer)),
  ];
  await expect.poll(() => payers(world.rows('/buckets/bucket/traffic'))).toEqual([alice.owner, bob.owner]);
  expect(await payers(rowsOf(world.bob, '/buckets/bucket/traffic'))).toEqual([bob.owner]);
});

const requesterPays = '<RequestPaymentConfiguration><Payer>Requester</Payer></RequestPaymentConfiguration>';

test('the traffic of a bucket whose owner lets requesters pay shows no row of its former ownership', async () => {
  await using world = await openGiven();
  const { client, bob: bobs } = world;
  expect((await bobs.put('/bucket?requestPayment', { body: requesterPays })).status).toBe(200);
  expect((await bobs.put('/bucket?policy', { body: letAll(alice.owner) })).status).toBe(204);
  const day = '2026-01-03';
  await client.get('/bucket/key', { headers: { '*-request-payer': 'requester' } });
  await expect
    .poll(async () => {
      await world.clock.advance(10_000);
      await world.clock.settle();
      const rows = await rowsOf(bobs, '/buckets/bucket/traffic');
      return rows.flatMap((row) => (row['payer'] === alice.owner ? [row['day']] : []));
    })
    .toEqual([day]);
});

test('the traffic of a bucket shows its owner what requesters pay, while it lets them pay', async () => {
  await using world = await openUsageWorld();
  await world.client.put('/bucket');
  await world.client.put('/bucket?requestPayment', { body: requesterPays });
  await world.client.put('/bucket?policy', { body: letAll(bob.owner) });
  const headers = { '*-request-payer': 'requester' };
  expect((await world.bob.put('/bucket/key', { body: 'x', headers })).status).toBe(200);
  await expect
    .poll(async () => {
      await world.clock.advance(10_000);
      await world.clock.settle();
      return (await rowsOf(world.client, '/buckets/bucket/traffic')).map(({ requester }) => requester);
    })
    .toEqual([alice.owner, bob.owner]);
});
