/** Object ownership, and buckets without ACLs (public API "Controlling ownership of objects"). */
import { describe, expect, test } from 'vitest';
import { aclXml, everyone, grantsIn, ownershipXml, policyOf } from '../support/access.ts';
import { backends, type GatewayWorld, openGateway } from '../support/gateway.ts';
import { complete, createUpload, putPart } from '../support/gateway-bodies.ts';

const full = 'alice-account FULL_CONTROL';
const handedOver = { '*-acl': 'bucket-owner-full-control' };

/** Alice's bucket with this ownership, into which every caller may write: by its ACL where ACLs are enabled. */
async function bucketOf(world: GatewayWorld, ownership: string): Promise<void> {
  const headers = { '*-object-ownership': ownership };
  expect((await world.client.put('/bucket', { headers })).status).toBe(200);
  if (ownership === 'BucketOwnerEnforced') return;
  await world.client.put('/bucket?acl', { headers: { '*-acl': 'public-read-write' } });
}

/** The owners of a listing by key. */
async function ownersIn({ client }: GatewayWorld): Promise<Record<string, string>> {
  const { text } = await client.get('/bucket?versions');
  const entries = [...text.matchAll(/<Version><Key>(.*?)<.*?<Owner><ID>(.*?)<.*?<\/Version>/g)];
  const found = Object.fromEntries(entries.map(([, key, owner]) => [key, owner]));
  const listed = await client.get('/bucket?list-type=2&fetch-owner=true');
  expect(listed.all('ID')).toEqual(Object.values(found));
  return found;
}

async function writeAll(world: GatewayWorld, headers: Readonly<Record<string, string>> = {}): Promise<void> {
  const { bob } = world;
  expect((await bob.put('/bucket/put', { body: 'x', headers })).status).toBe(200);
  await bob.put('/bobs');
  await bob.put('/bobs/source', { body: 'x' });
  const copy = { ...headers, '*-copy-source': '/bobs/source' };
  expect((await bob.put('/bucket/copy', { headers: copy })).status).toBe(200);
  const uploadId = await createUpload(bob, '/bucket/parts', { headers });
  const part = await putPart(bob, '/bucket/parts', { uploadId, number: 1, body: 'x' });
  expect((await complete(bob, '/bucket/parts', { uploadId, parts: [part] })).status).toBe(200);
}
const allOf = (owner: string) => ({ copy: owner, parts: owner, put: owner });

describe.each(backends)('what bob writes into a bucket of alice on %s', (backend) => {
  test.each(['ObjectWriter', 'BucketOwnerPreferred'])('belongs to the writer under %s', async (ownership) => {
    await using world = await openGateway({ backend });
    await bucketOf(world, ownership);
    await writeAll(world);
    expect(await ownersIn(world)).toEqual(allOf('bob-account'));
    // Alice may not read bob's object, only delete it.
    expect((await world.client.get('/bucket/put')).status).toBe(403);
    expect((await world.client.get('/bucket/put?acl')).status).toBe(403);
    expect((await world.bob.get('/bucket/put')).text).toBe('x');
    const acl = await world.bob.get('/bucket/put?acl');
    expect([acl.one('ID'), acl.one('DisplayName'), grantsIn(acl)]).toEqual([
      'bob-account',
      'bob',
      ['bob-account FULL_CONTROL'],
    ]);
    expect((await world.client.delete('/bucket/put')).status).toBe(204);
  });

  test('with bucket-owner-full-control belongs to the writer under ObjectWriter, and both have full control', async () => {
    await using world = await openGateway({ backend });
    await bucketOf(world, 'ObjectWriter');
    await writeAll(world, handedOver);
    expect(await ownersIn(world)).toEqual(allOf('bob-account'));
    const grants = grantsIn(await world.client.get('/bucket/parts?acl'));
    expect(grants).toEqual(['bob-account FULL_CONTROL', full]);
    expect((await world.client.get('/bucket/copy')).text).toBe('x');
  });

  test('with bucket-owner-full-control is hers under BucketOwnerPreferred', async () => {
    await using world = await openGateway({ backend });
    await bucketOf(world, 'BucketOwnerPreferred');
    await writeAll(world, handedOver);
    expect(await ownersIn(world)).toEqual(allOf('alice-account'));
    expect(grantsIn(await world.client.get('/bucket/put?acl'))).toEqual([full]);
    expect((await world.client.get('/bucket/put')).text).toBe('x');
  });

  test('with another ACL belongs to the writer under BucketOwnerPreferred', async () => {
    await using world = await openGateway({ backend });
    await bucketOf(world, 'BucketOwnerPreferred');
    const headers = { '*-grant-full-control': 'id="alice-account"' };
    await writeAll(world, headers);
    expect(await ownersIn(world)).toEqual(allOf('bob-account'));
    expect(grantsIn(await world.client.get('/bucket/put?acl'))).toEqual([full]);
  });
});

