/** Reads of missing keys and versions: the right to list the bucket decides between 404 and 403 (public API). */
import { describe, expect, test } from 'vitest';
import { aclXml, policyOf } from '../support/access.ts';
import { type GatewayWorld, openGateway } from '../support/gateway.ts';
import type { Answer, Client } from '../support/gateway-client.ts';
import { allow, openUser } from '../support/iam-users.ts';

type Read = (client: Client, path: string, versionId?: string) => Promise<Answer>;

const get =
  (subresource: string, headers: Readonly<Record<string, string>> = {}): Read =>
  (client, path, versionId) => {
    const query = [subresource, versionId === undefined ? '' : `versionId=${versionId}`].filter(Boolean);
    return client.get(query.length === 0 ? path : `${path}?${query.join('&')}`, { headers });
  };
const sourceOf = (path: string, versionId?: string) => ({
  '*-copy-source': versionId === undefined ? path : `${path}?versionId=${versionId}`,
});

const reads: readonly (readonly [name: string, read: Read])[] = [
  ['GetObject', get('')],
  ['GetObjectAttributes', get('attributes', { '*-object-attributes': 'ETag' })],
  ['GetObjectTagging', get('tagging')],
  ['GetObjectAcl', get('acl')],
  ['GetObjectRetention', get('retention')],
  ['GetObjectLegalHold', get('legal-hold')],
  [
    'CopyObject from there',
    (client, path, versionId) => client.put('/copies/copy', { headers: sourceOf(path, versionId) }),
  ],
];

interface Subject {
  readonly world: GatewayWorld;
  /** The version id of an existing object under another key. */
  readonly versionId: string;
  readonly callers: Readonly<Record<string, Client>>;
}

/** `/bucket` grants bob READ by its ACL, `/closed` grants nothing, and every caller may write into `/copies`. */
async function openSubject(): Promise<Subject> {
  const world = await openGateway();
  const { client, bob, anonymous } = world;
  const ownership = { '*-object-ownership': 'ObjectWriter' };
  for (const bucket of ['bucket', 'closed'])
    await client.put(`/${bucket}`, { headers: { ...ownership, '*-bucket-object-lock-enabled': 'true' } });
  await client.put('/bucket?acl', { body: aclXml('alice-account', 'bob-account READ') });
  await client.put('/copies', { headers: ownership });
  const Resource = 'arn:aws:s3:::copies/*';
  await client.put('/copies?policy', { body: policyOf({ Action: 's3:PutObject', Resource }) });
  const put = await client.put('/bucket/there', { body: 'content' });
  await client.put('/closed/there', { body: 'content' });
  const userOf = async (name: string, ...actions: readonly string[]) =>
    world.as({
      credential: (await openUser(world, name, { policy: allow('s3:PutObject', ...actions) })).credential,
    });
  return {
    world,
    versionId: put.header('*-version-id') ?? '',
    callers: {
      owner: client,
      lister: await userOf('lister', 's3:ListBucket'),
      'reader and lister': await userOf('both', 's3:ListBucket', 's3:GetObject*'),
      reader: await userOf('reader', 's3:GetObject*'),
      user: await userOf('user'),
      bob,
      anonymous,
    },
  };
}

const callerOf = ({ callers }: Subject, name: string): Client => {
  const caller = callers[name];
  if (caller === undefined) throw new Error(`no caller ${name}`);
  return caller;
};
const mayList = ['owner', 'lister', 'reader and lister', 'bob'];
const mayNotList = ['reader', 'user', 'anonymous'];

/** The answer that a caller gets, without the names that the caller sent. */
const seen = (answer: Answer, key: string): readonly unknown[] => [
  answer.status,
  answer.code,
  answer.one('Message')?.replaceAll(key, 'KEY'),
];

