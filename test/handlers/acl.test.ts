/** Access control lists of buckets and objects: canned, by headers, by XML. */
import { describe, expect, test } from 'vitest';
import { aclXml, authenticated, everyone, grantsIn, logDelivery } from '../support/access.ts';
import { backends, bob, openGateway, person } from '../support/gateway.ts';
import { complete, createUpload, putPart, setVersioning } from '../support/gateway-bodies.ts';

const full = 'alice-account FULL_CONTROL';
/** What a canned ACL grants beside the full control of alice, who owns both bucket and object. */
const canned: readonly (readonly [string, readonly string[]])[] = [
  ['private', []],
  ['public-read', [`${everyone} READ`]],
  ['public-read-write', [`${everyone} READ`, `${everyone} WRITE`]],
  ['authenticated-read', [`${authenticated} READ`]],
  ['aws-exec-read', []],
  ['bucket-owner-read', []],
  ['bucket-owner-full-control', []],
  ['log-delivery-write', [`${logDelivery} WRITE`, `${logDelivery} READ_ACP`]],
];

describe.each(backends)('the ACL of a bucket on %s', (backend) => {
  test.each(canned)('canned %s is kept as its grants, at creation and later', async (name, grants) => {
    await using world = await openGateway({ backend });
    const { client } = world;
    expect((await client.put('/born', { headers: { '*-acl': name } })).status).toBe(200);
    expect(grantsIn(await client.get('/born?acl'))).toEqual([...grants, full]);
    await client.put('/bucket');
    expect(grantsIn(await client.get('/bucket?acl'))).toEqual([full]);
    expect((await client.put('/bucket?acl', { headers: { '*-acl': name } })).status).toBe(200);
    const shown = await client.get('/bucket?acl');
    expect([shown.status, grantsIn(shown)]).toEqual([200, [...grants, full]]);
    expect([shown.one('ID'), shown.one('DisplayName')]).toEqual(['alice-account', 'alice']);
  });

  test('is set by XML, returned with its groups first, replaces the former ACL, and takes effect immediately', async () => {
    await using world = await openGateway({ backend });
    const { client } = world;
    await client.put('/bucket', { headers: { '*-acl': 'public-read' } });
    expect((await world.anonymous.get('/bucket')).status).toBe(200);
    const body = aclXml('alice-account', full, 'bob-account READ', `${everyone} READ_ACP`);
    expect((await client.put('/bucket?acl', { body })).status).toBe(200);
    expect(grantsIn(await client.get('/bucket?acl'))).toEqual([
      `${everyone} READ_ACP`,
      full,
      'bob-account READ',
    ]);
    expect((await world.anonymous.get('/bucket')).status).toBe(403);
    expect((await world.bob.get('/bucket')).status).toBe(200);
    expect((await world.anonymous.get('/bucket?acl')).status).toBe(200);
  });
});

describe.each(backends)('a missing key on %s', (backend) => {
  test('is NoSuchKey to a caller who may list the bucket, and AccessDenied to any other or by an explicit deny', async () => {
    await using world = await openGateway({ backend });
    const { client, anonymous, bob } = world;
    await client.put('/bucket', { headers: { '*-acl': 'public-read' } });
    await client.put('/bucket/secret', { body: 'x' });
    for (const caller of [anonymous, bob]) {
      const absent = await caller.get('/bucket/absent');
      expect([absent.status, absent.one('Code')]).toEqual([404, 'NoSuchKey']);
      expect((await caller.head('/bucket/absent')).status).toBe(404);
      expect((await caller.get('/bucket/secret')).status).toBe(403);
      expect((await caller.delete('/bucket/absent')).status).toBe(403);
    }
    const Resource = 'arn:aws:s3:::bucket/*';
    const deny = { Effect: 'Deny', Principal: '*', Action: 's3:GetObject', Resource };
    const body = JSON.stringify({ Version: '2012-10-17', Statement: [deny] });
    expect((await client.put('/bucket?policy', { body })).status).toBe(204);
    expect((await bob.get('/bucket/absent')).status).toBe(403);
    await client.delete('/bucket?policy');
    await client.put('/bucket?acl', { headers: { 'x-amz-acl': 'private' } });
    expect((await anonymous.get('/bucket/absent')).status).toBe(403);
    expect((await bob.get('/bucket/absent')).status).toBe(403);
  });
});

