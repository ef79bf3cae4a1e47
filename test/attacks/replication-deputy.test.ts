/** The credentials of a replication peer act for the accounts that the operator lists, in their own buckets, under their own roles. */
import { describe, expect, test, vi } from 'vitest';
import { policyOf } from '../support/access.ts';
import { openActions } from '../support/actions.ts';
import { operatorOf } from '../support/clusters.ts';
import { encryptingSettings, provider } from '../support/encryption.ts';
import { alice, bob, operator } from '../support/gateway.ts';
import { setVersioning } from '../support/gateway-bodies.ts';
import type { Answer, Client } from '../support/gateway-client.ts';
import { allow, must, openUser, trusting } from '../support/iam-users.ts';
import { makeRole, replicating, replicationService, roleArnOf } from '../support/replication-role.ts';
import {
  keys,
  openSite,
  refusal,
  run,
  type Site,
  settings,
  settled,
  until,
} from '../support/replication-sites.ts';
import { serveStub } from '../support/server-stub.ts';

const { accessKey, secretKey } = keys;

/** A rule of `/bucket`, or of another one, to a bucket at the peer `far`. */
const putRule = (
  client: Client,
  to: string,
  { role, bucket = 'bucket', more = '' }: { role: string; bucket?: string; more?: string },
): Promise<Answer> =>
  client.put(`/${bucket}?replication`, {
    body: `<ReplicationConfiguration><Role>${role}</Role><Rule><ID>r</ID><Priority>1</Priority><Filter/>
      <Status>Enabled</Status><Destination><Bucket>arn:sluice:replication::far:${to}</Bucket>${more}</Destination>
      <DeleteMarkerReplication><Status>Enabled</Status></DeleteMarkerReplication></Rule></ReplicationConfiguration>`,
  });

const putPeer = (near: Site, far: { readonly endpoint: string }, accounts?: readonly object[]) =>
  operatorOf(near.world).must('PUT', '/replication/peers/far', {
    ...{ accessKey, secretKey, endpoint: far.endpoint },
    ...(accounts === undefined ? {} : { accounts }),
  });

/** Two sites. At each, `/bucket` is alice's and `/bobs` is bob's; the keys of the peer may write into both. */
async function openSites(): Promise<{ near: Site; far: Site }> {
  const [near, far] = [await openSite(), await openSite()];
  for (const { world } of [near, far]) {
    await world.bob.put('/bobs');
    await setVersioning(world.bob, 'bobs', 'Enabled');
  }
  await makeRole(near.world, { root: bob });
  await far.world.bob.put('/bobs?policy', {
    body: policyOf({
      Principal: { AWS: 'alice-account' },
      Action: ['s3:ReplicateObject', 's3:ReplicateDelete', 's3:ReplicateTags'],
      Resource: 'arn:aws:s3:::bobs/*',
    }),
  });
  return { near, far };
}
const roles = { alice: roleArnOf(alice.owner), bob: roleArnOf(bob.owner) };

const failures = async (near: Site): Promise<readonly string[]> => {
  const { failed } = (await operatorOf(near.world).must('GET', '/replication/failed')) as {
    failed: readonly { readonly error: string }[];
  };
  return failed.map(({ error }) => error);
};
const refused = (answer: Answer, text: string): void => {
  expect([answer.status, answer.code], answer.text).toEqual([400, 'InvalidArgument']);
  expect(answer.text).toContain(text);
};

