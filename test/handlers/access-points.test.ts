/** Access points: an account's names for a bucket, with policies of their own. @storage */
import { describe, expect, test } from 'vitest';
import { findAccessPoint, insertAccessPoint } from '../../src/metadata/buckets/access-points.ts';
import { policyOf } from '../support/access.ts';
import {
  acting,
  arn,
  controlling,
  domain,
  furnished,
  open,
  open4,
  policyFor,
} from '../support/access-points.ts';
import { backends, bob, openGateway, operator } from '../support/gateway.ts';
import type { Client } from '../support/gateway-client.ts';
import { must, openUser } from '../support/iam-users.ts';

describe.each(backends)('an access point on %s', (backend) => {
  test('is created, returned, listed and deleted, by actions and by requests of S3 Control', async () => {
    await using world = await openGateway({ backend, ...open });
    await world.client.put('/bucket');
    const act = acting(world);
    const control = controlling(world);
    const made = await act('CreateAccessPoint', { Name: 'photos', Bucket: 'bucket' });
    expect([made.status, made.one('AccessPointArn')]).toEqual([200, arn]);
    expect(made.text).toContain(
      '<CreateAccessPointResponse xmlns="http://awss3control.amazonaws.com/doc/2018-08-20/"><CreateAccessPointResult>',
    );
    expect(made.one('Alias')).toMatch(/^photos-[a-z0-9]{34}-s3alias$/);
    const body =
      '<CreateAccessPointRequest xmlns="http://awss3control.amazonaws.com/doc/2018-08-20/"><Bucket>bucket</Bucket><PublicAccessBlockConfiguration><BlockPublicAcls>false</BlockPublicAcls></PublicAccessBlockConfiguration></CreateAccessPointRequest>';
    const other = await control('PUT', '/videos', body);
    expect([other.status, other.one('AccessPointArn')]).toEqual([200, arn.replace('photos', 'videos')]);
    expect(other.text).toMatch(/^<\?xml [^>]*>\n<CreateAccessPointResult xmlns/);
    for (const [told, blocked] of [
      [await act('GetAccessPoint', { Name: 'photos' }), 'true'],
      [await control('GET', '/videos'), 'false'],
    ] as const) {
      expect([told.one('Bucket'), told.one('NetworkOrigin'), told.one('BucketAccountId')]).toEqual([
        'bucket',
        'Internet',
        'alice-account',
      ]);
      expect([told.one('BlockPublicAcls'), told.one('RestrictPublicBuckets')]).toEqual([blocked, 'true']);
      expect(told.one('CreationDate')).toMatch(/^\d{4}-/);
    }
    for (const again of [
      await act('CreateAccessPoint', { Name: 'photos', Bucket: 'bucket' }),
      await control('PUT', '/photos', body),
    ])
      expect([again.status, again.code]).toEqual([409, 'AccessPointAlreadyOwnedByYou']);
    expect((await control('GET', '?bucket=bucket&maxResults=1')).all('Name')).toEqual(['photos']);
    const rest = await control(
      'GET',
      `?maxResults=5&nextToken=${(await control('GET', '?maxResults=1')).one('NextToken')}`,
    );
    expect([rest.all('Name'), rest.one('NextToken')]).toEqual([['videos'], undefined]);
    expect((await act('ListAccessPoints', { Bucket: 'none' })).all('Name')).toEqual([]);
    expect((await control('DELETE', '/videos')).status).toBe(204);
    expect((await act('DeleteAccessPoint', { Name: 'photos' })).status).toBe(200);
    for (const gone of [await control('GET', '/videos'), await act('DeleteAccessPoint', { Name: 'photos' })])
      expect([gone.status, gone.code]).toEqual([404, 'NoSuchAccessPoint']);
    expect((await act('CreateAccessPoint', { Name: 'photos', Bucket: 'bucket' })).status).toBe(200);
  });

  test('is reached by its alias in the path and in the host, and by the host that SDKs make of its ARN', async () => {
    await using world = await openGateway({ backend, ...open });
    const alias = await furnished(world);
    const hosts = [
      `${alias}.${domain}`,
      `photos-alice-account.${domain}`,
      `${alias.toUpperCase()}.${domain}:9000`,
    ];
    const ways: [Client, string][] = [
      [world.client, `/${alias}`],
      ...hosts.map((host): [Client, string] => [world.as({ host }), '']),
    ];
    for (const [client, prefix] of ways) {
      expect((await client.get(`${prefix}/key`)).text).toBe('x');
      expect((await client.put(`${prefix}/other`, { body: 'y' })).status).toBe(200);
      const head = await client.head(prefix === '' ? '/' : prefix);
      expect([head.status, head.header('*-access-point-alias')]).toEqual([200, 'true']);
      expect((await client.get(`${prefix}/?list-type=2`)).all('Key')).toEqual(['key', 'other']);
      expect((await client.delete(`${prefix}/other`)).status).toBe(204);
    }
    expect((await world.client.head('/bucket')).header('*-access-point-alias')).toBe('false');
    // The settings of a bucket cannot be changed through an access point.
    const allowed = { acl: 'GET', policy: 'GET', versioning: '', tagging: '', publicAccessBlock: '' };
    for (const [name, methods] of Object.entries(allowed)) {
      const refused = await world.client.put(`/${alias}?${name}`, { body: '<x/>' });
      expect([refused.status, refused.code], name).toEqual([405, 'MethodNotAllowed']);
      expect([name, refused.header('allow')]).toEqual([name, methods]);
    }
    const removal = await world.client.delete(`/${alias}`);
    expect([removal.status, removal.header('allow')]).toEqual([405, 'HEAD, GET']);
    expect((await world.client.get('/bucket/key')).text).toBe('x');
    const unknown = await world.client.get(`/none-${'a'.repeat(34)}-s3alias/key`);
    expect([unknown.status, unknown.code]).toEqual([404, 'NoSuchAccessPoint']);
    expect((await world.as({ host: `videos-alice-account.${domain}` }).get('/key')).code).toBe(
      'NoSuchBucket',
    );
  });

  test('is the source of a copy, by ARN and by alias', async () => {
    await using world = await openGateway({ backend, ...open });
    const alias = await furnished(world);
    await world.client.put('/bucket/a b%2Bc', { body: 'z' });
    for (const [source, text] of [
      [`${arn}/object/key`, 'x'],
      [`${encodeURIComponent(arn)}/object/a%20b%2Bc`, 'z'],
      [`/${alias}/key`, 'x'],
    ] as const) {
      const copied = await world.client.put('/bucket/copy', { headers: { '*-copy-source': source } });
      expect(copied.status, source).toBe(200);
      expect((await world.client.get('/bucket/copy')).text).toBe(text);
    }
    const wrong = await world.client.put('/bucket/copy', {
      headers: { '*-copy-source': `${arn.replace('photos', 'none')}/object/key` },
    });
    expect(wrong.code).toBe('NoSuchAccessPoint');
  });
});

