/** Ways around authorization: each beside its positive control, with a check that nothing changed. */
import { describe, expect, test } from 'vitest';
import { openBucket } from '../../src/domain/common/buckets.ts';
import type { Gateway } from '../../src/gateway.ts';
import { documents } from '../../src/metadata/buckets/records.ts';
import { systemClock } from '../../src/ports/clock.ts';
import { policyOf, type Written } from '../support/access.ts';
import { alice, bob, type GatewayWorld, openGateway } from '../support/gateway.ts';
import { createUpload, deletion, putPart, setVersioning } from '../support/gateway-bodies.ts';
import { type Client, openClient } from '../support/gateway-client.ts';
import { openUser } from '../support/iam-users.ts';

/** The variable as it is written in a policy. */
const variable = `\${aws:username}`;
const itself = 'arn:aws:s3:::bucket';
const objects = 'arn:aws:s3:::bucket/*';

/** Alice's bucket with an object, and a policy of these statements. */
async function ruled(world: GatewayWorld, ...statements: readonly Written[]): Promise<void> {
  const { client } = world;
  await client.put('/bucket');
  await client.put('/bucket/key', { body: 'x' });
  const put = await client.put('/bucket?policy', { body: policyOf(...statements) });
  if (put.status !== 204) throw new Error(put.text);
}

/** A caller at another address, as reported by the runtime. */
const from = (world: GatewayWorld, remote: string, credential = bob): Client => {
  const elsewhere: Gateway = {
    ...world.gateway,
    handle: (incoming) => world.gateway.handle({ ...incoming, wire: { ...incoming.wire, remote } }),
  };
  return openClient(elsewhere, systemClock, { credential });
};

describe('negated elements', () => {
  test('NotAction allows everything else of the bucket, and never what it names', async () => {
    await using world = await openGateway();
    await ruled(world, {
      Principal: { AWS: 'bob-account' },
      NotAction: 's3:Delete*',
      Resource: [itself, objects],
    });
    expect((await world.bob.get('/bucket/key')).status).toBe(200);
    expect((await world.bob.put('/bucket/other', { body: 'x' })).status).toBe(200);
    expect((await world.bob.delete('/bucket/key')).status).toBe(403);
    expect((await world.client.get('/bucket/key')).status).toBe(200);
  });

  test('NotResource spares what it names from a Deny, and nothing else', async () => {
    await using world = await openGateway();
    await ruled(
      world,
      { Action: 's3:GetObject', Resource: objects },
      { Effect: 'Deny', Action: 's3:GetObject', NotResource: 'arn:aws:s3:::bucket/public/*' },
    );
    await world.client.put('/bucket/public/key', { body: 'x' });
    expect((await world.anonymous.get('/bucket/public/key')).status).toBe(200);
    for (const client of [world.anonymous, world.client])
      for (const path of ['/bucket/key', '/bucket/public', '/bucket/publicx/key', '/bucket//public/key'])
        expect((await client.get(path)).status, path).toBe(403);
  });

  test('NotPrincipal spares whom it names from a Deny, and not the users of an account that it names', async () => {
    await using world = await openGateway();
    await ruled(
      world,
      { Action: 's3:GetObject', Resource: objects },
      {
        Effect: 'Deny',
        NotPrincipal: { AWS: ['arn:aws:iam::bob-account:root', 'arn:aws:iam::alice-account:root'] },
        Action: 's3:*',
        Resource: objects,
      },
    );
    const { credential } = await openUser(world, 'carol', { root: bob });
    expect((await world.bob.get('/bucket/key')).status).toBe(200);
    expect((await world.client.get('/bucket/key')).status).toBe(200);
    expect((await world.as({ credential }).get('/bucket/key')).status).toBe(403);
    expect((await world.anonymous.get('/bucket/key')).status).toBe(403);
  });
});

