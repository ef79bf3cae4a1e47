/** Every row of the table "Operator JSON API" of the specification: its status, exactly the fields of its reply, and its audit row. */
import { expect, test } from 'vitest';
import { openClusters } from '../support/clusters.ts';
import { encryptingSettings } from '../support/encryption.ts';
import { alice, operator } from '../support/gateway.ts';
import { auditRows } from '../support/recorded.ts';

const bucket = '/buckets/bucket';
const user = `/iam/users/${alice.owner}`;
const quota = { maxBytes: 10, maxObjects: 0, maxBytesPerObject: 5 };
const userQuota = { maxBuckets: 3, totalMaxBytes: 0 };
const cluster = {
  id: 'b',
  state: expect.any(String),
  weight: expect.any(Number),
  since: expect.any(String),
  listed: true,
};
const key = { key_id: 'first', created_at: expect.any(Number) };
const days = 'start=2026-01-01&end=2026-01-31';

/** Method, path, body; status, the reply exactly, and the operation of the audit row of a write. */
const rows: readonly (readonly [string, object | undefined, number, object | undefined, string?])[] = [
  [
    `POST ${bucket}/signing-key/rotate`,
    undefined,
    200,
    {
      ...key,
      secret_access_key: expect.stringMatching(/^[0-9a-f]{64}$/),
      wrapped_dek_length: expect.any(Number),
    },
    'RotateBucketSigningKey',
  ],
  [
    `GET ${bucket}/signing-key/status`,
    undefined,
    200,
    { ...key, age_days: expect.any(Number), max_age_days: 90, expired: false },
    'GetBucketSigningKeyStatus',
  ],
  [`DELETE ${bucket}/signing-key`, undefined, 204, undefined, 'DeleteBucketSigningKey'],
  [
    `PUT ${bucket}/placement`,
    { placement: { a: 1, b: 2 }, mode: 'strict' },
    200,
    { bucket: 'bucket', placement: { a: 1, b: 2 }, mode: 'strict' },
    'PutBucketPlacement',
  ],
  [`GET ${bucket}/quota`, undefined, 404, undefined],
  [`PUT ${bucket}/quota`, quota, 204, undefined, 'PutBucketQuota'],
  [`GET ${bucket}/quota`, undefined, 200, quota],
  [`DELETE ${bucket}/quota`, undefined, 204, undefined, 'DeleteBucketQuota'],
  [`DELETE ${bucket}/quota`, undefined, 204, undefined],
  [`GET ${bucket}/usage`, undefined, 200, { rows: [] }],
  [`GET ${bucket}/usage?${days}`, undefined, 200, { rows: [] }],
  [`GET ${user}/quota`, undefined, 404, undefined],
  [`PUT ${user}/quota`, userQuota, 204, undefined, 'PutUserQuota'],
  [`GET ${user}/quota`, undefined, 200, userQuota],
  [`DELETE ${user}/quota`, undefined, 204, undefined, 'DeleteUserQuota'],
  [`GET ${user}/usage?${days}`, undefined, 200, { rows: [], totals: { bytes: 4, objects: 1 } }],
  // Both clusters of a first boot are live: test/handlers/clusters.test.ts activates a pending one.
  ['POST /clusters/b/activate', { weight: 5 }, 409, undefined, 'ActivateCluster'],
  ['PUT /clusters/b/weight', { weight: 5 }, 200, { ...cluster, weight: 5 }, 'PutClusterWeight'],
  [
    'POST /clusters/b/drain',
    { mode: 'readonly' },
    200,
    { ...cluster, state: 'draining_readonly' },
    'DrainCluster',
  ],
  ['POST /clusters/b/undrain', undefined, 200, { ...cluster, state: 'live' }, 'UndrainCluster'],
  ['GET /storage/classes', undefined, 200, { classes: [], pools_by_class: {} }],
  ['GET /storage/health', undefined, 200, { ok: true, warnings: [], source: expect.any(String) }],
  [
    'GET /storage/meta',
    undefined,
    200,
    {
      backend: 'memory',
      nodes: [
        {
          name: expect.any(String),
          dataCenter: expect.any(String),
          rack: expect.any(String),
          releaseVersion: expect.any(String),
          schemaVersion: expect.any(String),
          state: 'UP',
        },
      ],
      warnings: [],
    },
  ],
  [
    'GET /storage/data',
    undefined,
    200,
    {
      backend: 'memory',
      clusters: expect.any(Array),
      pools: expect.arrayContaining([expect.objectContaining({ BytesUsed: 4, ChunkCount: 1 })]),
      warnings: [],
    },
  ],
  [
    `POST ${bucket}/force-empty`,
    undefined,
    202,
    {
      state: 'running',
      deleted: { versions: 0, markers: 0, uploads: 0 },
      kept: 0,
      startedAt: expect.any(Number),
    },
    'ForceEmptyBucket',
  ],
];

const codes: Readonly<Record<string, string>> = {
  [`GET ${bucket}/quota`]: 'NoSuchBucketQuota',
  [`GET ${user}/quota`]: 'NoSuchUserQuota',
  'POST /clusters/b/activate': 'InvalidClusterState',
};

test('every operation of the specification has its status, exactly the fields of its reply, and its audit row', async () => {
  const settings = { ...(await encryptingSettings()), SVC_KMS_DEFAULT_KEY_ID: 'first' };
  const { world } = await openClusters('a,b', { settings });
  await using _ = world;
  await world.client.put('/bucket');
  await world.client.put('/bucket/key', { body: 'text' });
  const admin = world.as({ credential: operator });
  for (const [asked, body, status, reply] of rows) {
    const [method = '', path = ''] = asked.split(' ');
    const answer = await admin.send(
      method,
      `/admin/v1${path}`,
      body === undefined ? {} : { body: JSON.stringify(body) },
    );
    expect([asked, answer.status, answer.text]).toEqual([asked, status, expect.any(String)]);
    const json = answer.text === '' ? undefined : JSON.parse(answer.text);
    expect([asked, status < 400 ? json : json.code]).toEqual([asked, status < 400 ? reply : codes[asked]]);
  }
  const audited = (await auditRows(world.context))
    .map(({ action }) => action)
    .filter((action) => action.startsWith('admin:'));
  const written = rows.flatMap(([, , , , name]) => (name === undefined ? [] : [`admin:${name}`]));
  expect([...new Set(audited)].sort()).toEqual(written.sort());
});
