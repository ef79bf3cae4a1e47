/** Accounts, users, groups, roles, policies and access keys as JSON for operators. */
import { expect, test } from 'vitest';
import type { Context } from '../../src/context.ts';
import { audit } from '../../src/metadata/records/audit.ts';
import { iam as iamTable } from '../../src/metadata/records/iam.ts';
import type { MetadataStore } from '../../src/ports/metadata-store.ts';
import { openActions } from '../support/actions.ts';
import { operatorOf } from '../support/clusters.ts';
import { faulty } from '../support/faulty.ts';
import { alice, type GatewayWorld, openGateway } from '../support/gateway.ts';
import { must, openUser } from '../support/iam-users.ts';
import { auditRows } from '../support/recorded.ts';

const account = `/accounts/${alice.owner}`;
const allow = (action: string) =>
  JSON.stringify({ Version: '2012-10-17', Statement: [{ Effect: 'Allow', Action: action, Resource: '*' }] });
const trust = JSON.stringify({
  Version: '2012-10-17',
  Statement: [
    { Effect: 'Allow', Principal: { AWS: `arn:aws:iam::${alice.owner}:root` }, Action: 'sts:AssumeRole' },
  ],
});

const statusOf = async (world: GatewayWorld, method: string, path: string, body?: unknown) =>
  (await operatorOf(world).ask(method, account + path, body)).status;

test('operators list accounts, and see what one holds and its quota', async () => {
  await using world = await openGateway();
  const admin = operatorOf(world);
  await world.client.put('/bucket');
  await world.client.put('/bucket/key', { body: 'content' });
  await admin.must('POST', `${account}/users`, { name: 'ann' });
  const { rows } = await admin.must('GET', '/accounts');
  const configured = { status: 'Active', isConfigured: true };
  expect(rows).toEqual([
    { account: 'alice-account', displayName: 'alice', isOperators: false, ...configured },
    { account: 'bob-account', displayName: 'bob', isOperators: false, ...configured },
    { account: 'operator-account', displayName: 'operator', isOperators: true, ...configured },
  ]);
  const paged = await admin.must('GET', '/accounts?limit=2');
  expect((await admin.must('GET', `/accounts?after=${paged['next']}`))['rows']).toHaveLength(1);
  const shown = { account: alice.owner, users: 1, groups: 0, bytes: 7, objects: 1 };
  expect(await admin.must('GET', account)).toMatchObject(shown);
  const quota = { maxBuckets: 5, totalMaxBytes: 100 };
  await admin.must('PUT', `/iam/users/${alice.owner}/quota`, quota);
  expect(await admin.must('GET', account)).toMatchObject({ ...shown, quota });
  expect((await admin.ask('GET', '/accounts/none')).status).toBe(404);
  expect((await admin.ask('GET', '/accounts/none/users')).status).toBe(404);
});

test('users are created, shown, changed and deleted, and the secret of a key is shown once', async () => {
  await using world = await openGateway();
  const admin = operatorOf(world);
  const made = await admin.must('POST', `${account}/users`, {
    name: 'ann',
    path: '/team/',
    tags: { team: 'a' },
  });
  expect(made).toMatchObject({
    name: 'ann',
    path: '/team/',
    arn: `arn:aws:iam::${alice.owner}:user/team/ann`,
    groups: [],
    policies: [],
    accessKeys: [],
    tags: { team: 'a' },
  });
  const key = await admin.must('POST', `${account}/users/ann/access-keys`);
  const { accessKey, secretKey, ...rest } = key as Record<string, string>;
  expect(rest).toMatchObject({ status: 'Active' });
  const s3 = 'arn:aws:iam::aws:policy/AmazonS3FullAccess';
  await admin.must('POST', `${account}/attachments`, { kind: 'user', name: 'ann', policy: s3 });
  const ann = world.as({
    credential: { ...alice, accessKey: accessKey ?? '', secretKey: secretKey ?? '', root: false },
  });
  expect((await ann.put('/of-ann')).status).toBe(200);
  const shown = await admin.must('GET', `${account}/users/ann`);
  expect(shown).toMatchObject({ policies: [s3], accessKeys: [{ accessKey, status: 'Active' }] });
  expect(JSON.stringify(shown)).not.toContain(secretKey);
  await admin.must('PUT', `${account}/users/ann/access-keys/${accessKey}`, { status: 'Inactive' });
  expect((await ann.get('/of-ann')).status).toBe(403);
  expect(await admin.must('PUT', `${account}/users/ann`, { name: 'anna', tags: {} })).toMatchObject({
    name: 'anna',
    tags: {},
  });
  expect(await statusOf(world, 'DELETE', '/users/anna')).toBe(409);
  await admin.must('DELETE', `${account}/users/anna/access-keys/${accessKey}`);
  await admin.must('POST', `${account}/detachments`, { kind: 'user', name: 'anna', policy: s3 });
  expect(await statusOf(world, 'DELETE', '/users/anna')).toBe(204);
  expect(await statusOf(world, 'GET', '/users/anna')).toBe(404);
  const rows = await auditRows(world.context);
  expect(rows.find(({ action }) => action === 'admin:CreateIamUser')).toMatchObject({
    resource: `arn:aws:iam::${alice.owner}:user/team/ann`,
    status: 200,
  });
  expect(JSON.stringify(rows)).not.toContain(secretKey);
});

