/** Access points of a bucket at the operator API. */
import { expect, test } from 'vitest';
import { acting } from '../support/access-points.ts';
import { operatorOf } from '../support/clusters.ts';
import { alice, bob, openGateway, operator } from '../support/gateway.ts';
import { must, openUser } from '../support/iam-users.ts';
import { auditRows } from '../support/recorded.ts';

const path = '/buckets/books/access-points';
const arn = `arn:aws:s3:default:${alice.owner}:accesspoint/readers`;
const policyFor = (principal: unknown, resource = `${arn}/object/*`): string =>
  JSON.stringify({
    Version: '2012-10-17',
    Statement: [{ Effect: 'Allow', Principal: principal, Action: 's3:GetObject', Resource: resource }],
  });
const blocked = {
  blockPublicAcls: true,
  ignorePublicAcls: true,
  blockPublicPolicy: true,
  restrictPublicBuckets: true,
};

test('operators create, list, show and delete access points of a bucket as the account that owns it', async () => {
  await using world = await openGateway();
  const admin = operatorOf(world);
  await world.client.put('/books');
  await world.client.put('/other');
  await world.client.put('/books/key', { body: 'x' });
  expect((await admin.must('GET', path))['rows']).toEqual([]);
  const made = await admin.must('POST', path, { accessPoint: 'readers' });
  expect(made).toMatchObject({
    ...{ accessPoint: 'readers', account: alice.owner, arn, ...blocked, statements: 0, isPublic: false },
    alias: expect.stringMatching(/^readers-[a-z0-9]{34}-s3alias$/),
  });
  expect((await world.client.get(`/${made['alias']}/key`)).text).toBe('x');
  // The storage protocol shows the same.
  const shown = await must(acting(world)('GetAccessPoint', { Name: 'readers' }));
  expect([shown.one('Bucket'), shown.one('Alias')]).toEqual(['books', made['alias']]);
  const open = await admin.must('POST', path, { accessPoint: 'writers', blockPublicPolicy: false });
  expect(open).toMatchObject({ ...blocked, blockPublicPolicy: false });
  await admin.must('POST', '/buckets/other/access-points', { accessPoint: 'elsewhere' });
  const names = async (query = '') =>
    ((await admin.must('GET', path + query))['rows'] as { readonly accessPoint: string }[]).map(
      ({ accessPoint }) => accessPoint,
    );
  expect(await names()).toEqual(['readers', 'writers']);
  const first = await admin.must('GET', `${path}?limit=1`);
  expect([await names('?limit=1'), await names(`?after=${first['next']}`)]).toEqual([
    ['readers'],
    ['writers'],
  ]);
  for (const [asked, status, code] of [
    [{ accessPoint: 'readers' }, 409, 'AccessPointAlreadyOwnedByYou'],
    [{ accessPoint: 'Readers' }, 400, 'MalformedJSON'],
    [{ accessPoint: 'x' }, 400, 'MalformedJSON'],
    [{ accessPoint: 'name-s3alias' }, 400, 'InvalidArgument'],
  ] as const) {
    const refused = await admin.ask('POST', path, asked);
    expect([asked, refused.status, refused.json?.['code']]).toEqual([asked, status, code]);
  }
  // Of another bucket, of none, and of a bucket that does not exist.
  for (const wrong of [`${path}/elsewhere`, `${path}/none`, '/buckets/none/access-points/readers'])
    for (const method of ['GET', 'DELETE']) expect((await admin.ask(method, wrong)).status).toBe(404);
  await admin.must('DELETE', `${path}/readers`);
  expect((await world.client.get(`/${made['alias']}/key`)).status).toBe(404);
  expect(await names()).toEqual(['writers']);
  const rows = (await auditRows(world.context)).filter(({ status }) => status < 300);
  const deleted = rows.find(({ action }) => action === 'admin:DeleteBucketAccessPoint');
  expect(deleted?.resource).toBe('bucket:books');
  expect(deleted?.changes).toContainEqual({ field: 'accessPoint', old: 'readers' });
});

