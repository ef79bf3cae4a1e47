/** Accounts that operators create, suspend and delete without a restart. @storage */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { accountHolder, userHolder } from '../../src/domain/quotas/scopes.ts';
import { findAccountQuota } from '../../src/metadata/buckets/quotas.ts';
import { scanIam, toRecord } from '../../src/metadata/iam.ts';
import type { MetadataStore } from '../../src/ports/metadata-store.ts';
import { openActions } from '../support/actions.ts';
import { type Operator, operatorOf } from '../support/clusters.ts';
import { faulty } from '../support/faulty.ts';
import {
  alice,
  backends,
  type GatewayWorld,
  type GatewayWorldOptions,
  openGateway,
} from '../support/gateway.ts';
import { whileHeld } from '../support/held-body.ts';
import { must, openUser, trusting } from '../support/iam-users.ts';
import { auditRows } from '../support/recorded.ts';
import { virtualClock } from '../support/virtual-clock.ts';

interface Made {
  readonly admin: Operator;
  readonly made: Record<string, unknown>;
  readonly credential: typeof alice;
}

async function makeAccount(world: GatewayWorld, body: Record<string, unknown>): Promise<Made> {
  const admin = operatorOf(world);
  const made = await admin.must('POST', '/accounts', body);
  const { accessKey, secretKey } = made as Record<string, string>;
  const owner = body['account'] as string;
  const credential = { ...alice, owner, accessKey: accessKey ?? '', secretKey: secretKey ?? '', root: true };
  return { admin, made, credential };
}

const codeOf = (json: Record<string, unknown>): unknown =>
  (json['error'] as { code?: unknown })?.code ?? json['code'];

