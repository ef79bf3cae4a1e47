/** Conditional requests with the precedence of RFC 9110 §13.2.2, on every operation that accepts them. @storage */
import { describe, expect, test } from 'vitest';
import { backends, openGateway } from '../support/gateway.ts';
import { complete, createUpload, deletion, putPart, setVersioning } from '../support/gateway-bodies.ts';
import type { Answer } from '../support/gateway-client.ts';
import { virtualClock } from '../support/virtual-clock.ts';

const before = new Date(Date.UTC(2026, 5, 1, 11)).toUTCString();
const at = new Date(Date.UTC(2026, 5, 1, 12)).toUTCString();
const after = new Date(Date.UTC(2026, 5, 1, 13)).toUTCString();

/** One object, modified half a second past noon on 1 June 2026. */
async function openWorld() {
  const clock = virtualClock(Date.UTC(2026, 5, 1, 12, 0, 0, 500));
  const world = await openGateway({ clock });
  await world.client.put('/bucket');
  const etag = (await world.client.put('/bucket/key', { body: 'content' })).header('etag') ?? '';
  return { ...world, etag, bare: etag.slice(1, -1) };
}

/** Nearly dates: engines read most of them, some in the time zone of the server. RFC 9110 has no such forms. */
const unreadable = [
  'no date',
  'garbage 1',
  '7',
  '2026-06-01T11:00:00Z',
  'Mon, 01 Jun 2026 11:00:00',
  'Mon, 01 Jun 2026 11:00:00 +0000',
  'Mon, 1 Jun 2026 11:00:00 GMT',
  'Mon, 31 Feb 2026 11:00:00 GMT',
];
/** `before` in the two obsolete forms, which are GMT too. */
const obsolete = ['Monday, 01-Jun-26 11:00:00 GMT', 'Mon Jun  1 11:00:00 2026'];

type Rule = readonly [headers: Record<string, string>, status: number];
const reads = (etag: string): Rule[] => [
  [{ 'if-match': etag }, 200],
  [{ 'if-match': etag.slice(1, -1) }, 200],
  [{ 'if-match': `"x", ${etag}` }, 200],
  [{ 'if-match': '*' }, 200],
  [{ 'if-match': '"x"' }, 412],
  [{ 'if-match': `W/${etag}` }, 412],
  [{ 'if-none-match': '"x"' }, 200],
  [{ 'if-none-match': etag }, 304],
  [{ 'if-none-match': `W/${etag}` }, 304],
  [{ 'if-none-match': '*' }, 304],
  [{ 'if-none-match': `"x",${etag}` }, 304],
  [{ 'if-modified-since': before }, 200],
  [{ 'if-modified-since': at }, 304],
  [{ 'if-modified-since': 'no date' }, 200],
  [{ 'if-modified-since': '2999-01-01' }, 200],
  [{ 'if-modified-since': 'Mon Jun  1 12:00:00 2026' }, 304],
  [{ 'if-unmodified-since': at }, 200],
  [{ 'if-unmodified-since': after }, 200],
  [{ 'if-unmodified-since': before }, 412],
  ...unreadable.map((date): Rule => [{ 'if-unmodified-since': date }, 200]),
  ...obsolete.map((date): Rule => [{ 'if-unmodified-since': date }, 412]),
  // If-Match overrides If-Unmodified-Since, and If-None-Match overrides If-Modified-Since; the first pair is evaluated first.
  [{ 'if-match': etag, 'if-unmodified-since': before }, 200],
  [{ 'if-match': '"x"', 'if-unmodified-since': after }, 412],
  [{ 'if-none-match': '"x"', 'if-modified-since': at }, 200],
  [{ 'if-none-match': etag, 'if-modified-since': before }, 304],
  [{ 'if-match': etag, 'if-none-match': etag }, 304],
  [{ 'if-match': '"x"', 'if-none-match': etag }, 412],
  [{ 'if-unmodified-since': before, 'if-none-match': etag }, 412],
];

test('GET and HEAD answer by the first condition that decides', async () => {
  const world = await openWorld();
  for (const [headers, status] of reads(world.etag)) {
    for (const method of ['GET', 'HEAD']) {
      const got = await world.client.send(method, '/bucket/key', { headers });
      expect(got.status, JSON.stringify(headers)).toBe(status);
      if (status === 304) {
        expect(got.bytes).toHaveLength(0);
        expect([got.header('etag'), got.header('last-modified')]).toEqual([world.etag, at]);
      }
    }
    const attributes = await world.client.get('/bucket/key?attributes', {
      headers: { ...headers, '*-object-attributes': 'ETag' },
    });
    expect(attributes.status).toBe(status);
  }
  expect((await world.client.get('/bucket/none', { headers: { 'if-match': '*' } })).status).toBe(404);
  expect((await world.client.get('/bucket/none', { headers: { 'if-none-match': '*' } })).status).toBe(404);
});

