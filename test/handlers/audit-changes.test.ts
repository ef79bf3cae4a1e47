/** Audit rows of the operator API: what an operation changed, with the values before and after. */
import { createHash } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { nodeHasher } from '../../src/backends/crypto/node.ts';
import { stateChanges } from '../../src/domain/common/recorder.ts';
import type { LogLevelControl } from '../../src/ports/telemetry.ts';
import { openAdmin } from '../support/admin-world.ts';
import { encryptingSettings } from '../support/encryption.ts';
import { alice, bob, openGateway, operator } from '../support/gateway.ts';
import { virtualClock } from '../support/virtual-clock.ts';

type Admin = Awaited<ReturnType<typeof openAdmin>>;

/** The row of the last request with this action, as operators read it. */
async function lastRow({ send }: Admin, action: string) {
  const { json } = await send('GET', `/audit?action=admin:${action}&limit=1`);
  return json.rows[0];
}

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex');
const digest = (text: string) => ({ sha256: sha256(text), characters: text.length });

/** An operation, its path and body, and what its row says it has changed. */
type Step = readonly [action: string, path: string, body: object | undefined, changes: readonly object[]];

const methods: readonly (readonly [RegExp, string])[] = [
  [/^Delete/, 'DELETE'],
  [/^Put/, 'PUT'],
  [/^/, 'POST'],
];
const methodOf = (action: string): string => methods.find(([pattern]) => pattern.test(action))?.[1] ?? '';

async function takeSteps(admin: Admin, steps: readonly Step[]): Promise<void> {
  for (const [action, path, body, changes] of steps) {
    // Rows of one millisecond have no order.
    for (const before = Date.now(); Date.now() === before; );
    const { status, text } = await admin.send(methodOf(action), path, body === undefined ? {} : { body });
    expect([action, path, status < 300 ? 'done' : text]).toEqual([action, path, 'done']);
    const row = await lastRow(admin, action);
    expect([action, path, row.changes ?? []]).toEqual([action, path, changes]);
  }
}

const quota = { maxBytes: 10, maxObjects: 0, maxBytesPerObject: 0 };

