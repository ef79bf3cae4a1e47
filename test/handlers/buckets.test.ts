/** CreateBucket, HeadBucket, GetBucketLocation, ListBuckets. @storage */
import { describe, expect, test } from 'vitest';
import type { Context } from '../../src/context.ts';
import { type buckets, tables } from '../../src/metadata/tables.ts';
import type { At, MetadataStore } from '../../src/ports/metadata-store.ts';
import { faulty } from '../support/faulty.ts';
import { backends, openGateway } from '../support/gateway.ts';
import { versioning } from '../support/gateway-bodies.ts';

const bucketAt = (name: string): At<typeof buckets> => ({ table: tables.buckets, in: { name } });

const location = (region: string) =>
  `<CreateBucketConfiguration><LocationConstraint>${region}</LocationConstraint></CreateBucketConfiguration>`;

describe.each(backends)('CreateBucket on %s', (backend) => {
  test('creates a bucket of the default region, whose location is empty', async () => {
    await using world = await openGateway({ backend });
    const { client } = world;
    const created = await client.put('/bucket');
    expect([created.status, created.header('location')]).toEqual([200, '/bucket']);
    const head = await client.head('/bucket');
    expect([head.status, head.header('*-bucket-region')]).toEqual([200, 'default']);
    const where = await client.get('/bucket?location');
    expect(where.text).toMatch(/<LocationConstraint xmlns="[^"]+"><\/LocationConstraint>$/);
  });

  test('is idempotent for the same owner and refused to another', async () => {
    await using world = await openGateway({ backend });
    await world.client.put('/bucket');
    await world.client.put('/bucket/key', { body: 'x' });
    const again = await world.client.put('/bucket');
    expect([again.status, again.header('location')]).toEqual([200, '/bucket']);
    expect((await world.client.get('/bucket/key')).text).toBe('x');
    const other = await world.bob.put('/bucket');
    expect([other.status, other.code]).toEqual([409, 'BucketAlreadyExists']);
  });

  test('a CreateBucket that answers 200 finds the bucket in the list, also where its first creator died before listing it', async () => {
    let dies = true;
    await using world = await openGateway({
      backend,
      wrap: (context) => withoutSideChanges(context, () => dies),
    });
    const { client, bob } = world;
    await client.put('/bucket');
    await client.put('/bucket/key', { body: 'x' });
    expect((await client.get('/')).all('Name')).toEqual([]);
    dies = false;
    const all = await Promise.all(Array.from({ length: 4 }, () => client.put('/bucket')));
    expect(all.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
    expect((await client.get('/')).all('Name')).toEqual(['bucket']);
    expect((await client.get('/bucket/key')).text).toBe('x');
    expect((await bob.get('/')).all('Name')).toEqual([]);
    await client.delete('/bucket/key');
    expect((await client.delete('/bucket')).status).toBe(204);
    expect((await client.get('/')).all('Name')).toEqual([]);
  });
});

/** Commits of bucket rows by a process that dies right after them, on a store that applies side changes later. */
const withoutSideChanges = (context: Context, dies: () => boolean): Context => {
  const { metadata } = context;
  const commit: MetadataStore['commit'] = (at, changes, options) =>
    metadata.commit(at, changes, {
      ...options,
      ...((at.table as { name: string }).name === 'buckets' && dies() ? { then: [] } : {}),
    });
  return { ...context, metadata: faulty(metadata, { commit }) };
};

describe('CreateBucket', () => {
  test('keeps the region of the body and shows it', async () => {
    await using world = await openGateway();
    const { client } = world;
    expect((await client.put('/bucket', { body: location('eu-west-3') })).status).toBe(200);
    expect((await client.head('/bucket')).header('*-bucket-region')).toBe('eu-west-3');
    expect((await client.get('/bucket?location')).one('LocationConstraint')).toBe('eu-west-3');
    const wrong = await client.put('/other', { body: location('not a region') });
    expect([wrong.status, wrong.code]).toEqual([400, 'InvalidLocationConstraint']);
    expect((await client.head('/other')).status).toBe(404);
  });

  test('where regions are strict, takes its own region only', async () => {
    const settings = { SVC_REGION: 'us-east-1', SVC_REGION_STRICT: 'true' };
    await using world = await openGateway({ settings });
    const { client } = world;
    const other = await client.put('/bucket', { body: location('eu-west-3') });
    expect([other.status, other.code]).toEqual([400, 'IllegalLocationConstraintException']);
    expect((await client.head('/bucket')).status).toBe(404);
    expect((await client.put('/bucket', { body: location('us-east-1') })).status).toBe(200);
    expect((await client.put('/other')).status).toBe(200);
  });

  test.each([
    ['default', 'default', ''],
    ['us-east-1', 'us-east-1', ''],
    ['eu-west-3', 'eu-west-3', 'eu-west-3'],
  ])('in the region %s HeadBucket shows %s and GetBucketLocation "%s"', async (SVC_REGION, head, where) => {
    await using world = await openGateway({ settings: { SVC_REGION } });
    await world.client.put('/bucket');
    await world.client.put('/named', { body: location(SVC_REGION) });
    for (const bucket of ['/bucket', '/named']) {
      expect((await world.client.head(bucket)).header('*-bucket-region')).toBe(head);
      expect((await world.client.get(`${bucket}?location`)).one('LocationConstraint')).toBe(where);
    }
    expect((await world.client.get('/')).all('BucketRegion')).toEqual([head, head]);
  });

  test('stores the shard count of the setting, and knows canned ACLs', async () => {
    await using world = await openGateway({ settings: { SVC_BUCKET_SHARDS: '8' } });
    await world.client.put('/bucket', { headers: { '*-acl': 'public-read' } });
    const found = await world.context.metadata.get(bucketAt('bucket'), {});
    expect(found?.row.shards).toBe(8);
    const wrong = await world.client.put('/other', { headers: { '*-acl': 'everybody' } });
    expect([wrong.status, wrong.code]).toEqual([400, 'InvalidArgument']);
  });

  test('with the object-lock flag brings versioning, which then cannot be suspended', async () => {
    await using world = await openGateway();
    const { client } = world;
    await client.put('/bucket', { headers: { '*-bucket-object-lock-enabled': 'true' } });
    expect((await client.get('/bucket?versioning')).one('Status')).toBe('Enabled');
    const suspend = await client.put('/bucket?versioning', { body: versioning('Suspended') });
    expect([suspend.status, suspend.code]).toEqual([409, 'InvalidBucketState']);
    await client.put('/plain', { headers: { '*-bucket-object-lock-enabled': 'false' } });
    expect((await client.get('/plain?versioning')).one('Status')).toBeUndefined();
  });

  test.each([
    ['bucket-object-lock-enabled', 'yes', 400, 'InvalidArgument'],
    ['bucket-object-lock-enabled', '', 400, 'InvalidArgument'],
    ['bucket-namespace', 'regional', 400, 'InvalidArgument'],
    ['bucket-namespace', '', 400, 'InvalidArgument'],
    ['bucket-namespace', 'account-regional', 501, 'NotImplemented'],
  ])('is refused with %s: %j, and makes no other bucket instead', async (name, value, status, code) => {
    await using world = await openGateway();
    const refused = await world.client.put('/bucket', { headers: { [`*-${name}`]: value } });
    expect([refused.status, refused.code]).toEqual([status, code]);
    expect((await world.client.head('/bucket')).status).toBe(404);
    const headers = { '*-bucket-object-lock-enabled': 'FALSE', '*-bucket-namespace': 'global' };
    expect((await world.client.put('/bucket', { headers })).status).toBe(200);
  });

  test.each([
    ...['abc', 'a1b', 'a.b.c', 'my-bucket', '0ab', 'a'.repeat(63)].map((name) => [name, 200] as const),
    ...['ab', 'a'.repeat(64), 'Abc', 'a_b', '-abc', 'abc-', 'a..b', 'a.-b', 'a-.b', '192.168.1.1'].map(
      (name) => [name, 400] as const,
    ),
    ...[
      'xn--abc',
      'sthree-x',
      'abc-s3alias',
      'abc--ol-s3',
      'abc--table-s3',
      'abc.mrap',
      'amzn-s3-demo-x',
    ].map((name) => [name, 400] as const),
  ])('answers the name %s with %i', async (name, status) => {
    await using world = await openGateway();
    const created = await world.client.put(`/${name}`);
    expect(created.status).toBe(status);
    if (status === 400) expect(created.code).toBe('InvalidBucketName');
  });

  test('is refused to anonymous callers, and for malformed bodies', async () => {
    await using world = await openGateway();
    expect((await world.anonymous.put('/bucket')).code).toBe('AccessDenied');
    const doctype = `<!DOCTYPE x [<!ENTITY a "b">]>${location('&a;')}`;
    for (const body of ['<CreateBucketConfiguration>', '<Other/>', 'text', doctype]) {
      const refused = await world.client.put('/bucket', { body });
      expect([refused.status, refused.code]).toEqual([400, 'MalformedXML']);
    }
    expect((await world.client.head('/bucket')).status).toBe(404);
  });
});

describe('HeadBucket', () => {
  test('answers 404 or 403 without a body', async () => {
    await using world = await openGateway();
    await world.client.put('/bucket');
    const missing = await world.client.head('/nothing');
    expect([missing.status, missing.bytes.length]).toEqual([404, 0]);
    const foreign = await world.bob.head('/bucket');
    expect([foreign.status, foreign.bytes.length]).toEqual([403, 0]);
    const foreignName = await world.client.get('/nothing?location');
    expect([foreignName.status, foreignName.code]).toEqual([404, 'NoSuchBucket']);
  });
});

describe.each(backends)('ListBuckets on %s', (backend) => {
  test("lists the caller's own buckets in order, and nothing to anonymous callers", async () => {
    await using world = await openGateway({ backend });
    for (const name of ['bbb', 'aaa', 'ccc']) await world.client.put(`/${name}`);
    await world.bob.put('/bobs');
    const mine = await world.client.get('/');
    expect(mine.all('Name')).toEqual(['aaa', 'bbb', 'ccc']);
    expect([mine.one('ID'), mine.one('DisplayName')]).toEqual(['alice-account', 'alice']);
    expect((await world.bob.get('/')).all('Name')).toEqual(['bobs']);
    const anonymous = await world.anonymous.get('/');
    expect([anonymous.status, anonymous.all('Name')]).toEqual([200, []]);
    expect(anonymous.text).toContain('<Buckets></Buckets>');
    await world.client.delete('/bbb');
    expect((await world.client.get('/')).all('Name')).toEqual(['aaa', 'ccc']);
  });

  test('gives pages and prefixes on request', async () => {
    await using world = await openGateway({ backend });
    for (const name of ['aaa', 'log-1', 'log-2', 'log-3', 'zzz']) await world.client.put(`/${name}`);
    const seen: string[] = [];
    let token: string | undefined;
    do {
      const query = { 'max-buckets': '2', ...(token === undefined ? {} : { 'continuation-token': token }) };
      const page = await world.client.get('/', { query });
      expect(page.all('Name').length).toBeLessThanOrEqual(2);
      seen.push(...page.all('Name'));
      token = page.one('ContinuationToken');
    } while (token !== undefined);
    expect(seen).toEqual(['aaa', 'log-1', 'log-2', 'log-3', 'zzz']);
    expect((await world.client.get('/?prefix=log-')).all('Name')).toEqual(['log-1', 'log-2', 'log-3']);
    for (const size of ['0', '10001', '-1', 'x'])
      expect((await world.client.get(`/?max-buckets=${size}`)).code, size).toBe('InvalidArgument');
    expect((await world.client.get('/?max-buckets=10000')).status).toBe(200);
    for (const prefix of ['x\0y', 'p'.repeat(5000)]) {
      const odd = await world.client.get('/', { query: { prefix } });
      expect(odd.status).toBeLessThan(500);
    }
  });
});