const writes = (etag: string): Rule[] => [
  [{ 'if-match': etag }, 200],
  [{ 'if-match': '*' }, 200],
  [{ 'if-match': '"x"' }, 412],
  [{ 'if-match': '"*"' }, 412],
  [{ 'if-none-match': '"x"' }, 200],
  [{ 'if-none-match': '"*"' }, 200],
  [{ 'if-none-match': etag }, 412],
  [{ 'if-none-match': '*' }, 412],
  [{ 'if-unmodified-since': at }, 200],
  [{ 'if-unmodified-since': before }, 412],
  [{ 'if-unmodified-since': 'garbage 1' }, 200],
  ...obsolete.map((date): Rule => [{ 'if-unmodified-since': date }, 412]),
  [{ 'if-match': etag, 'if-unmodified-since': before }, 200],
  [{ 'if-match': etag, 'if-none-match': '*' }, 412],
];
const missing: Rule[] = [
  [{ 'if-none-match': '*' }, 200],
  [{ 'if-match': '*' }, 404],
  [{ 'if-match': '"x"' }, 404],
  [{ 'if-unmodified-since': before }, 200],
];

describe('writes', () => {
  test('PutObject is refused before it is stored, and changes nothing then', async () => {
    for (const versioned of [false, true]) {
      for (const present of [true, false]) {
        const world = await openWorld();
        if (versioned) await setVersioning(world.client, 'bucket', 'Enabled');
        for (const [headers, status] of present ? writes(world.etag) : missing) {
          if (present) await world.client.put('/bucket/key', { body: 'content' });
          else await world.client.delete('/bucket/key');
          const put = await world.client.put('/bucket/key', { body: 'new', headers });
          expect(put.status, `${versioned} ${present} ${JSON.stringify(headers)}`).toBe(status);
          if (status === 412) expect(put.code).toBe('PreconditionFailed');
          const now = await world.client.get('/bucket/key');
          expect(now.text.startsWith('<') ? '' : now.text).toBe(
            status === 200 ? 'new' : present ? 'content' : '',
          );
        }
      }
    }
  });

  test('CopyObject judges its target by the same headers', async () => {
    const world = await openWorld();
    await world.client.put('/bucket/source', { body: 'new' });
    for (const [headers, status] of writes(world.etag)) {
      await world.client.put('/bucket/key', { body: 'content' });
      const copy = await world.client.put('/bucket/key', {
        headers: { ...headers, '*-copy-source': 'bucket/source' },
      });
      expect(copy.status, JSON.stringify(headers)).toBe(status);
      expect((await world.client.get('/bucket/key')).text).toBe(status === 200 ? 'new' : 'content');
    }
  });

  test('CompleteMultipartUpload can be tried again once its condition was refused', async () => {
    const world = await openWorld();
    for (const [headers, status] of writes(world.etag)) {
      await world.client.put('/bucket/key', { body: 'content' });
      const uploadId = await createUpload(world.client, '/bucket/key');
      const parts = [await putPart(world.client, '/bucket/key', { uploadId, number: 1, body: 'part' })];
      const done = await complete(world.client, '/bucket/key', { uploadId, parts, ask: { headers } });
      expect(done.status, JSON.stringify(headers)).toBe(status);
      expect((await world.client.get('/bucket/key')).text).toBe(status === 200 ? 'part' : 'content');
      if (status !== 200)
        expect((await complete(world.client, '/bucket/key', { uploadId, parts })).status).toBe(200);
    }
  });

  test('DeleteObject is refused by If-Match, by size and by date', async () => {
    const world = await openWorld();
    const rules: Rule[] = [
      [{ 'if-match': world.etag }, 204],
      [{ 'if-match': '*' }, 204],
      [{ 'if-match': '"x"' }, 412],
      [{ 'if-none-match': world.etag }, 412],
      [{ 'if-unmodified-since': at }, 204],
      [{ 'if-unmodified-since': before }, 412],
      [{ '*-if-match-size': '7' }, 204],
      [{ '*-if-match-size': '8' }, 412],
      [{ '*-if-match-size': 'seven' }, 400],
      [{ '*-if-match-last-modified-time': at }, 204],
      [{ '*-if-match-last-modified-time': before }, 412],
      [{ '*-if-match-last-modified-time': after }, 412],
      [{ '*-if-match-last-modified-time': 'Mon Jun  1 12:00:00 2026' }, 204],
      ...unreadable.map((date): Rule => [{ '*-if-match-last-modified-time': date }, 400]),
      [{ 'if-match': world.etag, '*-if-match-size': '8' }, 412],
    ];
    for (const [headers, status] of rules) {
      await world.client.put('/bucket/key', { body: 'content' });
      expect((await world.client.delete('/bucket/key', { headers })).status, JSON.stringify(headers)).toBe(
        status,
      );
      expect((await world.client.head('/bucket/key')).status).toBe(status === 204 ? 404 : 200);
    }
    await world.client.delete('/bucket/key');
    expect((await world.client.delete('/bucket/key', { headers: { 'if-match': '"x"' } })).status).toBe(412);
    // Size and time hold where there is no object (public API), so that a repeated request has the answer of the first one.
    for (const headers of [{ '*-if-match-size': '7' }, { '*-if-match-last-modified-time': at }])
      expect((await world.client.delete('/bucket/key', { headers })).status).toBe(204);
    const holding = [
      `<Key>key</Key><Size>7</Size>`,
      `<Key>none</Key><LastModifiedTime>${at}</LastModifiedTime>`,
    ];
    const gone = await world.client.post('/bucket?delete', { body: deletion(holding) });
    expect([gone.all('Code'), gone.all('Key')]).toEqual([[], ['key', 'none']]);
    const absent = await world.client.delete('/bucket/key', { headers: { 'if-match': '*' } });
    expect([absent.status, absent.code]).toEqual([404, 'NoSuchKey']);
    const body = deletion(['<Key>key</Key><ETag>*</ETag>']);
    expect((await world.client.post('/bucket?delete', { body })).all('Code')).toEqual(['NoSuchKey']);
    expect((await world.client.delete('/bucket/key')).status).toBe(204);
  });

  test('DeleteObjects judges each key by its own conditions', async () => {
    const world = await openWorld();
    for (const key of ['a', 'b', 'c', 'd', 'e'])
      await world.client.put(`/bucket/${key}`, { body: 'content' });
    const body = deletion([
      `<Key>a</Key><ETag>${world.etag}</ETag>`,
      '<Key>b</Key><ETag>"x"</ETag>',
      '<Key>c</Key><Size>7</Size>',
      '<Key>d</Key><Size>8</Size>',
      `<Key>e</Key><LastModifiedTime>${at}</LastModifiedTime>`,
      `<Key>key</Key><LastModifiedTime>${before}</LastModifiedTime>`,
    ]);
    const done = await world.client.post('/bucket?delete', { body });
    expect(done.all('Code')).toEqual(['PreconditionFailed', 'PreconditionFailed', 'PreconditionFailed']);
    expect((await world.client.get('/bucket')).all('Key')).toEqual(['b', 'd', 'key']);
  });
});

