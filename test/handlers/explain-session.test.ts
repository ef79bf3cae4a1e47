/** ExplainDecision by the id of a request that was signed with temporary credentials: of a page of the console, of a user, of a role. */
import { createHash } from 'node:crypto';
import { expect, test } from 'vitest';
import { audited, findAudit } from '../../src/metadata/audit.ts';
import { openActions } from '../support/actions.ts';
import { alice, bob, type GatewayWorld, openGateway, operator, person } from '../support/gateway.ts';
import type { Answer, Client } from '../support/gateway-client.ts';
import { allow, assume, must, openUser, putPolicy, sessionOf, trusting } from '../support/iam-users.ts';
import { logIn } from '../support/logins.ts';

const ask = async (client: Client, question: object) => {
  const reply = await client.post('/admin/v1/why', { body: JSON.stringify(question) });
  return { status: reply.status, json: JSON.parse(reply.text) };
};
const why = async (world: GatewayWorld, { status, header }: Answer) => {
  expect(status).toBe(403);
  const requestId = header('*-request-id') ?? '';
  const { json, ...answer } = await ask(world.as({ credential: operator }), { requestId });
  expect(answer).toEqual({ status: 200 });
  return json;
};
const arnOf = (answer: Answer): string => answer.one('Arn') ?? '';

/** Rewrites the audit row of a request as a version before the record of sessions did. */
async function forgetSession({ context: { metadata, clock } }: GatewayWorld, requestId: string) {
  const now = clock.now();
  const { row } = await findAudit(metadata, { start: 0, end: now, requestId, rest: async () => {} });
  if (row === undefined) throw new Error('no row');
  const { hour: _, slot: __, session: ___, ...entry } = row;
  await metadata.apply([audited(entry, { retentionMs: 3_600_000 })]);
}

const deny = (sid: string, resource: string): string =>
  JSON.stringify({
    Version: '2012-10-17',
    Statement: [
      {
        Sid: sid,
        Effect: 'Deny',
        Principal: '*',
        Action: 's3:PutObject',
        Resource: `arn:aws:s3:::${resource}`,
      },
    ],
  });

/** A role that may do everything, and a user who may assume it. */
async function openRole(world: GatewayWorld) {
  const iam = openActions(world);
  const made = await must(
    iam('CreateRole', { RoleName: 'writer', AssumeRolePolicyDocument: trusting({ AWS: alice.owner }) }),
  );
  await must(iam('PutRolePolicy', { RoleName: 'writer', PolicyName: 'all', PolicyDocument: allow('s3:*') }));
  const { act } = await openUser(world, 'assumer', { policy: allow('sts:*') });
  return { iam, act, role: arnOf(made) };
}

test('a page of the console: the policies of the root and of its user decide, and the session policy of pages', async () => {
  await using world = await openGateway();
  await world.client.put('/bucket');
  await world.client.put('/bucket?policy', { body: deny('no-logs', 'bucket/logs/*') });
  const root = await (await logIn(world, alice)).signed();
  expect(await why(world, await root.client.put('/bucket/logs/1', { body: 'x' }))).toMatchObject({
    allowed: false,
    reason: 'explicit-deny',
    by: { policy: 'bucket policy', sid: 'no-logs' },
    caller: { account: alice.owner, principal: `arn:aws:iam::${alice.owner}:root` },
    request: {
      accessKey: root.found.accessKey,
      session: { isOfLogin: true, parentKey: alice.accessKey },
    },
  });
  // Pages have no action of IAM, although the root has.
  expect(await why(world, await root.act('CreateUser', { UserName: 'x' }))).toMatchObject({
    allowed: false,
    reason: 'session-policy',
  });
  const user = await openUser(world, 'reader', { policy: allow('s3:GetObject') });
  const page = await (await logIn(world, user.credential)).signed();
  const answer = await why(world, await page.client.put('/bucket/key', { body: 'x' }));
  expect(answer).toMatchObject({
    allowed: false,
    caller: { principal: `arn:aws:iam::${alice.owner}:user/reader` },
    request: { session: { isOfLogin: true } },
  });
  expect(answer).not.toHaveProperty('missing');
  // The present policies decide.
  await must(putPolicy(openActions(world), 'reader', allow('s3:*')));
  const requestId = (await page.client.delete('/bucket/key')).header('*-request-id');
  expect(await ask(world.as({ credential: operator }), { requestId })).toMatchObject({
    json: { allowed: true, reason: 'identity-policy' },
  });
});

test('GetSessionToken: the policies of the user decide, and a user who is gone is named', async () => {
  await using world = await openGateway();
  await world.client.put('/bucket');
  const user = await openUser(world, 'carol', { policy: allow('s3:GetObject', 'sts:*') });
  const session = sessionOf(world, await must(user.act('GetSessionToken')));
  const refused = await world.as(session.options).put('/bucket/key', { body: 'x' });
  const answer = await why(world, refused);
  expect(answer).toMatchObject({
    allowed: false,
    caller: { principal: expect.stringContaining('user/carol') },
  });
  expect(answer.statements).toMatchObject([
    { policy: expect.stringContaining('carol'), outcome: 'other-action' },
  ]);
  const iam = openActions(world);
  await must(iam('DeleteUserPolicy', { UserName: 'carol', PolicyName: 'test' }));
  await must(iam('DeleteAccessKey', { UserName: 'carol', AccessKeyId: user.credential.accessKey }));
  await must(iam('DeleteUser', { UserName: 'carol' }));
  const requestId = refused.header('*-request-id');
  expect(await ask(world.as({ credential: operator }), { requestId })).toMatchObject({
    status: 400,
    json: { code: 'InvalidArgument', message: expect.stringContaining('user/carol') },
  });
});

