/** Versioning: null versions, delete markers, deletions by version, and listings. @storage */
import { describe, expect, test } from 'vitest';
import { alice, backends, type GatewayWorld, openGateway } from '../support/gateway.ts';
import { complete, createUpload, putPart, setVersioning } from '../support/gateway-bodies.ts';
import type { Answer } from '../support/gateway-client.ts';
import { encodeForm, fieldsOf, fileOf, multipart, signForm } from '../support/post-form.ts';

const put = async (world: GatewayWorld, body: string, key = 'key'): Promise<string> =>
  (await world.client.put(`/bucket/${key}`, { body })).header('*-version-id') ?? '';
const versionOf = (answer: Answer): string => answer.header('*-version-id') ?? '';
/** `[version id, is latest]` in listed order; markers with an M. */
const listed = async (world: GatewayWorld): Promise<string[]> => {
  const page = await world.client.get('/bucket?versions');
  const latest = page.all('IsLatest');
  const kinds = [...page.text.matchAll(/<(Version|DeleteMarker)>/g)].map((match) => match[1]);
  return page
    .all('VersionId')
    .map((id, i) => `${kinds[i] === 'Version' ? '' : 'M'}${id}${latest[i] === 'true' ? '*' : ''}`);
};

describe.each(backends)('on %s', (backend) => {
  test('the state is empty, then what was put; nonsense is refused', async () => {
    await using world = await openGateway({ backend });
    await world.client.put('/bucket');
    const state = async () => (await world.client.get('/bucket?versioning')).one('Status');
    expect(await state()).toBeUndefined();
    for (const status of ['Enabled', 'Suspended', 'Enabled'] as const) {
      expect((await setVersioning(world.client, 'bucket', status)).status).toBe(200);
      expect(await state()).toBe(status);
    }
    const bodiless = await world.client.put('/bucket?versioning', { body: '' });
    expect([bodiless.status, bodiless.code]).toEqual([400, 'MissingRequestBodyError']);
    const bodies = [
      '<VersioningConfiguration/>',
      '<VersioningConfiguration><Status>Off</Status></VersioningConfiguration>',
      '<VersioningConfiguration><Status>Enabled</Status><Status>Suspended</Status></VersioningConfiguration>',
      '<VersioningConfiguration><State>Suspended</State></VersioningConfiguration>',
    ];
    for (const body of bodies)
      expect((await world.client.put('/bucket?versioning', { body })).status, body).toBe(400);
    const mfa =
      '<VersioningConfiguration><Status>Suspended</Status><MfaDelete>Enabled</MfaDelete></VersioningConfiguration>';
    expect((await world.client.put('/bucket?versioning', { body: mfa })).status).toBe(403);
    expect(await state()).toBe('Enabled');
  });

  test('every PUT keeps its version, the newest first; a delete marker is the latest', async () => {
    await using world = await openGateway({ backend });
    await world.client.put('/bucket');
    await setVersioning(world.client, 'bucket', 'Enabled');
    const [one, two] = [await put(world, 'one'), await put(world, 'two')];
    const laid = await world.client.delete('/bucket/key');
    expect([laid.status, laid.header('*-delete-marker')]).toEqual([204, 'true']);
    const marker = versionOf(laid);
    expect(await listed(world)).toEqual([`M${marker}*`, two, one]);
    const gone = await world.client.get('/bucket/key');
    expect([gone.status, gone.code, gone.header('*-delete-marker'), versionOf(gone)]).toEqual([
      404,
      'NoSuchKey',
      'true',
      marker,
    ]);
    const old = await world.client.get(`/bucket/key?versionId=${one}`);
    expect([old.text, versionOf(old)]).toEqual(['one', one]);
    expect((await world.client.get('/bucket')).all('Key')).toEqual([]);
    expect(await world.usage('bucket')).toEqual({ bytes: 6, objects: 2 });
    // A delete marker above a delete marker, and one for a key without versions.
    const second = versionOf(await world.client.delete('/bucket/key'));
    expect(second > marker).toBe(true);
    expect(await listed(world)).toEqual([`M${second}*`, `M${marker}`, two, one]);
    expect(versionOf(await world.client.delete('/bucket/other'))).toMatch(/^[0-9a-f]{32}$/);
  });

  test("asking for a marker's version is 405, with what a client needs to know", async () => {
    await using world = await openGateway({ backend });
    await world.client.put('/bucket');
    await setVersioning(world.client, 'bucket', 'Enabled');
    await put(world, 'one');
    const marker = versionOf(await world.client.delete('/bucket/key'));
    for (const method of ['GET', 'HEAD']) {
      const refused = await world.client.send(method, `/bucket/key?versionId=${marker}`);
      expect(refused.status).toBe(405);
      if (method === 'GET') expect(refused.code).toBe('MethodNotAllowed');
      else expect(refused.bytes).toHaveLength(0);
      expect([refused.header('*-delete-marker'), versionOf(refused), refused.header('allow')]).toEqual([
        'true',
        marker,
        'DELETE',
      ]);
      expect(refused.header('last-modified')).toMatch(/GMT$/);
    }
  });

  test('deleting a version is permanent, and makes the next one the latest', async () => {
    await using world = await openGateway({ backend });
    await world.client.put('/bucket');
    await setVersioning(world.client, 'bucket', 'Enabled');
    const [one, two, three] = [await put(world, 'one'), await put(world, 'two'), await put(world, 'three')];
    const marker = versionOf(await world.client.delete('/bucket/key'));
    const undone = await world.client.delete(`/bucket/key?versionId=${marker}`);
    expect([undone.status, undone.header('*-delete-marker'), versionOf(undone)]).toEqual([
      204,
      'true',
      marker,
    ]);
    expect((await world.client.get('/bucket/key')).text).toBe('three');
    const removed = await world.client.delete(`/bucket/key?versionId=${three}`);
    expect([removed.status, removed.header('*-delete-marker'), versionOf(removed)]).toEqual([
      204,
      undefined,
      three,
    ]);
    expect((await world.client.get('/bucket/key')).text).toBe('two');
    await world.client.delete(`/bucket/key?versionId=${one}`);
    expect(await listed(world)).toEqual([`${two}*`]);
    expect((await world.client.delete(`/bucket/key?versionId=${one}`)).status).toBe(204);
    await world.client.delete(`/bucket/key?versionId=${two}`);
    expect(await listed(world)).toEqual([]);
    expect((await world.client.get('/bucket/key')).code).toBe('NoSuchKey');
    expect((await world.client.get(`/bucket/key?versionId=${two}`)).code).toBe('NoSuchVersion');
    await world.gc();
    expect(await world.stored()).toEqual([]);
    expect(await world.usage('bucket')).toEqual({ bytes: 0, objects: 0 });
  });

  test('what was there before versioning is the null version, and stays', async () => {
    await using world = await openGateway({ backend });
    await world.client.put('/bucket');
    expect(await put(world, 'before')).toBe('');
    expect((await world.client.get('/bucket/key')).header('*-version-id')).toBeUndefined();
    expect(await listed(world)).toEqual(['null*']);
    await setVersioning(world.client, 'bucket', 'Enabled');
    expect(versionOf(await world.client.get('/bucket/key'))).toBe('null');
    const one = await put(world, 'one');
    expect(await listed(world)).toEqual([`${one}*`, 'null']);
    const old = await world.client.get('/bucket/key?versionId=null');
    expect([old.text, versionOf(old)]).toEqual(['before', 'null']);
    expect(versionOf(await world.client.delete('/bucket/key?versionId=null'))).toBe('null');
    expect(await listed(world)).toEqual([`${one}*`]);
    expect((await world.client.get('/bucket/key?versionId=null')).code).toBe('NoSuchVersion');
  });

  test('suspended, a PUT and a DELETE replace the null version and nothing else', async () => {
    await using world = await openGateway({ backend });
    await world.client.put('/bucket');
    await put(world, 'before');
    await setVersioning(world.client, 'bucket', 'Enabled');
    const one = await put(world, 'one');
    await setVersioning(world.client, 'bucket', 'Suspended');
    expect(await put(world, 'suspended')).toBe('');
    expect(await listed(world)).toEqual(['null*', one]);
    expect((await world.client.get('/bucket/key?versionId=null')).text).toBe('suspended');
    const laid = await world.client.delete('/bucket/key');
    expect([laid.header('*-delete-marker'), versionOf(laid)]).toEqual(['true', 'null']);
    expect(await listed(world)).toEqual(['Mnull*', one]);
    expect((await world.client.get('/bucket/key')).status).toBe(404);
    expect(await put(world, 'again')).toBe('');
    expect(await listed(world)).toEqual(['null*', one]);
    await setVersioning(world.client, 'bucket', 'Enabled');
    const two = await put(world, 'two');
    expect(await listed(world)).toEqual([`${two}*`, 'null', one]);
    await setVersioning(world.client, 'bucket', 'Suspended');
    // The null version is below other versions now; a new null version replaces it and comes first.
    expect(await put(world, 'top')).toBe('');
    expect(await listed(world)).toEqual(['null*', two, one]);
    await world.gc();
    expect(await world.stored()).toHaveLength(3);
    expect(await world.usage('bucket')).toEqual({ bytes: 9, objects: 3 });
    // A null version that was replaced has left no row, which no listing would show.
    for (const version of ['null', two, one]) await world.client.delete(`/bucket/key?versionId=${version}`);
    expect((await world.client.delete('/bucket')).status).toBe(204);
  });

  test('suspended, PUT, POST, Copy and Complete name no version; GET, HEAD and a marker name null', async () => {
    await using world = await openGateway({ backend });
    const { client } = world;
    await client.put('/bucket');
    await setVersioning(client, 'bucket', 'Enabled');
    await setVersioning(client, 'bucket', 'Suspended');
    const uploadId = await createUpload(client, '/bucket/parts');
    const part = await putPart(client, '/bucket/parts', { uploadId, number: 1, body: 'x' });
    const signature = signForm(alice, { conditions: [{ bucket: 'bucket' }, { key: 'form' }] });
    const form = [...fieldsOf({ key: 'form', ...signature }), fileOf('x')];
    const writes = [
      await client.put('/bucket/put', { body: 'x' }),
      await client.put('/bucket/copy', { headers: { '*-copy-source': '/bucket/put' } }),
      await complete(client, '/bucket/parts', { uploadId, parts: [part] }),
      await world.anonymous.post('/bucket', { body: encodeForm(form), headers: multipart() }),
    ];
    for (const { status, header } of writes)
      expect([Math.floor(status / 100), header('*-version-id')]).toEqual([2, undefined]);
    for (const key of ['put', 'copy', 'parts', 'form']) {
      expect(versionOf(await client.get(`/bucket/${key}`))).toBe('null');
      expect(versionOf(await client.head(`/bucket/${key}`))).toBe('null');
      expect(versionOf(await client.delete(`/bucket/${key}`))).toBe('null');
    }
  });

  test('a clock that runs backwards cannot reorder versions', async () => {
    const { virtualClock } = await import('../support/virtual-clock.ts');
    const clock = virtualClock();
    await using world = await openGateway({ clock });
    await world.client.put('/bucket');
    await setVersioning(world.client, 'bucket', 'Enabled');
    const ids = [await put(world, 'one')];
    clock.jump(-60_000);
    ids.unshift(await put(world, 'two'));
    clock.jump(-60_000);
    ids.unshift(versionOf(await world.client.delete('/bucket/key')));
    expect((await listed(world)).map((each) => each.replace(/^M|\*$/g, ''))).toEqual(ids);
  });

  test('many writers of one key in a versioned bucket all keep their version', async () => {
    await using world = await openGateway({ backend });
    await world.client.put('/bucket');
    await setVersioning(world.client, 'bucket', 'Enabled');
    const replies = await Promise.all(
      Array.from({ length: 60 }, (_, i) => world.client.put('/bucket/key', { body: `writer ${i}` })),
    );
    expect(replies.map((reply) => reply.status)).toEqual(replies.map(() => 200));
    const ids = await listed(world);
    expect(ids).toHaveLength(60);
    expect(new Set(replies.map(versionOf))).toEqual(new Set(ids.map((each) => each.replace('*', ''))));
    for (const [i, reply] of replies.entries())
      expect((await world.client.get(`/bucket/key?versionId=${versionOf(reply)}`)).text).toBe(`writer ${i}`);
  });

  test('a PUT during a change of versioning is versioned or not, never lost', async () => {
    await using world = await openGateway({ backend });
    await world.client.put('/bucket');
    await put(world, 'before');
    const [first, flip, second] = await Promise.all([
      world.client.put('/bucket/key', { body: 'first' }),
      setVersioning(world.client, 'bucket', 'Enabled'),
      world.client.put('/bucket/key', { body: 'second' }),
    ]);
    expect([first.status, flip.status, second.status]).toEqual([200, 200, 200]);
    const page = await world.client.get('/bucket?versions');
    for (const reply of [first, second]) {
      const id = reply.header('*-version-id');
      if (id !== undefined) expect(page.all('VersionId')).toContain(id);
    }
    await world.gc();
    expect(await world.stored()).toEqual(await world.owned('bucket'));
    expect((await world.usage('bucket')).objects).toBe(page.all('VersionId').length);
  });
});

