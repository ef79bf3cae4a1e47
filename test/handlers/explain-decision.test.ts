/** The operator's explanation of an authorization decision: the statement that decided. */
import { expect, test } from 'vitest';
import { openBucket } from '../../src/domain/common/buckets.ts';
import { changeDocument } from '../../src/domain/configurations/documents.ts';
import { openActions } from '../support/actions.ts';
import { alice, bob, type GatewayWorld, openGateway, operator } from '../support/gateway.ts';
import { allow, must, openUser } from '../support/iam-users.ts';

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

/** A draft replaces a document for one question only: the answers before and after are those of before and after its saving. */
const statementOf = (fields: object) =>
  JSON.stringify({ Version: '2012-10-17', Statement: [{ Sid: 'draft', ...fields }] });

test('a draft of the bucket policy is answered before and after it, as the requests are once it is stored', async () => {
  await using world = await furnished();
  await world.client.put('/bucket/key', { body: 'x' });
  const document = statementOf({
    Effect: 'Deny',
    Principal: '*',
    Action: 's3:GetObject',
    Resource: 'arn:aws:s3:::bucket/*',
  });
  const question = { accessKey: bob.accessKey, action: 's3:GetObject', bucket: 'bucket', key: 'key' };
  const asked = await why(world, { ...question, draft: { policy: 'bucket policy', document } });
  expect(JSON.parse(asked.text)).toMatchObject({
    allowed: true,
    by: { policy: 'bucket policy', sid: 'readers' },
    caller: { account: 'bob-account', principal: 'arn:aws:iam::bob-account:root' },
    draft: {
      allowed: false,
      reason: 'explicit-deny',
      by: { policy: 'bucket policy', statement: 0, sid: 'draft' },
      statements: [{ outcome: 'applies' }],
    },
  });
  // Nothing was stored.
  expect((await world.bob.get('/bucket/key')).status).toBe(200);
  expect((await world.client.put('/bucket?policy', { body: document })).status).toBe(204);
  expect((await world.bob.get('/bucket/key')).status).toBe(403);
});

test('a draft replaces an inline policy, a managed one, and that of a group; a new one is beside them', async () => {
  await using world = await furnished();
  const iam = openActions(world);
  const nothing = statementOf({ Effect: 'Deny', Action: 'sqs:*', Resource: '*' });
  const readers = statementOf({ Effect: 'Allow', Action: 's3:PutObject', Resource: '*' });
  const { credential } = await openUser(world, 'carol', { policy: nothing });
  const inline = /<member>([^<]*)<\/member>/.exec(
    (await must(iam('ListUserPolicies', { UserName: 'carol' }))).text,
  )?.[1];
  await must(iam('CreateGroup', { GroupName: 'staff' }));
  await must(iam('AddUserToGroup', { GroupName: 'staff', UserName: 'carol' }));
  await must(iam('PutGroupPolicy', { GroupName: 'staff', PolicyName: 'all', PolicyDocument: nothing }));
  const made = await must(iam('CreatePolicy', { PolicyName: 'managed', PolicyDocument: nothing }));
  await must(iam('AttachUserPolicy', { UserName: 'carol', PolicyArn: made.one('Arn') ?? '' }));
  const question = { accessKey: credential.accessKey, action: 's3:PutObject', bucket: 'bucket', key: 'key' };
  for (const draft of [
    { policy: `user/carol/${inline}` },
    { policy: 'group/staff/all' },
    { policy: 'policy/managed' },
    { policy: 'policy/further', isNew: true },
  ]) {
    const answer = JSON.parse(
      (await why(world, { ...question, draft: { ...draft, document: readers } })).text,
    );
    expect([draft, answer]).toMatchObject([
      draft,
      { allowed: false, reason: 'nothing-allows', draft: { allowed: true, by: { policy: draft.policy } } },
    ]);
  }
  const unknown = await why(world, { ...question, draft: { policy: 'policy/further', document: readers } });
  expect([unknown.status, JSON.parse(unknown.text).code]).toEqual([400, 'InvalidArgument']);
  for (const name of [`user/carol/${inline}`, 'group/staff/all', 'policy/managed'])
    expect(unknown.text).toContain(name);
  // A document that would be refused when it is saved.
  for (const document of [
    '{',
    statementOf({ Effect: 'Allow', Action: 's3:GetObject', Resource: '*', X: 1 }),
  ]) {
    const refused = await why(world, { ...question, draft: { policy: 'policy/managed', document } });
    expect([refused.status, JSON.parse(refused.text).code]).toEqual([400, 'MalformedPolicy']);
  }
});