describe('the policy of an access point', () => {
  test('is stored unchanged, returned, evaluated as public or not, and removed', async () => {
    await using world = await openGateway(open);
    await furnished(world, open4);
    const control = controlling(world);
    const unset = await control('GET', '/photos/policy');
    expect([unset.status, unset.code]).toEqual([404, 'NoSuchAccessPointPolicy']);
    const escaped = (text: string) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
    const put = (policy: string) =>
      control(
        'PUT',
        '/photos/policy',
        `<PutAccessPointPolicyRequest><Policy>${escaped(policy)}</Policy></PutAccessPointPolicyRequest>`,
      );
    const policy = ` ${policyFor({ Sid: 'a <b> & c' })}\n`;
    expect((await put(policy)).status).toBe(200);
    const got = await control('GET', '/photos/policy');
    expect([got.one('Policy'), (await control('GET', '/photos/policyStatus')).one('IsPublic')]).toEqual([
      policy,
      'true',
    ]);
    await put(policyFor({ Principal: { AWS: 'bob-account' } }));
    expect((await control('GET', '/photos/policyStatus')).one('IsPublic')).toBe('false');
    expect((await control('DELETE', '/photos/policy')).status).toBe(204);
    expect((await control('DELETE', '/photos/policy')).status).toBe(204);
    expect((await control('GET', '/photos/policyStatus')).code).toBe('NoSuchAccessPointPolicy');
    for (const wrong of [
      '',
      '{}',
      policyFor({ Resource: 'arn:aws:s3:::bucket/*' }),
      policyFor({ Resource: `${arn}s/object/*` }),
    ])
      expect((await put(wrong)).code, wrong).toMatch(/^(MalformedPolicy|ValidationError)$/);
    expect((await control('PUT', '/photos/policy', '')).code).toBe('MissingRequestBodyError');
    expect((await control('PUT', '/photos/policy', '<x/>')).code).toBe('MalformedXML');
  });
});