describe('conditions', () => {
  test('ForAllValues with Null does not allow a request without the key', async () => {
    await using world = await openGateway();
    const onlyTeam = {
      'ForAllValues:StringEquals': { 's3:RequestObjectTagKeys': ['team'] },
      Null: { 's3:RequestObjectTagKeys': 'false' },
    };
    await ruled(world, {
      Principal: { AWS: 'bob-account' },
      Action: ['s3:PutObject', 's3:PutObjectTagging'],
      Resource: objects,
      Condition: onlyTeam,
    });
    const put = (tags?: string) =>
      world.bob.put('/bucket/new', { body: 'x', headers: tags === undefined ? {} : { '*-tagging': tags } });
    expect((await put('team=a')).status).toBe(200);
    for (const tags of [undefined, '', 'other=a', 'team=a&other=b'])
      expect((await put(tags)).status, tags).toBe(403);
  });

  test('a variable is what the caller is, and a caller without it matches nothing', async () => {
    await using world = await openGateway();
    await ruled(world, { Action: 's3:GetObject', Resource: `arn:aws:s3:::bucket/home/${variable}/*` });
    for (const name of ['carol', 'carolx', '*', variable])
      await world.client.put(`/bucket/home/${encodeURIComponent(name)}/key`, { body: name });
    const { credential } = await openUser(world, 'carol');
    const carol = world.as({ credential });
    expect((await carol.get('/bucket/home/carol/key')).text).toBe('carol');
    for (const name of ['carolx', '*', variable])
      expect((await carol.get(`/bucket/home/${encodeURIComponent(name)}/key`)).status, name).toBe(403);
    for (const stranger of [world.anonymous, world.bob])
      for (const name of ['carol', '*', variable, ''])
        expect((await stranger.get(`/bucket/home/${encodeURIComponent(name)}/key`)).status, name).toBe(403);
  });

  const atHome = (effect: 'Allow' | 'Deny', operator: string): Written => ({
    Effect: effect,
    Principal: { AWS: 'bob-account' },
    Action: 's3:GetObject',
    Resource: objects,
    Condition: { [operator]: { 'aws:SourceIp': '203.0.113.0/24' } },
  });

  test.each([
    ['203.0.113.9', 200],
    ['::ffff:203.0.113.9', 200],
    ['::FFFF:cb00:7109', 200],
    ['203.0.114.9', 403],
    ['::ffff:203.0.114.9', 403],
    ['::203.0.113.9', 403],
    ['2001:db8::cb00:7109', 403],
    ['', 403],
    ['unknown', 403],
  ])('a request from %s to an allowed network is answered %i', async (remote, status) => {
    await using world = await openGateway();
    await ruled(world, atHome('Allow', 'IpAddress'));
    expect((await from(world, remote).get('/bucket/key')).status).toBe(status);
  });

  test.each([
    ['203.0.113.9', 403],
    ['::ffff:203.0.113.9', 403],
    ['::ffff:cb00:7109', 403],
    // An address that cannot be read decides against the caller.
    ['unknown', 403],
    ['203.0.114.9', 200],
  ])('a request from %s past a forbidden network is answered %i', async (remote, status) => {
    await using world = await openGateway();
    const everywhere = { Principal: { AWS: 'bob-account' }, Action: 's3:GetObject', Resource: objects };
    await ruled(world, everywhere, atHome('Deny', 'IpAddress'));
    expect((await from(world, remote).get('/bucket/key')).status).toBe(status);
  });

  test('forwarded addresses count from trusted proxies alone', async () => {
    const headers = { 'x-forwarded-for': '203.0.113.9' };
    const get = async (settings: Readonly<Record<string, string>>, forwarded: string) => {
      await using world = await openGateway({ settings });
      await ruled(world, atHome('Allow', 'IpAddress'));
      const client = from(world, '10.0.0.1');
      return (
        await client.get('/bucket/key', { unsignedHeaders: { ...headers, 'x-forwarded-for': forwarded } })
      ).status;
    };
    const trusting = { SVC_TRUSTED_PROXIES: '10.0.0.0/8' };
    expect(await get({}, '203.0.113.9')).toBe(403);
    expect(await get(trusting, '203.0.113.9')).toBe(200);
    // The address that the client wrote in front of the proxy's does not count.
    expect(await get(trusting, '203.0.113.9, 198.51.100.1')).toBe(403);
    expect(await get({ SVC_TRUSTED_PROXIES: '192.0.2.0/24' }, '203.0.113.9')).toBe(403);
  });

  test('headers named like facts of the server change nothing', async () => {
    await using world = await openGateway();
    await ruled(world, {
      Principal: { AWS: 'bob-account' },
      Action: 's3:GetObject',
      Resource: objects,
      Condition: {
        StringEquals: { 'aws:PrincipalAccount': 'alice-account', 's3:ExistingObjectTag/env': 'prod' },
        Bool: { 'aws:SecureTransport': 'true' },
      },
    });
    const names = [
      'principalaccount',
      'securetransport',
      'existingobjecttag/env',
      'sourceip',
      'username',
      'userid',
    ];
    const headers = Object.fromEntries([
      ...names.filter((name) => !name.includes('/')).map((name) => [`*-${name}`, 'alice-account']),
      ['principalaccount', 'alice-account'],
      ['securetransport', 'true'],
    ]);
    expect((await world.bob.get('/bucket/key', { headers })).status).toBe(403);
    const query = { 'aws:PrincipalAccount': 'alice-account', 'aws:SecureTransport': 'true' };
    expect((await world.bob.get('/bucket/key', { query })).status).toBe(403);
  });
});

