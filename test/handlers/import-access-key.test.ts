/** Operators import existing access keys for users. */
import { expect, test } from 'vitest';
import { openActions } from '../support/actions.ts';
import { alice, openGateway, operator } from '../support/gateway.ts';
import { must, openUser } from '../support/iam-users.ts';
import { auditRows, inShort } from '../support/recorded.ts';

const path = '/admin/v1/iam/users/carol/access-keys';
const pair = { accessKey: 'moved-from-elsewhere', secretKey: 'a-secret-of-elsewhere' };
const body = (more: object = {}): string => JSON.stringify({ ...pair, account: alice.owner, ...more });

test('a key pair that was imported signs, and is its user’s', async () => {
  await using world = await openGateway();
  const iam = openActions(world);
  await must(iam('CreateUser', { UserName: 'carol' }));
  const answer = await world.as({ credential: operator }).post(path, { body: body() });
  expect(answer.status).toBe(200);
  expect(JSON.parse(answer.text)).toMatchObject({
    account: alice.owner,
    user: 'carol',
    accessKey: pair.accessKey,
    status: 'Active',
  });
  expect(answer.text).not.toContain(pair.secretKey);
  const act = openActions(world, { credential: { ...alice, ...pair } });
  expect((await must(act('GetCallerIdentity'))).one('Arn')).toBe('arn:aws:iam::alice-account:user/carol');
  expect((await must(iam('ListAccessKeys', { UserName: 'carol' }))).all('AccessKeyId')).toEqual([
    pair.accessKey,
  ]);
  const rows = (await auditRows(world.context)).map(inShort);
  expect(rows.filter((row) => row.startsWith('admin:'))).toEqual([
    'admin:ImportAccessKey arn:aws:iam::alice-account:user/carol 200',
  ]);
  expect(JSON.stringify(await auditRows(world.context))).not.toContain(pair.secretKey);
});

test.each([
  [{ accessKey: 'a' }, 400, 'MalformedJSON'],
  [{ secretKey: 'short' }, 400, 'MalformedJSON'],
  [{ account: '../x' }, 400, 'MalformedJSON'],
  [{ unknown: 'x' }, 400, 'MalformedJSON'],
  [{ account: 'bob-account' }, 404, 'NoSuchEntity'],
  [{ accessKey: alice.accessKey }, 409, 'EntityAlreadyExists'],
])('an import with %j is refused with %i', async (more, status, code) => {
  await using world = await openGateway();
  await must(openActions(world)('CreateUser', { UserName: 'carol' }));
  const answer = await world.as({ credential: operator }).post(path, { body: body(more) });
  expect([answer.status, JSON.parse(answer.text).code]).toEqual([status, code]);
});

test.each([
  ['x'.repeat(5_000), 400],
  ['a%00b', 400],
  ['a%2Fb', 400],
  ['%2e%2e', 400],
  ['a%20b', 404],
])('no user is called %s: the import is refused with %i', async (name, status) => {
  await using world = await openGateway({ backend: 'embedded+file' });
  const at = `/admin/v1/iam/users/${name}/access-keys`;
  const answer = await world.as({ credential: operator }).post(at, { body: body() });
  expect(answer.status).toBe(status);
});

test('only operators import access keys, and only new ones', async () => {
  await using world = await openGateway();
  const carol = await openUser(world, 'carol');
  for (const client of [world.client, world.anonymous, world.as({ credential: carol.credential })])
    expect((await client.post(path, { body: body() })).status).toBe(403);
  const taken = body({ accessKey: carol.credential.accessKey });
  expect((await world.as({ credential: operator }).post(path, { body: taken })).status).toBe(409);
  await must(
    openActions(world)('UpdateAccessKey', {
      UserName: 'carol',
      AccessKeyId: carol.credential.accessKey,
      Status: 'Inactive',
    }),
  );
  expect((await world.as({ credential: operator }).post(path, { body: taken })).status).toBe(409);
});
