/** Authorization must be current although the body of a request is held back. */
import { describe, expect, test } from 'vitest';
import { documents } from '../../src/metadata/buckets/records.ts';
import { objects } from '../../src/metadata/tables.ts';
import type { MetadataStore } from '../../src/ports/metadata-store.ts';
import type { ObjectBytes } from '../../src/ports/object-bytes.ts';
import { blockXml, policyOf } from '../support/access.ts';
import { openActions } from '../support/actions.ts';
import { faulty } from '../support/faulty.ts';
import { bob, type GatewayWorld, openGateway, operator } from '../support/gateway.ts';
import { createUpload, setVersioning } from '../support/gateway-bodies.ts';
import { type HeldRequest, whileHeld } from '../support/held-body.ts';
import { allow, openUser, putPolicy, type TestUser } from '../support/iam-users.ts';
import { virtualClock } from '../support/virtual-clock.ts';

const tagging = '<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>';
const open = policyOf({ Action: 's3:*', Resource: ['arn:aws:s3:::bucket', 'arn:aws:s3:::bucket/*'] });
/** Longer than the time for which a streamed body is stored under the authorization of its first byte. */
const heldMs = 2_000;

const put = (path: string, body: string): HeldRequest => ({ method: 'PUT', path, ask: { body } });
const requests: readonly (readonly [string, HeldRequest])[] = [
  ['PutBucketTagging', put('/bucket?tagging', tagging)],
  ['PutObjectTagging', put('/bucket/key?tagging', tagging)],
  [
    'DeleteObjects',
    {
      method: 'POST',
      path: '/bucket?delete',
      ask: { body: '<Delete><Object><Key>key</Key></Object></Delete>' },
    },
  ],
  ['PutObject', put('/bucket/key', 'new content')],
];

async function openWorld() {
  const clock = virtualClock();
  const world = await openGateway({ clock });
  await world.client.put('/bucket');
  await world.client.put('/bucket/key', { body: 'content' });
  return { world, clock };
}

/** Everything that the request could change. */
const stateOf = async ({ client }: GatewayWorld) => ({
  key: (await client.get('/bucket/key')).text,
  tags: (await client.get('/bucket?tagging')).all('Key'),
  objectTags: (await client.get('/bucket/key?tagging')).all('Key'),
});

describe.each(requests)('a held %s', (_, request) => {
  test('is refused when its key was made inactive meanwhile', async () => {
    const { world, clock } = await openWorld();
    await using _world = world;
    const user = await openUser(world, 'user', { policy: allow('s3:*') });
    const before = await stateOf(world);
    const answer = await whileHeld(world.as({ credential: user.credential }), request, async () => {
      const { accessKey: AccessKeyId } = user.credential;
      const iam = openActions(world);
      expect(
        (await iam('UpdateAccessKey', { UserName: 'user', AccessKeyId, Status: 'Inactive' })).status,
      ).toBe(200);
      await clock.advance(heldMs);
    });
    expect([answer.status, answer.code]).toEqual([403, 'InvalidAccessKeyId']);
    expect(await stateOf(world)).toEqual(before);
  });

  test("is refused when its user's policy was changed meanwhile", async () => {
    const { world, clock } = await openWorld();
    await using _world = world;
    const user = await openUser(world, 'user', { policy: allow('s3:*') });
    const before = await stateOf(world);
    const answer = await whileHeld(world.as({ credential: user.credential }), request, async () => {
      expect((await putPolicy(openActions(world), 'user', allow('s3:ListBucket'))).status).toBe(200);
      await clock.advance(heldMs);
    });
    expect(answer.text).toContain('AccessDenied');
    expect(await stateOf(world)).toEqual(before);
  });

  test('is refused when the bucket policy that allows it was removed, or a public access block was set, meanwhile', async () => {
    for (const change of ['policy', 'publicAccessBlock']) {
      const { world, clock } = await openWorld();
      await using _world = world;
      const { client } = world;
      await client.put('/bucket?policy', { body: open });
      const before = await stateOf(world);
      const answer = await whileHeld(world.bob, request, async () => {
        if (change === 'policy') await client.delete('/bucket?policy');
        else await client.put('/bucket?publicAccessBlock', { body: blockXml('RestrictPublicBuckets') });
        await clock.advance(heldMs);
      });
      expect(answer.text, change).toContain('AccessDenied');
      expect(await stateOf(world)).toEqual(before);
    }
  });

  test('succeeds when nothing has changed meanwhile', async () => {
    const { world, clock } = await openWorld();
    await using _world = world;
    const user = await openUser(world, 'user', { policy: allow('s3:*') });
    const client = world.as({ credential: user.credential });
    const answer = await whileHeld(client, request, () => clock.advance(heldMs));
    expect(answer.status).toBeLessThan(300);
  });
});

