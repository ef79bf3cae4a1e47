/** Conditions of writes and deletions tell nothing about what the caller may not read. */
import { expect, test } from 'vitest';
import { ownershipXml, policyOf } from '../support/access.ts';
import { faulty } from '../support/faulty.ts';
import { type GatewayWorld, openGateway } from '../support/gateway.ts';
import { completion, createUpload, md5, setVersioning } from '../support/gateway-bodies.ts';
import type { Answer, Client } from '../support/gateway-client.ts';
import { slowClock } from '../support/virtual-clock.ts';

const etagOf = (text: string): string => `"${md5(text)}"`;
const secret = 'the secret';
const past = 'Thu, 01 Jan 2015 00:00:00 GMT';
const future = 'Fri, 01 Jan 2100 00:00:00 GMT';

/** alice's bucket, whose policy lets bob's account do the actions. */
async function openBox(actions: readonly string[]): Promise<GatewayWorld> {
  const world = await openGateway();
  const { client } = world;
  await client.put('/box');
  await client.put('/box/source', { body: 'x' });
  await client.put('/box/secret', { body: secret });
  const Resource = 'arn:aws:s3:::box/*';
  const body = policyOf(
    { Principal: { AWS: 'bob-account' }, Action: actions, Resource },
    { Principal: { AWS: 'bob-account' }, Action: 's3:GetObject', Resource: 'arn:aws:s3:::box/source' },
  );
  expect((await client.put('/box?policy', { body })).status).toBe(204);
  return world;
}

/** Pairs of conditions: a right guess and a wrong one. No pair holds as a whole, so nothing changes. */
const guesses: readonly (readonly [Record<string, string>, Record<string, string>])[] = [
  [
    { 'if-match': etagOf(secret), 'if-none-match': '*' },
    { 'if-match': etagOf('another'), 'if-none-match': '*' },
  ],
  [
    { 'if-unmodified-since': future, 'if-none-match': '*' },
    { 'if-unmodified-since': past, 'if-none-match': '*' },
  ],
  [{ 'if-none-match': etagOf(secret) }, { 'if-none-match': `${etagOf(secret)}, "x"` }],
];
const deletions: typeof guesses = [
  [
    { 'if-match': etagOf(secret), '*-if-match-size': '999999' },
    { 'if-match': etagOf('another'), '*-if-match-size': '999999' },
  ],
  [
    { '*-if-match-size': String(secret.length), 'if-none-match': '*' },
    { '*-if-match-size': '1', 'if-none-match': '*' },
  ],
  [
    { '*-if-match-last-modified-time': past, 'if-none-match': '*' },
    { '*-if-match-last-modified-time': future, 'if-none-match': '*' },
  ],
];

type Send = (headers: Record<string, string>) => Promise<Answer>;

async function writesOf(client: Client): Promise<Readonly<Record<string, Send>>> {
  const upload = await createUpload(client, '/box/secret');
  await client.put(`/box/secret?partNumber=1&uploadId=${upload}`, { body: 'part' });
  return {
    PutObject: (headers) => client.put('/box/secret', { body: 'x', headers }),
    CopyObject: (headers) =>
      client.put('/box/secret', { headers: { ...headers, '*-copy-source': '/box/source' } }),
    CompleteMultipartUpload: (headers) =>
      client.post(`/box/secret?uploadId=${upload}`, {
        body: completion([{ number: 1, etag: md5('part') }]),
        headers,
      }),
    DeleteObject: (headers) => client.delete('/box/secret', { headers }),
  };
}

test('a write or deletion with a condition by a caller without s3:GetObject is AccessDenied, whether or not the condition holds', async () => {
  await using world = await openBox(['s3:PutObject', 's3:DeleteObject']);
  for (const [name, send] of Object.entries(await writesOf(world.bob)))
    for (const pair of name === 'DeleteObject' ? [...guesses, ...deletions] : guesses)
      for (const headers of pair) {
        const { status, code, text } = await send(headers);
        expect([status, code], `${name} ${JSON.stringify(headers)} ${text}`).toEqual([403, 'AccessDenied']);
      }
  const entries = [
    `<ETag>${etagOf(secret)}</ETag><Size>999</Size>`,
    `<ETag>"x"</ETag>`,
    '<Size>1</Size>',
    `<LastModifiedTime>${past}</LastModifiedTime>`,
  ];
  for (const entry of entries) {
    const body = `<Delete><Object><Key>secret</Key>${entry}</Object></Delete>`;
    const { all } = await world.bob.post('/box?delete', { body });
    expect(all('Code'), entry).toEqual(['AccessDenied']);
  }
  expect((await world.client.get('/box/secret')).text).toBe(secret);
});

test('an empty If-Match or If-None-Match of a write or deletion is InvalidArgument, and changes nothing', async () => {
  await using world = await openBox(['s3:PutObject']);
  for (const [name, send] of Object.entries(await writesOf(world.client)))
    for (const header of ['if-match', 'if-none-match']) {
      const { status, code } = await send({ [header]: '' });
      expect([status, code], `${name} ${header}`).toEqual([400, 'InvalidArgument']);
    }
  expect((await world.client.get('/box/secret')).text).toBe(secret);
});

test('conditions of a caller with s3:GetObject are compared', async () => {
  await using world = await openBox(['s3:PutObject', 's3:DeleteObject', 's3:GetObject']);
  const { PutObject, CopyObject, CompleteMultipartUpload, DeleteObject } = await writesOf(world.bob);
  for (const send of [PutObject, CopyObject, CompleteMultipartUpload, DeleteObject])
    expect((await send?.({ 'if-match': etagOf('another') }))?.status).toBe(412);
  expect((await PutObject?.({ 'if-match': etagOf(secret) }))?.status).toBe(200);
  const body = '<Delete><Object><Key>secret</Key><Size>1</Size></Object></Delete>';
  expect((await world.bob.post('/box?delete', { body })).all('Key')).toEqual(['secret']);
});

