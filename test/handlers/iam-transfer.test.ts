/** Accounts are exported and imported: policies, groups, roles, users, keys and quotas, without secrets or with them. */
import { describe, expect, test } from 'vitest';
import { type Operator, operatorOf } from '../support/clusters.ts';
import { faulty } from '../support/faulty.ts';
import { openGateway, operator } from '../support/gateway.ts';
import { allow, clientOfCarol, openUser, trusting } from '../support/iam-users.ts';
import { auditRows } from '../support/recorded.ts';

type Json = Record<string, unknown>;
interface Row {
  readonly kind: string;
  readonly name: string;
  readonly outcome: string;
  readonly changes: readonly string[];
  readonly notes: readonly string[];
}

const own = (name: string) => `arn:aws:iam::carol:policy/${name}`;

/** An account with one of everything; returns the credential of its user. */
async function furnish(admin: Operator) {
  const made = (await admin.must('POST', '/accounts', {
    account: 'carol',
    displayName: 'Carol & Co',
    email: 'carol@example.com',
  })) as Record<string, string>;
  const at = '/accounts/carol';
  await admin.must('POST', `${at}/policies`, {
    name: 'reads',
    path: '/p/',
    description: 'reads',
    document: allow('s3:Get*', 's3:ListBucket'),
    tags: { a: 'b' },
  });
  const policy = 'arn:aws:iam::carol:policy/p/reads';
  await admin.must('POST', `${at}/groups`, { name: 'team' });
  await admin.must('POST', `${at}/attachments`, { kind: 'group', name: 'team', policy });
  await admin.must('POST', `${at}/roles`, {
    name: 'reader',
    trust: trusting({ AWS: 'carol' }),
    sessionSeconds: 7_200,
    tags: { x: 'y' },
  });
  await admin.must('PUT', `${at}/roles/reader/inline-policies/in`, { document: allow('s3:*') });
  await admin.must('POST', `${at}/users`, { name: 'ann', path: '/team/', tags: { c: 'd' } });
  await admin.must('PUT', `${at}/groups/team/users/ann`);
  await admin.must('PUT', `${at}/users/ann/inline-policies/in`, { document: allow('s3:PutObject') });
  await admin.must('POST', `${at}/users`, { name: 'ben' });
  await admin.must('PUT', `${at}/users/ben`, { status: 'Disabled' });
  await admin.must('PUT', '/iam/users/carol/quota', { maxBuckets: 5 });
  await admin.must('PUT', '/iam/users/ann/quota?account=carol', { totalMaxBytes: '1GiB' });
  const key = (await admin.must('POST', `${at}/users/ann/access-keys`)) as Record<string, string>;
  return { root: made, ann: key };
}

async function exported(admin: Operator, limit = 100): Promise<Json[]> {
  const rows: Json[] = [];
  let after = '';
  for (;;) {
    const page = await admin.must('GET', `/accounts/carol/export?limit=${limit}${after}`);
    rows.push(...(page['rows'] as Json[]));
    if (page['next'] === undefined) return rows;
    after = `&after=${encodeURIComponent(String(page['next']))}`;
  }
}

async function withSecrets(admin: Operator, records: readonly Json[]): Promise<Json[]> {
  const keysOf = (record: Json) => (record['keys'] ?? []) as { accessKey: string }[];
  const accessKeys = records.flatMap(keysOf).map(({ accessKey }) => accessKey);
  const { rows } = await admin.must('POST', '/accounts/carol/export-secrets', { accessKeys });
  const secrets = new Map(
    (rows as Record<string, string>[]).map((row) => [row['accessKey'], row['secretKey']]),
  );
  return records.map((record) =>
    record['keys'] === undefined
      ? record
      : {
          ...record,
          keys: keysOf(record).map((key) => ({ ...key, secretKey: secrets.get(key.accessKey) })),
        },
  );
}