describe('audit rows have old and new values', () => {
  test('of quotas, limits, placement, classes, owners and the log level', async () => {
    await using admin = await openAdmin();
    const own = `/iam/users/${alice.owner}/quota`;
    await takeSteps(admin, [
      [
        'PutBucketQuota',
        '/buckets/books/quota',
        quota,
        [
          { field: 'maxBytes', new: 10 },
          { field: 'maxObjects', new: 0 },
          { field: 'maxBytesPerObject', new: 0 },
        ],
      ],
      [
        'PutBucketQuota',
        '/buckets/books/quota',
        { ...quota, maxBytes: 20 },
        [{ field: 'maxBytes', old: 10, new: 20 }],
      ],
      ['PutBucketQuota', '/buckets/books/quota', { ...quota, maxBytes: 20 }, []],
      [
        'DeleteBucketQuota',
        '/buckets/books/quota',
        undefined,
        [
          { field: 'maxBytes', old: 20 },
          { field: 'maxObjects', old: 0 },
          { field: 'maxBytesPerObject', old: 0 },
        ],
      ],
      [
        'PutUserQuota',
        own,
        { maxBuckets: 5, totalMaxBytes: 0 },
        [
          { field: 'maxBuckets', new: 5 },
          { field: 'totalMaxBytes', new: 0 },
        ],
      ],
      ['PutUserQuota', own, { maxBuckets: 6, totalMaxBytes: 0 }, [{ field: 'maxBuckets', old: 5, new: 6 }]],
      [
        'DeleteUserQuota',
        own,
        undefined,
        [
          { field: 'maxBuckets', old: 6 },
          { field: 'totalMaxBytes', old: 0 },
        ],
      ],
      [
        'PutBucketLimit',
        '/buckets/books/limits',
        { requestsPerSecond: 7 },
        [{ field: 'requestsPerSecond', new: 7 }],
      ],
      [
        'PutBucketLimit',
        '/buckets/books/limits',
        { concurrentRequests: 8 },
        [
          { field: 'requestsPerSecond', old: 7 },
          { field: 'concurrentRequests', new: 8 },
        ],
      ],
      ['DeleteBucketLimit', '/buckets/books/limits', undefined, [{ field: 'concurrentRequests', old: 8 }]],
      [
        'PutBucketDefaultClass',
        '/buckets/books/default-class',
        { defaultClass: 'STANDARD_IA' },
        [{ field: 'defaultClass', old: 'STANDARD', new: 'STANDARD_IA' }],
      ],
      [
        'DeleteBucketDefaultClass',
        '/buckets/books/default-class',
        undefined,
        [{ field: 'defaultClass', old: 'STANDARD_IA', new: 'STANDARD' }],
      ],
      [
        'PutBucketPlacement',
        '/buckets/books/placement',
        { placement: { default: 1 } },
        [
          { field: 'placement.default', new: 1 },
          { field: 'mode', new: 'weighted' },
        ],
      ],
      [
        'PutBucketPlacement',
        '/buckets/books/placement',
        { placement: { default: 2 }, mode: 'strict' },
        [
          { field: 'placement.default', old: 1, new: 2 },
          { field: 'mode', old: 'weighted', new: 'strict' },
        ],
      ],
      [
        'PutBucketOwner',
        '/buckets/books/owner',
        { owner: bob.owner },
        [{ field: 'owner', old: alice.owner, new: bob.owner }],
      ],
    ]);
  });

  test('of clusters', async () => {
    await using admin = await openAdmin();
    const { json } = await admin.send('GET', '/clusters');
    const { id, weight } = json.clusters[0];
    await takeSteps(admin, [
      [
        'PutClusterWeight',
        `/clusters/${id}/weight`,
        { weight: weight + 1 },
        [{ field: 'weight', old: weight, new: weight + 1 }],
      ],
      [
        'DrainCluster',
        `/clusters/${id}/drain`,
        { mode: 'readonly' },
        [{ field: 'state', old: 'live', new: 'draining_readonly' }],
      ],
      [
        'UndrainCluster',
        `/clusters/${id}/undrain`,
        undefined,
        [{ field: 'state', old: 'draining_readonly', new: 'live' }],
      ],
    ]);
    // Refused: nothing changed.
    const refused = await admin.send('POST', `/clusters/${id}/undrain`);
    expect(refused.status).toBe(409);
    expect(await lastRow(admin, 'UndrainCluster')).toMatchObject({ status: 409 });
    expect((await lastRow(admin, 'UndrainCluster')).changes).toBeUndefined();
    const stale = await admin.send('PUT', `/clusters/${id}/weight`, {
      body: { weight: 9 },
      headers: { 'if-match': '"other"' },
    });
    expect(stale.status).toBe(412);
    expect((await lastRow(admin, 'PutClusterWeight')).changes).toBeUndefined();
  });

  test('of replication peers, without their keys', async () => {
    await using admin = await openAdmin();
    const path = '/replication/peers/far';
    const peer = { endpoint: 'https://192.0.2.1:9', accessKey: 'peer-key', secretKey: 'peer-secret' };
    await takeSteps(admin, [
      [
        'PutReplicationPeer',
        path,
        peer,
        [
          { field: 'endpoint', new: 'https://192.0.2.1:9' },
          { field: 'region', new: 'us-east-1' },
        ],
      ],
      [
        'PutReplicationPeer',
        path,
        { ...peer, secretKey: 'other-secret', bandwidth: 100_000, accounts: [{ account: alice.owner }] },
        [
          { field: 'bandwidth', new: 100_000 },
          { field: 'accounts', new: [{ account: alice.owner }] },
        ],
      ],
      [
        'DeleteReplicationPeer',
        path,
        undefined,
        [
          { field: 'endpoint', old: 'https://192.0.2.1:9' },
          { field: 'region', old: 'us-east-1' },
          { field: 'bandwidth', old: 100_000 },
          { field: 'accounts', old: [{ account: alice.owner }] },
        ],
      ],
    ]);
  });

  test('of accounts, users, groups, roles, policies and keys; documents by their digests', async () => {
    await using admin = await openAdmin();
    const policy = (action: string) =>
      JSON.stringify({
        Version: '2012-10-17',
        Statement: [{ Effect: 'Allow', Action: action, Resource: '*' }],
      });
    const trust = (account: string) =>
      JSON.stringify({
        Version: '2012-10-17',
        Statement: [
          { Effect: 'Allow', Action: 'sts:AssumeRole', Principal: { AWS: `arn:aws:iam::${account}:root` } },
        ],
      });
    const at = '/accounts/shop';
    const attachment = { kind: 'user', name: 'ann', policy: 'arn:aws:iam::shop:policy/reading' };
    await takeSteps(admin, [
      [
        'CreateAccount',
        '/accounts',
        { account: 'shop', accessKey: 'SHOPKEY', secretKey: 'shop-secret' },
        [
          { field: 'status', new: 'Active' },
          { field: 'displayName', new: 'shop' },
          { field: 'accessKeys.SHOPKEY', new: 'Active' },
        ],
      ],
      ['PutAccount', at, { displayName: 'Shop' }, [{ field: 'displayName', old: 'shop', new: 'Shop' }]],
      ['PutAccount', at, { status: 'Suspended' }, [{ field: 'status', old: 'Active', new: 'Suspended' }]],
      ['PutAccount', at, { status: 'Active' }, [{ field: 'status', old: 'Suspended', new: 'Active' }]],
      [
        'CreateIamUser',
        `${at}/users`,
        { name: 'ann' },
        [
          { field: 'name', new: 'ann' },
          { field: 'path', new: '/' },
          { field: 'status', new: 'Active' },
        ],
      ],
      [
        'PutIamUser',
        `${at}/users/ann`,
        { status: 'Disabled', path: '/staff/' },
        [
          { field: 'path', old: '/', new: '/staff/' },
          { field: 'status', old: 'Active', new: 'Disabled' },
        ],
      ],
      [
        'ImportAccessKey',
        '/iam/users/ann/access-keys',
        { account: 'shop', accessKey: 'ANNKEY', secretKey: 'ann-secret' },
        [{ field: 'accessKeys.ANNKEY', new: 'Active' }],
      ],
      [
        'PutIamAccessKey',
        `${at}/users/ann/access-keys/ANNKEY`,
        { status: 'Inactive' },
        [{ field: 'accessKeys.ANNKEY', old: 'Active', new: 'Inactive' }],
      ],
      [
        'DeleteIamAccessKey',
        `${at}/users/ann/access-keys/ANNKEY`,
        undefined,
        [{ field: 'accessKeys.ANNKEY', old: 'Inactive' }],
      ],
      [
        'CreateIamGroup',
        `${at}/groups`,
        { name: 'staff' },
        [
          { field: 'name', new: 'staff' },
          { field: 'path', new: '/' },
        ],
      ],
      ['PutIamGroupUser', `${at}/groups/staff/users/ann`, undefined, [{ field: 'users.ann', new: 'member' }]],
      [
        'DeleteIamGroupUser',
        `${at}/groups/staff/users/ann`,
        undefined,
        [{ field: 'users.ann', old: 'member' }],
      ],
      [
        'CreateIamPolicy',
        `${at}/policies`,
        { name: 'reading', document: policy('s3:GetObject') },
        [
          { field: 'name', new: 'reading' },
          { field: 'path', new: '/' },
          { field: 'defaultVersion', new: 1 },
          { field: 'document', new: digest(policy('s3:GetObject')) },
        ],
      ],
      [
        'PutIamPolicy',
        `${at}/policies/reading`,
        { document: policy('s3:*') },
        [
          { field: 'defaultVersion', old: 1, new: 2 },
          { field: 'document', old: digest(policy('s3:GetObject')), new: digest(policy('s3:*')) },
        ],
      ],
      ['AttachIamPolicy', `${at}/attachments`, attachment, [{ field: 'policies.reading', new: 'attached' }]],
      ['DetachIamPolicy', `${at}/detachments`, attachment, [{ field: 'policies.reading', old: 'attached' }]],
      [
        'PutIamUserInlinePolicy',
        `${at}/users/ann/inline-policies/own`,
        { document: policy('s3:PutObject') },
        [{ field: 'inlinePolicies.own', new: digest(policy('s3:PutObject')) }],
      ],
      [
        'DeleteIamUserInlinePolicy',
        `${at}/users/ann/inline-policies/own`,
        undefined,
        [{ field: 'inlinePolicies.own', old: digest(policy('s3:PutObject')) }],
      ],
      [
        'CreateIamRole',
        `${at}/roles`,
        { name: 'robot', trust: trust('shop') },
        [
          { field: 'name', new: 'robot' },
          { field: 'path', new: '/' },
          { field: 'sessionSeconds', new: 3_600 },
          { field: 'trust', new: digest(trust('shop')) },
        ],
      ],
      [
        'PutIamRole',
        `${at}/roles/robot`,
        { sessionSeconds: 7_200, trust: trust(alice.owner) },
        [
          { field: 'sessionSeconds', old: 3_600, new: 7_200 },
          { field: 'trust', old: digest(trust('shop')), new: digest(trust(alice.owner)) },
        ],
      ],
    ]);
  });

  test('that are long by their digest', async () => {
    await using admin = await openAdmin();
    const peer = { endpoint: 'https://192.0.2.1:9', accessKey: 'peer-key', secretKey: 'peer-secret' };
    const accounts = Array.from({ length: 100 }, (_, n) => ({ account: `account-${n}` }));
    const path = '/replication/peers/far';
    expect((await admin.send('PUT', path, { body: { ...peer, accounts } })).status).toBe(200);
    const { changes } = await lastRow(admin, 'PutReplicationPeer');
    expect(changes.at(-1)).toEqual({ field: 'accounts', new: digest(JSON.stringify(accounts)) });
  });
});

