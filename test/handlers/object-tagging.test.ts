/** Object tags as a subresource. @storage */
import { describe, expect, test } from 'vitest';
import { policyOf } from '../support/access.ts';
import { setPolicy } from '../support/bucket-policy.ts';
import { backends, openGateway } from '../support/gateway.ts';
import { setVersioning } from '../support/gateway-bodies.ts';
import type { Answer } from '../support/gateway-client.ts';

type Tag = readonly [string, string];
const tagging = (...tags: readonly Tag[]): string =>
  `<Tagging><TagSet>${tags.map(([key, value]) => `<Tag><Key>${key}</Key><Value>${value}</Value></Tag>`).join('')}</TagSet></Tagging>`;
const tagsIn = (answer: Answer): Tag[] =>
  answer.all('Key').map((key, i) => [key, answer.all('Value')[i] ?? '']);

describe.each(backends)('on %s', (backend) => {
  test('tags are empty, put, replaced and removed', async () => {
    await using world = await openGateway({ backend });
    const { client } = world;
    await client.put('/bucket');
    await client.put('/bucket/key', { body: 'content' });
    const none = await client.get('/bucket/key?tagging');
    expect([none.status, none.all('TagSet'), tagsIn(none)]).toEqual([200, [''], []]);
    for (const tags of [
      [
        ['a', '1'],
        ['ü/b', ''],
      ],
      [['c', 'd e+f']],
    ] as const) {
      expect((await client.put('/bucket/key?tagging', { body: tagging(...tags) })).status).toBe(200);
      expect(tagsIn(await client.get('/bucket/key?tagging'))).toEqual(tags);
      const count = (await client.head('/bucket/key')).header('*-tagging-count');
      expect(count).toBe(String(tags.length));
    }
    for (let times = 0; times < 2; times += 1)
      expect((await client.delete('/bucket/key?tagging')).status).toBe(204);
    expect(tagsIn(await client.get('/bucket/key?tagging'))).toEqual([]);
    const got = await client.get('/bucket/key');
    expect([got.text, got.header('*-tagging-count')]).toEqual(['content', undefined]);
    expect(await world.usage('bucket')).toEqual({ bytes: 7, objects: 1 });
    await world.gc();
    expect(await world.stored()).toEqual(await world.owned('bucket'));
  });

  test('each version has its own tags, and replies name it', async () => {
    await using world = await openGateway({ backend });
    const { client } = world;
    await client.put('/bucket');
    await client.put('/bucket/key', { body: 'null version', headers: { '*-tagging': 'n=0' } });
    await setVersioning(client, 'bucket', 'Enabled');
    const put = await client.put('/bucket/key', { body: 'newer', headers: { '*-tagging': 'v=1' } });
    const newer = put.header('*-version-id') ?? '';
    const changed = await client.put('/bucket/key?tagging&versionId=null', { body: tagging(['n', '9']) });
    expect([changed.status, changed.header('*-version-id')]).toEqual([200, 'null']);
    expect(tagsIn(await client.get('/bucket/key?tagging&versionId=null'))).toEqual([['n', '9']]);
    const latest = await client.get('/bucket/key?tagging');
    expect([tagsIn(latest), latest.header('*-version-id')]).toEqual([[['v', '1']], newer]);
    const removed = await client.delete(`/bucket/key?tagging&versionId=${newer}`);
    expect([removed.status, removed.header('*-version-id')]).toEqual([204, newer]);
    expect((await client.get('/bucket/key')).text).toBe('newer');
    expect((await client.get('/bucket?versions')).all('VersionId')).toEqual([newer, 'null']);
  });

  test('what is not there has no tags to get, put or delete', async () => {
    await using world = await openGateway({ backend });
    const { client } = world;
    await client.put('/bucket');
    await setVersioning(client, 'bucket', 'Enabled');
    await client.put('/bucket/marked', { body: 'x' });
    const marker = (await client.delete('/bucket/marked')).header('*-version-id');
    for (const [path, status, code] of [
      ['/bucket/absent?tagging', 404, 'NoSuchKey'],
      [`/bucket/absent?tagging&versionId=${'0'.repeat(32)}`, 404, 'NoSuchVersion'],
      ['/bucket/absent?tagging&versionId=nonsense', 400, 'InvalidArgument'],
      ['/bucket/marked?tagging', 404, 'NoSuchKey'],
      [`/bucket/marked?tagging&versionId=${marker}`, 405, 'MethodNotAllowed'],
    ] as const) {
      for (const answer of [
        await client.get(path),
        await client.put(path, { body: tagging(['a', 'b']) }),
        await client.delete(path),
      ])
        expect([answer.status, answer.code], path).toEqual([status, code]);
    }
  });
});