describe.each([
  ['CopyObject', ''],
  ['UploadPartCopy', '&partNumber=1'],
])('a %s whose source is read slowly', (_, query) => {
  /** Copies `/bucket/key` as a user. `meanwhile` runs before the first byte of the source is read. */
  async function copyHeld(meanwhile: (held: GatewayWorld, user: TestUser) => Promise<unknown>) {
    const clock = virtualClock();
    const { promise: asked, resolve: begin } = Promise.withResolvers<void>();
    const { promise: released, resolve: release } = Promise.withResolvers<void>();
    const world = await openGateway({
      clock,
      wrap: (context) => {
        const read: ObjectBytes['read'] = async function* (...input) {
          begin();
          await released;
          yield* context.bytes.read(...input);
        };
        return { ...context, bytes: faulty(context.bytes, { read }) };
      },
    });
    await world.client.put('/bucket');
    await world.client.put('/bucket/key', { body: 'content' });
    const user = await openUser(world, 'user', { policy: allow('s3:*') });
    const uploadId = query === '' ? '' : await createUpload(world.client, '/bucket/copy');
    const path = query === '' ? '/bucket/copy' : `/bucket/copy?uploadId=${uploadId}${query}`;
    const headers = { '*-copy-source': '/bucket/key' };
    const answering = world.as({ credential: user.credential }).put(path, { headers });
    const first = await Promise.race([asked, answering]);
    expect(first).toBeUndefined();
    await meanwhile(world, user);
    await clock.advance(heldMs);
    release();
    const answer = await answering;
    const isStored =
      query === ''
        ? (await world.client.get('/bucket/copy')).status === 200
        : (await world.client.get(`/bucket/copy?uploadId=${uploadId}`)).all('PartNumber').length > 0;
    await world.close();
    return { answer, isStored };
  }

  test('is refused when its key was made inactive meanwhile', async () => {
    const { answer, isStored } = await copyHeld((world, { credential: { accessKey: AccessKeyId } }) =>
      openActions(world)('UpdateAccessKey', { UserName: 'user', AccessKeyId, Status: 'Inactive' }),
    );
    expect([answer.status, answer.code, isStored]).toEqual([403, 'InvalidAccessKeyId', false]);
  });

  test('is refused when its user may not write any more', async () => {
    const { answer, isStored } = await copyHeld((world) =>
      putPolicy(openActions(world), 'user', allow('s3:GetObject')),
    );
    expect([answer.status, answer.code, isStored]).toEqual([403, 'AccessDenied', false]);
  });

  test('succeeds when nothing has changed meanwhile', async () => {
    const { answer, isStored } = await copyHeld(async () => {});
    expect([answer.status, isStored]).toEqual([200, true]);
  });
});

test('a held IAM action is refused when its key was made inactive meanwhile', async () => {
  const { world } = await openWorld();
  await using _world = world;
  const user = await openUser(world, 'user', { policy: allow('iam:*') });
  const client = world.as({ credential: user.credential, service: 'iam' });
  const ask = {
    headers: { 'Content-Type': 'application/x-www-form-urlencoded' },
    body: 'Action=CreateUser&UserName=late&Version=2010-05-08',
  };
  const iam = openActions(world);
  const answer = await whileHeld(client, { method: 'POST', path: '/', ask }, () =>
    iam('UpdateAccessKey', { UserName: 'user', AccessKeyId: user.credential.accessKey, Status: 'Inactive' }),
  );
  expect(answer.status).toBe(403);
  expect((await iam('GetUser', { UserName: 'late' })).code).toBe('NoSuchEntity');
});