describe('a peer', () => {
  test('without accounts serves none of several', async () => {
    const { near, far } = await openSites();
    await putPeer(near, far);
    refused(await putRule(near.world.bob, 'bucket', { role: roles.bob, bucket: 'bobs' }), 'does not serve');
    refused(await putRule(near.world.client, 'bucket', { role: roles.alice }), 'does not serve');
    await putPeer(near, far, []);
    refused(await putRule(near.world.client, 'bucket', { role: roles.alice }), 'does not serve');
  });

  test('without accounts serves the only account, whose rules name any role, as before an upgrade', async () => {
    const far = await openSite();
    const near = await openSite({
      wrap: (context) => ({
        ...context,
        credentials: {
          ...context.credentials,
          soleAccount: alice.owner,
        },
      }),
    });
    await putPeer(near, far);
    const role = 'arn:aws:iam::123456789012:role/any';
    expect((await putRule(near.world.client, 'bucket', { role })).status).toBe(200);
    run(near);
    await near.world.client.put('/bucket/key', { body: 'x' });
    await settled(near, '/bucket/key', 'COMPLETED');
  });

  test('serves the accounts of its list, with buckets that are theirs', async () => {
    const { near, far } = await openSites();
    await putPeer(near, far, [{ account: alice.owner }]);
    refused(await putRule(near.world.bob, 'bobs', { role: roles.bob, bucket: 'bobs' }), 'does not serve');
    expect((await putRule(near.world.client, 'bucket', { role: roles.alice })).status).toBe(200);
    await putPeer(near, far, [{ account: '*' }]);
    const foreign = await putRule(near.world.bob, 'bucket', { role: roles.bob, bucket: 'bobs' });
    refused(foreign, 'does not belong');
    const own = await putRule(near.world.bob, 'bobs', { role: roles.bob, bucket: 'bobs' });
    expect(own.status, own.text).toBe(200);
    run(near);
    await near.world.bob.put('/bobs/key', { body: 'x' });
    await vi.waitFor(async () => expect((await far.world.bob.get('/bobs/key')).text).toBe('x'), until);
  });

  test('maps accounts to those of its own, and bounds their buckets', async () => {
    const { near, far } = await openSites();
    await putPeer(near, far, [{ account: bob.owner, bucketOwner: alice.owner, buckets: ['buck*'] }]);
    expect((await putRule(near.world.bob, 'bucket', { role: roles.bob, bucket: 'bobs' })).status).toBe(200);
    refused(await putRule(near.world.bob, 'bobs', { role: roles.bob, bucket: 'bobs' }), 'does not take');
    await putPeer(near, far, [{ account: bob.owner, bucketOwner: alice.owner }]);
    refused(await putRule(near.world.bob, 'bobs', { role: roles.bob, bucket: 'bobs' }), 'does not belong');
    const given = (account: string) =>
      putRule(near.world.bob, 'bucket', {
        ...{ role: roles.bob, bucket: 'bobs' },
        more: `<Account>${account}</Account><AccessControlTranslation><Owner>Destination</Owner></AccessControlTranslation>`,
      });
    refused(await given('third-account'), 'gives versions to account third-account');
    expect((await given(alice.owner)).status).toBe(200);
  });

  test('that is no gateway proves no owner, so that its operator lists the buckets', async () => {
    const { near } = await openSites();
    const answered: string[] = [];
    const { port } = await serveStub(async ({ wire: { method, target } }) => {
      answered.push(`${method} ${target}`);
      if (target.includes('?replica')) return refusal(400, 'InvalidArgument');
      return { status: 200, headers: [['etag', '"x"']], body: '' };
    });
    const service = { endpoint: `http://127.0.0.1:${port}` };
    await putPeer(near, service, [{ account: alice.owner }]);
    refused(await putRule(near.world.client, 'copies', { role: roles.alice }), 'does not prove');
    await putPeer(near, service, [{ account: alice.owner, buckets: ['copies'] }]);
    expect((await putRule(near.world.client, 'copies', { role: roles.alice })).status).toBe(200);
    run(near);
    await near.world.client.put('/bucket/key', { body: 'x' });
    await settled(near, '/bucket/key', 'COMPLETED');
    await putPeer(near, service, [{ account: alice.owner }]);
    await near.world.client.put('/bucket/later', { body: 'x' });
    await settled(near, '/bucket/later', 'FAILED');
    expect(await failures(near)).toEqual([expect.stringContaining('does not prove')]);
    expect(answered.filter((each) => each.startsWith('PUT')).map((each) => each.split('?')[0])).toEqual([
      'PUT /copies/key',
    ]);
  });

  test('that is no gateway uses those of its keys for an account that its operator lists', async () => {
    const near = await openSite({ settings: { ...settings, ...(await encryptingSettings()) } });
    const used: string[] = [];
    const { port } = await serveStub(async ({ wire: { method, target, headers } }) => {
      if (target.includes('?replica')) return refusal(400, 'InvalidArgument');
      if (method === 'PUT') used.push(headers.get('x-amz-server-side-encryption-aws-kms-key-id') ?? '');
      return { status: 200, headers: [['etag', '"x"']], body: '' };
    });
    const serve = (keysOfPeer?: readonly string[]) =>
      putPeer(near, { endpoint: `http://127.0.0.1:${port}` }, [
        { account: alice.owner, buckets: ['copies'], ...(keysOfPeer && { keys: keysOfPeer }) },
      ]);
    const operators = 'arn:aws:kms:eu-west-1:111122223333:key/operators';
    const own = 'arn:aws:kms:eu-west-1:111122223333:key/alice-1';
    const putKeyed = (key: string) =>
      near.world.client.put('/bucket?replication', {
        body: `<ReplicationConfiguration><Role>${roles.alice}</Role><Rule><ID>r</ID><Priority>1</Priority><Filter/>
          <Status>Enabled</Status><SourceSelectionCriteria><SseKmsEncryptedObjects><Status>Enabled</Status></SseKmsEncryptedObjects></SourceSelectionCriteria>
          <Destination><Bucket>arn:sluice:replication::far:copies</Bucket><EncryptionConfiguration><ReplicaKmsKeyID>${key}</ReplicaKmsKeyID></EncryptionConfiguration></Destination>
          <DeleteMarkerReplication><Status>Enabled</Status></DeleteMarkerReplication></Rule></ReplicationConfiguration>`,
      });
    await serve();
    refused(await putKeyed(own), 'does not use the key');
    await serve(['arn:aws:kms:eu-west-1:111122223333:key/alice-*']);
    refused(await putKeyed(operators), 'does not use the key');
    expect((await putKeyed(own)).status).toBe(200);
    run(near);
    const put = (path: string) => near.world.client.put(path, { body: 'x', headers: provider('first') });
    await put('/bucket/key');
    await settled(near, '/bucket/key', 'COMPLETED');
    // Keys are asked about at each delivery too.
    await serve([]);
    await put('/bucket/later');
    await settled(near, '/bucket/later', 'FAILED');
    expect(await failures(near)).toEqual([expect.stringContaining('does not use the key')]);
    expect(used).toEqual([own]);
  });

  test('that serves other accounts is answered for as one that does not exist', async () => {
    const { near, far } = await openSites();
    const { bob: client } = near.world;
    const ask = async (arn: string): Promise<readonly unknown[]> => {
      const body = `<ReplicationConfiguration><Role>${roles.bob}</Role><Rule><ID>r</ID><Prefix/><Status>Enabled</Status><Destination><Bucket>${arn}</Bucket></Destination></Rule></ReplicationConfiguration>`;
      const { status, code, text } = await client.put('/bobs?replication', { body });
      return [status, code, text.replace(/<(RequestId|HostId)>\w+/g, '')];
    };
    const arns = ['arn:sluice:replication::far:bobs', 'arn:aws:s3:::bobs'];
    const absent = [await ask(arns[0] ?? ''), await ask(arns[1] ?? '')];
    expect(absent.map(([status]) => status)).toEqual([400, 400]);
    for (const accounts of [undefined, [], [{ account: alice.owner }]])
      for (const [index, peer] of ['far', 'default'].entries()) {
        const entry = accounts === undefined ? {} : { accounts };
        const peerOf = { accessKey, secretKey, endpoint: far.endpoint, ...entry };
        await operatorOf(near.world).must('PUT', `/replication/peers/${peer}`, peerOf);
        expect(await ask(arns[index] ?? '')).toEqual(absent[index]);
      }
  });

  test('has an accounts list that is checked', async () => {
    const near = await openSite();
    const put = (accounts: unknown) =>
      operatorOf(near.world).ask('PUT', '/replication/peers/far', {
        ...{ accessKey, secretKey, endpoint: 'http://127.0.0.1:1' },
        accounts,
      });
    for (const wrong of [
      [{}],
      [{ account: 'a b' }],
      ['*'],
      [{ account: 'a', buckets: ['a*b'] }],
      [{ account: 'a', bucketOwner: '' }],
      [{ account: 'a' }, { account: 'a' }],
    ])
      expect([wrong, (await put(wrong)).status]).toEqual([wrong, 400]);
    const accounts = [{ account: 'a', bucketOwner: 'b', buckets: ['c', 'd-*'] }];
    expect((await put(accounts)).status).toBe(200);
    expect(await operatorOf(near.world).must('GET', '/replication/peers/far')).toMatchObject({ accounts });
  });
});

