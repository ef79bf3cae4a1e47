/** Inventory configurations: several per bucket, each under its id. */
import { describe, expect, test } from 'vitest';
import { openBucket } from '../../src/domain/common/buckets.ts';
import { reviseDocument } from '../../src/domain/configurations/documents.ts';
import { bucketInventories, type Inventory } from '../../src/domain/configurations/inventory.ts';
import { encryptingSettings } from '../support/encryption.ts';
import { backends, openGateway } from '../support/gateway.ts';

interface Given {
  readonly bucket?: string;
  readonly more?: string;
  readonly format?: string;
}
const body = (
  id: string,
  { bucket = 'arn:aws:s3:::bucket', more = '', format = 'CSV' }: Given = {},
): string =>
  `<InventoryConfiguration><Id>${id}</Id><IsEnabled>true</IsEnabled>${more}<Destination><S3BucketDestination><Bucket>${bucket}</Bucket><Format>${format}</Format></S3BucketDestination></Destination><Schedule><Frequency>Daily</Frequency></Schedule><IncludedObjectVersions>All</IncludedObjectVersions></InventoryConfiguration>`;
const path = (id: string): string => `/bucket?inventory&id=${id}`;

describe.each(backends)('inventories on %s', (backend) => {
  test('are stored under their ids, replaced, listed in order and deleted one by one', async () => {
    await using world = await openGateway({ backend });
    const { client } = world;
    await client.put('/bucket');
    expect((await client.get(path('b'))).code).toBe('NoSuchConfiguration');
    const none = await client.get('/bucket?inventory');
    expect([none.status, none.all('Id'), none.one('IsTruncated')]).toEqual([200, [], 'false']);
    for (const id of ['b', 'a', 'c.d_E-1'])
      expect((await client.put(path(id), { body: body(id) })).status).toBe(200);
    const more = '<Filter><Prefix>p/</Prefix></Filter>';
    expect((await client.put(path('a'), { body: body('a', { more }) })).status).toBe(200);
    const got = await client.get(path('a'));
    expect([got.status, got.one('Id'), got.one('Prefix'), got.one('Bucket')]).toEqual([
      200,
      'a',
      'p/',
      'arn:aws:s3:::bucket',
    ]);
    expect((await client.get('/bucket?inventory')).all('Id')).toEqual(['a', 'b', 'c.d_E-1']);
    expect((await client.delete(path('b'))).status).toBe(204);
    const again = await client.delete(path('b'));
    expect([again.status, again.code]).toEqual([404, 'NoSuchConfiguration']);
    for (const id of ['a', 'c.d_E-1']) await client.delete(path(id));
    expect((await client.get('/bucket?inventory')).all('Id')).toEqual([]);
    expect((await openBucket(world.context, 'bucket')).documents).toEqual({});
  });

  test('of concurrent writers are all kept', async () => {
    await using world = await openGateway({ backend });
    await world.client.put('/bucket');
    const ids = ['a', 'b', 'c', 'd', 'e'];
    const puts = await Promise.all(ids.map((id) => world.client.put(path(id), { body: body(id) })));
    expect(puts.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200]);
    expect((await world.client.get('/bucket?inventory')).all('Id')).toEqual(ids);
  });
});

