/** GET /admin/v1/buckets, GET /admin/v1/buckets/{name} and PUT /admin/v1/buckets/{name}/owner. */
import { describe, expect, test } from 'vitest';
import { createBucket } from '../../src/domain/buckets/bucket.ts';
import { findAccountQuota } from '../../src/metadata/buckets/quotas.ts';
import { accountUsage, readUsage } from '../../src/metadata/buckets/usage.ts';
import type { MetadataStore } from '../../src/ports/metadata-store.ts';
import { operatorOf } from '../support/clusters.ts';
import { faulty } from '../support/faulty.ts';
import { alice, bob, type GatewayWorld, openGateway, operator } from '../support/gateway.ts';
import { setVersioning } from '../support/gateway-bodies.ts';
import { auditRows, inShort } from '../support/recorded.ts';
import { virtualClock } from '../support/virtual-clock.ts';

interface Listed {
  readonly name: string;
  readonly [field: string]: unknown;
}

async function list(world: GatewayWorld, query = ''): Promise<readonly Listed[]> {
  const found: Listed[] = [];
  const admin = operatorOf(world);
  for (let after = '', pages = 0; ; pages += 1) {
    if (pages > 100) throw new Error('the pages do not end');
    const page = await admin.must('GET', `/buckets?${query}${after === '' ? '' : `&after=${after}`}`);
    found.push(...(page['rows'] as Listed[]));
    if (page['next'] === undefined) return found;
    after = String(page['next']);
  }
}
const namesOf = async (world: GatewayWorld, query: string) =>
  (await list(world, query)).map(({ name }) => name);

test('operators list the buckets of all accounts by name, with what each holds, in pages and by filters', async () => {
  await using world = await openGateway();
  const admin = operatorOf(world);
  for (const name of ['logs-b', 'data-1', 'logs-a']) await world.client.put(`/${name}`);
  await world.bob.put('/data-2');
  await world.client.put('/data-1/key', { body: 'content' });
  await setVersioning(world.client, 'logs-a', 'Enabled');
  const quota = { maxBytes: 100, maxObjects: 0, maxBytesPerObject: 0 };
  await admin.must('PUT', '/buckets/logs-b/quota', quota);
  const all = ['data-1', 'data-2', 'logs-a', 'logs-b'];
  for (const limit of [1, 2, 3, 100]) expect(await namesOf(world, `limit=${limit}`)).toEqual(all);
  const [first] = await list(world);
  expect(first).toEqual({
    name: 'data-1',
    owner: alice.owner,
    ownerName: alice.displayName,
    created: expect.stringMatching(/^\d{4}-.*Z$/),
    region: world.context.config.SVC_REGION,
    bytes: 7,
    objects: 1,
    updatedAt: expect.stringMatching(/^\d{4}-.*Z$/),
    versioning: 'unset',
    objectLock: false,
    defaultClass: 'STANDARD',
    shards: 4,
    configurations: [],
    policyIsPublic: false,
    aclIsPublic: false,
    hasSigningKey: false,
  });
  expect((await list(world, 'prefix=logs-b'))[0]).toMatchObject({ quota });
  const filtered = {
    'prefix=logs': ['logs-a', 'logs-b'],
    [`owner=${bob.owner}`]: ['data-2'],
    [`owner=${alice.owner}&prefix=d`]: ['data-1'],
    'versioning=Enabled': ['logs-a'],
    'versioning=unset&limit=1': ['data-1', 'data-2', 'logs-b'],
    'hasQuota=true': ['logs-b'],
    'hasQuota=false&limit=2': ['data-1', 'data-2', 'logs-a'],
    'configuration=policy': [],
  };
  for (const [query, names] of Object.entries(filtered)) expect(await namesOf(world, query)).toEqual(names);
  for (const wrong of ['limit=0', 'versioning=On', 'hasQuota=maybe', 'sort=size'])
    expect((await admin.ask('GET', `/buckets?${wrong}`)).status).toBe(400);
});