test('of background workers', async () => {
  await using admin = await openAdmin();
  await takeSteps(admin, [
    [
      'PauseWorker',
      '/workers/gc/pause',
      { reason: 'a move' },
      [{ field: 'state', old: 'active', new: 'paused' }],
    ],
    ['PauseWorker', '/workers/gc/pause', {}, []],
    ['ResumeWorker', '/workers/gc/resume', undefined, [{ field: 'state', old: 'paused', new: 'active' }]],
  ]);
});

test('of the signing key of a bucket, without its secret', async () => {
  const clock = virtualClock(Date.UTC(2026, 0, 1));
  const settings = { ...(await encryptingSettings()), SVC_KMS_DEFAULT_KEY_ID: 'first' };
  await using world = await openGateway({ clock, settings });
  await world.client.put('/bucket');
  const client = world.as({ credential: operator });
  const path = '/admin/v1/buckets/bucket/signing-key';
  const rotated = await client.post(`${path}/rotate`);
  await clock.advance(1_000);
  await client.post(`${path}/rotate`);
  await clock.advance(1_000);
  expect((await client.delete(path)).status).toBe(204);
  const { text } = await client.get('/admin/v1/audit?changed=signingKey');
  const rows = JSON.parse(text).rows as readonly { changes: unknown }[];
  const first = '2026-01-01T00:00:00.000Z';
  const second = '2026-01-01T00:00:01.000Z';
  expect(rows.map(({ changes }) => changes).reverse()).toEqual([
    [
      { field: 'signingKey.keyId', new: 'first' },
      { field: 'signingKey.createdAt', new: first },
    ],
    [{ field: 'signingKey.createdAt', old: first, new: second }],
    [
      { field: 'signingKey.keyId', old: 'first' },
      { field: 'signingKey.createdAt', old: second },
    ],
  ]);
  expect(text).not.toContain(JSON.parse(rotated.text).secret_access_key);
});