test('PutBucketPolicy is refused by a public access block that was set while its body was held back', async () => {
  const { world } = await openWorld();
  await using _world = world;
  const { client } = world;
  const answer = await whileHeld(client, put('/bucket?policy', open), () =>
    client.put('/bucket?publicAccessBlock', { body: blockXml('BlockPublicPolicy') }),
  );
  expect([answer.status, answer.code]).toEqual([403, 'AccessDenied']);
  expect((await client.get('/bucket?policy')).status).toBe(404);
});

test.each([
  ['policy', open, 'BlockPublicPolicy'],
  ['acl', undefined, 'BlockPublicAcls'],
] as const)(
  'a public %s is refused by a public access block that was set between its authorization and its commit',
  async (family, body, name) => {
    let between = async (): Promise<unknown> => undefined;
    await using world = await openGateway({
      wrap: (context) => {
        const { metadata } = context;
        const apply: MetadataStore['apply'] = async (changes) => {
          await metadata.apply(changes);
          // The text of the configuration is stored here; the commit that names it follows.
          if (changes.some(({ at }) => at.table === documents)) await between();
        };
        return { ...context, metadata: faulty(metadata, { apply }) };
      },
    });
    const { client } = world;
    await client.put('/bucket', { headers: { '*-object-ownership': 'ObjectWriter' } });
    between = async () => {
      between = async () => undefined;
      expect((await client.put('/bucket?publicAccessBlock', { body: blockXml(name) })).status).toBe(200);
    };
    const answer = await client.put(
      `/bucket?${family}`,
      body === undefined ? { headers: { '*-acl': 'public-read' } } : { body },
    );
    expect([answer.status, answer.code]).toEqual([403, 'AccessDenied']);
    expect((await world.anonymous.get('/bucket')).status).toBe(403);
  },
);

test.each([
  ['PutObjectAcl', '/bucket/key?acl'],
  ['PutObject with a public ACL', '/bucket/key'],
  ['PutObject of a new key with a public ACL', '/bucket/new'],
])(
  '%s is refused by a public access block that was set between its authorization and its commit',
  async (_, path) => {
    let between = async (): Promise<unknown> => undefined;
    await using world = await openGateway({
      wrap: (context) => {
        const { metadata } = context;
        const commit: MetadataStore['commit'] = async (at, changes, options) => {
          // The handler has planned the change of the object's row and commits it next.
          if ((at.table as unknown) === objects) await between();
          return metadata.commit(at, changes, options);
        };
        return { ...context, metadata: faulty(metadata, { commit }) };
      },
    });
    const { client } = world;
    await client.put('/bucket', { headers: { '*-object-ownership': 'ObjectWriter' } });
    await client.put('/bucket/key', { body: 'content' });
    let blocked: number | undefined;
    between = async () => {
      between = async () => undefined;
      blocked = (await client.put('/bucket?publicAccessBlock', { body: blockXml('BlockPublicAcls') })).status;
    };
    const answer = await client.put(path, { headers: { '*-acl': 'public-read' } });
    expect([blocked, answer.status, answer.code]).toEqual([200, 403, 'AccessDenied']);
    expect((await world.anonymous.get(path.replace('?acl', ''))).status).toBe(403);
    expect((await client.get('/bucket/key')).text).toBe('content');
  },
);

test('an object whose body was held back while versioning was enabled is a version of its own', async () => {
  const { world, clock } = await openWorld();
  await using _world = world;
  const answer = await whileHeld(world.client, put('/bucket/key', 'new content'), async () => {
    await setVersioning(world.client, 'bucket', 'Enabled');
    await clock.advance(heldMs);
  });
  expect(answer.status).toBe(200);
  expect((await world.client.get('/bucket?versions')).all('VersionId')).toHaveLength(2);
});