describe.each(backends)('accounts on %s', (backend) => {
  const openWorld = (options: GatewayWorldOptions = {}) => openGateway({ backend, ...options });

  test('CreateAccount answers a root key once, and its requests own buckets and objects at once', async () => {
    await using world = await openWorld();
    const { admin, made, credential } = await makeAccount(world, {
      account: 'carol',
      displayName: 'Carol & Co <carol>',
      email: 'carol@example.com',
    });
    expect(made).toMatchObject({ account: 'carol', displayName: 'Carol & Co <carol>', status: 'Active' });
    const carol = world.as({ credential });
    expect((await carol.put('/of-carol')).status).toBe(200);
    expect((await carol.put('/of-carol/key', { body: 'content' })).status).toBe(200);
    const listed = await carol.get('/');
    expect(listed.text).toContain('<ID>carol</ID><DisplayName>Carol &amp; Co &lt;carol&gt;</DisplayName>');
    expect((await world.client.get('/of-carol/key')).status).toBe(403);
    const shown = await admin.must('GET', '/accounts/carol');
    expect(shown).toMatchObject({
      account: 'carol',
      email: 'carol@example.com',
      status: 'Active',
      isConfigured: false,
      isOperators: false,
      rootKeys: [{ accessKey: credential.accessKey, status: 'Active' }],
      bytes: 7,
      objects: 1,
    });
    expect(JSON.stringify(shown)).not.toContain(credential.secretKey);
    const rows = await auditRows(world.context);
    expect(rows.find(({ action }) => action === 'admin:CreateAccount')).toMatchObject({
      resource: 'arn:aws:iam::carol:root',
      status: 200,
    });
    expect(JSON.stringify(rows)).not.toContain(credential.secretKey);
  });

  test('a created account can be named in ACLs by its e-mail address, and in principals by its id', async () => {
    await using world = await openWorld();
    const { credential } = await makeAccount(world, { account: 'carol', email: 'Carol@Example.com' });
    const carol = world.as({ credential });
    await world.client.put('/bucket', { headers: { 'x-amz-object-ownership': 'ObjectWriter' } });
    const acl = await world.client.put('/bucket/key', {
      body: 'content',
      headers: { 'x-amz-grant-read': 'emailAddress="carol@example.com"' },
    });
    expect(acl.status).toBe(200);
    expect((await carol.get('/bucket/key')).status).toBe(200);
    const unknown = await world.client.put('/bucket/other', {
      body: 'content',
      headers: { 'x-amz-grant-read': 'emailAddress="nobody@example.com"' },
    });
    expect(unknown.status).toBe(400);
  });

  test('accounts of the settings and created accounts stand in one list with pages', async () => {
    await using world = await openWorld();
    const admin = operatorOf(world);
    for (const account of ['zoe', 'amy', 'alice-account-2'])
      await admin.must('POST', '/accounts', { account });
    const all: unknown[] = [];
    let after = '';
    for (;;) {
      const page = await admin.must('GET', `/accounts?limit=2${after && `&after=${after}`}`);
      all.push(...(page['rows'] as { account: string }[]).map(({ account }) => account));
      if (page['next'] === undefined) break;
      after = page['next'] as string;
    }
    expect(all).toEqual([
      'alice-account',
      'alice-account-2',
      'amy',
      'bob-account',
      'operator-account',
      'zoe',
    ]);
  });

  test('an id or an e-mail address that an account has, in any case, is refused', async () => {
    await using world = await openWorld();
    const { admin } = await makeAccount(world, { account: 'carol', email: 'carol@example.com' });
    for (const body of [
      { account: 'carol' },
      { account: 'Carol' },
      { account: 'alice-account' },
      { account: 'ALICE-account' },
      { account: 'dora', email: 'CAROL@example.com' },
    ]) {
      const { status, json } = await admin.ask('POST', '/accounts', body);
      expect([body, status, codeOf(json)]).toEqual([body, 409, 'EntityAlreadyExists']);
    }
    for (const account of ['', '-x', 'a/b', '<b>', 'a'.repeat(129), 'ünï']) {
      expect([account, (await admin.ask('POST', '/accounts', { account })).status]).toEqual([account, 400]);
    }
    expect((await admin.ask('POST', '/accounts', { account: 'a'.repeat(64) })).status).toBe(200);
    // The refused request changed nothing: the address is free for the account that had none.
    expect((await admin.ask('GET', '/accounts/dora')).status).toBe(404);
    const emailInList = async () =>
      ((await admin.must('GET', '/accounts'))['rows'] as readonly { account: string; email?: string }[]).find(
        ({ account }) => account === 'carol',
      )?.email;
    expect(await emailInList()).toBe('carol@example.com');
    expect((await admin.ask('PUT', '/accounts/carol', { email: 'new@example.com' })).status).toBe(200);
    expect(await emailInList()).toBe('new@example.com');
    expect(
      (await admin.ask('POST', '/accounts', { account: 'dora', email: 'carol@example.com' })).status,
    ).toBe(200);
  });

  test('a suspended account is refused with every kind of credential, and served again once it is active', async () => {
    await using world = await openWorld();
    const { admin, credential } = await makeAccount(world, { account: 'carol' });
    const root = world.as({ credential });
    await root.put('/of-carol');
    await root.put('/of-carol/key', { body: 'content' });
    const policy = JSON.stringify({
      Version: '2012-10-17',
      Statement: [{ Effect: 'Allow', Action: ['s3:*', 'sts:*'], Resource: '*' }],
    });
    const user = await openUser(world, 'ann', { root: credential, policy });
    const iam = openActions(world, { credential });
    await must(
      iam('CreateRole', {
        RoleName: 'reader',
        AssumeRolePolicyDocument: trusting({ AWS: 'arn:aws:iam::carol:root' }),
      }),
    );
    await must(iam('PutRolePolicy', { RoleName: 'reader', PolicyName: 'p', PolicyDocument: policy }));
    const sessionOf = (answer: Awaited<ReturnType<typeof must>>) => ({
      ...credential,
      accessKey: answer.one('AccessKeyId') ?? '',
      secretKey: answer.one('SecretAccessKey') ?? '',
      sessionToken: answer.one('SessionToken') ?? '',
    });
    const assumed = sessionOf(
      await must(
        user.act('AssumeRole', { RoleArn: 'arn:aws:iam::carol:role/reader', RoleSessionName: 'session' }),
      ),
    );
    const ofRoot = sessionOf(await must(iam('GetSessionToken', {})));
    const callers = {
      root,
      user: world.as({ credential: user.credential }),
      role: world.as({ credential: assumed, token: assumed.sessionToken }),
      session: world.as({ credential: ofRoot, token: ofRoot.sessionToken }),
    };
    const statuses = async () => {
      const found: Record<string, string> = {};
      for (const [name, caller] of Object.entries(callers)) {
        const answer = await caller.get('/of-carol/key');
        found[name] = `${answer.status} ${answer.one('Code') ?? ''}`.trim();
      }
      return found;
    };
    const all = (text: string) => ({ root: text, user: text, role: text, session: text });
    expect(await statuses()).toEqual(all('200'));
    expect(await admin.must('PUT', '/accounts/carol', { status: 'Suspended' })).toMatchObject({
      status: 'Suspended',
    });
    expect(await statuses()).toEqual(all('403 AccountProblem'));
    expect((await admin.must('GET', '/accounts'))['rows']).toContainEqual(
      expect.objectContaining({ account: 'carol', status: 'Suspended' }),
    );
    await admin.must('PUT', '/accounts/carol', { status: 'Active' });
    expect(await statuses()).toEqual(all('200'));
  });

  test('an account of the settings is suspended too; one of operators is not', async () => {
    await using world = await openWorld();
    const admin = operatorOf(world);
    await world.client.put('/bucket');
    await admin.must('PUT', `/accounts/${alice.owner}`, { status: 'Suspended' });
    expect((await world.client.get('/bucket')).one('Code')).toBe('AccountProblem');
    expect((await world.client.get('/')).one('Code')).toBe('AccountProblem');
    await admin.must('PUT', `/accounts/${alice.owner}`, { status: 'Active' });
    expect((await world.client.get('/bucket')).status).toBe(200);
    const { status, json } = await admin.ask('PUT', '/accounts/operator-account', { status: 'Suspended' });
    expect([status, codeOf(json)]).toEqual([409, 'DeleteConflict']);
  });

  test('a PutObject whose account is suspended while the body arrives is not stored', async () => {
    const clock = virtualClock();
    await using world = await openWorld({ clock });
    const { admin, credential } = await makeAccount(world, { account: 'carol' });
    const carol = world.as({ credential });
    await carol.put('/of-carol');
    const put = { method: 'PUT', path: '/of-carol/key', ask: { body: 'content' } };
    const answer = await whileHeld(carol, put, async () => {
      await admin.must('PUT', '/accounts/carol', { status: 'Suspended' });
      // A body that is streamed for less than a second is stored under the authorization of its first byte.
      await clock.advance(2_000);
    });
    expect(answer.one('Code')).toBe('AccountProblem');
    await admin.must('PUT', '/accounts/carol', { status: 'Active' });
    expect((await carol.get('/of-carol/key')).status).toBe(404);
  });

  test('root keys rotate: a second one is made, the first one ends, and the last one stays', async () => {
    await using world = await openWorld();
    const { admin, credential } = await makeAccount(world, { account: 'carol' });
    const second = (await admin.must('POST', '/accounts/carol/root-keys')) as Record<string, string>;
    const third = await admin.ask('POST', '/accounts/carol/root-keys');
    expect([third.status, codeOf(third.json)]).toEqual([409, 'LimitExceeded']);
    const now = world.as({
      credential: {
        ...credential,
        accessKey: second['accessKey'] ?? '',
        secretKey: second['secretKey'] ?? '',
      },
    });
    expect((await now.put('/of-carol')).status).toBe(200);
    const first = `/accounts/carol/root-keys/${credential.accessKey}`;
    await admin.must('PUT', first, { status: 'Inactive' });
    expect((await world.as({ credential }).get('/of-carol')).one('Code')).toBe('InvalidAccessKeyId');
    const last = `/accounts/carol/root-keys/${second['accessKey']}`;
    for (const [method, body] of [['PUT', { status: 'Inactive' }], ['DELETE']] as const) {
      const refused = await admin.ask(method, last, body);
      expect([method, refused.status, codeOf(refused.json)]).toEqual([method, 409, 'DeleteConflict']);
    }
    await admin.must('DELETE', first);
    expect((await now.get('/of-carol')).status).toBe(200);
  });

  test('the root of an account rotates its own keys by the IAM actions of the public API', async () => {
    await using world = await openWorld();
    const { credential } = await makeAccount(world, { account: 'carol' });
    const iam = openActions(world, { credential });
    const made = await must(iam('CreateAccessKey', {}));
    expect(made.one('AccessKeyId')).toMatch(/^AKIA/);
    const listed = await must(iam('ListAccessKeys', {}));
    expect(listed.text.match(/<AccessKeyId>/g)).toHaveLength(2);
    const next = openActions(world, {
      credential: {
        ...credential,
        accessKey: made.one('AccessKeyId') ?? '',
        secretKey: made.one('SecretAccessKey') ?? '',
      },
    });
    await must(next('UpdateAccessKey', { AccessKeyId: credential.accessKey, Status: 'Inactive' }));
    await must(next('DeleteAccessKey', { AccessKeyId: credential.accessKey }));
    expect((await iam('GetUser', {})).status).toBe(403);
    expect((await must(next('GetUser', {}))).one('Arn')).toBe('arn:aws:iam::carol:root');
  });

  test('DeleteAccount is refused while the account owns a bucket; afterwards no key of it signs and the id stays taken', async () => {
    await using world = await openWorld();
    const { admin, credential } = await makeAccount(world, { account: 'carol', email: 'carol@example.com' });
    const carol = world.as({ credential });
    const user = await openUser(world, 'ann', { root: credential });
    await carol.put('/of-carol');
    const refused = await admin.ask('DELETE', '/accounts/carol');
    expect([refused.status, codeOf(refused.json)]).toEqual([409, 'DeleteConflict']);
    expect(JSON.stringify(refused.json)).toContain('of-carol');
    expect((await carol.get('/of-carol')).status).toBe(200);
    await carol.delete('/of-carol');
    await admin.must('DELETE', '/accounts/carol');
    expect((await carol.get('/')).one('Code')).toBe('InvalidAccessKeyId');
    expect((await world.as({ credential: user.credential }).get('/')).one('Code')).toBe('InvalidAccessKeyId');
    expect((await admin.ask('GET', '/accounts/carol')).status).toBe(404);
    expect((await admin.ask('GET', '/accounts/carol/users')).status).toBe(404);
    expect((await admin.ask('DELETE', '/accounts/carol')).status).toBe(204);
    const again = await admin.ask('POST', '/accounts', { account: 'carol' });
    expect([again.status, codeOf(again.json)]).toEqual([409, 'EntityAlreadyExists']);
    expect(
      (await admin.ask('POST', '/accounts', { account: 'dora', email: 'carol@example.com' })).status,
    ).toBe(200);
    expect((await admin.ask('DELETE', `/accounts/${alice.owner}`)).status).toBe(409);
  });

  test('DeleteAccount removes the quotas of the account and of its users', async () => {
    await using world = await openWorld();
    const { admin, credential } = await makeAccount(world, { account: 'carol', email: 'carol@example.com' });
    await openUser(world, 'ann', { root: credential });
    const quota = { maxBuckets: 3 };
    await admin.must('PUT', '/iam/users/carol/quota', quota);
    await admin.must('PUT', '/iam/users/ann/quota?account=carol', quota);
    const { metadata } = world.context;
    const user = await scanIam(metadata, 'carol', { kind: 'user', count: 1 });
    const holders = [
      accountHolder('carol'),
      ...user.map(({ row }) => userHolder('carol', toRecord<'user'>({ row }).value.id)),
    ];
    expect(holders).toHaveLength(2);
    for (const { key } of holders) expect(await findAccountQuota(metadata, key)).toBeDefined();
    await admin.must('DELETE', '/accounts/carol');
    for (const { key } of holders) expect(await findAccountQuota(metadata, key)).toBeUndefined();
  });

  test('an account is created with a key pair that its clients have already', async () => {
    await using world = await openWorld();
    const { admin, made, credential } = await makeAccount(world, {
      account: 'carol',
      accessKey: 'MINIO_CAROL',
      secretKey: 'a-secret-of-before',
    });
    expect(made).toMatchObject({ accessKey: 'MINIO_CAROL' });
    expect((await world.as({ credential }).get('/')).status).toBe(200);
    for (const accessKey of ['MINIO_CAROL', alice.accessKey]) {
      const body = { account: 'dora', accessKey, secretKey: 'another-secret' };
      const { status, json } = await admin.ask('POST', '/accounts', body);
      expect([accessKey, status, codeOf(json)]).toEqual([accessKey, 409, 'EntityAlreadyExists']);
    }
    const half = await admin.ask('POST', '/accounts', { account: 'dora', accessKey: 'MINIO_DORA' });
    expect(half.status).toBe(400);
  });
});