describe.each(reads)('%s', (_, read) => {
  test('of a missing key is 404 to callers who may list the bucket, and 403 to others', async () => {
    const subject = await openSubject();
    await using _world = subject.world;
    for (const name of mayList) {
      const answer = await read(callerOf(subject, name), '/bucket/absent');
      expect([answer.status, answer.code], name).toEqual([404, 'NoSuchKey']);
    }
    for (const name of mayNotList) {
      const answer = await read(callerOf(subject, name), '/bucket/absent');
      expect([answer.status, answer.code], name).toEqual([403, 'AccessDenied']);
    }
    const elsewhere = await read(callerOf(subject, 'bob'), '/closed/absent');
    expect([elsewhere.status, elsewhere.code]).toEqual([403, 'AccessDenied']);
  });

  test('of a missing version is 404 to callers who may list the bucket, and 403 to others', async () => {
    const subject = await openSubject();
    await using _world = subject.world;
    const { versionId } = subject;
    for (const [key, id] of [
      ['absent', versionId],
      ['there', 'null'],
    ] as const) {
      for (const name of mayList) {
        const answer = await read(callerOf(subject, name), `/bucket/${key}`, id);
        expect([answer.status, answer.code], name).toEqual([404, 'NoSuchVersion']);
      }
      for (const name of mayNotList) {
        const answer = await read(callerOf(subject, name), `/bucket/${key}`, id);
        expect([answer.status, answer.code], name).toEqual([403, 'AccessDenied']);
      }
    }
  });

  test('of a key behind a delete marker is 404 to callers who may list the bucket, and 403 to others', async () => {
    const subject = await openSubject();
    await using _world = subject.world;
    await subject.world.client.delete('/bucket/there');
    for (const name of mayList) {
      const answer = await read(callerOf(subject, name), '/bucket/there');
      expect([answer.status, answer.code], name).toEqual([404, 'NoSuchKey']);
    }
    for (const name of mayNotList)
      expect((await read(callerOf(subject, name), '/bucket/there')).status, name).toBe(403);
  });

  test('answers a caller who may neither list nor read alike for existing and missing keys', async () => {
    const subject = await openSubject();
    await using _world = subject.world;
    for (const [name, bucket] of [
      ['user', 'bucket'],
      ['anonymous', 'bucket'],
      ['bob', 'closed'],
    ] as const) {
      const caller = callerOf(subject, name);
      const there = await read(caller, `/${bucket}/there`);
      const absent = await read(caller, `/${bucket}/absent`);
      expect(there.status, name).toBe(403);
      expect(seen(absent, 'absent'), name).toEqual(seen(there, 'there'));
    }
  });

  test('of a missing key is 403 where a policy denies it, also to callers who may list the bucket', async () => {
    const subject = await openSubject();
    await using _world = subject.world;
    const statement = { Effect: 'Deny', Action: 's3:GetObject*', Resource: 'arn:aws:s3:::bucket/*' } as const;
    await subject.world.client.put('/bucket?policy', { body: policyOf(statement) });
    for (const name of ['lister', 'reader and lister', 'bob']) {
      const answer = await read(callerOf(subject, name), '/bucket/absent');
      expect([answer.status, answer.code], name).toEqual([403, 'AccessDenied']);
    }
  });

  test('of what is there is refused to callers who may only list the bucket', async () => {
    const subject = await openSubject();
    await using _world = subject.world;
    for (const name of ['lister', 'bob'])
      for (const id of [undefined, subject.versionId]) {
        const answer = await read(callerOf(subject, name), '/bucket/there', id);
        expect([answer.status, answer.code], name).toEqual([403, 'AccessDenied']);
      }
  });
});

test('HeadObject of a missing key or version is 404 to callers who may list the bucket, and 403 to others', async () => {
  const subject = await openSubject();
  await using _world = subject.world;
  const paths = ['/bucket/absent', `/bucket/absent?versionId=${subject.versionId}`];
  for (const path of paths) {
    for (const name of mayList) expect((await callerOf(subject, name).head(path)).status, name).toBe(404);
    for (const name of mayNotList) expect((await callerOf(subject, name).head(path)).status, name).toBe(403);
  }
});

test('conditions on s3:prefix are about the key, whatever the query names', async () => {
  await using world = await openGateway();
  const { client } = world;
  await client.put('/bucket');
  await client.put('/copies');
  for (const path of ['/bucket/public/there', '/bucket/secret/there']) await client.put(path, { body: 'x' });
  const policy = JSON.stringify({
    Version: '2012-10-17',
    Statement: [
      {
        Effect: 'Allow',
        Action: 's3:ListBucket',
        Resource: 'arn:aws:s3:::bucket',
        Condition: { StringLike: { 's3:prefix': ['public/*'] } },
      },
      { Effect: 'Allow', Action: 's3:PutObject', Resource: '*' },
      { Effect: 'Allow', Action: 's3:GetObject', Resource: 'arn:aws:s3:::bucket/read/*' },
    ],
  });
  const carol = world.as({ credential: (await openUser(world, 'carol', { policy })).credential });
  for (const [, read] of reads) {
    expect((await read(carol, '/bucket/public/missing')).status).toBe(404);
    expect((await read(carol, '/bucket/secret/missing')).status).toBe(403);
    expect((await read(carol, '/bucket/public/there')).status).toBe(403);
  }
  for (const query of ['prefix=public/', 'prefix=public/missing']) {
    expect((await carol.head(`/bucket/secret/missing?${query}`)).status, query).toBe(403);
    expect((await carol.head(`/bucket/public/missing?${query}`)).status, query).toBe(404);
    expect((await carol.head(`/bucket/read/missing?${query}`)).status, query).toBe(403);
  }
  // Where reading is allowed, the right to list decides too.
  expect((await carol.head('/bucket/read/missing')).status).toBe(403);
});