describe('actions', () => {
  test('what reads or deletes one version is another action than what reads or deletes the object', async () => {
    await using world = await openGateway();
    await world.client.put('/bucket');
    await setVersioning(world.client, 'bucket', 'Enabled');
    await ruled(world, {
      Principal: { AWS: 'bob-account' },
      Action: [
        's3:GetObject',
        's3:DeleteObject',
        's3:GetObjectTagging',
        's3:GetObjectAcl',
        's3:PutObjectAcl',
      ],
      Resource: objects,
    });
    const version = (await world.client.head('/bucket/key')).header('*-version-id') ?? '';
    const { bob: stranger } = world;
    expect((await stranger.get('/bucket/key')).status).toBe(200);
    for (const [method, path] of [
      ['GET', '/bucket/key'],
      ['HEAD', '/bucket/key'],
      ['DELETE', '/bucket/key'],
      ['GET', '/bucket/key?tagging'],
      ['GET', '/bucket/key?acl'],
      ['PUT', '/bucket/key?acl'],
    ] as const) {
      const headers = method === 'PUT' ? { '*-acl': 'private' } : {};
      const asked = await stranger.send(method, path, { headers, query: { versionId: version } });
      expect(asked.status, `${method} ${path}`).toBe(403);
    }
    const copy = { '*-copy-source': `/bucket/key?versionId=${version}` };
    await stranger.put('/bobs');
    expect((await stranger.put('/bobs/copy', { headers: copy })).status).toBe(403);
    expect((await stranger.put('/bobs/copy', { headers: { '*-copy-source': '/bucket/key' } })).status).toBe(
      200,
    );
    expect((await stranger.delete('/bucket/key')).status).toBe(204);
    expect((await world.client.get('/bucket/key', { query: { versionId: version } })).status).toBe(200);
  });

  test('DeleteObjects authorizes each key, and reports an error for each key that it kept', async () => {
    await using world = await openGateway();
    await ruled(world, {
      Principal: { AWS: 'bob-account' },
      Action: 's3:DeleteObject',
      Resource: 'arn:aws:s3:::bucket/his/*',
    });
    for (const key of ['his/a', 'his/b', 'hers']) await world.client.put(`/bucket/${key}`, { body: 'x' });
    const body = deletion(['his/a', 'hers', '<Key>his/b</Key><VersionId>null</VersionId>', 'none']);
    const deleted = await world.bob.post('/bucket?delete', { body });
    expect([deleted.status, deleted.all('Code')]).toEqual([
      200,
      ['AccessDenied', 'AccessDenied', 'AccessDenied'],
    ]);
    const { client } = world;
    expect((await client.get('/bucket?list-type=2')).all('Key')).toEqual(['hers', 'his/b', 'key']);
    expect((await world.anonymous.post('/bucket?delete', { body })).all('Code')).toHaveLength(4);
  });

  test('a copy and a part of one need the right to both sides', async () => {
    await using world = await openGateway();
    const { client, bob: stranger } = world;
    await client.put('/bucket');
    await client.put('/bucket/key', { body: 'x' });
    await client.put('/target');
    const rule = (bucket: string, action: string) =>
      client.put(`/${bucket}?policy`, {
        body: policyOf({
          Principal: { AWS: 'bob-account' },
          Action: action,
          Resource: `arn:aws:s3:::${bucket}/*`,
        }),
      });
    const copy = () => stranger.put('/target/copy', { headers: { '*-copy-source': '/bucket/key' } });
    const copyPart = async () => {
      const uploadId = await createUpload(client, '/target/parts');
      const query = { uploadId, partNumber: '1' };
      return stranger.put('/target/parts', { query, headers: { '*-copy-source': '/bucket/key' } });
    };
    for (const [read, write, status] of [
      ['s3:GetObjectAcl', 's3:PutObject', 403],
      ['s3:GetObject', 's3:GetObject', 403],
      ['s3:GetObject', 's3:PutObject', 200],
    ] as const) {
      await rule('bucket', read);
      await rule('target', write);
      expect((await copy()).status, `${read} ${write}`).toBe(status);
      expect((await copyPart()).status, `${read} ${write}`).toBe(status);
    }
    // Callers without the right to list do not learn that an object is missing.
    const missing = { '*-copy-source': '/bucket/none' };
    expect((await stranger.put('/target/copy', { headers: missing })).status).toBe(403);
    expect((await client.put('/target/copy', { headers: missing })).status).toBe(404);
  });

  test('UploadPart requires s3:PutObject and reveals nothing about the object to other accounts', async () => {
    await using world = await openGateway();
    await ruled(world, {
      Principal: { AWS: 'bob-account' },
      Action: 's3:PutObject',
      Resource: 'arn:aws:s3:::bucket/his/*',
    });
    const uploadId = await createUpload(world.client, '/bucket/hers');
    const stolen = world.bob.put('/bucket/hers', { query: { uploadId, partNumber: '1' }, body: 'x' });
    expect((await stolen).status).toBe(403);
    // An upload belongs to one key and is not found under another.
    const elsewhere = world.bob.put('/bucket/his/key', { query: { uploadId, partNumber: '1' }, body: 'x' });
    expect((await elsewhere).code).toBe('NoSuchUpload');
    await putPart(world.client, '/bucket/hers', { uploadId, number: 1, body: 'x' });
  });

  test('each configuration requires its own permission: s3:PutObject does not allow PutBucketPolicy or PutBucketAcl', async () => {
    await using world = await openGateway();
    await ruled(world, {
      Principal: { AWS: 'bob-account' },
      Action: ['s3:*Object*', 's3:ListBucket'],
      Resource: [itself, objects],
    });
    expect((await world.bob.put('/bucket/other', { body: 'x' })).status).toBe(200);
    const before = await openBucket(world.context, 'bucket');
    for (const name of [
      'acl',
      'policy',
      'publicAccessBlock',
      'ownershipControls',
      'cors',
      'website',
      'logging',
      'lifecycle',
      'replication',
      'versioning',
      'encryption',
      'notification',
      'tagging',
      'requestPayment',
      'inventory&id=i',
    ])
      for (const method of ['PUT', 'DELETE', 'GET']) {
        const headers = name === 'acl' && method === 'PUT' ? { '*-acl': 'public-read-write' } : {};
        const body = method === 'PUT' && name !== 'acl' ? { body: '<x/>' } : {};
        const { status } = await world.bob.send(method, `/bucket?${name}`, { headers, ...body });
        expect([400, 403, 405], `${method} ?${name}`).toContain(status);
      }
    expect(await openBucket(world.context, 'bucket')).toEqual(before);
  });
});

