/**
 * A Deny of a resource holds for every operation of the operator API that names it, wherever the name stands, and for
 * its rows in listings.
 */
import { describe, expect, test } from 'vitest';
import { deadLetter } from '../../src/metadata/background/queues.ts';
import type { QueueRow } from '../../src/metadata/records/queues.ts';
import { openActions } from '../support/actions.ts';
import { alice, type GatewayWorld, openGateway, operator } from '../support/gateway.ts';
import { openUser } from '../support/iam-users.ts';

const arn = (path: string): string => `arn:aws:admin:::${path}`;
const everything = { Effect: 'Allow', Action: 'admin:*', Resource: '*' };
const policy = (...statements: readonly object[]): string =>
  JSON.stringify({ Version: '2012-10-17', Statement: statements });
const deny = (...paths: readonly string[]) => ({
  Effect: 'Deny',
  Action: 'admin:*',
  Resource: paths.map(arn),
});
const denying = (...paths: readonly string[]): string => policy(everything, deny(...paths));

async function openAdmin(world: GatewayWorld, document: string, name = 'carol') {
  const { credential } = await openUser(world, name, { root: operator, policy: document });
  const client = world.as({ credential });
  return async (method: string, path: string, body?: object, headers: Record<string, string> = {}) => {
    const answer = await client.send(method, `/admin/v1${path}`, {
      headers,
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return {
      ...answer,
      json: /^application\/json/.test(answer.header('content-type') ?? '')
        ? JSON.parse(answer.text)
        : undefined,
    };
  };
}

describe('a Deny of an account', () => {
  const main = alice.owner;
  const named: readonly (readonly [string, string, string, object?])[] = [
    [
      'access key of the body’s account',
      'POST',
      '/iam/users/bob/access-keys',
      { accessKey: 'AKIAEXAMPLE', secretKey: 'x'.repeat(40), account: main },
    ],
    ['new owner of a bucket', 'PUT', '/buckets/free/owner', { owner: main }],
    ['quota by the name of a user', 'PUT', `/iam/users/${main}/quota`, { maxBuckets: 1, totalMaxBytes: 1 }],
    ['usage by the name of a user', 'GET', `/iam/users/${main}/usage`],
    ['traffic by the name of a user', 'GET', `/iam/users/${main}/traffic`],
    ['owner of a listing', 'GET', `/buckets?owner=${main}`],
    ['identity of the audit log', 'GET', `/audit?identity=${main}`],
    ['access key of the audit log', 'GET', `/audit?identity=${alice.accessKey}`],
    ['access key of a decision', 'POST', '/why', { action: 's3:GetObject', accessKey: alice.accessKey }],
    ['access key of log-ins', 'DELETE', `/logins?accessKey=${alice.accessKey}`],
  ];
  test.each(named.map(([what, method, path, body]) => ({ what, method, path, body })))(
    'refuses a request that names it as $what',
    async ({ method, path, body }) => {
      await using world = await openGateway();
      await openUser(world, 'bob');
      await world.as({ credential: operator }).put('/free');
      const open = await openAdmin(world, policy(everything), 'dave');
      const closed = await openAdmin(world, denying(`accounts/${main}/*`));
      const refused = await closed(method, path, body);
      expect([refused.status, refused.json?.code]).toEqual([403, 'AccessDenied']);
      expect(refused.text).toContain(arn(`accounts/${main}/`));
      expect((await open(method, path, body)).status).toBeLessThan(300);
    },
  );

  test('leaves the account’s buckets, users and audit rows out of listings and exports', async () => {
    await using world = await openGateway();
    await world.client.put('/mine');
    await world.as({ credential: operator }).put('/free');
    const closed = await openAdmin(world, denying(`accounts/${main}`, `accounts/${main}/*`));
    const names = async (path: string, field = 'name') =>
      (await closed('GET', path)).json.rows.map((row: Record<string, unknown>) => row[field]);
    expect(await names('/buckets')).toEqual(['free']);
    expect(await names('/accounts', 'account')).not.toContain(main);
    const owners = [await names('/audit', 'account'), await names('/audit?bucket=mine', 'account')];
    expect(owners.flat()).not.toContain(main);
    expect(owners[0]).toContain(operator.owner);
    expect((await closed('GET', '/audit/export')).text).not.toContain(`"account":"${main}"`);
  });
});

describe('a Deny of a user, group, role or policy', () => {
  const account = operator.owner;
  const inAccount = `/accounts/${account}`;
  async function openEntities(world: GatewayWorld) {
    const act = openActions(world, { credential: operator });
    for (const UserName of ['chief', 'junior']) await act('CreateUser', { UserName });
    await act('CreateGroup', { GroupName: 'staff' });
    const document = policy({ Effect: 'Allow', Action: 's3:*', Resource: '*' });
    for (const PolicyName of ['powers', 'harmless'])
      await act('CreatePolicy', { PolicyName, PolicyDocument: document });
  }
  const policyArn = (name: string) => `arn:aws:iam::${account}:policy/${name}`;
  const attach = (name: string, attached: string) => ({ kind: 'user', name, policy: policyArn(attached) });
  const cases: readonly (readonly [string, string, string, object?])[] = [
    ['POST', `${inAccount}/attachments`, 'the user of an attachment', attach('chief', 'harmless')],
    ['POST', `${inAccount}/attachments`, 'the policy of an attachment', attach('junior', 'powers')],
    ['PUT', `${inAccount}/users/junior`, 'the new name of a user', { name: 'president' }],
    ['POST', `${inAccount}/users`, 'the name of a new user', { name: 'president' }],
    ['PUT', `${inAccount}/groups/staff/users/chief`, 'the user of a group'],
  ];
  test.each(cases.map(([method, path, what, body]) => ({ method, path, what, body })))(
    '$method $path is refused for $what',
    async ({ method, path, body }) => {
      await using world = await openGateway();
      await openEntities(world);
      const denied = ['users/chief', 'users/president', 'policies/powers'].flatMap((name) => [
        `accounts/${account}/${name}`,
        `accounts/${account}/${name}/*`,
      ]);
      const closed = await openAdmin(world, denying(...denied));
      const refused = await closed(method, path, body);
      expect([refused.status, refused.json?.code]).toEqual([403, 'AccessDenied']);
      const open = await openAdmin(world, policy(everything), 'dave');
      expect((await open(method, path, body)).status).toBeLessThan(300);
    },
  );

  test('has no other spelling: names of bodies compare with regard to case', async () => {
    await using world = await openGateway();
    await openEntities(world);
    const closed = await openAdmin(world, denying(`accounts/${account}/users/chief/*`));
    expect((await closed('POST', `${inAccount}/attachments`, attach('CHIEF', 'harmless'))).status).toBe(404);
    expect((await closed('POST', `${inAccount}/attachments`, attach('junior', 'harmless'))).status).toBe(204);
  });

  test('lets an Allow of one user rename it only to a name that the Allow covers', async () => {
    await using world = await openGateway();
    await openEntities(world);
    const limited = policy({ ...everything, Resource: arn(`accounts/${account}/users/junior*`) });
    const client = await openAdmin(world, limited);
    expect((await client('PUT', `${inAccount}/users/junior`, { name: 'elsewhere' })).status).toBe(403);
    expect((await client('PUT', `${inAccount}/users/junior`, { name: 'junior-2' })).status).toBe(200);
  });
});

test('an Allow of one account is enough for its quota, by either path', async () => {
  await using world = await openGateway();
  const client = await openAdmin(
    world,
    policy({ ...everything, Resource: arn(`accounts/${alice.owner}/*`) }),
  );
  const quota = { maxBuckets: 3, totalMaxBytes: 0 };
  expect((await client('PUT', `/iam/users/${alice.owner}/quota`, quota)).status).toBe(204);
  expect((await client('PUT', `/iam/users/${operator.owner}/quota`, quota)).status).toBe(403);
});

test('a Deny of a cluster or a key holds for a placement and a signing key that name it', async () => {
  await using world = await openGateway();
  await world.client.put('/books');
  const closed = await openAdmin(world, denying('clusters/default/*', 'keys/secret/*'));
  const placed = await closed('PUT', '/buckets/books/placement', { placement: { default: 1 } });
  expect([placed.status, placed.text]).toEqual([
    403,
    expect.stringContaining(arn('clusters/default/placement')),
  ]);
  const rotated = await closed('POST', '/buckets/books/signing-key/rotate', { key_id: 'secret' });
  expect(rotated.status).toBe(403);
});

describe('a Deny of a bucket', () => {
  const closedBuckets = denying('buckets/secret', 'buckets/secret/*');

  test('leaves its rows out of the audit log, also where the request names a row by its id', async () => {
    await using world = await openGateway();
    const closed = await openAdmin(world, closedBuckets);
    const made = await world.client.put('/secret');
    await world.client.put('/open');
    const id = made.header('*-request-id');
    const seen = async (path: string) => (await closed('GET', path)).text;
    for (const path of ['/audit', `/audit?requestId=${id}`, '/audit/export']) {
      const text = await seen(path);
      expect(text).not.toContain('bucket:secret');
      if (!path.includes('requestId')) expect(text).toContain('bucket:open');
    }
    const page = await seen('/buckets');
    expect([page.includes('"secret"'), page.includes('"open"')]).toEqual([false, true]);
  });

  test('leaves its dead letters alone where they are redriven or discarded by target', async () => {
    await using world = await openGateway();
    const { metadata } = world.context;
    const now = await metadata.now();
    for (const bucket of ['open', 'secret']) {
      const task = { sink: 'audit', message: { Bucket: bucket } };
      const row = { slot: 0, id: bucket, requestId: 'r', attempts: 1, due: 1, task } as unknown as QueueRow;
      await metadata.apply(deadLetter(row, { error: 'gone', now, expiresAt: now + 60_000, bucket }));
    }
    const closed = await openAdmin(world, closedBuckets);
    const listed = await closed('GET', '/notify/dead-letters');
    expect(listed.json.rows.map(({ bucket }: { bucket: string }) => bucket)).toEqual(['open']);
    expect((await closed('POST', '/notify/discard', { target: 'audit' })).json.discarded).toBe(1);
    const left = await world.as({ credential: operator }).get('/admin/v1/notify/dead-letters');
    expect(left.text).toContain('"secret"');
    expect(left.text).not.toContain('"open"');
  });
});

test('an answer that is replayed by its Idempotency-Key is that of the caller itself', async () => {
  await using world = await openGateway();
  await world.client.put('/books');
  const [first, second] = [
    await openAdmin(world, policy(everything)),
    await openAdmin(world, policy(everything), 'dave'),
  ];
  const headers = { 'idempotency-key': 'one' };
  const run = (client: typeof first) => client('POST', '/buckets/books/force-empty', undefined, headers);
  expect((await run(first)).header('idempotency-replayed')).toBeUndefined();
  expect((await run(second)).header('idempotency-replayed')).toBeUndefined();
  expect((await run(first)).header('idempotency-replayed')).toBe('true');
});