test('AbortMultipartUpload aborts only the upload that was initiated at the named second', async () => {
  await using world = await openWorld();
  const { client } = world;
  const uploadId = await createUpload(client, '/bucket/key');
  const abort = (time: string, id = uploadId) =>
    client.delete('/bucket/key', {
      query: { uploadId: id },
      headers: { '*-if-match-initiated-time': time },
    });
  for (const time of [before, after]) {
    const refused = await abort(time);
    expect([refused.status, refused.code, refused.one('Condition')]).toEqual([
      412,
      'PreconditionFailed',
      'If-Match-Initiated-Time',
    ]);
  }
  for (const time of unreadable) {
    const refused = await abort(time);
    expect([refused.status, refused.code], time).toEqual([400, 'InvalidArgument']);
  }
  expect((await client.get('/bucket?uploads')).all('UploadId')).toEqual([uploadId]);
  // The second time the upload is gone. The public API answers that, and an upload that never was, like a match.
  for (let time = 0; time < 2; time += 1) expect((await abort(at)).status).toBe(204);
  expect((await abort(before)).status).toBe(204);
  expect((await abort(before, '0'.repeat(32))).status).toBe(204);
  expect((await client.get('/bucket?uploads')).all('UploadId')).toEqual([]);
});

test('a completed upload cannot be aborted under its initiated time either', async () => {
  await using world = await openWorld();
  const { client } = world;
  const uploadId = await createUpload(client, '/bucket/key');
  const parts = [await putPart(client, '/bucket/key', { uploadId, number: 1, body: 'part' })];
  expect((await complete(client, '/bucket/key', { uploadId, parts })).status).toBe(200);
  const headers = { '*-if-match-initiated-time': at };
  expect((await client.delete('/bucket/key', { query: { uploadId }, headers })).status).toBe(204);
  expect((await client.get('/bucket/key')).text).toBe('part');
});