describe('what cannot be read', () => {
  test('a bucket whose policy document is missing refuses every caller, because the policy may have denied', async () => {
    await using world = await openGateway();
    await ruled(world, { Action: 's3:GetObject', Resource: objects });
    expect((await world.anonymous.get('/bucket/key')).status).toBe(200);
    const { context } = world;
    // Another process has not read the policy yet.
    const body = policyOf({ Action: ['s3:GetObject', 's3:PutObject'], Resource: objects });
    await world.client.put('/bucket?policy', { body });
    const id = (await openBucket(context, 'bucket')).documents['policy'] ?? '';
    await context.metadata.apply([{ at: { table: documents, in: { id } }, remove: { segment: 0 } }]);
    for (const client of [world.anonymous, world.client, world.bob])
      expect((await client.get('/bucket/key')).status).toBe(409);
  });
});

test('the root of one account has no rights in another', async () => {
  await using world = await openGateway();
  const { client } = world;
  await client.put('/bucket');
  await client.put('/bucket/key', { body: 'x' });
  for (const [method, path] of [
    ['GET', '/bucket'],
    ['GET', '/bucket/key'],
    ['PUT', '/bucket/key'],
    ['DELETE', '/bucket/key'],
    ['DELETE', '/bucket'],
    ['GET', '/bucket?acl'],
    ['GET', '/bucket?policy'],
  ] as const) {
    const body = method === 'PUT' ? { body: 'y' } : {};
    expect((await world.bob.send(method, path, body)).status, `${method} ${path}`).toBe(403);
    expect(
      (await world.as({ credential: { ...bob, owner: alice.owner } }).send(method, path, body)).status,
    ).toBe(403);
  }
  expect((await client.get('/bucket/key')).text).toBe('x');
});