test('the policy of an access point is checked, stored, shown by its digest in the audit log, and removed', async () => {
  await using world = await openGateway();
  const admin = operatorOf(world);
  await world.client.put('/books');
  await world.client.put('/books/key', { body: 'x' });
  const { alias } = await admin.must('POST', path, { accessPoint: 'readers' });
  const carol = await openUser(world, 'carol');
  const delegating = {
    Version: '2012-10-17',
    Statement: [
      {
        Effect: 'Allow',
        Principal: { AWS: `arn:aws:iam::${alice.owner}:user/carol` },
        Action: 's3:GetObject',
        Resource: 'arn:aws:s3:::books/*',
        Condition: { StringEquals: { 's3:DataAccessPointAccount': alice.owner } },
      },
    ],
  };
  expect((await world.client.put('/books?policy', { body: JSON.stringify(delegating) })).status).toBe(204);
  const get = async () => (await world.as({ credential: carol.credential }).get(`/${alias}/key`)).status;
  expect(await get()).toBe(403);
  const put = (document: string) => admin.ask('PUT', `${path}/readers/policy`, { document });
  const malformed = await put('{"Statement":[]}');
  expect([malformed.status, malformed.json?.['code']]).toEqual([400, 'MalformedPolicy']);
  const elsewhere = await put(policyFor('*', 'arn:aws:s3:::books/*'));
  expect(elsewhere.status).toBe(400);
  const everyone = await put(policyFor('*'));
  expect([everyone.status, everyone.json?.['code']]).toEqual([403, 'AccessDenied']);
  const document = policyFor({ AWS: `arn:aws:iam::${alice.owner}:user/carol` });
  expect((await put(document)).status).toBe(204);
  expect(await get()).toBe(200);
  expect(await admin.must('GET', `${path}/readers`)).toMatchObject({
    document,
    statements: 1,
    isPublic: false,
  });
  expect((await admin.must('GET', path))['rows']).toMatchObject([{ statements: 1 }]);
  expect(JSON.stringify((await admin.must('GET', path))['rows'])).not.toContain('Statement');
  const why = (asked: object) =>
    admin.must('POST', '/why', {
      ...{ action: 's3:GetObject', bucket: 'books', key: 'key', accessKey: carol.credential.accessKey },
      ...asked,
    });
  expect(await why({ accessPoint: 'readers' })).toMatchObject({ allowed: true });
  // The policy of the bucket allows it through access points of the account only.
  expect(await why({})).toMatchObject({ allowed: false, reason: 'nothing-allows' });
  expect((await admin.ask('DELETE', `${path}/readers/policy`)).status).toBe(204);
  expect(await get()).toBe(403);
  expect(await why({ accessPoint: 'readers' })).toMatchObject({ allowed: false, reason: 'access-point' });
  for (const wrong of [{ accessPoint: 'none' }, { accessPoint: 'readers', bucket: undefined }]) {
    const question = { action: 's3:GetObject', bucket: 'books', ...wrong };
    expect((await admin.ask('POST', '/why', question)).status).toBe(wrong.accessPoint === 'none' ? 404 : 400);
  }
  expect(await admin.must('GET', `${path}/readers`)).not.toHaveProperty('document');
  const { alias: open } = await admin.must('POST', path, {
    ...{ accessPoint: 'everyone', blockPublicPolicy: false, restrictPublicBuckets: false },
  });
  await world.client.delete('/books?publicAccessBlock');
  const toAll = policyFor('*', `${arn.replace('readers', 'everyone')}/object/*`);
  expect((await admin.ask('PUT', `${path}/everyone/policy`, { document: toAll })).status).toBe(204);
  expect(await admin.must('GET', `${path}/everyone`)).toMatchObject({ isPublic: true, alias: open });
  const rows = (await auditRows(world.context)).filter(
    ({ action, status }) => action === 'admin:PutBucketAccessPointPolicy' && status < 300,
  );
  expect(rows).toHaveLength(2);
  expect(JSON.stringify(rows)).not.toContain('Statement');
  expect(rows.every(({ changes = [] }) => changes[0]?.field === 'document')).toBe(true);
});

test('a Deny of a bucket or of an access point refuses and hides it; tenants use the storage protocol', async () => {
  await using world = await openGateway();
  const admin = operatorOf(world);
  await world.client.put('/books');
  for (const accessPoint of ['readers', 'secret']) await admin.must('POST', path, { accessPoint });
  const policy = JSON.stringify({
    Version: '2012-10-17',
    Statement: [
      { Effect: 'Allow', Action: 'admin:*', Resource: '*' },
      { Effect: 'Deny', Action: 'admin:*', Resource: 'arn:aws:admin:::buckets/books/access-points/secret*' },
    ],
  });
  const narrow = await openUser(world, 'narrow', { root: operator, policy });
  const client = world.as({ credential: narrow.credential });
  const { rows } = JSON.parse((await client.get(`/admin/v1${path}`)).text);
  expect(rows.map(({ accessPoint }: { readonly accessPoint: string }) => accessPoint)).toEqual(['readers']);
  expect((await client.get(`/admin/v1${path}/secret`)).status).toBe(403);
  expect((await client.delete(`/admin/v1${path}/secret`)).status).toBe(403);
  expect((await client.post(`/admin/v1${path}`, { body: '{"accessPoint":"secret2"}' })).status).toBe(403);
  for (const credential of [alice, bob])
    expect((await world.as({ credential }).get(`/admin/v1${path}`)).status).toBe(403);
});