/** Counts the reads of rows and of pages. */
function countingReads() {
  const reads = { gets: 0, pages: 0 };
  const wrap = (metadata: MetadataStore): MetadataStore =>
    faulty(metadata, {
      get: (...call: Parameters<MetadataStore['get']>) => {
        reads.gets += 1;
        return metadata.get(...call);
      },
      scan: (...call: Parameters<MetadataStore['scan']>) => {
        const cursor = metadata.scan(...call);
        return {
          seek: cursor.seek.bind(cursor),
          next: (count: number) => {
            reads.pages += 1;
            return cursor.next(count);
          },
        };
      },
    } as never);
  return { reads, wrap };
}

test('the first page costs the same reads among 100 and among 2,000 buckets', async () => {
  const { reads, wrap } = countingReads();
  await using world = await openGateway({
    wrap: (context) => ({ ...context, metadata: wrap(context.metadata) }),
  });
  const cost: number[] = [];
  let made = 0;
  for (const buckets of [100, 2_000]) {
    for (; made < buckets; made += 1)
      await createBucket(world.context, {
        name: `bucket-${String(made).padStart(6, '0')}`,
        owner: alice.owner,
        ownerName: alice.displayName,
        creator: alice.owner,
        region: 'us-east-1',
        objectLock: false,
        documents: {},
      });
    reads.gets = 0;
    reads.pages = 0;
    const { rows } = await operatorOf(world).must('GET', '/buckets?limit=50');
    expect(rows).toHaveLength(50);
    cost.push(reads.gets + reads.pages);
  }
  expect(cost[1]).toBeLessThanOrEqual((cost[0] ?? 0) + 16);
  expect(cost[1]).toBeLessThan(250);
});

test('the counters of a bucket have every write that was answered before the time that they name', async () => {
  const clock = virtualClock(Date.UTC(2026, 0, 1));
  await using world = await openGateway({ clock });
  const admin = operatorOf(world);
  await world.client.put('/bucket');
  for (const [n, body] of ['a', 'bc', 'def'].entries()) {
    expect((await world.client.put(`/bucket/${n}`, { body })).status).toBe(200);
    await clock.advance(60_000);
    expect(await admin.must('GET', '/buckets/bucket')).toMatchObject({
      objects: n + 1,
      countedAt: new Date(Date.UTC(2026, 0, 1, 0, n + 1)).toISOString(),
    });
  }
});

test('a filter that lets nothing through reads a bounded number of rows for a page', async () => {
  const { reads, wrap } = countingReads();
  await using world = await openGateway({
    wrap: (context) => ({ ...context, metadata: wrap(context.metadata) }),
  });
  for (let made = 0; made < 2_100; made += 1)
    await createBucket(world.context, {
      name: `bucket-${made}`,
      owner: alice.owner,
      ownerName: '',
      creator: '',
      region: '',
      objectLock: false,
      documents: {},
    });
  reads.gets = 0;
  const page = await operatorOf(world).must('GET', '/buckets?hasQuota=true');
  expect(page).toEqual({ rows: [], next: expect.any(String) });
  expect(reads.gets).toBeLessThan(2_100);
  expect(await list(world, 'hasQuota=true')).toEqual([]);
});

