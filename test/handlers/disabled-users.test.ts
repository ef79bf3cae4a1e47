/** An IAM user that an operator disables: its keys and sessions are refused at once, and served again once it is active. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { openActions } from '../support/actions.ts';
import { operatorOf } from '../support/clusters.ts';
import { alice, bob, openGateway } from '../support/gateway.ts';
import { allow, assume, must, openUser, sessionOf, trusting } from '../support/iam-users.ts';
import { auditRows } from '../support/recorded.ts';

const users = `/accounts/${alice.owner}/users`;

test('a disabled user is refused with its keys, sessions, presigned URLs and assumed roles, and served again when active', async () => {
  await using world = await openGateway();
  const admin = operatorOf(world);
  await world.client.put('/bucket');
  const ann = await openUser(world, 'ann', { policy: allow('s3:*', 'sts:*') });
  const ben = await openUser(world, 'ben', { policy: allow('s3:*', 'sts:*') });
  const root = openActions(world);
  const role = (
    await must(
      root('CreateRole', { RoleName: 'reader', AssumeRolePolicyDocument: trusting({ AWS: alice.owner }) }),
    )
  ).one('Arn');
  await must(
    root('PutRolePolicy', { RoleName: 'reader', PolicyName: 'p', PolicyDocument: allow('s3:*', 'sts:*') }),
  );
  const token = sessionOf(world, await must(ann.act('GetSessionToken', {})));
  const assumed = await assume(world, ann.act, { role: role ?? '' });
  const chained = await assume(world, assumed.act, { role: role ?? '' });
  const ofBen = await assume(world, ben.act, { role: role ?? '' });
  const callers = [{ credential: ann.credential }, token.options, assumed.options, chained.options];
  const statuses = (all: readonly Parameters<typeof world.as>[0][]) =>
    Promise.all(all.map(async (options) => (await world.as(options).get('/bucket')).status));
  expect(await statuses(callers)).toEqual([200, 200, 200, 200]);

  const disabled = await admin.must('PUT', `${users}/ann`, { status: 'Disabled' });
  expect(disabled).toMatchObject({ name: 'ann', status: 'Disabled', accessKeys: [{ status: 'Active' }] });
  expect(await statuses(callers)).toEqual([403, 403, 403, 403]);
  expect(await statuses([{ credential: ben.credential }, ofBen.options])).toEqual([200, 200]);
  expect((await world.as({ credential: ann.credential }).get('/bucket')).text).toContain(
    '<Code>AccountProblem</Code><Message>The user of these credentials is disabled.</Message>',
  );
  // The public actions know no such state.
  const listed = await must(root('ListAccessKeys', { UserName: 'ann' }));
  expect(listed.one('Status')).toBe('Active');
  // A change of something else keeps it disabled.
  await must(root('UpdateUser', { UserName: 'ann', NewPath: '/team/' }));
  expect(await admin.must('GET', `${users}/ann`)).toMatchObject({ status: 'Disabled', path: '/team/' });

  expect(await admin.must('PUT', `${users}/ann`, { status: 'Active' })).toMatchObject({ status: 'Active' });
  expect(await statuses(callers)).toEqual([200, 200, 200, 200]);
  const rows = await auditRows(world.context);
  expect(rows.filter(({ action }) => action === 'admin:PutIamUser')).toHaveLength(2);
});

test('a role of another account ends with the user who has assumed it', async () => {
  await using world = await openGateway();
  await world.bob.put('/of-bob');
  const ann = await openUser(world, 'ann', { policy: allow('sts:*') });
  const ofBob = openActions(world, { credential: bob });
  const document = trusting({ AWS: alice.owner });
  const role = await must(ofBob('CreateRole', { RoleName: 'reader', AssumeRolePolicyDocument: document }));
  const policy = { RoleName: 'reader', PolicyName: 'p', PolicyDocument: allow('s3:*') };
  await must(ofBob('PutRolePolicy', policy));
  const session = world.as((await assume(world, ann.act, { role: role.one('Arn') ?? '' })).options);
  expect((await session.get('/of-bob')).status).toBe(200);
  await operatorOf(world).must('PUT', `${users}/ann`, { status: 'Disabled' });
  expect((await session.get('/of-bob')).status).toBe(403);
  await operatorOf(world).must('PUT', `${users}/ann`, { status: 'Active' });
  expect((await session.get('/of-bob')).status).toBe(200);
});

test('another gateway on the same store refuses a disabled user with its next request', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'sluice-disabled-users-'));
  const settings = { SVC_META_BACKEND: 'embedded', SVC_DATA_DIR: directory };
  try {
    await using world = await openGateway({ settings });
    await using other = await openGateway({ settings });
    await world.client.put('/bucket');
    const ann = await openUser(world, 'ann', { policy: allow('s3:*') });
    const client = other.as({ credential: ann.credential });
    expect((await client.get('/bucket')).status).toBe(200);
    await operatorOf(world).must('PUT', `${users}/ann`, { status: 'Disabled' });
    expect((await client.get('/bucket')).one('Code')).toBe('AccountProblem');
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
});