describe.each(backends)('the ACL of an object on %s', (backend) => {
  test('is set by any write, and replaced by each', async () => {
    await using world = await openGateway({ backend });
    const { client, anonymous } = world;
    await client.put('/bucket');
    const headers = { '*-acl': 'public-read' };
    await client.put('/bucket/put', { body: 'x', headers });
    await client.put('/bucket/copy', { headers: { ...headers, '*-copy-source': '/bucket/put' } });
    const uploadId = await createUpload(client, '/bucket/parts', { headers });
    const part = await putPart(client, '/bucket/parts', { uploadId, number: 1, body: 'x' });
    await complete(client, '/bucket/parts', { uploadId, parts: [part] });
    for (const key of ['put', 'copy', 'parts']) {
      expect((await anonymous.get(`/bucket/${key}`)).text, key).toBe('x');
      expect(grantsIn(await client.get(`/bucket/${key}?acl`)), key).toEqual([`${everyone} READ`, full]);
    }
    // A copy does not inherit the ACL of its source, and an overwrite does not keep the ACL of the old object.
    await client.put('/bucket/again', { headers: { '*-copy-source': '/bucket/put' } });
    await client.put('/bucket/put', { body: 'y' });
    for (const key of ['again', 'put']) {
      expect((await anonymous.get(`/bucket/${key}`)).status, key).toBe(403);
      expect(grantsIn(await client.get(`/bucket/${key}?acl`)), key).toEqual([full]);
    }
  });

  test('belongs to a version, and changes without touching its content', async () => {
    await using world = await openGateway({ backend });
    const { client, anonymous } = world;
    await client.put('/bucket');
    await setVersioning(client, 'bucket', 'Enabled');
    const versions: string[] = [];
    for (const body of ['1', '2'])
      versions.push((await client.put('/bucket/key', { body })).header('*-version-id') ?? '');
    const [one, two] = versions;
    const old = { versionId: one ?? '' };
    const changed = await client.put('/bucket/key?acl', { query: old, headers: { '*-acl': 'public-read' } });
    expect([changed.status, changed.header('*-version-id')]).toEqual([200, one]);
    expect((await anonymous.get('/bucket/key', { query: old })).text).toBe('1');
    expect((await anonymous.get('/bucket/key')).status).toBe(403);
    expect(grantsIn(await client.get('/bucket/key?acl', { query: old }))).toEqual([`${everyone} READ`, full]);
    const latest = await client.get('/bucket/key?acl');
    expect([grantsIn(latest), latest.header('*-version-id')]).toEqual([[full], two]);
    expect((await client.get('/bucket/key')).header('*-version-id')).toBe(two);
    await client.put('/bucket/key?acl', { query: old, headers: { '*-acl': 'private' } });
    expect((await anonymous.get('/bucket/key', { query: old })).status).toBe(403);
  });

  test('is not returned for a missing key or a delete marker', async () => {
    await using world = await openGateway({ backend });
    const { client } = world;
    await client.put('/bucket');
    await setVersioning(client, 'bucket', 'Enabled');
    for (const send of [client.get, client.put]) {
      const missing = await send('/bucket/none?acl', { headers: { '*-acl': 'private' } });
      expect([missing.status, missing.code]).toEqual([404, 'NoSuchKey']);
    }
    await client.put('/bucket/key', { body: 'x' });
    const marker = (await client.delete('/bucket/key')).header('*-version-id') ?? '';
    for (const send of [client.get, client.put]) {
      const headers = { '*-acl': 'private' };
      expect((await send('/bucket/key?acl', { headers })).code).toBe('NoSuchKey');
      expect((await send('/bucket/key?acl', { headers, query: { versionId: marker } })).code).toBe(
        'MethodNotAllowed',
      );
    }
  });
});