test('GET /buckets/{name} shows owner, usage by class, configurations, encryption and who has access', async () => {
  await using world = await openGateway();
  const { client } = world;
  await client.put('/bucket');
  await client.put('/bucket/key', { body: 'content' });
  await client.put('/bucket/warm', { body: 'x', headers: { '*-storage-class': 'STANDARD_IA' } });
  const policy = {
    Version: '2012-10-17',
    Statement: [
      { Effect: 'Allow', Principal: '*', Action: 's3:GetObject', Resource: 'arn:aws:s3:::bucket/*' },
    ],
  };
  await client.put('/bucket?policy', { body: JSON.stringify(policy) });
  const rule =
    '<Rule><ApplyServerSideEncryptionByDefault><SSEAlgorithm>AES256</SSEAlgorithm></ApplyServerSideEncryptionByDefault></Rule>';
  await client.put('/bucket?encryption', {
    body: `<ServerSideEncryptionConfiguration>${rule}</ServerSideEncryptionConfiguration>`,
  });
  const shown = await operatorOf(world).must('GET', '/buckets/bucket');
  expect(shown).toMatchObject({
    name: 'bucket',
    owner: alice.owner,
    creator: alice.owner,
    bytes: 8,
    objects: 2,
    configurations: ['encryption', 'policy'],
    objectOwnership: 'ObjectWriter',
    policyIsPublic: true,
    aclIsPublic: false,
    encryption: { algorithm: 'AES256' },
    website: false,
    mfaDelete: false,
  });
  expect(shown['classes']).toEqual(
    expect.arrayContaining([
      { storageClass: 'STANDARD', bytes: 7, objects: 1 },
      { storageClass: 'STANDARD_IA', bytes: 1, objects: 1 },
    ]),
  );
  expect(await operatorOf(world).ask('GET', '/buckets/none')).toMatchObject({ status: 404 });
});

test('only operators list and give away buckets, only they and its account see one, and a refused attempt is audited', async () => {
  await using world = await openGateway();
  await world.client.put('/bucket');
  for (const client of [world.client, world.anonymous]) {
    expect((await client.get('/admin/v1/buckets')).status).toBe(403);
    const seen = client === world.client ? 200 : 403;
    expect((await client.get('/admin/v1/buckets/bucket')).status).toBe(seen);
    const body = JSON.stringify({ owner: bob.owner });
    expect((await client.put('/admin/v1/buckets/bucket/owner', { body })).status).toBe(403);
  }
  expect((await auditRows(world.context)).map(inShort).slice(1)).toEqual([
    'admin:PutBucketOwner bucket:bucket 403 AccessDenied',
    'admin:PutBucketOwner bucket:bucket 403 AccessDenied',
  ]);
});

const give = (world: GatewayWorld, body: object) =>
  operatorOf(world).ask('PUT', '/buckets/bucket/owner', body);