describe('BucketOwnerEnforced', () => {
  test('makes everything the owner of the bucket’s, what others wrote before as well, until it ends', async () => {
    await using world = await openGateway();
    await bucketOf(world, 'ObjectWriter');
    await writeAll(world, { '*-acl': 'public-read' });
    const { client, anonymous, bob } = world;
    expect((await anonymous.get('/bucket/put')).text).toBe('x');
    await client.put('/bucket?acl', { headers: { '*-acl': 'private' } });
    const enforced = ownershipXml('BucketOwnerEnforced');
    expect((await client.put('/bucket?ownershipControls', { body: enforced })).status).toBe(200);
    expect(await ownersIn(world)).toEqual(allOf('alice-account'));
    expect((await client.get('/bucket/put')).text).toBe('x');
    const acl = await client.get('/bucket/put?acl');
    expect([acl.one('ID'), grantsIn(acl)]).toEqual(['alice-account', [full]]);
    expect(grantsIn(await client.get('/bucket?acl'))).toEqual([full]);
    expect((await anonymous.get('/bucket/put')).status).toBe(403);
    expect((await bob.get('/bucket/put')).status).toBe(403);
    await client.delete('/bucket?ownershipControls');
    expect(await ownersIn(world)).toEqual(allOf('bob-account'));
    expect((await anonymous.get('/bucket/put')).text).toBe('x');
  });

  test('accepts no ACL but the full control of the owner, by any operation', async () => {
    await using world = await openGateway();
    const { client } = world;
    await bucketOf(world, 'BucketOwnerEnforced');
    await client.put('/bucket/old', { body: 'x' });
    const writes = [
      ['PUT', '/bucket/new'],
      ['POST', '/bucket/new?uploads'],
      ['PUT', '/bucket/old?acl'],
      ['PUT', '/bucket?acl'],
    ] as const;
    for (const [method, path] of writes) {
      for (const headers of [
        { '*-acl': 'public-read' },
        { '*-grant-read': 'id="bob-account"' },
        { '*-grant-read': 'id="alice-account"' },
      ]) {
        const refused = await client.send(method, path, { headers });
        expect([refused.status, refused.code], `${method} ${path}`).toEqual([
          400,
          'AccessControlListNotSupported',
        ]);
      }
      for (const headers of [handedOver, { '*-grant-full-control': 'id="alice-account"' }])
        expect((await client.send(method, path, { headers })).status, `${method} ${path}`).toBe(200);
    }
    for (const path of ['/bucket', '/bucket/old']) {
      const put = (...grants: string[]) =>
        client.put(`${path}?acl`, { body: aclXml('alice-account', ...grants) });
      expect((await put(full)).status).toBe(200);
      expect((await put(full, `${everyone} READ`)).code).toBe('AccessControlListNotSupported');
      expect((await put()).code).toBe('AccessControlListNotSupported');
    }
  });

  test('ignores private where the owner writes an object, and refuses it from others and as a change', async () => {
    await using world = await openGateway();
    await bucketOf(world, 'BucketOwnerEnforced');
    const code = async (method: 'PUT' | 'POST', path: string) =>
      (await world.client.send(method, path, { headers: { '*-acl': 'private' } })).code;
    expect(await code('PUT', '/bucket/key')).toBe('');
    expect(await code('POST', '/bucket/key?uploads')).toBe('');
    for (const path of ['/bucket?acl', '/bucket/key?acl'])
      expect(await code('PUT', path), path).toBe('AccessControlListNotSupported');
    const open = policyOf({ Action: 's3:PutObject', Resource: 'arn:aws:s3:::bucket/*' });
    expect((await world.client.put('/bucket?policy', { body: open })).status).toBe(204);
    const headers = { '*-acl': 'private' };
    const refused = await world.bob.put('/bucket/key', { body: 'x', headers });
    expect([refused.status, refused.code]).toEqual([400, 'AccessControlListNotSupported']);
    expect((await world.bob.put('/bucket/key', { body: 'x', headers: handedOver })).status).toBe(200);
  });

  test('keeps what an ACL was, through a change that changes nothing', async () => {
    await using world = await openGateway();
    const { client, anonymous } = world;
    await bucketOf(world, 'ObjectWriter');
    await client.put('/bucket/key', { body: 'x', headers: { '*-acl': 'public-read' } });
    await client.put('/bucket?acl', { headers: { '*-acl': 'private' } });
    await client.put('/bucket?ownershipControls', { body: ownershipXml('BucketOwnerEnforced') });
    expect((await client.put('/bucket/key?acl', { headers: handedOver })).status).toBe(200);
    expect((await anonymous.get('/bucket/key')).status).toBe(403);
    await client.put('/bucket?ownershipControls', { body: ownershipXml('ObjectWriter') });
    expect((await anonymous.get('/bucket/key')).text).toBe('x');
  });
});