test('an operator whose policies deny an account lets it use no peer', async () => {
  const near = await openSite();
  const Statement = [
    { Effect: 'Allow', Action: 'admin:*', Resource: '*' },
    { Effect: 'Deny', Action: 'admin:*', Resource: 'arn:aws:admin:::accounts/bob-account/*' },
  ];
  const policy = JSON.stringify({ Version: '2012-10-17', Statement });
  const { credential } = await openUser(near.world, 'ops', { root: operator, policy });
  const put = (account: string) =>
    near.world.as({ credential }).put('/admin/v1/replication/peers/far', {
      body: JSON.stringify({ accessKey, secretKey, endpoint: 'http://127.0.0.1:1', accounts: [{ account }] }),
    });
  expect((await put('bob-account')).status).toBe(403);
  expect((await put('alice-account')).status).toBe(200);
});

describe('the role of a rule', () => {
  const source = 's3:GetObjectVersionForReplication';

  test('is of the account of the bucket, exists, trusts the service, and allows what the rule does', async () => {
    const { near, far } = await openSites();
    await putPeer(near, far, [{ account: '*' }]);
    const { client } = near.world;
    const elsewhere = trusting({ Service: 'ec2.amazonaws.com' });
    const conditional = trusting(replicationService, {
      StringEquals: { 'aws:SourceAccount': 'bob-account' },
    });
    const without = (action: string) => replicating.filter((each) => each !== action);
    const cases = [
      [roles.bob, 'has no role'],
      [roleArnOf(alice.owner, 'missing'), 'has no role'],
      ['arn:aws:iam::123456789012:role/replication', 'has no role'],
      [await makeRole(near.world, { name: 'untrusting', trust: elsewhere }), 'does not trust'],
      [await makeRole(near.world, { name: 'others', trust: conditional }), 'does not trust'],
      [await makeRole(near.world, { name: 'blind', actions: without(source) }), source],
      [
        await makeRole(near.world, { name: 'mute', actions: without('s3:ReplicateObject') }),
        's3:ReplicateObject',
      ],
      [
        await makeRole(near.world, { name: 'half', actions: without('s3:ReplicateDelete') }),
        's3:ReplicateDelete',
      ],
      [
        await makeRole(near.world, { name: 'narrow', resource: 'arn:aws:s3:::bucket/*' }),
        's3:ReplicateObject on arn:aws:s3:::bucket-2/*',
      ],
    ] as const;
    await far.world.client.put('/bucket-2');
    for (const [role, text] of cases) refused(await putRule(client, 'bucket-2', { role }), text);
    expect((await putRule(client, 'bucket-2', { role: roles.alice })).status).toBe(200);
    // A Deny of the source's policy counts.
    await client.put('/bucket?policy', {
      body: policyOf({ Effect: 'Deny', Principal: '*', Action: source, Resource: 'arn:aws:s3:::bucket/*' }),
    });
    refused(await putRule(client, 'bucket', { role: roles.alice }), source);
  });

  test('is named by those who may pass it', async () => {
    const { near, far } = await openSites();
    await putPeer(near, far, [{ account: '*' }]);
    const carol = await openUser(near.world, 'carol', { policy: allow('s3:PutReplicationConfiguration') });
    const put = () =>
      putRule(near.world.as({ credential: carol.credential }), 'bucket', { role: roles.alice });
    const denied = await put();
    expect([denied.status, denied.code]).toEqual([403, 'AccessDenied']);
    expect(denied.text).toContain('iam:PassRole');
    const iam = openActions(near.world);
    const PolicyDocument = JSON.stringify({
      Version: '2012-10-17',
      Statement: [
        {
          Effect: 'Allow',
          Action: 'iam:PassRole',
          Resource: roles.alice,
          Condition: { StringEquals: { 'iam:PassedToService': 's3.amazonaws.com' } },
        },
      ],
    });
    await must(iam('PutUserPolicy', { UserName: 'carol', PolicyName: 'pass', PolicyDocument }));
    expect((await put()).status).toBe(200);
    // A caller of another account lends no role of the bucket's account.
    await near.world.client.put('/bucket?policy', {
      body: policyOf({
        Principal: { AWS: 'bob-account' },
        Action: 's3:PutReplicationConfiguration',
        Resource: 'arn:aws:s3:::bucket',
      }),
    });
    expect((await putRule(near.world.bob, 'bucket', { role: roles.alice })).code).toBe('AccessDenied');
  });
});