test('an empty versionId is InvalidArgument in every operation about a version, and changes nothing', async () => {
  await using world = await openGateway();
  const { client } = world;
  await client.put('/bucket');
  await client.put('/bucket/key', { body: 'content' });
  for (const [method, path, headers = {}] of [
    ['GET', '/bucket/key?versionId='],
    ['DELETE', '/bucket/key?versionId='],
    ['GET', '/bucket/key?tagging&versionId='],
    ['DELETE', '/bucket/key?tagging&versionId='],
    ['GET', '/bucket/key?acl&versionId='],
    ['PUT', '/bucket/key?acl&versionId=', { '*-acl': 'private' }],
    ['GET', '/bucket/key?attributes&versionId=', { '*-object-attributes': 'ETag' }],
    ['PUT', '/bucket/copy', { '*-copy-source': '/bucket/key?versionId=' }],
  ] as const) {
    const refused = await client.send(method, path, { headers });
    expect([refused.status, refused.code, refused.one('Message')], `${method} ${path}`).toEqual([
      400,
      'InvalidArgument',
      'Version id cannot be the empty string',
    ]);
  }
  expect((await client.head('/bucket/key?versionId=')).status).toBe(400);
  const body = '<Delete><Object><Key>key</Key><VersionId></VersionId></Object></Delete>';
  expect((await client.post('/bucket?delete', { body })).all('Code')).toEqual(['InvalidArgument']);
  expect((await client.get('/bucket/key')).text).toBe('content');
});