test('an object accepts 10 tags, keys of 128 and values of 256 characters, and no more', async () => {
  await using world = await openGateway();
  const { client } = world;
  await client.put('/bucket');
  await client.put('/bucket/key', { body: 'x' });
  const many = (count: number) => Array.from({ length: count }, (_, i): Tag => [`k${i}`, 'v']);
  const longest: Tag = ['k'.repeat(128), 'v'.repeat(256)];
  for (const tags of [many(10), [longest]])
    expect((await client.put('/bucket/key?tagging', { body: tagging(...tags) })).status).toBe(200);
  for (const [body, code] of [
    [tagging(...many(11)), 'BadRequest'],
    [tagging(['k'.repeat(129), 'v']), 'InvalidTag'],
    [tagging(['k', 'v'.repeat(257)]), 'InvalidTag'],
    [tagging(['', 'v']), 'InvalidTag'],
    [tagging(['aws:k', 'v']), 'InvalidTag'],
    [tagging(['k;', 'v']), 'InvalidTag'],
    [tagging(['k', '1'], ['k', '2']), 'InvalidTag'],
    ['<Tagging><TagSet><Tag><Key>k</Key></Tag></TagSet></Tagging>', 'MalformedXML'],
    ['<Tagging><TagSet/><More/></Tagging>', 'MalformedXML'],
    ['<TagSet/>', 'MalformedXML'],
    ['', 'MissingRequestBodyError'],
  ] as const) {
    const refused = await client.put('/bucket/key?tagging', { body });
    expect([refused.status, refused.code], body).toEqual([400, code]);
  }
  expect(tagsIn(await client.get('/bucket/key?tagging'))).toEqual([longest]);
});

test('tags and metadata have a bound together, so that every object that can be stored can be tagged', async () => {
  await using world = await openGateway();
  const { client } = world;
  await client.put('/bucket');
  const headers = { 'content-disposition': 'd'.repeat(8_000) };
  expect((await client.put('/bucket/key', { body: 'x', headers })).status).toBe(200);
  const tags = (char: string) =>
    Array.from({ length: 10 }, (_, i): Tag => [`${i}${char.repeat(127)}`, char.repeat(256)]);
  expect((await client.put('/bucket/key?tagging', { body: tagging(...tags('a')) })).status).toBe(200);
  const refused = await client.put('/bucket/key?tagging', { body: tagging(...tags('ü')) });
  expect([refused.status, refused.code]).toEqual([400, 'BadRequest']);
  expect((await client.get('/bucket/key')).header('*-tagging-count')).toBe('10');
});

test('concurrent changes of tags and of the object itself lose nothing of each other', async () => {
  await using world = await openGateway();
  const { client } = world;
  await client.put('/bucket');
  await setVersioning(client, 'bucket', 'Enabled');
  const first = (await client.put('/bucket/key', { body: 'first' })).header('*-version-id') ?? '';
  const at = `/bucket/key?tagging&versionId=${first}`;
  const answers = await Promise.all([
    ...['1', '2', '3'].map((value) => client.put(at, { body: tagging(['k', value]) })),
    client.put('/bucket/key', { body: 'second' }),
    client.delete('/bucket/key'),
  ]);
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200, 204]);
  const tags = tagsIn(await client.get(at));
  expect(tags).toHaveLength(1);
  expect((await client.get('/bucket?versions')).all('VersionId')).toHaveLength(3);
});