describe('PUT /buckets/{name}/owner', () => {
  test('the new owner has the bucket and its objects, and the former one has neither', async () => {
    await using world = await openGateway();
    await world.client.put('/bucket');
    await world.client.put('/bucket/key', { body: 'content' });
    expect((await give(world, { owner: bob.owner })).status).toBe(200);
    expect((await world.bob.get('/bucket/key')).text).toBe('content');
    expect((await world.bob.put('/bucket/more', { body: 'x' })).status).toBe(200);
    expect((await world.client.get('/bucket/key')).status).toBe(403);
    expect((await world.bob.get('/')).all('Name')).toEqual(['bucket']);
    expect((await world.client.get('/')).all('Name')).toEqual([]);
    expect(await list(world, `owner=${alice.owner}`)).toEqual([]);
    expect((await world.bob.delete('/bucket/key')).status).toBe(204);
    expect((await auditRows(world.context)).map(inShort)).toContain('admin:PutBucketOwner bucket:bucket 200');
  });

  test('with objects that stay, each object remains its writer’s, and the ACL of the bucket names the new owner', async () => {
    await using world = await openGateway();
    await world.client.put('/bucket', {
      headers: { '*-acl': 'public-read', '*-object-ownership': 'ObjectWriter' },
    });
    await world.client.put('/bucket/key', { body: 'content' });
    expect((await give(world, { owner: bob.owner, objects: 'stay' })).status).toBe(200);
    expect((await world.bob.get('/bucket/key')).status).toBe(403);
    const acl = await world.bob.get('/bucket?acl');
    expect(acl.text).toContain(`<ID>${bob.owner}</ID>`);
    expect(acl.text).not.toContain(alice.owner);
  });

  test('the answer shows the policy that the former owner left, and policy=drop removes it', async () => {
    await using world = await openGateway();
    await world.client.put('/bucket');
    await world.client.put('/bucket/key', { body: 'content' });
    const policy = JSON.stringify({
      Version: '2012-10-17',
      Statement: [
        {
          Effect: 'Allow',
          Principal: { AWS: alice.owner },
          Action: 's3:GetObject',
          Resource: 'arn:aws:s3:::bucket/*',
        },
      ],
    });
    expect((await world.client.put('/bucket?policy', { body: policy })).status).toBe(204);
    const kept = await give(world, { owner: bob.owner });
    expect([kept.status, kept.json]).toEqual([200, { policy: 'kept', policyText: policy }]);
    expect((await world.client.get('/bucket/key')).status).toBe(200);
    const admin = operatorOf(world);
    const dropped = await admin.ask('PUT', '/buckets/bucket/owner?policy=drop', { owner: bob.owner });
    expect([dropped.status, dropped.json]).toEqual([200, { policy: 'dropped', policyText: policy }]);
    expect((await world.client.get('/bucket/key')).status).toBe(403);
    expect((await world.bob.get('/bucket?policy')).code).toBe('NoSuchBucketPolicy');
    const none = await give(world, { owner: alice.owner });
    expect(none.json).toEqual({ policy: 'none' });
  });

  test('the quotas of both accounts count the bucket exactly', async () => {
    await using world = await openGateway();
    const admin = operatorOf(world);
    await world.client.put('/bucket');
    await world.client.put('/other');
    await world.client.put('/other/key', { body: 'abc' });
    const quota = { maxBuckets: 0, totalMaxBytes: 10 };
    for (const { owner } of [alice, bob]) await admin.must('PUT', `/iam/users/${owner}/quota`, quota);
    expect((await world.client.put('/bucket/key', { body: '1234567' })).status).toBe(200);
    expect((await world.client.put('/other/more', { body: 'x' })).status).toBe(403);
    expect((await give(world, { owner: bob.owner })).status).toBe(200);
    const counted = async (owner: string) => {
      const epoch = (await findAccountQuota(world.context.metadata, owner))?.row.epoch ?? '';
      return [...(await readUsage(world.context.metadata, accountUsage(epoch))).values()];
    };
    expect(await counted(alice.owner)).toEqual([{ bytes: 3, objects: 1 }]);
    expect(await counted(bob.owner)).toEqual([{ bytes: 7, objects: 1 }]);
    expect((await world.client.put('/other/more', { body: '1234567' })).status).toBe(200);
    expect((await world.bob.put('/bucket/more', { body: '1234' })).status).toBe(403);
    expect((await world.bob.put('/bucket/more', { body: '123' })).status).toBe(200);
  });

  test('an account gets no more buckets than it may have', async () => {
    await using world = await openGateway();
    const admin = operatorOf(world);
    await world.client.put('/bucket');
    await world.bob.put('/own');
    await admin.must('PUT', `/iam/users/${bob.owner}/quota`, { maxBuckets: 1, totalMaxBytes: 0 });
    expect(await give(world, { owner: bob.owner })).toMatchObject({ status: 403 });
    expect((await world.client.get('/bucket')).status).toBe(200);
    await world.bob.delete('/own');
    expect((await give(world, { owner: bob.owner })).status).toBe(200);
  });

  test('unknown accounts, unknown buckets and unknown fields are refused', async () => {
    await using world = await openGateway();
    await world.client.put('/bucket');
    expect((await give(world, { owner: 'nobody' })).status).toBe(400);
    expect((await give(world, { owner: bob.owner, objects: 'all' })).status).toBe(400);
    expect((await give(world, {})).status).toBe(400);
    expect((await operatorOf(world).ask('PUT', '/buckets/none/owner', { owner: bob.owner })).status).toBe(
      404,
    );
    expect(await namesOf(world, `owner=${operator.owner}`)).toEqual([]);
  });
});