describe('a version that waits', () => {
  /** Alice's rule is stored, and a version waits; then something changes, and the replicator runs. */
  async function failsAfter(change: (near: Site, far: Site) => Promise<unknown>): Promise<string> {
    const { near, far } = await openSites();
    await putPeer(near, far, [{ account: '*' }]);
    expect((await putRule(near.world.client, 'bucket', { role: roles.alice })).status).toBe(200);
    expect((await putRule(near.world.bob, 'bobs', { role: roles.bob, bucket: 'bobs' })).status).toBe(200);
    await near.world.client.put('/bucket/key', { body: 'x', headers: { '*-tagging': 't=1' } });
    await change(near, far);
    run(near);
    await settled(near, '/bucket/key', 'FAILED');
    expect(far.taken).toEqual([]);
    // It is not tried again, and holds up nobody.
    await near.world.bob.put('/bobs/key', { body: 'x' });
    await vi.waitFor(async () => expect((await far.world.bob.get('/bobs/key')).text).toBe('x'), until);
    const [error = '', ...others] = await failures(near);
    expect(others).toEqual([]);
    return error;
  }
  const iam = ({ world }: Site) => openActions(world);

  test('is refused when the peer no longer serves its account', async () => {
    const error = await failsAfter((near, far) => putPeer(near, far, [{ account: bob.owner }]));
    expect(error).toContain('does not serve account alice-account');
  });

  test('is refused when its role is gone, trusts no longer, or allows less', async () => {
    const gone = await failsAfter(async (near) => {
      await must(iam(near)('DeleteRolePolicy', { RoleName: 'replication', PolicyName: 'replicate' }));
      await must(iam(near)('DeleteRole', { RoleName: 'replication' }));
    });
    expect(gone).toContain('has no role');
    const PolicyDocument = trusting({ Service: 'ec2.amazonaws.com' });
    const untrusting = await failsAfter((near) =>
      must(iam(near)('UpdateAssumeRolePolicy', { RoleName: 'replication', PolicyDocument })),
    );
    expect(untrusting).toContain('does not trust');
    const less = allow(...replicating.filter((action) => action !== 's3:ReplicateTags'));
    const untagged = await failsAfter((near) =>
      must(
        iam(near)('PutRolePolicy', {
          RoleName: 'replication',
          PolicyName: 'replicate',
          PolicyDocument: less,
        }),
      ),
    );
    expect(untagged).toContain('may not do s3:ReplicateTags on arn:aws:s3:::bucket/key');
  });

  test('is refused when the bucket at the peer has another owner, also where the peer was silent when the rule was stored', async () => {
    const error = await failsAfter(async (_near, far) => {
      await far.world.client.put('/bucket?policy', {
        body: policyOf({
          Principal: { AWS: 'alice-account' },
          Action: 's3:Replicate*',
          Resource: 'arn:aws:s3:::bucket/*',
        }),
      });
      await operatorOf(far.world).must('PUT', '/buckets/bucket/owner', { owner: 'bob-account' });
    });
    expect(error).toContain('does not belong to account alice-account');
    const { near, far } = await openSites();
    await putPeer(near, far, [{ account: '*' }]);
    far.instead = () => refusal(503, 'SlowDown');
    const put = await putRule(near.world.bob, 'bucket', { role: roles.bob, bucket: 'bobs' });
    expect(put.status, put.text).toBe(200);
    far.instead = undefined;
    await putRule(near.world.client, 'bucket', { role: roles.alice });
    run(near);
    await near.world.bob.put('/bobs/stolen', { body: 'x' });
    await near.world.client.put('/bucket/own', { body: 'x' });
    await settled(near, '/bucket/own', 'COMPLETED');
    await vi.waitFor(async () => {
      const head = await near.world.bob.head('/bobs/stolen');
      expect(head.header('*-replication-status')).toBe('FAILED');
    }, until);
    expect((await far.world.client.get('/bucket/stolen')).status).toBe(404);
  });

  test('is sent after its cause was corrected, and a retry', async () => {
    const { near, far } = await openSites();
    await putPeer(near, far, [{ account: '*' }]);
    await putRule(near.world.client, 'bucket', { role: roles.alice });
    await putPeer(near, far, []);
    run(near);
    await near.world.client.put('/bucket/key', { body: 'x' });
    await settled(near, '/bucket/key', 'FAILED');
    await putPeer(near, far, [{ account: '*' }]);
    await operatorOf(near.world).must('POST', '/replication/retry', { bucket: 'bucket' });
    await settled(near, '/bucket/key', 'COMPLETED');
  });
});

test('each request to a gateway names the account that must own its bucket', async () => {
  const { near, far } = await openSites();
  await putPeer(near, far, [{ account: '*' }]);
  await putRule(near.world.client, 'bucket', { role: roles.alice });
  const named = new Set<string | undefined>();
  far.instead = (method, target, headers) => {
    if (method !== 'GET' || !target.endsWith('?replica='))
      named.add(headers.get('x-amz-expected-bucket-owner'));
    return undefined;
  };
  run(near);
  await near.world.client.put('/bucket/key', { body: 'x' });
  await near.world.client.put('/bucket/large', { body: 'x'.repeat(2 * 1024 * 1024) });
  await near.world.client.delete('/bucket/key');
  await settled(near, '/bucket/large', 'COMPLETED');
  expect([...named]).toEqual(['alice-account']);
});