async function imported(admin: Operator, records: readonly Json[], more: Json = {}): Promise<Row[]> {
  const { rows } = await admin.must('POST', '/accounts/carol/import', { records, ...more });
  return rows as Row[];
}
const outcomes = (rows: readonly Row[]) => rows.map(({ outcome }) => outcome);
describe('an export', () => {
  test('has every record in the order of an import, in pages, and no secret', async () => {
    await using world = await openGateway();
    const admin = operatorOf(world);
    const { root, ann } = await furnish(admin);
    const records = await exported(admin);
    expect(records.map(({ kind, name }) => `${kind} ${name}`)).toEqual([
      'account carol',
      'policies reads',
      'groups team',
      'roles reader',
      'users ann',
      'users ben',
    ]);
    expect(await exported(admin, 1)).toEqual(records);
    const text = JSON.stringify(records);
    expect(text).not.toContain(root['secretKey']);
    expect(text).not.toContain(ann['secretKey']);
    expect(records.at(-2)).toMatchObject({
      status: 'Active',
      groups: ['team'],
      keys: [{ accessKey: ann['accessKey'], status: 'Active' }],
      quota: { maxBuckets: 0, totalMaxBytes: 1024 ** 3 },
    });
    expect((await admin.ask('GET', '/accounts/none/export')).status).toBe(404);
  });

  test('imports into another installation, where the keys sign and an import again changes nothing', async () => {
    await using world = await openGateway();
    const { root, ann } = await furnish(operatorOf(world));
    const plain = await exported(operatorOf(world));
    const records = await withSecrets(operatorOf(world), plain);
    await using other = await openGateway();
    const admin = operatorOf(other);
    const planned = await imported(admin, records, { dryRun: true });
    expect(outcomes(planned)).toEqual(Array(6).fill('created'));
    expect((await admin.ask('GET', '/accounts/carol')).status).toBe(404);
    expect(await imported(admin, records)).toEqual(planned);
    expect(await exported(admin)).toEqual(plain);
    expect((await clientOfCarol(other, root).put('/of-carol')).status).toBe(200);
    expect((await clientOfCarol(other, ann).put('/of-carol/key', { body: 'content' })).status).toBe(200);
    expect((await clientOfCarol(other, ann).get('/of-carol/key')).status).toBe(200);
    expect((await clientOfCarol(other, ann).delete('/of-carol/key')).status).toBe(403);
    expect(outcomes(await imported(admin, records))).toEqual(Array(6).fill('unchanged'));
    expect(outcomes(await imported(admin, plain))).toEqual(Array(6).fill('unchanged'));
    for (const each of [world, other])
      for (const secret of [root['secretKey'], ann['secretKey']])
        expect(JSON.stringify(await auditRows(each.context))).not.toContain(secret);
    const rows = await auditRows(other.context);
    const actions = rows.map(({ action }) => action);
    const changes = rows.flatMap((row) => (row.action === 'admin:ImportIam' ? (row.changes ?? []) : []));
    expect(changes).toContainEqual({ field: 'imported.users/ann', new: 'created' });
    expect(actions.filter((action) => action === 'admin:ImportIam')).toHaveLength(4);
  });

  test('without secrets imports everything but the keys, which are named, and with them adds these', async () => {
    await using world = await openGateway();
    const { ann } = await furnish(operatorOf(world));
    const plain = await exported(operatorOf(world));
    const records = await withSecrets(operatorOf(world), plain);
    await using other = await openGateway();
    const admin = operatorOf(other);
    const rows = await imported(admin, plain);
    expect(outcomes(rows)).toEqual(Array(6).fill('created'));
    expect(rows.find(({ name }) => name === 'ann')?.notes).toEqual([
      `The key ${ann['accessKey']} is left out, because the record has no secret of it.`,
    ]);
    const again = await imported(admin, records);
    expect(again.map(({ outcome, changes }) => [outcome, ...changes])).toEqual([
      ['changed', 'keys'],
      ['unchanged'],
      ['unchanged'],
      ['unchanged'],
      ['changed', 'keys'],
      ['unchanged'],
    ]);
    expect(await exported(admin)).toEqual(plain);
  });
});

