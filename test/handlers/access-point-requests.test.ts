/** Requests through an access point need the permission of both the bucket and the access point. */
import { describe, expect, test } from 'vitest';
import { type BlockName, blockXml, policyOf, type Written } from '../support/access.ts';
import { acting, arn, furnished, open, open4, policyFor } from '../support/access-points.ts';
import { type alice, type GatewayWorld, openGateway } from '../support/gateway.ts';
import { must, openUser } from '../support/iam-users.ts';

describe('a request through an access point', () => {
  /** Whether bob and an anonymous caller are allowed through the access point, and bob at the bucket itself. */
  const seen = async (world: GatewayWorld, alias: string) => [
    (await world.bob.get(`/${alias}/key`)).status,
    (await world.anonymous.get(`/${alias}/key`)).status,
    (await world.bob.get('/bucket/key')).status,
  ];

  test('needs what the bucket and what the access point allow', async () => {
    await using world = await openGateway(open);
    const alias = await furnished(world, open4);
    const act = acting(world);
    const byPoint = (...statements: Written[]) =>
      act('PutAccessPointPolicy', { Name: 'photos', Policy: policyFor(...statements) });
    const byBucket = (statement: Written) =>
      world.client.put('/bucket?policy', {
        body: policyOf({ Resource: 'arn:aws:s3:::bucket/*', Action: 's3:GetObject', ...statement }),
      });
    expect(await seen(world, alias)).toEqual([403, 403, 403]);
    await must(byPoint({}));
    expect(await seen(world, alias)).toEqual([403, 403, 403]);
    // The owner of the bucket delegates to access points of its account.
    await byBucket({ Condition: { StringEquals: { 's3:DataAccessPointAccount': 'alice-account' } } });
    expect(await seen(world, alias)).toEqual([200, 200, 403]);
    await must(byPoint({ Principal: { AWS: 'bob-account' } }));
    expect(await seen(world, alias)).toEqual([200, 403, 403]);
    await must(byPoint({}, { Effect: 'Deny', Principal: { AWS: 'bob-account' } }));
    expect(await seen(world, alias)).toEqual([403, 200, 403]);
    await must(act('DeleteAccessPointPolicy', { Name: 'photos' }));
    expect(await seen(world, alias)).toEqual([403, 403, 403]);
    // A permission from the bucket's policy alone does not suffice through the access point.
    await byBucket({});
    expect(await seen(world, alias)).toEqual([403, 403, 200]);
    expect((await world.client.get(`/${alias}/key`)).status).toBe(200);
  });

  test("does not come in by an access point's public policy where the bucket restricts public access, nor is such a policy put where the bucket blocks it", async () => {
    await using world = await openGateway(open);
    const alias = await furnished(world, open4);
    const act = acting(world);
    const put = () => act('PutAccessPointPolicy', { Name: 'photos', Policy: policyFor({}) });
    const block = async (...names: BlockName[]) =>
      expect((await world.client.put('/bucket?publicAccessBlock', { body: blockXml(...names) })).status).toBe(
        200,
      );
    // This bucket policy is not public: it delegates to access points of the bucket's account.
    const delegating = policyOf({
      Resource: 'arn:aws:s3:::bucket/*',
      Action: 's3:GetObject',
      Condition: { StringEquals: { 's3:DataAccessPointAccount': 'alice-account' } },
    });
    expect((await world.client.put('/bucket?policy', { body: delegating })).status).toBe(204);
    await must(put());
    expect(await seen(world, alias)).toEqual([200, 200, 403]);
    await block('RestrictPublicBuckets');
    expect(await seen(world, alias)).toEqual([403, 403, 403]);
    expect((await world.client.get(`/${alias}/key`)).status).toBe(200);
    await block('BlockPublicPolicy');
    expect(await seen(world, alias)).toEqual([200, 200, 403]);
    expect((await put()).code).toBe('AccessDenied');
    await block('IgnorePublicAcls');
    await must(put());
  });

  test.each([
    ['s3:DataAccessPointArn', 'ArnEquals', arn],
    ['s3:DataAccessPointAccount', 'StringEquals', 'alice-account'],
    ['s3:AccessPointNetworkOrigin', 'StringEquals', 'Internet'],
  ])('has the key %s, which requests to the bucket do not have', async (key, operator, value) => {
    await using world = await openGateway(open);
    const alias = await furnished(world);
    const deny = (Condition: unknown) =>
      world.client.put('/bucket?policy', {
        body: policyOf({
          Effect: 'Deny',
          Action: 's3:GetObject',
          Resource: 'arn:aws:s3:::bucket/*',
          Condition,
        }),
      });
    await deny({ [operator]: { [key]: value } });
    expect([
      (await world.client.get(`/${alias}/key`)).status,
      (await world.client.get('/bucket/key')).status,
    ]).toEqual([403, 200]);
    await deny({ Null: { [key]: 'true' } });
    expect([
      (await world.client.get(`/${alias}/key`)).status,
      (await world.client.get('/bucket/key')).status,
    ]).toEqual([200, 403]);
  });

  test('asks users of the account for the access point, which their policies may name', async () => {
    await using world = await openGateway(open);
    const alias = await furnished(world);
    const allow = (Resource: string) =>
      JSON.stringify({
        Version: '2012-10-17',
        Statement: [{ Effect: 'Allow', Action: 's3:GetObject', Resource }],
      });
    const through = await openUser(world, 'through', { policy: allow(`${arn}/object/*`) });
    const past = await openUser(world, 'past', { policy: allow('arn:aws:s3:::bucket/*') });
    const status = async (credential: typeof alice, path: string) =>
      (await world.as({ credential }).get(path)).status;
    expect(await status(through.credential, `/${alias}/key`)).toBe(200);
    expect(await status(through.credential, '/bucket/key')).toBe(403);
    expect(await status(past.credential, `/${alias}/key`)).toBe(403);
    expect(await status(past.credential, '/bucket/key')).toBe(200);
  });

  test('is no way around what policies of users and sessions deny of the bucket', async () => {
    await using world = await openGateway(open);
    const alias = await furnished(world);
    const policy = (denied: string) =>
      JSON.stringify({
        Version: '2012-10-17',
        Statement: [
          { Effect: 'Allow', Action: 's3:*', Resource: '*' },
          { Effect: 'Deny', Action: 's3:GetObject', Resource: denied },
        ],
      });
    for (const [denied, status] of [
      ['arn:aws:s3:::other/*', 200],
      ['arn:aws:s3:::bucket/*', 403],
      [`${arn}/object/*`, 403],
    ] as const) {
      const name = `user-${denied.length}`;
      const { credential } = await openUser(world, name, { policy: policy(denied) });
      expect((await world.as({ credential }).get(`/${alias}/key`)).status, denied).toBe(status);
    }
  });

  test('is no visit to a website: an index is judged by what the bucket denies, as everything else', async () => {
    await using world = await openGateway(open);
    const alias = await furnished(world, open4);
    const { client, anonymous } = world;
    await client.put('/bucket/docs/index.html', { body: 'x', headers: { '*-acl': 'public-read' } });
    const index = '<IndexDocument><Suffix>index.html</Suffix></IndexDocument>';
    await client.put('/bucket?website', { body: `<WebsiteConfiguration>${index}</WebsiteConfiguration>` });
    const seenBy = async () => [
      (await anonymous.get('/bucket/docs/')).status,
      (await anonymous.get(`/${alias}/docs/`)).status,
    ];
    expect(await seenBy()).toEqual([200, 403]);
    const denial = {
      Effect: 'Deny',
      Action: 's3:GetObject',
      Resource: 'arn:aws:s3:::bucket/docs/*',
    } as const;
    await client.put('/bucket?policy', { body: policyOf(denial) });
    expect(await seenBy()).toEqual([403, 403]);
  });

  test('is kept from the public by the block of either, which a new access point has whole', async () => {
    await using world = await openGateway(open);
    const alias = await furnished(world);
    const act = acting(world);
    const refused = await act('PutAccessPointPolicy', { Name: 'photos', Policy: policyFor({}) });
    expect([refused.status, refused.code]).toEqual([403, 'AccessDenied']);
    const acl = { headers: { '*-acl': 'public-read' } };
    expect((await world.client.put(`/${alias}/new`, { body: 'x', ...acl })).status).toBe(403);
    expect((await world.client.put(`/${alias}/key?acl`, acl)).status).toBe(403);
    expect((await world.client.put('/bucket/key?acl', acl)).status).toBe(200);
    expect((await world.anonymous.get('/bucket/key')).status).toBe(200);
    expect((await world.anonymous.get(`/${alias}/key`)).status).toBe(403);
    await must(act('CreateAccessPoint', { Name: 'wide', Bucket: 'bucket', ...open4 }));
    const wide = (await act('GetAccessPoint', { Name: 'wide' })).one('Alias') ?? '';
    await must(
      act('PutAccessPointPolicy', { Name: 'wide', Policy: policyFor({}).replaceAll('photos', 'wide') }),
    );
    expect((await world.anonymous.get(`/${wide}/key`)).status).toBe(200);
    await world.client.put('/bucket?publicAccessBlock', { body: blockXml('IgnorePublicAcls') });
    expect((await world.anonymous.get(`/${wide}/key`)).status).toBe(403);
  });
});