test('AssumeRole: managed session policies decide, and a session policy that is not stored is missing, by its SHA-256', async () => {
  await using world = await openGateway();
  await world.client.put('/bucket');
  const { iam, act, role } = await openRole(world);
  const made = await must(
    iam('CreatePolicy', { PolicyName: 'readers', PolicyDocument: allow('s3:GetObject') }),
  );
  const managed = await assume(world, act, { role, 'PolicyArns.member.1.arn': arnOf(made) });
  const byManaged = await why(world, await world.as(managed.options).put('/bucket/key', { body: 'x' }));
  expect(byManaged).toMatchObject({
    allowed: false,
    reason: 'session-policy',
    caller: { principal: `arn:aws:sts::${alice.owner}:assumed-role/writer/session` },
  });
  expect(byManaged).not.toHaveProperty('missing');
  const Policy = allow('s3:GetObject');
  const inline = await assume(world, act, {
    role,
    Policy,
    'Tags.member.1.Key': 'team',
    'Tags.member.1.Value': 'a',
  });
  const client = world.as(inline.options);
  const byInline = await why(world, await client.put('/bucket/key', { body: 'x' }));
  expect(byInline).toMatchObject({
    allowed: true,
    reason: 'identity-policy',
    missing: ['session-policy', 'session-tags'],
    request: {
      error: 'AccessDenied',
      session: { policySha256: createHash('sha256').update(Policy).digest('hex'), isTagged: true },
    },
  });
});

test('a question about a session leaves the policies in force that limit its further requests', async () => {
  await using world = await openGateway();
  await world.client.put('/bucket');
  const { iam, act, role } = await openRole(world);
  const made = await must(
    iam('CreatePolicy', { PolicyName: 'readers', PolicyDocument: allow('s3:GetObject') }),
  );
  // The session may do what either of its policies allows.
  const Policy = allow('s3:PutObject');
  const { options } = await assume(world, act, { role, Policy, 'PolicyArns.member.1.arn': arnOf(made) });
  const client = world.as(options);
  expect((await client.put('/bucket/key', { body: 'x' })).status).toBe(200);
  const refused = await client.delete('/bucket/key');
  // What is cached of the session is read again.
  await must(iam('CreateUser', { UserName: 'another' }));
  expect(await why(world, refused)).toMatchObject({ allowed: false, missing: ['session-policy'] });
  expect((await client.put('/bucket/key', { body: 'x' })).status).toBe(200);
});

test('a session is asked about by its ARN, and a row without a record of its session says so', async () => {
  await using world = await openGateway();
  await world.client.put('/bucket');
  const { act, role } = await openRole(world);
  const principal = `arn:aws:sts::${alice.owner}:assumed-role/writer/session`;
  const question = { principal, action: 's3:PutObject', bucket: 'bucket', key: 'key' };
  const client = world.as({ credential: operator });
  expect(await ask(client, question)).toMatchObject({ json: { allowed: true, caller: { principal } } });
  const absent = principal.replace('writer', 'absent');
  expect((await ask(client, { ...question, principal: absent })).status).toBe(400);
  // As versions before the record of sessions wrote it.
  const { options } = await assume(world, act, { role });
  const id = (await world.as(options).put('/bucket/key', { body: 'x' })).header('*-request-id') ?? '';
  await forgetSession(world, id);
  expect(await ask(client, { requestId: id })).toMatchObject({
    json: { allowed: true, caller: { principal }, missing: ['session'] },
  });
});

test('a tenant asks about the requests of its own pages, and of no other account’s', async () => {
  await using world = await openGateway();
  await world.client.put('/of-alice');
  await world.bob.put('/of-bob');
  await world.client.put('/of-alice?policy', { body: deny('mine', 'of-alice/*') });
  const { client } = await (await logIn(world, alice)).signed();
  const refused = (await client.put('/of-alice/key', { body: 'x' })).header('*-request-id');
  expect(await ask(world.client, { bucket: 'of-alice', requestId: refused })).toMatchObject({
    status: 200,
    json: { by: { sid: 'mine' } },
  });
  const others = (await (await logIn(world, bob)).signed()).client;
  const secret = (await others.put('/of-bob/secret-key', { body: 'x' })).header('*-request-id');
  const answer = await ask(world.client, { bucket: 'of-alice', requestId: secret });
  expect([answer.status, JSON.stringify(answer.json)]).toEqual([
    403,
    expect.not.stringContaining('secret-key'),
  ]);
  // Another account's session that was refused in this bucket.
  const there = (await others.put('/of-alice/key', { body: 'x' })).header('*-request-id');
  expect((await ask(world.client, { bucket: 'of-alice', requestId: there })).status).toBe(403);
});

test('a permanent key that begins as temporary ones do misses no session', async () => {
  const carol = person('carol', { accessKey: 'ASIAKEYOFTHESETTINGS' });
  await using world = await openGateway({ people: [carol] });
  await world.client.put('/bucket');
  const answer = await why(world, await world.as({ credential: carol }).put('/bucket/key', { body: 'x' }));
  expect(answer).toMatchObject({ allowed: false, request: { accessKey: carol.accessKey } });
  expect(answer).not.toHaveProperty('missing');
});