test('many changes of one request take a bounded part of its row', () => {
  const entries = (to: number) =>
    Object.fromEntries(Array.from({ length: 300 }, (_, n) => [`cluster-${n}`, to]));
  const changes = stateChanges(
    nodeHasher(),
    { records: ['placement', 'text'] },
    { before: { placement: entries(1) }, after: { placement: entries(2), text: 'x'.repeat(1_000_000) } },
  );
  expect(changes[0]).toEqual({ field: 'placement.cluster-0', old: 1, new: 2 });
  expect(changes.at(-1)).toEqual({ field: 'further changes', new: 269 });
  expect(JSON.stringify(changes).length).toBeLessThan(16_384);
});

test('of the level of the log', async () => {
  let level: ReturnType<LogLevelControl['get']> = 'INFO';
  const logLevel = {
    get: () => level,
    set: (next: typeof level) => {
      level = next;
    },
  };
  await using world = await openGateway({ wrap: (context) => ({ ...context, logLevel }) });
  const client = world.as({ credential: operator });
  expect((await client.put('/admin/v1/log-level', { body: '{"level":"DEBUG"}' })).status).toBe(200);
  const { rows } = JSON.parse((await client.get('/admin/v1/audit?action=admin:PutLogLevel')).text);
  expect(rows[0]).toMatchObject({
    resource: 'log-level',
    changes: [{ field: 'level', old: 'INFO', new: 'DEBUG' }],
  });
});

test('the audit log is filtered by a changed field, and exported with the changes', async () => {
  await using admin = await openAdmin();
  await admin.send('PUT', '/buckets/books/quota', { body: quota });
  await admin.send('PUT', '/buckets/books/placement', { body: { placement: { default: 3 } } });
  const actionsOf = async (changed: string) =>
    (await admin.send('GET', `/audit?changed=${changed}`)).json.rows.map(
      ({ action }: { action: string }) => action,
    );
  expect(await actionsOf('maxBytes')).toEqual(['admin:PutBucketQuota']);
  expect(await actionsOf('placement')).toEqual(['admin:PutBucketPlacement']);
  expect(await actionsOf('placement.default')).toEqual(['admin:PutBucketPlacement']);
  expect(await actionsOf('placement.d')).toEqual([]);
  const change = { field: 'placement.default', new: 3 };
  const client = admin.world.as({ credential: operator });
  const exported = async (format: string) =>
    JSON.parse((await client.get(`/admin/v1/audit/export?format=${format}&changed=placement`)).text);
  expect((await exported('jsonl')).changes).toContainEqual(change);
  expect((await exported('cloudtrail')).Records[0].additionalEventData.changes).toContainEqual(change);
  expect((await exported('ocsf')).unmapped.changes).toContainEqual(change);
});