describe('a new bucket', () => {
  test.each([
    ['BucketOwnerEnforced', 'private', 200],
    ['BucketOwnerEnforced', 'bucket-owner-full-control', 200],
    ['BucketOwnerEnforced', 'public-read', 400],
    ['BucketOwnerEnforced', 'log-delivery-write', 400],
    ['BucketOwnerPreferred', 'public-read', 200],
    ['ObjectWriter', 'public-read', 200],
  ])('of %s answers the ACL %s with %i', async (ownership, acl, status) => {
    await using world = await openGateway();
    const headers = { '*-object-ownership': ownership, '*-acl': acl };
    const created = await world.client.put('/bucket', { headers });
    expect(created.status).toBe(status);
    if (status === 400) expect(created.code).toBe('InvalidBucketAclWithObjectOwnership');
    expect((await world.client.head('/bucket')).status).toBe(status === 200 ? 200 : 404);
  });

  test('returns the ownership that was requested, and none where none was', async () => {
    await using world = await openGateway();
    const { client } = world;
    await client.put('/asked', { headers: { '*-object-ownership': 'ObjectWriter' } });
    expect((await client.get('/asked?ownershipControls')).one('ObjectOwnership')).toBe('ObjectWriter');
    await client.put('/silent');
    expect((await client.get('/silent?ownershipControls')).code).toBe('OwnershipControlsNotFoundError');
    const wrong = await client.put('/wrong', { headers: { '*-object-ownership': 'Everybody' } });
    expect([wrong.status, wrong.code]).toEqual([400, 'InvalidArgument']);
  });

  test('has the configured default ownership where the request names none', async () => {
    await using world = await openGateway({ settings: { SVC_DEFAULT_OWNERSHIP: 'BucketOwnerEnforced' } });
    const { client } = world;
    await client.put('/bucket');
    expect((await client.get('/bucket?ownershipControls')).one('ObjectOwnership')).toBe(
      'BucketOwnerEnforced',
    );
    const refused = await client.put('/bucket/key', { body: 'x', headers: { '*-acl': 'public-read' } });
    expect(refused.code).toBe('AccessControlListNotSupported');
    const headers = { '*-object-ownership': 'ObjectWriter', '*-acl': 'public-read' };
    expect((await client.put('/other', { headers })).status).toBe(200);
  });

  test('that names an ACL gets ObjectWriter where the setting is BucketOwnerEnforced, and the ACL counts', async () => {
    await using world = await openGateway({ settings: { SVC_DEFAULT_OWNERSHIP: 'BucketOwnerEnforced' } });
    const { client, anonymous } = world;
    expect((await client.put('/bucket', { headers: { '*-acl': 'public-read' } })).status).toBe(200);
    const ownership = async (bucket: string) =>
      (await client.get(`/${bucket}?ownershipControls`)).one('ObjectOwnership');
    expect(await ownership('bucket')).toBe('ObjectWriter');
    expect((await anonymous.get('/bucket')).status).toBe(200);
    const headers = { '*-acl': 'public-read' };
    expect((await client.put('/bucket/key', { body: 'x', headers })).status).toBe(200);
    // An ACL that grants nothing new does not enable ACLs.
    for (const acl of ['private', 'bucket-owner-full-control']) {
      expect((await client.put(`/plain-${acl}`, { headers: { '*-acl': acl } })).status).toBe(200);
      expect(await ownership(`plain-${acl}`)).toBe('BucketOwnerEnforced');
    }
    const asked = { '*-object-ownership': 'BucketOwnerEnforced', '*-acl': 'public-read' };
    expect((await client.put('/asked', { headers: asked })).code).toBe('InvalidBucketAclWithObjectOwnership');
  });

  test('that exists already keeps its ACL when it is created again with another one', async () => {
    await using world = await openGateway();
    const headers = { '*-acl': 'public-read' };
    await world.client.put('/bucket', { headers });
    expect((await world.bob.put('/bucket', { headers })).code).toBe('BucketAlreadyExists');
    expect((await world.client.put('/bucket', { headers: { '*-acl': 'private' } })).status).toBe(200);
    // Creating the bucket again changes nothing.
    expect(grantsIn(await world.client.get('/bucket?acl'))).toEqual([`${everyone} READ`, full]);
  });
});