test('a draft of the policy of a bucket is for its account and for operators', async () => {
  await using world = await furnished();
  const body = JSON.stringify({
    action: 's3:GetObject',
    bucket: 'bucket',
    draft: { policy: 'bucket policy', document: '{}' },
  });
  expect((await world.bob.post('/admin/v1/why', { body })).status).toBe(403);
  const own = await world.client.post('/admin/v1/why', { body });
  expect([own.status, JSON.parse(own.text).code]).toEqual([400, 'MalformedPolicy']);
});

test('the ARN of a question may be of the operator API or of IAM', async () => {
  await using world = await openGateway();
  const policy = JSON.stringify({
    Version: '2012-10-17',
    Statement: [
      { Effect: 'Allow', Action: 'admin:DrainCluster', Resource: 'arn:aws:admin:::clusters/a/drain' },
    ],
  });
  const { credential } = await openUser(world, 'ops', { root: operator, policy });
  const asked = async (cluster: string) =>
    JSON.parse(
      (
        await why(world, {
          accessKey: credential.accessKey,
          action: 'admin:DrainCluster',
          resource: `arn:aws:admin:::clusters/${cluster}/drain`,
        })
      ).text,
    ).allowed;
  expect([await asked('a'), await asked('b')]).toEqual([true, false]);
});

const whyBatch = async (world: GatewayWorld, questions: unknown, credential = operator) => {
  const body = JSON.stringify({ questions });
  const reply = await world.as({ credential }).post('/admin/v1/why/batch', { body });
  return { status: reply.status, ...JSON.parse(reply.text) };
};

test('a batch answers every question as the question alone is answered, also for other callers by key or ARN', async () => {
  await using world = await furnished();
  const policy = JSON.stringify({
    Version: '2012-10-17',
    Statement: [{ Sid: 'writes', Effect: 'Allow', Action: 's3:PutObject', Resource: '*' }],
  });
  const { credential } = await openUser(world, 'carol', { policy });
  const about = { bucket: 'bucket', key: 'key' };
  const questions = [
    { ...about, action: 's3:GetObject' },
    { ...about, action: 's3:PutObject', accessKey: bob.accessKey },
    { ...about, action: 's3:PutObject', accessKey: credential.accessKey },
    { ...about, action: 's3:GetObject', context: { 'aws:SourceIp': '203.0.113.9' } },
    { action: 's3:ListAllMyBuckets', accessKey: alice.accessKey },
  ];
  const { status, answers } = await whyBatch(world, questions);
  expect(status).toBe(200);
  for (const [index, question] of questions.entries()) {
    const { statements: _, ...alone } = JSON.parse((await why(world, question)).text);
    expect(answers[index]).toEqual(alone);
  }
  expect(answers.map(({ allowed }: { allowed: boolean }) => allowed)).toEqual([
    true,
    false,
    true,
    false,
    true,
  ]);
  // The ARN of a user and of a root lead to the same decision as one of its keys.
  const [byKey, , byRootKey] = [answers[2], answers[3], answers[4]];
  const byArn = await whyBatch(world, [
    { ...about, action: 's3:PutObject', principal: byKey.caller.principal },
    { action: 's3:ListAllMyBuckets', principal: byRootKey.caller.principal },
  ]);
  expect(byArn.answers).toEqual([byKey, byRootKey]);
});