test('users are listed in pages', async () => {
  await using world = await openGateway();
  const admin = operatorOf(world);
  for (const name of ['a', 'b', 'c']) await admin.must('POST', `${account}/users`, { name });
  const first = await admin.must('GET', `${account}/users?limit=2`);
  expect((first['rows'] as { name: string }[]).map(({ name }) => name)).toEqual(['a', 'b']);
  const second = await admin.must('GET', `${account}/users?limit=2&after=${first['next']}`);
  expect((second['rows'] as { name: string }[]).map(({ name }) => name)).toEqual(['c']);
  expect(second['next']).toBeUndefined();
});

test('groups have users and policies', async () => {
  await using world = await openGateway();
  const admin = operatorOf(world);
  await admin.must('POST', `${account}/users`, { name: 'ann' });
  await admin.must('POST', `${account}/groups`, { name: 'team' });
  await admin.must('PUT', `${account}/groups/team/users/ann`);
  expect(await admin.must('GET', `${account}/groups/team`)).toMatchObject({ name: 'team', users: ['ann'] });
  expect(await admin.must('GET', `${account}/users/ann`)).toMatchObject({ groups: ['team'] });
  expect((await admin.must('GET', `${account}/groups`))['rows']).toHaveLength(1);
  expect(await statusOf(world, 'DELETE', '/groups/team')).toBe(409);
  await admin.must('DELETE', `${account}/groups/team/users/ann`);
  expect(await statusOf(world, 'DELETE', '/groups/team/users/ann')).toBe(404);
  expect(await statusOf(world, 'DELETE', '/groups/team')).toBe(204);
});

test.each(['user', 'group', 'role'] as const)(
  'inline policies of a %s are put, listed, shown, replaced and deleted',
  async (kind) => {
    await using world = await openGateway();
    const admin = operatorOf(world);
    await admin.must('POST', `${account}/${kind}s`, {
      name: 'ann',
      ...(kind === 'role' ? { trust } : {}),
    });
    const path = `${account}/${kind}s/ann/inline-policies`;
    const statusFor = async (method: string, name: string, body?: unknown) =>
      (await admin.ask(method, `${path}/${name}`, body)).status;
    expect(await statusFor('PUT', 'read', { document: '{"Version":1}' })).toBe(400);
    expect(await statusFor('PUT', 'read', { document: allow('s3:Get*') })).toBe(204);
    expect(await statusFor('PUT', 'list', { document: allow('s3:List*') })).toBe(204);
    expect(await admin.must('GET', `${path}?limit=1`)).toMatchObject({ rows: [{ name: 'list' }] });
    expect(await admin.must('GET', path)).toEqual({ rows: [{ name: 'list' }, { name: 'read' }] });
    expect(await statusFor('PUT', 'read', { document: allow('s3:*') })).toBe(204);
    expect(await admin.must('GET', `${path}/read`)).toEqual({ name: 'read', document: allow('s3:*') });
    expect(await admin.must('GET', `${account}/${kind}s/ann`)).toMatchObject({
      inlinePolicies: ['list', 'read'],
    });
    expect(await statusFor('DELETE', 'list')).toBe(204);
    expect(await statusFor('DELETE', 'list')).toBe(404);
    expect(await statusFor('GET', 'list')).toBe(404);
    expect((await admin.ask('GET', `${account}/${kind}s/Ann/inline-policies`)).status).toBe(404);
    const rows = await auditRows(world.context);
    const [word = ''] = kind;
    const action = `admin:PutIam${word.toUpperCase()}${kind.slice(1)}InlinePolicy`;
    expect(rows.filter((row) => row.action === action)).toHaveLength(4);
  },
);

test('an inline policy allows at once what it names', async () => {
  await using world = await openGateway();
  await world.client.put('/bucket');
  const ann = await openUser(world, 'ann');
  const client = world.as({ credential: ann.credential });
  expect((await client.get('/bucket')).status).toBe(403);
  const path = `${account}/users/ann/inline-policies/read`;
  await operatorOf(world).must('PUT', path, { document: allow('s3:*') });
  expect((await client.get('/bucket')).status).toBe(200);
});

