/** GetBucketReplication: what of a bucket waits for each destination, for its account too; peers are shared by accounts. */
import { expect, test, vi } from 'vitest';
import { operatorOf } from '../support/clusters.ts';
import { setVersioning } from '../support/gateway-bodies.ts';
import type { Client } from '../support/gateway-client.ts';
import { allow, openUser } from '../support/iam-users.ts';
import { drained, link, openSite, refusal, rule, run, settled, until } from '../support/replication-sites.ts';

const ask = async (client: Client, bucket: string) => {
  const { status, text } = await client.get(`/admin/v1/buckets/${bucket}/replication`);
  return { status, text, json: JSON.parse(text) };
};

test('counts the versions of one bucket, where several replicate to the same destination', async () => {
  const [near, far] = [await openSite(), await openSite()];
  const { client } = near.world;
  await client.put('/second');
  await setVersioning(client, 'second', 'Enabled');
  await link(near, far);
  await client.put('/second?replication', { body: rule('far') });
  expect((await ask(client, 'bucket')).json).toEqual({ destinations: [], isCut: false });
  for (const path of ['/bucket/a', '/bucket/b', '/second/c']) await client.put(path, { body: 'four' });
  const one = { destination: 'far/bucket', waiting: 1, waitingBytes: 4, failed: 0 };
  await vi.waitFor(async () => {
    expect((await ask(client, 'bucket')).json.destinations).toMatchObject([
      { ...one, waiting: 2, waitingBytes: 8 },
    ]);
    expect((await ask(client, 'second')).json.destinations).toMatchObject([one]);
  }, until);
  expect(await operatorOf(near.world).must('GET', '/replication/status')).toMatchObject({
    destinations: [{ waiting: 3 }],
  });
  run(near);
  await drained(near);
  await vi.waitFor(async () => expect((await ask(client, 'bucket')).json.destinations).toEqual([]), until);
});

test('counts what was given up without the errors of the peer, and shows a resync', async () => {
  const [near, far] = [await openSite(), await openSite()];
  const { client } = near.world;
  await link(near, far);
  far.instead = (method, target) =>
    method === 'PUT' && target.includes('/bad?') ? refusal(400, 'InvalidArgument') : undefined;
  run(near);
  await client.put('/bucket/bad', { body: 'x' });
  await settled(near, '/bucket/bad', 'FAILED');
  await operatorOf(near.world).must('POST', '/replication/resync/bucket', { status: 'none' });
  const { text, json } = await ask(client, 'bucket');
  expect(json).toMatchObject({
    destinations: [{ destination: 'far/bucket', waiting: 0, failed: 1 }],
    resync: { bucket: 'bucket', status: 'none' },
  });
  expect(text).not.toContain('InvalidArgument');
  // A bucket of the same name that is made anew has none of it.
  await client.delete('/bucket?replication');
  const { Version } = await versionsIn(client);
  for (const id of Version) await client.delete(`/bucket/bad?versionId=${id}`);
  expect((await client.delete('/bucket')).status).toBe(204);
  await near.world.bob.put('/bucket');
  expect((await ask(near.world.bob, 'bucket')).json).toEqual({ destinations: [], isCut: false });
  expect((await ask(client, 'bucket')).status).toBe(403);
});

async function versionsIn(client: Client) {
  const { text } = await client.get('/bucket?versions');
  return { Version: [...text.matchAll(/<VersionId>([^<]+)</g)].map(([, id = '']) => id) };
}

test('is for the account of the bucket, by the policies of the caller', async () => {
  const near = await openSite();
  const { world } = near;
  expect((await ask(world.bob, 'bucket')).status).toBe(403);
  expect((await ask(world.anonymous, 'bucket')).status).toBe(403);
  const users = [
    ['asker', 'admin:GetBucketReplication', 200],
    ['other', 'admin:GetLifecycle', 403],
  ] as const;
  for (const [name, action, status] of users) {
    const { credential } = await openUser(world, name, { policy: allow(action) });
    expect([name, (await ask(world.as({ credential }), 'bucket')).status]).toEqual([name, status]);
  }
});