test('a role is asked about by its ARN, and a principal that does not exist is named', async () => {
  await using world = await furnished();
  const iam = openActions(world);
  const trust = JSON.stringify({
    Version: '2012-10-17',
    Statement: [{ Effect: 'Allow', Principal: { AWS: '*' }, Action: 'sts:AssumeRole' }],
  });
  const document = JSON.stringify({
    Version: '2012-10-17',
    Statement: [{ Effect: 'Allow', Action: 's3:PutObject', Resource: '*' }],
  });
  await must(iam('CreateRole', { RoleName: 'writer', AssumeRolePolicyDocument: trust }));
  await must(iam('PutRolePolicy', { RoleName: 'writer', PolicyName: 'writes', PolicyDocument: document }));
  const owner = alice.owner;
  const about = { bucket: 'bucket', key: 'key', action: 's3:PutObject' };
  const { answers } = await whyBatch(world, [
    { ...about, principal: `arn:aws:iam::${owner}:role/writer` },
    { ...about, principal: `arn:aws:iam::${owner}:role/absent` },
    { ...about, principal: `arn:aws:iam::${owner}:role/other/writer` },
    { ...about, principal: 'arn:aws:iam::nobody:root' },
    { ...about, principal: 'x' },
    { ...about, principal: `arn:aws:iam::${owner}:root`, accessKey: alice.accessKey },
    { ...about, bucket: 'absent' },
  ]);
  expect(answers[0]).toMatchObject({ allowed: true, reason: 'identity-policy' });
  for (const answer of answers.slice(1, 6))
    expect(answer).toEqual({ refused: { code: 'InvalidArgument', message: expect.any(String) } });
  expect(answers[6].refused.code).toBe('NoSuchBucket');
});

test('each question of a batch needs the permission of ExplainDecision', async () => {
  await using world = await furnished();
  const policy = (resource: string) =>
    JSON.stringify({
      Version: '2012-10-17',
      Statement: [
        { Effect: 'Allow', Action: 'admin:ExplainDecision', Resource: `arn:aws:admin:::${resource}` },
      ],
    });
  const restricted = await openUser(world, 'restricted', {
    policy: policy('buckets/bucket/*'),
    root: operator,
  });
  await world.client.put('/other');
  const questions = [
    { action: 's3:GetObject', bucket: 'bucket', key: 'key' },
    { action: 's3:GetObject', bucket: 'other', key: 'key' },
    { action: 's3:ListAllMyBuckets', accessKey: bob.accessKey },
  ];
  const { answers } = await whyBatch(world, questions, restricted.credential);
  expect(answers[0]).toMatchObject({ allowed: true });
  for (const answer of answers.slice(1)) expect(answer.refused).toMatchObject({ code: 'AccessDenied' });
  // Other accounts learn nothing, not even whether a bucket or a key exists.
  const absent = [
    ...questions,
    { action: 's3:GetObject', bucket: 'absent' },
    { action: 's3:X', accessKey: 'x' },
  ];
  const tenant = await whyBatch(world, absent, bob);
  const message = expect.stringMatching(
    /^User: \S*bob\S* .* because a caller that is not an operator may name only resources of its own account$/,
  );
  for (const answer of tenant.answers) expect(answer).toEqual({ refused: { code: 'AccessDenied', message } });
  const anonymous = await world.anonymous.post('/admin/v1/why/batch', {
    body: JSON.stringify({ questions }),
  });
  expect(anonymous.status).toBe(403);
  const none = await whyBatch(world, []);
  expect([none.status, none.code]).toEqual([400, 'MalformedJSON']);
  const many = await whyBatch(
    world,
    Array.from({ length: 201 }, () => questions[0]),
  );
  expect(many.status).toBe(400);
});

test('a refused request whose operation alone is allowed needed a further action', async () => {
  await using world = await openGateway();
  await world.client.put('/bucket');
  await world.client.put('/bucket/key', { body: 'x' });
  const { credential } = await openUser(world, 'carol', { policy: allow('s3:PutObject') });
  const carol = world.as({ credential });
  const ask = async (reply: Awaited<ReturnType<typeof carol.put>>) =>
    JSON.parse((await why(world, { requestId: reply.header('*-request-id') })).text);
  const refused = await carol.put('/bucket/key', { body: 'y', headers: { 'if-match': '"0"' } });
  expect(refused.status).toBe(403);
  expect(await ask(refused)).toMatchObject({
    allowed: true,
    missing: ['further-action'],
    request: { error: 'AccessDenied' },
  });
  const stored = await carol.put('/bucket/key', { body: 'y' });
  expect(stored.status).toBe(200);
  expect(await ask(stored)).not.toHaveProperty('missing');
});