describe('grant headers', () => {
  const mailed = person('carol', { email: 'Carol@Example.com' });

  test('name grantees by id, by group and by e-mail, with or without quotes', async () => {
    await using world = await openGateway({ people: [mailed] });
    const { client } = world;
    await client.put('/bucket');
    const put = await client.put('/bucket/key', {
      body: 'x',
      headers: {
        '*-grant-read': `id="bob-account", uri="${everyone}"`,
        '*-grant-read-acp': `uri=${authenticated}`,
        '*-grant-write-acp': 'emailAddress="carol@example.com"',
        '*-grant-full-control': 'id=alice-account,emailAddress=CAROL@example.com',
      },
    });
    expect(put.status).toBe(200);
    const shown = await client.get('/bucket/key?acl');
    expect(grantsIn(shown)).toEqual([
      `${everyone} READ`,
      `${authenticated} READ_ACP`,
      'bob-account READ',
      'carol-account WRITE_ACP',
      full,
      'carol-account FULL_CONTROL',
    ]);
    // Display names are included where they are known.
    expect(shown.all('DisplayName')).toEqual(['alice', 'bob', 'carol', 'alice', 'carol']);
  });

  test('count for buckets too, where they may grant to write', async () => {
    await using world = await openGateway();
    const headers = { '*-grant-write': 'id="bob-account"', '*-grant-full-control': 'id="alice-account"' };
    expect((await world.client.put('/bucket', { headers })).status).toBe(200);
    expect((await world.bob.put('/bucket/key', { body: 'x' })).status).toBe(200);
    expect((await world.bob.get('/bucket')).status).toBe(403);
    await world.client.put('/bucket?acl', { headers: { '*-grant-read': 'id="bob-account"' } });
    expect(grantsIn(await world.client.get('/bucket?acl'))).toEqual(['bob-account READ']);
    expect((await world.bob.put('/bucket/other', { body: 'x' })).status).toBe(403);
    expect((await world.bob.get('/bucket')).status).toBe(200);
  });

  test.each([
    [{ '*-acl': 'everybody' }, 'InvalidArgument'],
    [{ '*-acl': 'private', '*-grant-read': 'id="bob-account"' }, 'InvalidRequest'],
    [{ '*-grant-read': 'bob-account' }, 'InvalidArgument'],
    [{ '*-grant-read': 'id=""' }, 'InvalidArgument'],
    [{ '*-grant-read': 'id="bob account"' }, 'InvalidArgument'],
    [{ '*-grant-read': 'id="bob' }, 'InvalidArgument'],
    [{ '*-grant-read': '' }, 'InvalidArgument'],
    [{ '*-grant-read': 'id="bob-account",' }, 'InvalidArgument'],
    [{ '*-grant-read': 'uri="http://acs.amazonaws.com/groups/global/Nobody"' }, 'InvalidArgument'],
    [{ '*-grant-read': 'emailAddress="nobody@example.com"' }, 'UnresolvableGrantByEmailAddress'],
    [{ '*-grant-read': Array(101).fill('id="bob-account"').join(',') }, 'InvalidRequest'],
  ])('%j is refused with %s, wherever it stands', async (headers, code) => {
    await using world = await openGateway();
    const { client } = world;
    await client.put('/bucket');
    await client.put('/bucket/old', { body: 'x' });
    for (const [method, path] of [
      ['PUT', '/new-bucket'],
      ['PUT', '/bucket?acl'],
      ['PUT', '/bucket/new'],
      ['PUT', '/bucket/old?acl'],
      ['POST', '/bucket/new?uploads'],
    ] as const) {
      const refused = await client.send(method, path, { headers });
      expect([refused.status, refused.code], `${method} ${path}`).toEqual([400, code]);
    }
    expect((await client.head('/new-bucket')).status).toBe(404);
    expect((await client.head('/bucket/new')).status).toBe(404);
    expect(grantsIn(await client.get('/bucket?acl'))).toEqual([full]);
    expect(grantsIn(await client.get('/bucket/old?acl'))).toEqual([full]);
  });

  test('may be an empty header, which counts as absent', async () => {
    await using world = await openGateway();
    await world.client.put('/bucket');
    expect((await world.client.put('/bucket/key', { body: 'x', headers: { '*-acl': '' } })).status).toBe(200);
  });

  test('an object takes a hundred grants of short ids, and not more than its row has room for', async () => {
    await using world = await openGateway();
    const { client } = world;
    await client.put('/bucket');
    await client.put('/bucket/key', { body: 'x' });
    const grants = (length: number) =>
      Array.from({ length: 100 }, (_, i) => `${String(i).padStart(length, '0')} READ`);
    const put = (path: string, length: number) =>
      client.put(`${path}?acl`, { body: aclXml('alice-account', ...grants(length)) });
    expect((await put('/bucket/key', 12)).status).toBe(200);
    expect(grantsIn(await client.get('/bucket/key?acl'))).toHaveLength(100);
    expect((await put('/bucket/key', 64)).code).toBe('InvalidRequest');
    expect((await put('/bucket', 64)).status).toBe(200);
    const tooMany = aclXml('alice-account', ...grants(12), 'bob-account READ');
    expect((await client.put('/bucket?acl', { body: tooMany })).code).toBe('MalformedACLError');
  });
});

