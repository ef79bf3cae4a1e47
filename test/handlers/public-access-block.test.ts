/** Public access blocks: the requests and configurations that they refuse, and existing public policies and ACLs. */
import { describe, expect, test } from 'vitest';
import {
  aclXml,
  authenticated,
  type BlockName,
  blockXml,
  everyone,
  logDelivery,
  policyOf,
} from '../support/access.ts';
import { backends, type GatewayWorld, openGateway } from '../support/gateway.ts';

const block = async ({ client }: GatewayWorld, ...names: BlockName[]): Promise<void> => {
  expect((await client.put('/bucket?publicAccessBlock', { body: blockXml(...names) })).status).toBe(200);
};

describe('BlockPublicAcls', () => {
  const publicAcls = [
    { '*-acl': 'public-read' },
    { '*-acl': 'public-read-write' },
    { '*-acl': 'authenticated-read' },
    { '*-grant-read': `uri="${everyone}"` },
    { '*-grant-full-control': `id="bob-account",uri="${authenticated}"` },
  ];
  const writes = [
    ['PUT', '/bucket/new'],
    ['POST', '/bucket/new?uploads'],
    ['PUT', '/bucket/old?acl'],
    ['PUT', '/bucket?acl'],
  ] as const;

  test('refuses every public ACL, by any operation, and no other', async () => {
    await using world = await openGateway();
    const { client } = world;
    await client.put('/bucket');
    await client.put('/bucket/old', { body: 'x' });
    for (const isBlocked of [true, false]) {
      if (isBlocked) await block(world, 'BlockPublicAcls');
      else await client.delete('/bucket?publicAccessBlock');
      for (const [method, path] of writes) {
        for (const headers of publicAcls) {
          const answer = await client.send(method, path, { headers });
          const expected = isBlocked ? [403, 'AccessDenied'] : [200, ''];
          expect([answer.status, answer.code], `${method} ${path}`).toEqual(expected);
        }
        for (const headers of [{ '*-acl': 'private' }, { '*-grant-read': 'id="bob-account"' }])
          expect((await client.send(method, path, { headers })).status, `${method} ${path}`).toBe(200);
      }
      for (const path of ['/bucket', '/bucket/old']) {
        const body = aclXml('alice-account', `${everyone} READ`);
        expect((await client.put(`${path}?acl`, { body })).status).toBe(isBlocked ? 403 : 200);
      }
    }
    await block(world, 'BlockPublicAcls');
    const copy = { '*-copy-source': '/bucket/old', '*-acl': 'public-read' };
    expect((await client.put('/bucket/copy', { headers: copy })).status).toBe(403);
    // The log delivery group is not public.
    const body = aclXml('alice-account', `${logDelivery} WRITE`);
    expect((await client.put('/bucket?acl', { body })).status).toBe(200);
  });
});

describe.each(backends)('IgnorePublicAcls on %s', (backend) => {
  test('makes public ACLs count for nothing while it is set, and no others', async () => {
    await using world = await openGateway({ backend });
    const { client, anonymous, bob } = world;
    await client.put('/bucket', { headers: { '*-acl': 'public-read' } });
    await client.put('/bucket/public', { body: 'x', headers: { '*-acl': 'public-read' } });
    await client.put('/bucket/known', { body: 'x', headers: { '*-acl': 'authenticated-read' } });
    await client.put('/bucket/bobs', { body: 'x', headers: { '*-grant-read': 'id="bob-account"' } });
    const seen = async () => [
      (await anonymous.get('/bucket')).status,
      (await anonymous.get('/bucket/public')).status,
      (await bob.get('/bucket/known')).status,
      (await bob.get('/bucket/bobs')).status,
    ];
    expect(await seen()).toEqual([200, 200, 200, 200]);
    await block(world, 'IgnorePublicAcls');
    expect(await seen()).toEqual([403, 403, 403, 200]);
    // A public ACL can still be set; it only has no effect.
    expect((await client.put('/bucket/public?acl', { headers: { '*-acl': 'public-read' } })).status).toBe(
      200,
    );
    expect(await seen()).toEqual([403, 403, 403, 200]);
    await client.delete('/bucket?publicAccessBlock');
    expect(await seen()).toEqual([200, 200, 200, 200]);
  });
});

test.each([
  ['a range of IPv6 that holds all of IPv4', { IpAddress: { 'aws:SourceIp': '::/32' } }],
  ['the id that anonymous requests have', { StringEquals: { 'aws:userid': 'anonymous' } }],
])('a policy that allows %s is public', async (_, Condition) => {
  await using world = await openGateway();
  const { client, anonymous } = world;
  await client.put('/bucket');
  await client.put('/bucket/key', { body: 'x' });
  const body = policyOf({ Action: 's3:GetObject', Resource: 'arn:aws:s3:::bucket/*', Condition });
  expect((await client.put('/bucket?policy', { body })).status).toBe(204);
  expect((await anonymous.get('/bucket/key')).status).toBe(200);
  expect((await client.get('/bucket?policyStatus')).one('IsPublic')).toBe('true');
  await block(world, 'RestrictPublicBuckets');
  expect((await anonymous.get('/bucket/key')).status).toBe(403);
  await block(world, 'BlockPublicPolicy');
  expect((await client.put('/bucket?policy', { body })).code).toBe('AccessDenied');
});