test('permissions on tags of objects do not extend to versions, nor to tags that a policy forbids', async () => {
  await using world = await openGateway();
  const { client, bob } = world;
  await client.put('/bucket');
  await client.put('/bucket/key', { body: 'x' });
  expect((await bob.get('/bucket/key?tagging')).status).toBe(403);
  await setPolicy(world, 'bucket', [
    { Effect: 'Allow', Action: ['s3:GetObjectTagging', 's3:DeleteObjectTagging'] },
    {
      Effect: 'Allow',
      Action: 's3:PutObjectTagging',
      Condition: { StringEquals: { 's3:RequestObjectTag/team': 'blue' } },
    },
  ]);
  const put = (team: string, version = '') =>
    bob.put(`/bucket/key?tagging${version}`, { body: tagging(['team', team]) });
  expect((await put('blue')).status).toBe(200);
  expect((await put('red')).status).toBe(403);
  expect((await put('blue', '&versionId=null')).status).toBe(403);
  expect(tagsIn(await bob.get('/bucket/key?tagging'))).toEqual([['team', 'blue']]);
  expect((await bob.get('/bucket/key?tagging&versionId=null')).status).toBe(403);
  expect((await bob.delete('/bucket/key?tagging&versionId=null')).status).toBe(403);
  expect((await bob.delete('/bucket/key?tagging')).status).toBe(204);
  await setPolicy(world, 'bucket', [
    {
      Effect: 'Allow',
      Action: ['s3:GetObjectVersionTagging', 's3:PutObjectVersionTagging', 's3:DeleteObjectVersionTagging'],
    },
  ]);
  expect((await put('red', '&versionId=null')).status).toBe(200);
  expect((await bob.get('/bucket/key?tagging&versionId=null')).status).toBe(200);
  expect((await bob.delete('/bucket/key?tagging&versionId=null')).status).toBe(204);
  expect((await bob.get('/bucket/key?tagging')).status).toBe(403);
});

test('x-amz-tagging-count requires the permission to read tags, and a copy of tags those to read and set them', async () => {
  await using world = await openGateway();
  const { client, bob } = world;
  await client.put('/bucket');
  await client.put('/bucket/key', { body: 'x', headers: { '*-tagging': 'a=b' } });
  const reading = ['s3:GetObject', 's3:PutObject'];
  const attempts = async () => {
    const copy = (more: Record<string, string>) =>
      bob.put('/bucket/copy', { headers: { '*-copy-source': '/bucket/key', ...more } });
    return [
      (await bob.head('/bucket/key')).header('*-tagging-count'),
      (await copy({})).status,
      (await copy({ '*-tagging-directive': 'REPLACE' })).status,
    ];
  };
  for (const [more, outcome] of [
    [[], [undefined, 403, 200]],
    [['s3:GetObjectTagging'], ['1', 403, 200]],
    [['s3:PutObjectTagging'], [undefined, 403, 200]],
    [
      ['s3:GetObjectTagging', 's3:PutObjectTagging'],
      ['1', 200, 200],
    ],
  ] as const) {
    await setPolicy(world, 'bucket', [{ Effect: 'Allow', Action: [...reading, ...more] }]);
    expect(await attempts()).toEqual(outcome);
  }
});

test('tags that a copy does not take do not allow it', async () => {
  await using world = await openGateway();
  const { client, bob } = world;
  await client.put('/bucket');
  await client.put('/bucket/source', { body: 'x', headers: { '*-acl': 'public-read' } });
  const statement = {
    Action: ['s3:PutObject', 's3:PutObjectTagging'],
    Resource: 'arn:aws:s3:::bucket/*',
    Condition: { StringEquals: { 's3:RequestObjectTag/team': 'blue' } },
  };
  await client.put('/bucket?policy', { body: policyOf(statement) });
  const copy = async (headers: Readonly<Record<string, string>>) => {
    const tagged = { '*-copy-source': '/bucket/source', '*-tagging': 'team=blue', ...headers };
    return (await bob.put('/bucket/copy', { headers: tagged })).status;
  };
  expect(await copy({})).toBe(403);
  expect(await copy({ '*-tagging-directive': 'COPY' })).toBe(403);
  expect(await copy({ '*-tagging-directive': 'REPLACE' })).toBe(200);
});
