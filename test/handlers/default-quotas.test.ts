/** Quotas that new buckets, accounts and IAM users begin with, of the settings and of operators. */

import { describe, expect, test, vi } from 'vitest';
import { silentTelemetry } from '../../src/ports/telemetry.ts';
import { sampleBuckets } from '../../src/workers/buckets.ts';
import { openActions } from '../support/actions.ts';
import { operatorOf } from '../support/clusters.ts';
import { alice } from '../support/gateway.ts';
import { allow, openUser } from '../support/iam-users.ts';
import { onReplace } from '../support/metric-calls.ts';
import { openQuotas, refusedFor, ten } from '../support/quota-world.ts';
import { auditRows } from '../support/recorded.ts';

const settings = {
  SVC_DEFAULT_BUCKET_MAX_BYTES: '15B',
  SVC_DEFAULT_ACCOUNT_MAX_BUCKETS: '1',
  SVC_DEFAULT_USER_MAX_BYTES: '12B',
} as const;

describe('the settings', () => {
  test('limit new buckets, whose quota is shown as the default until one is set', async () => {
    await using world = await openQuotas({ settings });
    const admin = operatorOf(world);
    const { client } = world;
    expect(await admin.must('GET', '/quotas/defaults/bucket')).toEqual({
      maxBytes: 15,
      maxObjects: 0,
      maxBytesPerObject: 0,
      source: 'settings',
    });
    const path = '/buckets/bucket/quota';
    const quota = { maxBytes: 15, maxObjects: 0, maxBytesPerObject: 0 };
    expect(await admin.must('GET', path)).toEqual({ ...quota, isDefault: true });
    expect((await client.put('/bucket/a', { body: ten })).status).toBe(200);
    expect(await client.put('/bucket/b', { body: ten })).toMatchObject(refusedFor('bucket'));
    await admin.must('PUT', path, { maxBytes: 20 });
    expect(await admin.must('GET', path)).toEqual({ ...quota, maxBytes: 20 });
    expect((await client.put('/bucket/b', { body: ten })).status).toBe(200);
    await admin.must('DELETE', path);
    expect((await client.put('/bucket/c', { body: ten })).status).toBe(200);
  });

  test('limit new accounts and new IAM users, and no account of the settings', async () => {
    await using world = await openQuotas({
      settings: { ...settings, SVC_DEFAULT_BUCKET_MAX_BYTES: '0' },
    });
    const admin = operatorOf(world);
    const made = (await admin.must('POST', '/accounts', { account: 'carol' })) as Record<string, string>;
    const { accessKey = '', secretKey = '' } = made;
    const carol = world.as({ credential: { ...alice, owner: 'carol', accessKey, secretKey } });
    expect((await carol.put('/first')).status).toBe(200);
    expect(await carol.put('/second')).toMatchObject(refusedFor('user'));
    expect(await admin.must('GET', '/iam/users/carol/quota')).toEqual({
      maxBuckets: 1,
      totalMaxBytes: 0,
      isDefault: true,
    });
    expect((await admin.ask('GET', `/iam/users/${alice.owner}/quota`)).status).toBe(404);
    const ann = await openUser(world, 'ann', { policy: allow('s3:*') });
    const client = world.as({ credential: ann.credential });
    expect((await client.put('/of-ann')).status).toBe(200);
    expect((await client.put('/of-ann/a', { body: ten })).status).toBe(200);
    expect(await client.put('/of-ann/b', { body: ten })).toMatchObject(refusedFor('user'));
    const ofAnn = await admin.must('GET', `/iam/users/ann/quota?account=${alice.owner}`);
    expect(ofAnn).toEqual({ maxBuckets: 0, totalMaxBytes: 12, isDefault: true });
  });
});