test('roles have a trust policy, which is validated', async () => {
  await using world = await openGateway();
  const admin = operatorOf(world);
  const wrong = await admin.ask('POST', `${account}/roles`, { name: 'reader', trust: '{}' });
  expect(wrong.status).toBe(400);
  expect(await admin.must('POST', `${account}/roles`, { name: 'reader', trust })).toMatchObject({
    name: 'reader',
    trust,
    sessionSeconds: 3_600,
    description: '',
  });
  const changed = { description: 'reads', sessionSeconds: 7_200 };
  expect(await admin.must('PUT', `${account}/roles/reader`, changed)).toMatchObject({ ...changed, trust });
  expect((await admin.must('GET', `${account}/roles`))['rows']).toHaveLength(1);
  expect(await statusOf(world, 'DELETE', '/roles/reader')).toBe(204);
  expect(await statusOf(world, 'GET', '/roles/reader')).toBe(404);
});

test('the users, groups and roles that have a managed policy are listed, with how they use it', async () => {
  await using world = await openGateway();
  const admin = operatorOf(world);
  const iam = openActions(world);
  const { arn } = await admin.must('POST', `${account}/policies`, {
    name: 'reading',
    document: allow('s3:*'),
  });
  await admin.must('POST', `${account}/users`, { name: 'ann', path: '/team/' });
  await admin.must('POST', `${account}/users`, { name: 'bob' });
  await admin.must('POST', `${account}/groups`, { name: 'staff' });
  await admin.must('POST', `${account}/roles`, { name: 'robot', trust });
  for (const user of ['ann', 'bob']) await admin.must('PUT', `${account}/groups/staff/users/${user}`);
  for (const [kind, name] of [
    ['user', 'ann'],
    ['group', 'staff'],
    ['role', 'robot'],
  ])
    await admin.must('POST', `${account}/attachments`, { kind, name, policy: arn });
  await must(iam('PutUserPermissionsBoundary', { UserName: 'bob', PermissionsBoundary: String(arn) }));
  const path = `${account}/policies/reading/entities`;
  const { rows } = await admin.must('GET', path);
  const arnOf = (rest: string) => `arn:aws:iam::${alice.owner}:${rest}`;
  const sorted = (rows as { readonly name: string }[]).toSorted((a, b) => (a.name < b.name ? -1 : 1));
  expect(sorted).toEqual([
    { kind: 'user', name: 'ann', arn: arnOf('user/team/ann'), use: 'policy' },
    { kind: 'user', name: 'bob', arn: arnOf('user/bob'), use: 'boundary' },
    { kind: 'role', name: 'robot', arn: arnOf('role/robot'), use: 'policy' },
    { kind: 'group', name: 'staff', arn: arnOf('group/staff'), use: 'policy', users: 2 },
  ]);
  expect((await admin.must('GET', `${account}/policies/reading`))['boundaries']).toBe(1);
  const listed = (await admin.must('GET', `${account}/policies`))['rows'] as object[];
  expect(listed[0]).toMatchObject({ attachments: 3, boundaries: 1 });
  const names: string[] = [];
  for (let after = ''; ; ) {
    const page = await admin.must('GET', `${path}?limit=3${after}`);
    names.push(...(page['rows'] as { readonly name: string }[]).map(({ name }) => name));
    if (page['next'] === undefined) break;
    after = `&after=${encodeURIComponent(String(page['next']))}`;
  }
  expect(names.sort()).toEqual(['ann', 'bob', 'robot', 'staff']);
  expect(await statusOf(world, 'GET', '/policies/Reading/entities')).toBe(404);
});

test('a policy gets new versions, of which five are kept, and is deleted with all of them', async () => {
  await using world = await openGateway();
  const admin = operatorOf(world);
  const document = allow('s3:GetObject');
  expect(await admin.must('POST', `${account}/policies`, { name: 'reading', document })).toMatchObject({
    name: 'reading',
    document,
    defaultVersion: 1,
    attachments: 0,
  });
  for (let version = 2; version <= 7; version += 1)
    expect(
      await admin.must('PUT', `${account}/policies/reading`, {
        document: allow(`s3:List${'*'.repeat(version)}`),
      }),
    ).toMatchObject({ defaultVersion: version });
  expect((await admin.must('GET', `${account}/policies`))['rows']).toHaveLength(1);
  await admin.must('POST', `${account}/groups`, { name: 'team' });
  const policy = `arn:aws:iam::${alice.owner}:policy/reading`;
  await admin.must('POST', `${account}/attachments`, { kind: 'group', name: 'team', policy });
  expect(await statusOf(world, 'DELETE', '/policies/reading')).toBe(409);
  await admin.must('POST', `${account}/detachments`, { kind: 'group', name: 'team', policy });
  expect(await statusOf(world, 'DELETE', '/policies/reading')).toBe(204);
  expect(await statusOf(world, 'GET', '/policies/reading')).toBe(404);
  expect((await admin.ask('POST', `${account}/policies`, { name: 'x', document: 'no JSON' })).status).toBe(
    400,
  );
});