test('another gateway on the same store refuses a suspended account with the next request', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'sluice-accounts-'));
  const settings = { SVC_META_BACKEND: 'embedded', SVC_DATA_DIR: directory };
  try {
    await using world = await openGateway({ settings });
    await using second = await openGateway({ settings });
    const { admin, credential } = await makeAccount(world, { account: 'carol' });
    const there = second.as({ credential });
    expect((await there.get('/')).status).toBe(200);
    await admin.must('PUT', '/accounts/carol', { status: 'Suspended' });
    expect((await there.get('/')).one('Code')).toBe('AccountProblem');
    expect((await second.client.get('/')).status).toBe(200);
    await admin.must('PUT', `/accounts/${alice.owner}`, { status: 'Suspended' });
    expect((await world.client.get('/')).one('Code')).toBe('AccountProblem');
    // The account is one of the settings, and the gateways are no processes of one node: it takes a second.
    const code = async () => (await second.client.get('/')).one('Code');
    await expect.poll(code, { timeout: 60_000 }).toBe('AccountProblem');
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
});

/** What an operator asks, and what must be true after the request was cut short and repeated. */
const changes: readonly {
  readonly name: string;
  readonly method: string;
  readonly path: string;
  readonly body?: unknown;
  readonly isMade?: true;
  /** Codes with which `/` answers a key of the account afterwards. */
  readonly after: string | undefined;
}[] = [
  {
    name: 'CreateAccount',
    method: 'POST',
    path: '/accounts',
    body: { account: 'dora', email: 'd@example.com' },
    after: undefined,
  },
  {
    name: 'suspending an account',
    method: 'PUT',
    path: '/accounts/dora',
    body: { status: 'Suspended' },
    isMade: true,
    after: 'AccountProblem',
  },
  {
    name: 'DeleteAccount',
    method: 'DELETE',
    path: '/accounts/dora',
    isMade: true,
    after: 'InvalidAccessKeyId',
  },
];