test('an inventory is refused under another id, without one, and where it cannot be written', async () => {
  await using world = await openGateway();
  const { client } = world;
  await client.put('/bucket');
  await client.put('/elsewhere', {
    body: '<CreateBucketConfiguration><LocationConstraint>eu-west-1</LocationConstraint></CreateBucketConfiguration>',
  });
  await world.bob.put('/foreign');
  const refused: readonly (readonly [string, string, string, number])[] = [
    [path('a'), body('b'), 'IdMismatch', 400],
    ['/bucket?inventory', body('a'), 'InvalidArgument', 400],
    [path(''), body(''), 'InvalidArgument', 400],
    [path('a%20b'), body('a b'), 'InvalidArgument', 400],
    [path('i'.repeat(65)), body('i'.repeat(65)), 'InvalidArgument', 400],
    [path('a'), '', 'MissingRequestBodyError', 400],
    [path('a'), body('a', { bucket: 'bucket' }), 'InvalidS3DestinationBucket', 400],
    [path('a'), body('a', { bucket: 'arn:aws:s3:::missing' }), 'InvalidS3DestinationBucket', 400],
    [path('a'), body('a', { bucket: 'arn:aws:s3:::foreign' }), 'InvalidS3DestinationBucket', 400],
    [path('a'), body('a', { bucket: 'arn:aws:s3:::elsewhere' }), 'InvalidS3DestinationBucket', 400],
    [path('a'), body('a', { format: 'ORC' }), 'NotImplemented', 501],
    [path('a'), body('a', { format: 'XLS' }), 'MalformedXML', 400],
    [path('a'), body('a', { more: '<Filter><Prefix></Prefix><Tag/></Filter>' }), 'MalformedXML', 400],
    [
      path('a'),
      body('a', { more: `<Filter><Prefix>${'p'.repeat(1025)}</Prefix></Filter>` }),
      'InvalidRequest',
      400,
    ],
    [
      path('a'),
      body('a', { more: '<OptionalFields><Field>Size</Field><Field>Colour</Field></OptionalFields>' }),
      'MalformedXML',
      400,
    ],
  ];
  for (const [at, sent, code, status] of refused) {
    const put = await client.put(at, { body: sent });
    expect([at, sent, put.status, put.code]).toEqual([at, sent, status, code]);
  }
  expect((await client.get('/bucket?inventory')).all('Id')).toEqual([]);
  const longest = 'i'.repeat(64);
  expect((await client.put(path(longest), { body: body(longest) })).status).toBe(200);
});

test('an inventory with SSE-KMS is refused where no key provider is configured', async () => {
  const encryption = '<Encryption><SSE-KMS><KeyId>first</KeyId></SSE-KMS></Encryption>';
  const encrypted = body('a').replace('</S3BucketDestination>', `${encryption}</S3BucketDestination>`);
  await using without = await openGateway();
  await without.client.put('/bucket');
  const refused = await without.client.put(path('a'), { body: encrypted });
  expect([refused.status, refused.code]).toEqual([400, 'InvalidArgument']);
  expect(refused.one('Message')).toContain('SVC_KEY_PROVIDER is not configured');
  expect((await without.client.get('/bucket?inventory')).all('Id')).toEqual([]);
  await using having = await openGateway({ settings: await encryptingSettings() });
  await having.client.put('/bucket');
  expect((await having.client.put(path('a'), { body: encrypted })).status).toBe(200);
});

test('a bucket takes 1,000 inventories and not one more, and shows them 100 a page', async () => {
  await using world = await openGateway();
  const { client, context } = world;
  await client.put('/bucket');
  const stored = await openBucket(context, 'bucket');
  const inventory = (at: number): Inventory => ({
    Id: `i${String(at).padStart(4, '0')}`,
    IsEnabled: false,
    Destination: {
      S3BucketDestination: { Bucket: 'arn:aws:s3:::bucket', Format: 'CSV', Prefix: '"'.repeat(1000) },
    },
    Schedule: { Frequency: 'Weekly' },
    IncludedObjectVersions: 'Current',
  });
  const all = Array.from({ length: 999 }, (_, at) => inventory(at));
  await reviseDocument(context, stored, { family: bucketInventories, revise: () => all });
  expect((await client.put(path('z1'), { body: body('z1') })).status).toBe(200);
  const another = await client.put(path('z2'), { body: body('z2') });
  expect([another.status, another.code]).toEqual([400, 'TooManyConfigurations']);
  expect((await client.put(path('z1'), { body: body('z1') })).status).toBe(200);
  const ids: string[] = [];
  let token: string | undefined;
  let pages = 0;
  do {
    const query = token === undefined ? {} : { 'continuation-token': token };
    const page = await client.get('/bucket?inventory', { query });
    expect(page.all('Id')).toHaveLength(100);
    expect(page.one('ContinuationToken')).toBe(token);
    ids.push(...page.all('Id'));
    token = page.one('NextContinuationToken');
    expect(page.one('IsTruncated')).toBe(String(token !== undefined));
    pages += 1;
  } while (token !== undefined && pages < 20);
  expect(ids).toEqual([...all.map(({ Id }) => Id), 'z1']);
});