test('a creation of an account or a user that is refused stores no quota', async () => {
  await using world = await openQuotas({ settings });
  const admin = operatorOf(world);
  const iam = openActions(world, {});
  const commit = vi.spyOn(world.context.metadata, 'commit');
  const stored = () => commit.mock.calls.filter(([{ table }]) => table.name === 'account_quotas').length;
  await admin.must('POST', '/accounts', { account: 'carol' });
  await iam('CreateUser', { UserName: 'ann' });
  expect(stored()).toBe(2);
  expect((await admin.ask('POST', '/accounts', { account: 'carol' })).status).toBe(409);
  expect((await iam('CreateUser', { UserName: 'ann' })).status).toBe(409);
  const missing = { UserName: 'ben', PermissionsBoundary: 'arn:aws:iam::alice-account:policy/missing' };
  expect((await iam('CreateUser', missing)).status).toBe(404);
  expect(stored()).toBe(2);
});

test('an operator sets a default in place of the settings, for what is created from then on, and removes it', async () => {
  await using world = await openQuotas({ settings });
  const admin = operatorOf(world);
  await admin.must('PUT', '/quotas/defaults/bucket', { maxObjects: 1 });
  const shown = { maxBytes: 15, maxObjects: 1, maxBytesPerObject: 0, source: 'operator' };
  expect(await admin.must('GET', '/quotas/defaults/bucket')).toEqual(shown);
  await world.client.put('/next');
  expect(await admin.must('GET', '/buckets/next/quota')).toMatchObject({ maxObjects: 1, isDefault: true });
  expect(await admin.must('GET', '/buckets/bucket/quota')).toMatchObject({ maxObjects: 0 });
  for (const kind of ['account', 'user']) {
    await admin.must('PUT', `/quotas/defaults/${kind}`, { totalMaxBytes: '1GB', maxBuckets: null });
    expect(await admin.must('GET', `/quotas/defaults/${kind}`)).toEqual({
      maxBuckets: 0,
      totalMaxBytes: 1e9,
      source: 'operator',
    });
    await admin.must('DELETE', `/quotas/defaults/${kind}`);
    expect(await admin.must('GET', `/quotas/defaults/${kind}`)).toMatchObject({ source: 'settings' });
  }
  expect((await admin.ask('PUT', '/quotas/defaults/bucket', {})).status).toBe(400);
  expect((await admin.ask('PUT', '/quotas/defaults/bucket', { maxBuckets: 1 })).status).toBe(400);
  expect((await world.client.get('/admin/v1/quotas/defaults/bucket')).status).toBe(403);
  const actions = (await auditRows(world.context)).map(({ action }) => action);
  for (const kind of ['Bucket', 'Account', 'User']) expect(actions).toContain(`admin:Put${kind}QuotaDefault`);
});

test('bucket-stats shows the fullest limits of buckets, accounts and users, and no more than SVC_BUCKETSTATS_TOPN', async () => {
  const shown: object[][] = [];
  const openWith = (top: string) =>
    openQuotas({
      settings: { SVC_BUCKETSTATS_TOPN: top },
      telemetry: {
        ...silentTelemetry,
        ...onReplace({
          svc_quota_used_ratio: (fullest) =>
            void shown.push(fullest.map(([labels, ratio]) => ({ ...labels, ratio }))),
        }),
      },
    });
  for (const top of ['10', '2']) {
    await using world = await openWith(top);
    const { client } = world;
    await client.put('/bucket/a', { body: ten });
    await world.limit({ maxBytes: 20, maxObjects: 10 });
    await world.limitUser({ maxBuckets: 5, totalMaxBytes: 40 });
    const ann = await openUser(world, 'ann', { policy: allow('s3:*') });
    await world.as({ credential: ann.credential }).put('/of-ann');
    await operatorOf(world).must('PUT', '/iam/users/ann/quota', { maxBuckets: 1 });
    const unit = sampleBuckets(world.context);
    const { signal } = new AbortController();
    while ((await unit(signal)) === 'busy');
  }
  const of = (kind: string, name: string, limit: string, ratio: number) => ({ of: kind, name, limit, ratio });
  const all = [
    of('user', `${alice.owner}/ann`, 'maxBuckets', 1),
    of('bucket', 'bucket', 'maxBytes', 0.5),
    of('account', alice.owner, 'maxBuckets', 0.4),
    of('account', alice.owner, 'totalMaxBytes', 0.25),
    of('bucket', 'bucket', 'maxObjects', 0.1),
  ];
  expect(shown).toEqual([all, all.slice(0, 2)]);
});