const changesOn = backends.flatMap((backend) => changes.map((change) => ({ ...change, backend })));

describe.each(changesOn)('$name on $backend', ({ backend, method, path, body, isMade, after }) => {
  test.each(['before', 'after'])('can be repeated when a commit fails %s it applied', async (when) => {
    let cuts = 0;
    for (let dyingAt = 0; ; dyingAt += 1) {
      let commits = 0;
      let isArmed = false;
      await using world = await openGateway({
        backend,
        wrap: (context) => ({
          ...context,
          metadata: faulty(context.metadata, {
            commit: async (...call: Parameters<MetadataStore['commit']>) => {
              const isCut = isArmed && commits++ === dyingAt;
              if (isCut && when === 'before') throw new Error('cut before the commit');
              const outcome = await context.metadata.commit(...call);
              if (isCut) throw new Error('cut after the commit');
              return outcome;
            },
          } as Partial<MetadataStore>),
        }),
      });
      const admin = operatorOf(world);
      let credential: typeof alice | undefined;
      if (isMade) ({ credential } = await makeAccount(world, { account: 'dora', email: 'd@example.com' }));
      isArmed = true;
      const first = await admin.ask(method, path, body);
      isArmed = false;
      const wasCut = commits > dyingAt;
      if (wasCut) cuts += 1;
      const again = wasCut ? await admin.ask(method, path, body) : first;
      // A creation whose answer was lost has happened: its secret is drawn again.
      if (again.status === 409) await admin.must('POST', '/accounts/dora/root-keys');
      else expect([dyingAt, again.status < 300]).toEqual([dyingAt, true]);
      if (credential !== undefined) expect((await world.as({ credential }).get('/')).one('Code')).toBe(after);
      else expect((await admin.must('GET', '/accounts/dora'))['email']).toBe('d@example.com');
      if (!wasCut) break;
    }
    expect(cuts).toBeGreaterThan(0);
  });
});

test('1,000 accounts are created, and all of them are listed', async () => {
  await using world = await openGateway();
  const admin = operatorOf(world);
  const names = Array.from({ length: 1_000 }, (_, index) => `tenant-${String(index).padStart(4, '0')}`);
  for (const account of names) await admin.must('POST', '/accounts', { account });
  const found: string[] = [];
  for (let after = ''; ; ) {
    const page = await admin.must('GET', `/accounts?limit=300${after && `&after=${after}`}`);
    found.push(...(page['rows'] as { account: string }[]).map(({ account }) => account));
    if (page['next'] === undefined) break;
    after = page['next'] as string;
  }
  expect(found.filter((name) => name.startsWith('tenant-'))).toEqual(names);
});
