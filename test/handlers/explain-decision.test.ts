/** The operator's explanation of an authorization decision: the statement that decided. */
import { expect, test } from 'vitest';
import { openBucket } from '../../src/domain/buckets/buckets.ts';
import { changeDocument } from '../../src/domain/configurations/documents.ts';
import { openActions } from '../support/actions.ts';
import { alice, bob, type GatewayWorld, openGateway, operator } from '../support/gateway.ts';
import { must, openUser } from '../support/iam-users.ts';

const policy = {
  Version: '2012-10-17',
  Statement: [
    {
      Sid: 'readers',
      Effect: 'Allow',
      Principal: '*',
      Action: 's3:GetObject',
      Resource: 'arn:aws:s3:::bucket/*',
    },
    {
      Sid: 'not-from-there',
      Effect: 'Deny',
      Principal: '*',
      Action: 's3:*',
      Resource: 'arn:aws:s3:::bucket/*',
      Condition: { IpAddress: { 'aws:SourceIp': '203.0.113.0/24' } },
    },
  ],
};

async function furnished(): Promise<GatewayWorld> {
  const world = await openGateway();
  await world.client.put('/bucket');
  const bucket = await openBucket(world.context, 'bucket');
  await changeDocument(world.context, { bucket, family: { name: 'policy' }, text: JSON.stringify(policy) });
  return world;
}
const why = async (world: GatewayWorld, question: unknown) => {
  const client = world.as({ credential: operator });
  return client.post('/admin/v1/why', { body: JSON.stringify(question) });
};

test('names the statement that decided, and the results of the others', async () => {
  await using world = await furnished();
  const question = { accessKey: bob.accessKey, action: 's3:GetObject', bucket: 'bucket', key: 'key' };
  const allowed = JSON.parse((await why(world, question)).text);
  expect(allowed).toMatchObject({ allowed: true, reason: 'bucket-policy', by: { sid: 'readers' } });
  const context = { 'aws:SourceIp': '203.0.113.9' };
  const denied = JSON.parse((await why(world, { ...question, context })).text);
  expect(denied).toMatchObject({ allowed: false, reason: 'explicit-deny', by: { sid: 'not-from-there' } });
  expect(denied.statements).toHaveLength(2);
  const { accessKey: _, ...anonymously } = question;
  const put = JSON.parse((await why(world, { ...anonymously, action: 's3:PutObject' })).text);
  expect(put).toMatchObject({ allowed: false, reason: 'nothing-allows' });
  expect(put.statements[0]).toMatchObject({ sid: 'readers', outcome: 'other-action' });
});

test('distinguishes ownership, ACLs and identity policies as the reason', async () => {
  await using world = await furnished();
  const policy = JSON.stringify({
    Version: '2012-10-17',
    Statement: [
      { Effect: 'Allow', Action: 's3:PutObject', Resource: '*' },
      { Sid: 'never', Effect: 'Deny', Action: 's3:DeleteObject', Resource: '*' },
    ],
  });
  const { credential } = await openUser(world, 'carol', { policy });
  await world.client.put('/bucket/key', { body: 'x' });
  await world.client.put('/bucket?acl', { headers: { '*-acl': 'public-read' } });
  const explain = async (accessKey: string | undefined, action: string) => {
    const about = action === 's3:ListBucket' ? {} : { key: 'key' };
    const asked = { ...(accessKey === undefined ? {} : { accessKey }), action, bucket: 'bucket', ...about };
    const { allowed, reason, by } = JSON.parse((await why(world, asked)).text);
    return [allowed, reason, by?.policy, by?.statement];
  };
  const carol = credential.accessKey;
  const users = expect.stringContaining('carol');
  expect(await explain(alice.accessKey, 's3:PutObject')).toEqual([true, 'root', undefined, undefined]);
  expect(await explain(carol, 's3:PutObject')).toEqual([true, 'identity-policy', users, 0]);
  expect(await explain(carol, 's3:DeleteObject')).toEqual([false, 'explicit-deny', users, 1]);
  expect(await explain(carol, 's3:GetObject')).toEqual([true, 'bucket-policy', 'bucket policy', 0]);
  expect(await explain(undefined, 's3:ListBucket')).toEqual([true, 'acl', undefined, undefined]);
  expect(await explain(bob.accessKey, 's3:PutObject')).toEqual([
    false,
    'other-account',
    undefined,
    undefined,
  ]);
});

test('answers operators only, and describes invalid questions', async () => {
  await using world = await furnished();
  for (const client of [world.client, world.anonymous]) {
    const refused = await client.post('/admin/v1/why', { body: '{"action":"s3:GetObject"}' });
    expect([refused.status, JSON.parse(refused.text).code]).toEqual([403, 'AccessDenied']);
  }
  for (const [question, code] of [
    [{ action: 's3:GetObject', bucket: 'absent' }, 'NoSuchBucket'],
    [{ action: 7 }, 'MalformedJSON'],
    [{}, 'MalformedJSON'],
    [{ action: 's3:GetObject', nonsense: 1 }, 'MalformedJSON'],
    [[], 'MalformedJSON'],
  ] as const) {
    const refused = await why(world, question);
    expect(JSON.parse(refused.text).code, JSON.stringify(question)).toBe(code);
  }
  const broken = await world.as({ credential: operator }).post('/admin/v1/why', { body: '{' });
  expect(broken.status).toBe(400);
  expect((await world.as({ credential: operator }).get('/admin/v1/nothing')).status).toBe(404);
});

test('an access key that does not exist is an invalid argument of the question, not of the operator’s signature', async () => {
  await using world = await furnished();
  const refused = await why(world, { action: 's3:GetObject', accessKey: 'nobody' });
  expect([refused.status, JSON.parse(refused.text)]).toEqual([
    400,
    expect.objectContaining({
      code: 'InvalidArgument',
      message: expect.stringContaining('No account and no user has an active access key "nobody"'),
      details: { field: 'accessKey' },
    }),
  ]);
});

test('an access key of an audited request that is deleted is named, and another one may be asked about', async () => {
  await using world = await furnished();
  const { credential } = await openUser(world, 'carol');
  const put = await world.as({ credential }).put('/bucket/key', { body: 'x' });
  expect(put.status).toBe(403);
  const requestId = put.header('*-request-id');
  const iam = openActions(world);
  await must(iam('DeleteAccessKey', { UserName: 'carol', AccessKeyId: credential.accessKey }));
  const refused = await why(world, { requestId });
  expect([refused.status, JSON.parse(refused.text)]).toEqual([
    400,
    expect.objectContaining({
      code: 'InvalidArgument',
      message: expect.stringContaining(`"${credential.accessKey}"`),
      details: { field: 'accessKey' },
    }),
  ]);
  expect((await why(world, { requestId, accessKey: bob.accessKey })).status).toBe(200);
});