test('If-None-Match: * and If-Match: * need no s3:GetObject', async () => {
  await using world = await openBox(['s3:PutObject', 's3:DeleteObject']);
  const { bob } = world;
  const ifNew = { 'if-none-match': '*' };
  expect((await bob.put('/box/secret', { body: 'x', headers: ifNew })).status).toBe(412);
  expect((await bob.put('/box/new', { body: 'x', headers: ifNew })).status).toBe(200);
  const ifThere = { 'if-match': '*' };
  expect((await bob.delete('/box/new', { headers: ifThere })).status).toBe(204);
  expect((await bob.delete('/box/new', { headers: ifThere })).status).toBe(404);
});

test('conditions of a caller to whom the ACL of the object grants READ are compared', async () => {
  await using world = await openBox(['s3:PutObject']);
  const { client, bob } = world;
  await client.put('/box?ownershipControls', { body: ownershipXml('ObjectWriter') });
  await client.put('/box/secret', { body: secret, headers: { '*-grant-read': 'id="bob-account"' } });
  const headers = { 'if-match': etagOf('another') };
  expect((await bob.put('/box/secret', { body: 'x', headers })).status).toBe(412);
  expect((await bob.put('/box/missing', { body: 'x', headers })).status).toBe(403);
});

test('a write with a condition reads the head once, for the permission, the condition and the commit', async () => {
  let reads = 0;
  await using world = await openGateway({
    wrap(context) {
      const { metadata } = context;
      const get: typeof metadata.get = (at, ...rest) => {
        if (at.table.name === 'objects') reads += 1;
        return metadata.get(at, ...rest);
      };
      return { ...context, metadata: faulty(metadata, { get }) };
    },
  });
  const { client } = world;
  await client.put('/box');
  const body = policyOf({
    Principal: { AWS: 'bob-account' },
    Action: ['s3:PutObject', 's3:DeleteObject', 's3:GetObject'],
    Resource: 'arn:aws:s3:::box/*',
  });
  expect((await client.put('/box?policy', { body })).status).toBe(204);
  for (const versioning of ['', 'Enabled'] as const) {
    if (versioning !== '') expect((await setVersioning(client, 'box', versioning)).status).toBe(200);
    await client.put('/box/source', { body: 'x' });
    await client.put('/box/secret', { body: secret });
    const { CompleteMultipartUpload: complete } = await writesOf(world.bob);
    reads = 0;
    expect((await complete?.({ 'if-match': '*' }))?.status).toBe(200);
    expect(reads, `a condition that needs no permission ${versioning}`).toBe(1);
    for (const [name, send] of Object.entries(await writesOf(world.bob))) {
      await client.put('/box/secret', { body: secret });
      reads = 0;
      const { status } = await send({ 'if-match': etagOf(secret) });
      const isDeleted = name === 'DeleteObject';
      expect([status, reads], `${name} ${versioning}`).toEqual([
        isDeleted ? 204 : 200,
        // The source of the copy is read too.
        name === 'CopyObject' ? 2 : 1,
      ]);
    }
  }
});

test('conditions are compared with no version that the caller may not read, also where it replaces another one while a body arrives', async () => {
  await using world = await openGateway();
  const { client, bob } = world;
  await client.put('/box');
  const body = policyOf(
    { Principal: { AWS: 'bob-account' }, Action: 's3:PutObject', Resource: 'arn:aws:s3:::box/*' },
    {
      Principal: { AWS: 'bob-account' },
      Action: 's3:GetObject',
      Resource: 'arn:aws:s3:::box/*',
      Condition: { StringEquals: { 's3:ExistingObjectTag/for': 'bob' } },
    },
  );
  expect((await client.put('/box?policy', { body })).status).toBe(204);
  const replacedBy = async (content: string) => {
    await client.put('/box/key', { body: 'open', headers: { '*-tagging': 'for=bob' } });
    return bob.put('/box/key', {
      body: 'mine',
      headers: { 'if-none-match': etagOf(secret) },
      async *arriving(bytes: Uint8Array) {
        yield bytes.subarray(0, 1);
        await client.put('/box/key', { body: content });
        yield bytes.subarray(1);
      },
    });
  };
  for (const content of [secret, 'another']) {
    const { status, code } = await replacedBy(content);
    expect([status, code]).toEqual([403, 'AccessDenied']);
    expect((await client.get('/box/key')).text).toBe(content);
  }
});

test('the read permission of each entry of DeleteObjects with a condition has a turn of its own on the event loop', async () => {
  const clock = slowClock();
  await using world = await openGateway({ clock });
  const { client, bob } = world;
  await client.put('/bucket');
  const actions = ['s3:DeleteObject', 's3:GetObject'];
  const body = policyOf({
    ...{ Principal: { AWS: 'bob-account' }, Action: actions },
    Resource: 'arn:aws:s3:::bucket/*',
  });
  expect((await client.put('/bucket?policy', { body })).status).toBe(204);
  const count = 50;
  const turnsOf = async (condition: string): Promise<number> => {
    const entries = Array.from(
      { length: count },
      (_, index) => `<Object><Key>${index}</Key>${condition}</Object>`,
    );
    const before = clock.slept.length;
    const { status } = await bob.post('/bucket?delete', { body: `<Delete>${entries.join('')}</Delete>` });
    expect(status).toBe(200);
    return clock.slept.length - before;
  };
  expect((await turnsOf('<Size>1</Size>')) - (await turnsOf(''))).toBeGreaterThan(count / 2);
});