/** A document whose size is above what a managed policy may have. */
const manyKeys = Array.from({ length: 70 }, (_, key) => `arn:aws:s3:::bucket/${key}/${'x'.repeat(80)}`);
const oversize = JSON.stringify({
  Version: '2012-10-17',
  Statement: [{ Effect: 'Allow', Action: 's3:GetObject', Resource: manyKeys }],
});

test('a document that is refused removes no version of the policy', async () => {
  await using world = await openGateway();
  const admin = operatorOf(world);
  const iam = openActions(world);
  await admin.must('POST', `${account}/policies`, { name: 'reading', document: allow('s3:GetObject') });
  const put = (document: string) => admin.ask('PUT', `${account}/policies/reading`, { document });
  for (let version = 2; version <= 5; version += 1) await put(allow(`s3:List${'*'.repeat(version)}`));
  const PolicyArn = `arn:aws:iam::${alice.owner}:policy/reading`;
  const versions = async () => (await must(iam('ListPolicyVersions', { PolicyArn }))).all('VersionId');
  const before = await versions();
  expect(before).toHaveLength(5);
  expect((await put(oversize)).status).toBe(409);
  expect(await versions()).toEqual(before);
  expect((await put(allow('s3:PutObject'))).status).toBe(200);
  expect([...(await versions())].sort()).toEqual(['v2', 'v3', 'v4', 'v5', 'v6']);
});

test('PutIamPolicy, DeleteIamPolicy and PutIamRole change the account in one commit, which has the audit row', async () => {
  const commits: { readonly withAudit: boolean }[] = [];
  const wrap = (context: Context): Context => {
    const commit: MetadataStore['commit'] = async (at, changes, options) => {
      if ((at.table as { name: string }).name === iamTable.name)
        commits.push({ withAudit: (options?.then ?? []).some((side) => side.at.table.name === audit.name) });
      return context.metadata.commit(at, changes, options);
    };
    return { ...context, metadata: faulty(context.metadata, { commit }) };
  };
  await using world = await openGateway({ wrap });
  const admin = operatorOf(world);
  await admin.must('POST', `${account}/policies`, { name: 'reading', document: allow('s3:GetObject') });
  const put = () =>
    admin.must('PUT', `${account}/policies/reading`, { document: allow(`s3:List${'*'.repeat(3)}`) });
  for (let version = 2; version <= 5; version += 1) await put();
  commits.length = 0;
  await put();
  expect(commits.splice(0)).toEqual([{ withAudit: true }]);
  await admin.must('DELETE', `${account}/policies/reading`);
  expect(commits.splice(0)).toEqual([{ withAudit: true }]);
  // No document of a version stays.
  const rest = world.context.metadata.scan({ table: iamTable, in: { account: alice.owner } });
  const kinds = (await rest.next(100)).map(({ row }) => row.kind);
  expect(kinds).not.toContain('document');
  await admin.must('POST', `${account}/roles`, { name: 'reader', trust });
  commits.length = 0;
  await admin.must('PUT', `${account}/roles/reader`, { description: 'reads', trust: `${trust} ` });
  expect(commits).toEqual([{ withAudit: true }]);
});

test('bad names, unknown fields and policies of other accounts are refused', async () => {
  await using world = await openGateway();
  const admin = operatorOf(world);
  await admin.must('POST', `${account}/users`, { name: 'ann' });
  const refused: readonly (readonly [string, string, unknown])[] = [
    ['POST', '/users', { name: 'a b' }],
    ['POST', '/users', { name: 'ann', admin: true }],
    ['POST', '/users', {}],
    ['POST', '/users', { name: 'x', path: 'team' }],
    ['PUT', '/users/ann/access-keys/KEY', { status: 'On' }],
    ['POST', '/attachments', { kind: 'user', name: 'ann', policy: 'arn:aws:iam::bob-account:policy/x' }],
  ];
  for (const [method, path, body] of refused)
    expect(await statusOf(world, method, path, body), path).toBe(400);
  expect(await statusOf(world, 'POST', '/users', { name: 'ann' })).toBe(409);
  expect(await statusOf(world, 'GET', '/users/a%20b')).toBe(404);
});