describe('operations on access points', () => {
  test.each([
    [{ Name: 'ab', Bucket: 'bucket' }, 'ValidationError'],
    [{ Name: 'a'.repeat(51), Bucket: 'bucket' }, 'ValidationError'],
    [{ Name: 'Photos', Bucket: 'bucket' }, 'ValidationError'],
    [{ Name: 'pho.tos', Bucket: 'bucket' }, 'ValidationError'],
    [{ Name: '-photos', Bucket: 'bucket' }, 'ValidationError'],
    [{ Name: 'photos-', Bucket: 'bucket' }, 'ValidationError'],
    [{ Name: 'photos-s3alias', Bucket: 'bucket' }, 'ValidationError'],
    [{ Name: 'photos' }, 'ValidationError'],
    [{ Name: 'photos', Bucket: 'bucket', Other: 'x' }, 'ValidationError'],
    [{ Name: 'photos', Bucket: 'none' }, 'NoSuchBucket'],
    [{ Name: 'photos', Bucket: 'bobs' }, 'AccessDenied'],
    [{ Name: 'photos', Bucket: 'bucket', BucketAccountId: 'bob-account' }, 'AccessDenied'],
    [{ Name: 'photos', Bucket: 'bucket', AccountId: 'bob-account' }, 'AccessDenied'],
  ])('refuse %j with %s', async (parameters, code) => {
    await using world = await openGateway(open);
    await world.client.put('/bucket');
    await world.bob.put('/bobs');
    const given = Object.fromEntries(
      Object.entries(parameters).map(([name, value]) => [name, String(value)]),
    );
    expect((await acting(world)('CreateAccessPoint', given)).code).toBe(code);
    expect((await acting(world)('ListAccessPoints')).all('Name')).toEqual([]);
  });

  test('may be for another account’s bucket, whose policy decides about requests through it', async () => {
    await using world = await openGateway(open);
    await world.client.put('/bucket');
    await world.client.put('/bucket/key', { body: 'x' });
    const act = acting(world, bob);
    const made = await must(
      act('CreateAccessPoint', { Name: 'hers', Bucket: 'bucket', BucketAccountId: 'alice-account' }),
    );
    const alias = made.one('Alias');
    expect((await world.bob.get(`/${alias}/key`)).status).toBe(403);
    const delegated = {
      Principal: { AWS: 'bob-account' },
      Action: 's3:GetObject',
      Resource: 'arn:aws:s3:::bucket/*',
    };
    await world.client.put('/bucket?policy', { body: policyOf(delegated) });
    expect((await world.bob.get(`/${alias}/key`)).text).toBe('x');
    expect((await world.client.get(`/${alias}/key`)).status).toBe(403);
    expect((await acting(world)('GetAccessPoint', { Name: 'hers' })).code).toBe('NoSuchAccessPoint');
  });

  test('ask for rights of their own, on the access point', async () => {
    await using world = await openGateway(open);
    await furnished(world);
    const policy = JSON.stringify({
      Version: '2012-10-17',
      Statement: [{ Effect: 'Allow', Action: ['s3:GetAccessPoint', 's3:DeleteAccessPoint'], Resource: arn }],
    });
    const { credential } = await openUser(world, 'carol', { policy });
    const act = acting(world, credential);
    expect((await act('GetAccessPoint', { Name: 'photos' })).status).toBe(200);
    for (const [action, more] of [
      ['CreateAccessPoint', { Bucket: 'bucket' }],
      ['PutAccessPointPolicy', { Policy: policyFor({}) }],
      ['GetAccessPointPolicy', {}],
      ['DeleteAccessPointPolicy', {}],
      ['GetAccessPointPolicyStatus', {}],
    ] as const)
      expect((await act(action, { Name: 'photos', ...more })).code, action).toBe('AccessDenied');
    expect((await act('GetAccessPoint', { Name: 'other' })).code).toBe('AccessDenied');
    expect((await act('ListAccessPoints')).code).toBe('AccessDenied');
    expect((await act('DeleteAccessPoint', { Name: 'photos' })).status).toBe(200);
    expect((await world.anonymous.get('/', { query: { Action: 'ListAccessPoints' } })).code).toBe(
      'MissingAuthenticationToken',
    );
    expect((await controlling(world, bob, 'alice-account')('GET', '')).code).toBe('AccessDenied');
  });

  test('a bucket with access points is not deleted, and deleting one access point does not affect others', async () => {
    await using world = await openGateway(open);
    const alias = await furnished(world);
    await world.client.delete('/bucket/key');
    const kept = await world.client.delete('/bucket');
    expect([kept.status, kept.code]).toEqual([400, 'BucketHasAccessPointsAttached']);
    await must(acting(world)('DeleteAccessPoint', { Name: 'photos' }));
    expect((await world.client.delete('/bucket')).status).toBe(204);
    expect((await world.client.get(`/${alias}/key`)).code).toBe('NoSuchAccessPoint');
  });

  test('an access point whose bucket was deleted and created by another account leads nowhere', async () => {
    await using world = await openGateway(open);
    await world.client.put('/bucket');
    const made = await must(
      acting(world, bob)('CreateAccessPoint', {
        Name: 'hers',
        Bucket: 'bucket',
        BucketAccountId: 'alice-account',
      }),
    );
    await world.client.delete('/bucket');
    await world.bob.put('/bucket', { headers: { '*-acl': 'public-read' } });
    expect((await world.bob.get(`/${made.one('Alias')}`)).code).toBe('NoSuchBucket');
    // Nor does it tell a stranger which bucket it was for.
    const stranger = await world.anonymous.get(`/${made.one('Alias')}`);
    expect([stranger.code, stranger.one('BucketName')]).toEqual(['NoSuchBucket', 'hers']);
  });

  test('neither a bucket nor an access point can take the host name of another account’s access point', async () => {
    await using world = await openGateway(open);
    await furnished(world);
    const bucket = await world.bob.put('/photos-alice-account');
    expect([bucket.status, bucket.code]).toEqual([400, 'InvalidBucketName']);
    // `photos-alice` of an account named `account` would have the same host.
    const account = { ...bob, accessKey: 'KEY-account', owner: 'account' };
    await using other = await openGateway({ ...open, people: [account] });
    await furnished(other);
    await other.as({ credential: account }).put('/theirs');
    const twin = await acting(other, account)('CreateAccessPoint', {
      Name: 'photos-alice',
      Bucket: 'theirs',
    });
    expect([twin.status, twin.code]).toEqual([400, 'InvalidRequest']);
    await other.bob.put('/taken-alice-account');
    const taken = await acting(other)('CreateAccessPoint', { Name: 'taken', Bucket: 'bucket' });
    expect(taken.code).toBe('InvalidRequest');
  });

  test.each(['x-account', 'X-Account'])(
    'the host of an access point belongs to the account with the longest id in it: %s',
    async (owner) => {
      const short = { ...bob, accessKey: 'KEY-short', owner: 'account' };
      const long = { ...bob, accessKey: 'KEY-long', owner };
      await using world = await openGateway({ ...open, people: [short, long] });
      await world.as({ credential: short }).put('/short');
      await world.as({ credential: long }).put('/long');
      const create = (credential: typeof short, Name: string, Bucket: string) =>
        acting(world, credential)('CreateAccessPoint', { Name, Bucket });
      for (const name of ['photos-x', 'a-photos-x']) {
        const taken = await create(short, name, 'short');
        expect([taken.status, taken.code]).toEqual([400, 'InvalidRequest']);
      }
      for (const name of ['photos', 'a-photos']) expect((await create(long, name, 'long')).status).toBe(200);
      for (const name of ['x-photos', 'photos-xx'])
        expect((await create(short, name, 'short')).status).toBe(200);
      // Also where the account is none of the settings.
      const made = await world
        .as({ credential: operator })
        .post('/admin/v1/accounts', { body: JSON.stringify({ account: 'Zoo-account' }) });
      expect(made.status, made.text).toBe(200);
      expect((await create(short, 'photos-zoo', 'short')).code).toBe('InvalidRequest');
    },
  );

  test('a bucket may be called like the version of the API', async () => {
    await using world = await openGateway(open);
    expect((await world.client.put('/v20180820')).status).toBe(200);
    expect((await world.client.put('/v20180820/accesspoint/key', { body: 'x' })).status).toBe(200);
    expect((await world.client.get('/v20180820/accesspoint/key')).text).toBe('x');
    await world.client.put('/bucket');
    // The header of an account alone makes no request of S3 Control.
    const ordinary = await world.client.put('/bucket/accesspoint', {
      headers: { '*-account-id': 'alice-account' },
    });
    expect([ordinary.status, (await world.client.get('/bucket/accesspoint')).status]).toEqual([200, 200]);
    const other = await world.client.get('/v20180820/jobs', { headers: { '*-account-id': 'alice-account' } });
    expect([other.status, other.code]).toEqual([501, 'NotImplemented']);
  });

  test('a signature covers the alias, not the bucket that it stands for', async () => {
    await using world = await openGateway(open);
    const alias = await furnished(world);
    const moved = { tamper: { target: (target: string) => target.replace('/bucket', `/${alias}`) } };
    expect((await world.client.get('/bucket/key', moved)).status).toBe(403);
    expect((await world.client.get(`/${alias}/key`)).status).toBe(200);
  });

  test('an account has ten thousand at most, and another account is not concerned', async () => {
    const account = { ...bob, accessKey: 'KEY-carol', owner: 'carol-account' };
    await using world = await openGateway({ ...open, people: [account] });
    await world.client.put('/bucket');
    const act = acting(world);
    expect((await act('CreateAccessPoint', { Name: 'first', Bucket: 'bucket' })).status).toBe(200);
    const { metadata } = world.context;
    const row = (await findAccessPoint(metadata, 'alice-account', 'first'))?.row;
    if (row === undefined) throw new Error('the access point has no row');
    for (let number = 2; number < 10_000; number += 1)
      await insertAccessPoint(metadata, { ...row, name: `point-${number}`, alias: `alias-${number}` }, []);
    expect((await act('CreateAccessPoint', { Name: 'last', Bucket: 'bucket' })).status).toBe(200);
    const refused = await act('CreateAccessPoint', { Name: 'further', Bucket: 'bucket' });
    expect([refused.status, refused.code]).toEqual([409, 'LimitExceeded']);
    expect(refused.text).toContain('An account has 10000 access points at most.');
    expect((await act('DeleteAccessPoint', { Name: 'point-2' })).status).toBe(200);
    expect((await act('CreateAccessPoint', { Name: 'further', Bucket: 'bucket' })).status).toBe(200);
    await world.as({ credential: account }).put('/other');
    const other = await acting(world, account)('CreateAccessPoint', { Name: 'own', Bucket: 'other' });
    expect(other.status).toBe(200);
  });
});