describe('the body of an ACL', () => {
  const grantee = (type: string, inside: string) =>
    `<AccessControlPolicy><Owner><ID>alice-account</ID></Owner><AccessControlList><Grant><Grantee xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:type="${type}">${inside}</Grantee><Permission>READ</Permission></Grant></AccessControlList></AccessControlPolicy>`;

  test.each([
    ['not xml', 'MalformedACLError', 400],
    ['<AccessControlPolicy/>', 'MalformedACLError', 400],
    ['<Other/>', 'MalformedACLError', 400],
    [
      '<AccessControlPolicy><AccessControlList></AccessControlList></AccessControlPolicy>',
      'MalformedACLError',
      400,
    ],
    [aclXml('alice-account', 'bob-account EVERYTHING'), 'MalformedACLError', 400],
    [grantee('CanonicalUser', '<URI>x</URI>'), 'MalformedACLError', 400],
    [grantee('CanonicalUser', '<ID>bob-account</ID><URI>x</URI>'), 'MalformedACLError', 400],
    [grantee('Group', ''), 'MalformedACLError', 400],
    [grantee('Everybody', '<ID>bob-account</ID>'), 'MalformedACLError', 400],
    [grantee('CanonicalUser', '<ID>bob account</ID>'), 'InvalidArgument', 400],
    [grantee('Group', '<URI>http://example.com/</URI>'), 'InvalidArgument', 400],
    [
      grantee('AmazonCustomerByEmail', '<EmailAddress>x@example.com</EmailAddress>'),
      'UnresolvableGrantByEmailAddress',
      400,
    ],
    [aclXml('bob-account', 'bob-account READ'), 'AccessDenied', 403],
    ['', 'MissingSecurityHeader', 400],
  ])('%s is refused with %s', async (body, code, status) => {
    await using world = await openGateway();
    const { client } = world;
    await client.put('/bucket');
    await client.put('/bucket/key', { body: 'x' });
    for (const path of ['/bucket', '/bucket/key']) {
      const refused = await client.put(`${path}?acl`, { body });
      expect([refused.status, refused.code], path).toEqual([status, code]);
      expect(grantsIn(await client.get(`${path}?acl`)), path).toEqual([full]);
    }
  });

  test('never comes together with headers, whatever either says: MalformedACLError before anything is looked at', async () => {
    await using world = await openGateway();
    const { client } = world;
    await client.put('/bucket');
    await client.put('/bucket/key', { body: 'x' });
    for (const path of ['/bucket', '/bucket/key'])
      for (const body of [aclXml('alice-account', full), 'not xml'])
        for (const headers of [
          { '*-acl': 'public-read' },
          { '*-acl': 'nonsense' },
          { '*-grant-read': 'id="bob-account"' },
        ]) {
          const refused = await client.put(`${path}?acl`, { body, headers });
          expect([refused.status, refused.code]).toEqual([400, 'MalformedACLError']);
          expect((await client.put(`${path}?acl`, { body: aclXml('alice-account', full) })).status).toBe(200);
        }
  });

  test('may be empty of grants: then the owner alone gets in, as owner', async () => {
    await using world = await openGateway();
    const { client, anonymous } = world;
    await client.put('/bucket');
    await client.put('/bucket/key', { body: 'x', headers: { '*-acl': 'public-read' } });
    expect((await client.put('/bucket/key?acl', { body: aclXml('alice-account') })).status).toBe(200);
    expect(grantsIn(await client.get('/bucket/key?acl'))).toEqual([]);
    expect((await client.get('/bucket/key')).text).toBe('x');
    expect((await anonymous.get('/bucket/key')).status).toBe(403);
  });

  test('is read in both dialects', async () => {
    await using world = await openGateway();
    await world.neutral.put('/bucket', { headers: { '*-acl': 'public-read' } });
    expect(grantsIn(await world.client.get('/bucket?acl'))).toEqual([`${everyone} READ`, full]);
    await world.neutral.put('/bucket/key', {
      body: 'x',
      headers: { '*-grant-read': `id="${bob.owner}"` },
    });
    expect((await world.bob.get('/bucket/key')).text).toBe('x');
  });
});

test('an object may be replaced while its ACL changes: the new one never gets an ACL that its owner did not write', async () => {
  await using world = await openGateway();
  const { client } = world;
  await client.put('/bucket', { headers: { '*-acl': 'public-read-write' } });
  await client.put('/bucket/key', { body: 'x' });
  const rounds = Array.from({ length: 20 }, async (_, i) => {
    const writer = i % 2 === 0 ? client : world.bob;
    const [put, acl] = await Promise.all([
      writer.put('/bucket/key', { body: String(i) }),
      client.put('/bucket/key?acl', { headers: { '*-acl': 'public-read' } }),
    ]);
    return [put.status, acl.status];
  });
  for (const [put, acl] of await Promise.all(rounds)) {
    expect(put).toBe(200);
    expect([200, 403, 409]).toContain(acl);
  }
  const { text } = await client.get('/bucket?versions');
  const owner = /<Owner><ID>([^<]*)/.exec(text)?.[1];
  if (owner === 'bob-account') expect((await world.anonymous.get('/bucket/key')).status).toBe(403);
});