describe('an import', () => {
  test('leaves what differs as it is, names the fields, and changes it with overwrite', async () => {
    await using world = await openGateway();
    const admin = operatorOf(world);
    await furnish(admin);
    const records = await exported(admin);
    const at = '/accounts/carol';
    await admin.must('PUT', `${at}/policies/reads`, { document: allow('s3:*') });
    await admin.must('DELETE', `${at}/groups/team/users/ann`);
    await admin.must('PUT', `${at}/users/ann/inline-policies/more`, { document: allow('s3:*') });
    await admin.must('PUT', `${at}/roles/reader`, { description: 'other' });
    await admin.must('PUT', at, { displayName: 'Other', email: '' });
    const rows = await imported(admin, records);
    const differing = {
      account: ['displayName', 'email'],
      policies: ['document'],
      roles: ['description'],
      users: ['groups', 'inlinePolicies'],
    };
    for (const [kind, changes] of Object.entries(differing))
      expect(rows.find((row) => row.kind === kind && row.name !== 'ben')).toMatchObject({
        outcome: 'conflict',
        changes,
        notes: ['It exists and differs: send overwrite to change it.'],
      });
    const planned = await imported(admin, records, { overwrite: true, dryRun: true });
    expect(await imported(admin, records, { overwrite: true })).toEqual(planned);
    expect(outcomes(planned)).toEqual(['changed', 'changed', 'unchanged', 'changed', 'changed', 'unchanged']);
    expect(await exported(admin)).toEqual(records);
  });

  test('names its conflicts, and goes on with the other records', async () => {
    await using world = await openGateway();
    const admin = operatorOf(world);
    const busy = await openUser(world, 'dora');
    const ofAnn = { accessKey: busy.credential.accessKey, status: 'Active', secretKey: 'a-secret-of-ann' };
    const rows = await imported(admin, [
      { kind: 'account', name: 'carol' },
      { kind: 'users', name: 'ann', keys: [ofAnn] },
      { kind: 'users', name: 'eve', policies: [own('none')] },
      { kind: 'users', name: 'ben' },
      { kind: 'users', name: 'BEN' },
      { kind: 'account', name: 'dora' },
    ]);
    expect(rows.map(({ name, outcome, notes }) => [name, outcome, ...notes])).toEqual([
      ['carol', 'created'],
      ['ann', 'conflict', `The access key ${busy.credential.accessKey} is in use.`],
      ['eve', 'conflict', expect.stringContaining('none')],
      ['ben', 'created'],
      ['BEN', 'conflict', 'ben exists, whose name differs in upper and lower case only.'],
      ['dora', 'conflict', 'The record is about the account dora.'],
    ]);
    for (const [record, text] of [
      [{ kind: 'users', name: 'ann', trust: '{}' }, 'trust'],
      [{ kind: 'groups', name: 'a b' }, 'name'],
      [{ kind: 'users', name: 'ann', status: 'Suspended' }, 'Suspended'],
      [{ kind: 'policies', name: 'p', document: '{}' }, ''],
    ] as const) {
      const { status, json } = await admin.ask('POST', '/accounts/carol/import', { records: [record] });
      expect([status, JSON.stringify(json)]).toEqual([400, expect.stringContaining(text)]);
    }
  });

  test('adds a key that is switched on beside one that is switched off', async () => {
    await using world = await openGateway();
    const admin = operatorOf(world);
    const keys = ['Inactive', 'Active'].map((status) => ({
      accessKey: `AKIA-${status}`,
      secretKey: `a-secret-${status}`,
      status,
    }));
    expect(outcomes(await imported(admin, [{ kind: 'account', name: 'carol', keys }]))).toEqual(['created']);
    const codes = await Promise.all(
      keys.map(async (key) => (await clientOfCarol(world, key).get('/')).status),
    );
    expect(codes).toEqual([403, 200]);
  });

  test('is refused where a policy denies one of its records, and an export leaves that record out', async () => {
    await using world = await openGateway();
    const admin = operatorOf(world);
    await furnish(admin);
    const document = JSON.stringify({
      Version: '2012-10-17',
      Statement: [
        { Effect: 'Allow', Action: 'admin:*', Resource: '*' },
        { Effect: 'Deny', Action: 'admin:*', Resource: 'arn:aws:admin:::accounts/carol/users/ann' },
      ],
    });
    const { credential } = await openUser(world, 'junior', { root: operator, policy: document });
    const junior = world.as({ credential });
    const send = (records: readonly Json[]) =>
      junior.post('/admin/v1/accounts/carol/import', { body: JSON.stringify({ records }) });
    expect((await send([{ kind: 'users', name: 'ben' }])).status).toBe(200);
    expect(
      (
        await send([
          { kind: 'users', name: 'ben' },
          { kind: 'users', name: 'ann' },
        ])
      ).status,
    ).toBe(403);
    const page = JSON.parse((await junior.get('/admin/v1/accounts/carol/export')).text) as { rows: Json[] };
    expect(page.rows.map(({ name }) => name)).toEqual(['carol', 'reads', 'team', 'reader', 'ben']);
    expect((await world.client.get('/admin/v1/accounts/carol/export')).status).toBe(403);
  });
});

test('the import of 10,000 accounts calls the store no more often for each than that of 1,000', async () => {
  let calls = 0;
  const counted =
    <A extends readonly unknown[], T>(call: (...args: A) => T) =>
    (...args: A): T => {
      calls += 1;
      return call(...args);
    };
  await using world = await openGateway({
    backend: 'embedded+file',
    wrap: (context) => {
      const { metadata } = context;
      return {
        ...context,
        metadata: faulty(metadata, {
          get: counted(metadata.get.bind(metadata)) as typeof metadata.get,
          scan: counted(metadata.scan.bind(metadata)) as typeof metadata.scan,
          commit: counted(metadata.commit.bind(metadata)) as typeof metadata.commit,
        }),
      };
    },
  });
  const admin = operatorOf(world);
  const importAccount = async (index: number) => {
    const name = `tenant-${String(index).padStart(5, '0')}`;
    const record = { kind: 'account', name, displayName: `Tenant ${index}`, email: `${name}@example.com` };
    const { rows } = await admin.must('POST', `/accounts/${name}/import`, { records: [record] });
    if ((rows as Row[])[0]?.outcome !== 'created') throw new Error(JSON.stringify(rows));
  };
  const started = performance.now();
  for (let index = 0; index < 1_000; index += 1) await importAccount(index);
  const ofFirst = calls;
  const firstMs = performance.now() - started;
  for (let index = 1_000; index < 10_000; index += 1) await importAccount(index);
  console.info(
    `1,000 accounts in ${Math.round(firstMs)} ms, 10,000 in ${Math.round(performance.now() - started)} ms`,
  );
  expect(calls).toBeLessThanOrEqual(10 * ofFirst + 100);
  let names = 0;
  for (let after = ''; after !== 'end'; ) {
    const page = await admin.must('GET', `/accounts?limit=1000&after=${after}`);
    names += (page['rows'] as Json[]).length;
    after = (page['next'] as string | undefined) ?? 'end';
  }
  expect(names).toBe(10_003);
});