test('an If-Match or If-None-Match of a write that lists no ETag is InvalidArgument, and changes nothing', async () => {
  await using world = await openWorld();
  const { client } = world;
  await client.put('/bucket/source', { body: 'new' });
  const uploadId = await createUpload(client, '/bucket/key');
  const parts = [await putPart(client, '/bucket/key', { uploadId, number: 1, body: 'part' })];
  for (const name of ['if-match', 'if-none-match'])
    for (const value of [',', ' , ']) {
      const headers = { [name]: value };
      for (const refused of [
        await client.put('/bucket/key', { body: 'new', headers }),
        await client.put('/bucket/key', { headers: { ...headers, '*-copy-source': 'bucket/source' } }),
        await complete(client, '/bucket/key', { uploadId, parts, ask: { headers } }),
        await client.delete('/bucket/key', { headers }),
      ])
        expect([refused.status, refused.code, refused.one('ArgumentName')], JSON.stringify(headers)).toEqual([
          400,
          'InvalidArgument',
          name,
        ]);
      expect((await client.get('/bucket/key')).text).toBe('content');
    }
  expect((await client.get('/bucket/key', { headers: { 'if-none-match': '' } })).status).toBe(200);
});

describe.each(backends)('races on %s', (backend) => {
  test.each(['', 'Enabled', 'Suspended'] as const)(
    'exactly one of many writers with If-None-Match: * wins (versioning "%s")',
    async (status) => {
      await using world = await openGateway({ backend });
      await world.client.put('/bucket');
      if (status !== '') await setVersioning(world.client, 'bucket', status);
      for (let round = 0; round < 5; round += 1) {
        const path = `/bucket/key${round}`;
        const headers = { 'if-none-match': '*' };
        const replies = await Promise.all(
          Array.from({ length: 20 }, (_, i) => world.client.put(path, { body: `writer ${i}`, headers })),
        );
        const won = replies.flatMap((reply, i) => (reply.status === 200 ? [i] : []));
        expect(won).toHaveLength(1);
        for (const reply of replies) if (reply.status !== 200) expect([409, 412]).toContain(reply.status);
        expect((await world.client.get(path)).text).toBe(`writer ${won[0]}`);
      }
      await world.gc();
      expect(await world.stored()).toEqual(await world.owned('bucket'));
      expect((await world.usage('bucket')).objects).toBe(5);
    },
  );

  test('exactly one of many writers who saw the same ETag wins', async () => {
    await using world = await openGateway({ backend });
    await world.client.put('/bucket');
    const etag = (await world.client.put('/bucket/key', { body: 'before' })).header('etag') ?? '';
    const replies = await Promise.all(
      Array.from({ length: 20 }, (_, i) =>
        world.client.put('/bucket/key', { body: `writer ${i}`, headers: { 'if-match': etag } }),
      ),
    );
    expect(replies.filter((reply) => reply.status === 200)).toHaveLength(1);
    for (const reply of replies) expect([200, 409, 412]).toContain(reply.status);
  });
});

test('in a versioned bucket a conditional DELETE compares the latest version; of one version it is NotImplemented', async () => {
  await using world = await openGateway();
  const { client } = world;
  await client.put('/bucket');
  await setVersioning(client, 'bucket', 'Enabled');
  const older = await client.put('/bucket/key', { body: 'older' });
  const newer = await client.put('/bucket/key', { body: 'newer' });
  const etag = (answer: Answer): string => answer.header('etag') ?? '';
  const id = (answer: Answer): string => answer.header('*-version-id') ?? '';
  const ifMatch = (answer: Answer) => ({ headers: { 'if-match': etag(answer) } });
  const version = (answer: Answer) => `/bucket/key?versionId=${id(answer)}`;
  expect((await client.delete('/bucket/key', ifMatch(older))).status).toBe(412);
  const laid = await client.delete('/bucket/key', ifMatch(newer));
  expect([laid.status, laid.header('*-delete-marker')]).toEqual([204, 'true']);
  const absent = await client.delete('/bucket/key', { headers: { 'if-match': '*' } });
  expect([absent.status, absent.code]).toEqual([404, 'NoSuchKey']);
  for (const [path, headers] of [
    [version(older), { 'if-match': etag(older) }],
    [version(older), { 'if-match': etag(newer) }],
    [version(laid), { 'if-match': '*' }],
    [version(laid), { '*-if-match-size': '0' }],
  ] as const) {
    const refused = await client.delete(path, { headers });
    expect([refused.status, refused.code], path).toEqual([501, 'NotImplemented']);
  }
  const entry = `<Key>key</Key><VersionId>${id(older)}</VersionId><ETag>${etag(older)}</ETag>`;
  const entries = await client.post('/bucket?delete', { body: deletion([entry]) });
  expect([entries.all('Code'), entries.all('Deleted')]).toEqual([['NotImplemented'], []]);
  expect((await client.get('/bucket?versions')).all('VersionId')).toHaveLength(3);
  expect((await client.delete(version(older))).status).toBe(204);
  expect((await client.delete(version(laid))).status).toBe(204);
  expect((await client.get('/bucket/key')).text).toBe('newer');
});