describe('the time that a body may take', () => {
  test('a configuration whose body does not arrive within SVC_BODY_TIMEOUT is refused, and its memory is released', async () => {
    const clock = virtualClock();
    await using world = await openGateway({ clock, settings: { SVC_BODY_TIMEOUT: '10s' } });
    await world.client.put('/bucket');
    const { promise: never } = Promise.withResolvers<void>();
    const answering = world.client.put('/bucket?tagging', {
      body: tagging,
      async *arriving(body) {
        yield body.subarray(0, 10);
        await never;
      },
    });
    await clock.settle();
    await clock.advance(10_000);
    const answer = await answering;
    expect([answer.status, answer.code]).toEqual([400, 'RequestTimeout']);
  });

  test('an object that arrives below SVC_BODY_RATE_MIN is refused, and one that arrives at that rate is stored', async () => {
    const clock = virtualClock();
    await using world = await openGateway({ clock, settings: { SVC_BODY_RATE_MIN: '1KiB' } });
    await world.client.put('/bucket');
    for (const [piece, status] of [
      [512, 400],
      [1024, 200],
    ] as const) {
      const answering = world.client.put('/bucket/key', {
        body: Buffer.alloc(piece * 100),
        async *arriving(body) {
          for (let at = 0; at < body.length; at += piece) {
            await clock.sleep(1_000);
            yield body.subarray(at, at + piece);
          }
        },
      });
      for (let second = 0; second < 110; second += 1) await clock.advance(1_000);
      const answer = await answering;
      expect([answer.status, answer.code]).toEqual([status, status === 200 ? '' : 'RequestTimeout']);
    }
  });

  test('the body of a request that is refused in any case is not read', async () => {
    const { world } = await openWorld();
    await using _world = world;
    let isRead = false;
    const arriving = async function* (body: Uint8Array) {
      isRead = true;
      yield body;
    };
    for (const { method, path, ask } of [
      put('/new', '<CreateBucketConfiguration/>'),
      ...requests.map(([, request]) => request),
    ]) {
      const answer = await world.anonymous.send(method, path, { ...ask, arriving });
      expect([answer.status, isRead], path).toEqual([403, false]);
    }
    const stranger = world.as({ credential: bob });
    expect((await stranger.put('/bucket?policy', { body: open, arriving })).status).toBe(403);
    expect(isRead).toBe(false);
  });
});

describe('a held request of the operator API', () => {
  const quota: HeldRequest = {
    method: 'PUT',
    path: '/admin/v1/buckets/bucket/quota',
    ask: {
      body: '{"maxBytesPerObject":0,"maxBytes":7,"maxObjects":0}',
      headers: { 'content-type': 'application/json' },
    },
  };

  test("is refused when its user's policy was changed meanwhile", async () => {
    const { world } = await openWorld();
    await using _world = world;
    const user = await openUser(world, 'user', { root: operator, policy: allow('admin:*') });
    const client = world.as({ credential: user.credential });
    const held = await whileHeld(client, quota, async () => {
      const iam = openActions(world, { credential: operator });
      expect((await putPolicy(iam, 'user', allow('admin:Get*'))).status).toBe(200);
    });
    expect(held.status).toBe(403);
    expect((await client.get(quota.path)).status).toBe(404);
  });

  test('is refused when its log-in was revoked meanwhile, and else applies', async () => {
    const { world } = await openWorld();
    await using _world = world;
    const { accessKey, secretKey } = operator;
    const admin = world.as({ credential: operator });
    const openBrowser = async () => {
      const reply = await world.anonymous.post('/admin/v1/session', {
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ accessKey, secretKey }),
      });
      const cookie = (reply.header('set-cookie') ?? '').split(';')[0] ?? '';
      const csrf = (JSON.parse(reply.text) as { csrfToken: string }).csrfToken;
      return { ...quota, ask: { ...quota.ask, headers: { cookie, 'x-csrf-token': csrf } } };
    };
    const revoked = await whileHeld(world.anonymous, await openBrowser(), () =>
      admin.delete('/admin/v1/logins'),
    );
    expect(revoked.status).toBe(403);
    expect((await admin.get(quota.path)).status).toBe(404);
    expect((await whileHeld(world.anonymous, await openBrowser(), async () => {})).status).toBe(204);
  });
});
