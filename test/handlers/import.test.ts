/** `sluice import` (docs/adr/0015-import-of-upstream-objects.md): existing upstream objects become objects of the gateway. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openBucket } from '../../src/domain/common/buckets.ts';
import { type FsckFinding, type FsckOptions, runFsck } from '../../src/domain/fsck/fsck.ts';
import { everyReleased } from '../../src/metadata/background/queues.ts';
import type { Clock } from '../../src/ports/clock.ts';
import { MetadataDamaged } from '../../src/ports/metadata-store.ts';
import { operatorOf } from '../support/clusters.ts';
import { faulty } from '../support/faulty.ts';
import { startFaultyUpstream } from '../support/faulty-upstream.ts';
import { alice, type GatewayWorld, openGateway } from '../support/gateway.ts';
import { bytesOf, complete, createUpload, MiB, putPart, setVersioning } from '../support/gateway-bodies.ts';
import type { Client } from '../support/gateway-client.ts';
import { imported } from '../support/import.ts';
import { hurriedClock } from '../support/notify-world.ts';
import { startUpstream, type UpstreamServer } from '../support/upstream.ts';

let upstream: UpstreamServer;
beforeAll(async () => {
  upstream = await startUpstream();
});
afterAll(() => upstream[Symbol.asyncDispose]());

interface Front {
  readonly world: GatewayWorld;
  /** The name of the upstream bucket. */
  readonly there: string;
}

async function inFront({
  clock,
  ...more
}: {
  readonly prefix?: string;
  readonly endpoint?: string;
  readonly clock?: Clock;
} = {}): Promise<Front> {
  const there = await upstream.bucket();
  const world = await openGateway({
    ...(clock === undefined ? {} : { clock }),
    settings: {
      SVC_DATA_BACKEND: 'upstream-store',
      SVC_UPSTREAMS: JSON.stringify([{ id: 'default', bucket: there, ...more }]),
      SVC_UPSTREAM_ENDPOINT: upstream.url,
      SVC_UPSTREAM_ACCESS_KEY: alice.accessKey,
      SVC_UPSTREAM_SECRET_KEY: alice.secretKey,
    },
  });
  await world.client.put('/bucket');
  return { world, there };
}

const put = async (path: string, body: string | Uint8Array, headers = {}): Promise<void> => {
  const answer = await upstream.world.client.put(path, { body, headers });
  expect(answer.status).toBe(200);
};

const remove = async (client: Client, path: string): Promise<void> => {
  expect((await client.delete(path)).status).toBe(204);
};

test('an import is in the list of tasks, and says how much it has done', async () => {
  const { world, there } = await inFront();
  await using _ = world;
  for (const key of ['a', 'b', 'c']) await put(`/${there}/${key}`, key);
  const list = async () => (await operatorOf(world).must('GET', '/tasks?kind=import'))['tasks'];
  const killed = () => {
    throw new Error('killed');
  };
  await expect(imported(world, { progress: killed })).rejects.toThrow('killed');
  const begun = { kind: 'import', bucket: 'bucket', cluster: 'default', of: 'objects', done: { count: 3 } };
  expect(await list()).toEqual([expect.objectContaining({ ...begun, state: 'running' })]);
  await imported(world);
  expect(await list()).toEqual([expect.objectContaining({ ...begun, state: 'done' })]);
});

test('an import, finished or cut, is forgotten 30 days after its last position was saved, also where its bucket was deleted', async () => {
  const clock = hurriedClock();
  const { world, there } = await inFront({ clock });
  await using _ = world;
  const { client } = world;
  const dayMs = 24 * 3_600_000;
  await put(`/${there}/a`, 'a');
  const listed = async () => {
    const { tasks } = await operatorOf(world).must('GET', '/tasks?kind=import');
    return (tasks as readonly { bucket: string }[]).map(({ bucket }) => bucket).toSorted();
  };
  const killed = () => {
    throw new Error('killed');
  };
  await expect(imported(world, { progress: killed })).rejects.toThrow('killed');
  await remove(client, '/bucket/a');
  await remove(client, '/bucket');
  await client.put('/bucket');
  await imported(world);
  clock.hurry(29 * dayMs);
  expect(await listed()).toEqual(['bucket', 'bucket']);
  clock.hurry(2 * dayMs);
  expect(await listed()).toEqual([]);
});

describe('what was imported', () => {
  test('is read, described, listed and counted as any object, and no byte is copied', async () => {
    const { world, there } = await inFront();
    const { client } = world;
    const body = bytesOf(300_000);
    await put(`/${there}/a/b c+d é.txt`, body, {
      'content-type': 'text/x',
      'cache-control': 'no-store',
      '*-meta-color': 'blue',
    });
    await put(`/${there}/empty`, '');
    const before = await upstream.world.client.get(`/${there}?list-type=2&prefix=a/`);
    expect(await imported(world)).toEqual({ imported: 2 });

    const path = '/bucket/a/b c+d é.txt';
    const whole = await client.get(path);
    expect(whole.status).toBe(200);
    expect(Buffer.compare(whole.bytes, body)).toBe(0);
    expect(`${whole.header('etag')}`).toBe(before.all('ETag')[0]);
    expect([
      whole.header('content-type'),
      whole.header('cache-control'),
      whole.header('*-meta-color'),
    ]).toEqual(['text/x', 'no-store', 'blue']);
    const head = await client.head(path);
    expect([head.status, head.header('content-length')]).toEqual([200, '300000']);
    const range = await client.get(path, { headers: { range: 'bytes=100000-100009' } });
    expect(range.status).toBe(206);
    expect(Buffer.compare(range.bytes, body.subarray(100_000, 100_010))).toBe(0);
    expect((await client.get('/bucket/empty')).bytes).toHaveLength(0);
    const attributes = await client.get(`${path}?attributes`, {
      headers: { '*-object-attributes': 'ETag,ObjectSize' },
    });
    expect(attributes.all('ObjectSize')).toEqual(['300000']);

    const listed = await client.get('/bucket?list-type=2');
    expect(listed.all('Key')).toEqual(['a/b c+d é.txt', 'empty']);
    expect(listed.all('LastModified')[0]).toBe(before.all('LastModified')[0]);
    expect(await world.usage('bucket')).toEqual({ bytes: 300_000, objects: 2 });
    expect(await world.stored()).toEqual([]);

    const copy = await client.put('/bucket/copy', {
      headers: { '*-copy-source': encodeURI('/bucket/a/b c+d é.txt').replace('+', '%2B') },
    });
    expect(copy.status).toBe(200);
    expect(Buffer.compare((await client.get('/bucket/copy')).bytes, body)).toBe(0);
    expect(await world.stored()).toHaveLength(1);
    await world.close();
  });

  test('keeps the ETag of an upload in parts', async () => {
    const { world, there } = await inFront();
    const { client } = upstream.world;
    const uploadId = await createUpload(client, `/${there}/large`);
    const parts = [];
    for (const number of [1, 2])
      parts.push(
        await putPart(client, `/${there}/large`, {
          uploadId,
          number,
          body: bytesOf(5 * MiB + number, number),
        }),
      );
    await complete(client, `/${there}/large`, { uploadId, parts });
    expect(await imported(world)).toEqual({ imported: 1 });
    const read = await world.client.get('/bucket/large', { headers: { range: 'bytes=-3' } });
    expect(read.header('etag')).toMatch(/^"[0-9a-f]{32}-2"$/);
    expect(Buffer.compare(read.bytes, bytesOf(5 * MiB + 2, 2).subarray(-3))).toBe(0);
    await world.close();
  });

  test('is without the headers of its HEAD where the run leaves them out', async () => {
    const { world, there } = await inFront();
    await put(`/${there}/key`, 'text', { 'content-type': 'text/x' });
    expect(await imported(world, { headers: false })).toEqual({ imported: 1 });
    const read = await world.client.get('/bucket/key');
    expect([read.text, read.header('content-type')]).toEqual(['text', 'binary/octet-stream']);
    await world.close();
  });

  test('is deleted from the gateway alone, and no later run brings it back', async () => {
    const { world, there } = await inFront();
    for (const key of ['deleted', 'overwritten', 'kept']) await put(`/${there}/${key}`, key);
    await put(`/${there}/empty`, '');
    expect(await imported(world)).toEqual({ imported: 4 });
    for (const key of ['deleted', 'empty']) await remove(world.client, `/bucket/${key}`);
    await world.client.put('/bucket/overwritten', { body: 'by the gateway' });
    await remove(world.client, '/bucket/overwritten');
    await world.gc();
    await world.sweep();
    for (const key of ['deleted', 'overwritten', 'kept'])
      expect((await upstream.world.client.get(`/${there}/${key}`)).text).toBe(key);
    expect(await imported(world)).toMatchObject({ present: 1, released: 3 });
    expect((await world.client.get('/bucket?list-type=2')).all('Key')).toEqual(['kept']);
    expect(await world.usage('bucket')).toEqual({ bytes: 4, objects: 1 });
    const { id } = await openBucket(world.context, 'bucket');
    const released: string[] = [];
    for await (const { key } of everyReleased(world.context.metadata, id)) released.push(key);
    expect(released.sort()).toEqual(['deleted', 'empty', 'overwritten']);

    // New content under the key counts as another object.
    await put(`/${there}/deleted`, 'anew');
    expect(await imported(world)).toMatchObject({ imported: 1 });
    expect((await world.client.get('/bucket/deleted')).text).toBe('anew');
    await world.close();
  });

  test('is refused after it changed upstream, until a run imports the new content', async () => {
    const { world, there } = await inFront();
    await put(`/${there}/key`, 'first');
    await imported(world);
    await put(`/${there}/key`, 'other');
    expect((await world.client.get('/bucket/key')).status).toBe(500);
    const changed: string[] = [];
    expect(await imported(world, { changed: (key) => changed.push(key) })).toEqual({ changed: 1 });
    expect(changed).toEqual(['key']);
    expect(await imported(world, { again: true })).toEqual({ replaced: 1 });
    expect((await world.client.get('/bucket/key')).text).toBe('other');
    expect(await imported(world)).toEqual({ present: 1 });
    expect(await world.usage('bucket')).toEqual({ bytes: 5, objects: 1 });
    await world.close();
  });
});

describe('an import', () => {
  test('leaves what clients wrote or deleted through the gateway as it is', async () => {
    const { world, there } = await inFront();
    for (const key of ['written', 'marked', 'free']) await put(`/${there}/${key}`, 'upstream');
    await setVersioning(world.client, 'bucket', 'Enabled');
    await world.client.put('/bucket/written', { body: 'gateway' });
    await remove(world.client, '/bucket/marked');
    expect(await imported(world)).toMatchObject({ imported: 1, present: 2 });
    expect((await world.client.get('/bucket/written')).text).toBe('gateway');
    expect((await world.client.get('/bucket/marked')).status).toBe(404);
    expect((await world.client.get('/bucket/free')).text).toBe('upstream');
    await world.close();
  });

  test('skips objects of gateways, its own by name and others by their back-references', async () => {
    const { world, there } = await inFront();
    await world.client.put('/bucket/own', { body: 'own' });
    await put(`/${there}/sluice/installation.json`, '{}');
    await put(`/${there}/other/123.0`, 'x', {
      '*-meta-sluice-key': 'k',
      '*-meta-sluice-owner': '{"bucketId":"b"}',
    });
    await put(`/${there}/plain`, 'plain');
    expect(await imported(world)).toEqual({ imported: 1, skipped: 3 });
    expect((await world.client.get('/bucket?list-type=2')).all('Key')).toEqual(['own', 'plain']);
    await world.close();
  });

  test('is refused if the upstream has an empty prefix', async () => {
    const { world } = await inFront({ prefix: '' });
    expect(world.context.bytes.foreign?.refusal('default')).toContain('empty prefix');
    await world.close();
  });

  test('resumes after the last batch, and a repeated run changes nothing', async () => {
    const { world, there } = await inFront();
    const keys = Array.from({ length: 230 }, (_, i) => `key-${String(i).padStart(3, '0')}`);
    for (const key of keys) await put(`/${there}/${key}`, key);
    const positions: string[] = [];
    const cut = new AbortController();
    const cutShort = imported(world, {
      headers: false,
      signal: cut.signal,
      progress: ({ after }) => {
        positions.push(after);
        if (positions.length === 2) cut.abort(new Error('cut short'));
      },
    });
    await expect(cutShort).rejects.toThrow('cut short');
    expect(positions).toEqual(['key-099', 'key-199']);
    expect(await imported(world, { headers: false })).toEqual({ imported: 230 });
    expect(await world.usage('bucket')).toEqual({ bytes: 230 * 7, objects: 230 });
    expect(await imported(world)).toEqual({ present: 230 });
    expect(await world.usage('bucket')).toEqual({ bytes: 230 * 7, objects: 230 });
    await world.close();
  });

  test('counts under the quota of its bucket: it stops where there is no room, and resumes', async () => {
    const { world, there } = await inFront();
    for (const key of ['a', 'b', 'c']) await put(`/${there}/${key}`, 'ten bytes.');
    const admin = operatorOf(world);
    const limit = (maxBytes: number) =>
      admin.must('PUT', '/buckets/bucket/quota', { maxBytes, maxObjects: 0, maxBytesPerObject: 0 });
    await limit(25);
    await expect(imported(world)).rejects.toThrow('quota exceeded for bucket');
    expect(await world.usage('bucket')).toEqual({ bytes: 20, objects: 2 });
    await limit(30);
    expect(await imported(world)).toEqual({ imported: 1, present: 2 });
    expect(await world.usage('bucket')).toEqual({ bytes: 30, objects: 3 });
  });

  test('counts and names an object that cannot be imported, and imports the others', async () => {
    const { world, there } = await inFront();
    await using _ = world;
    for (const key of ['a', 'denied', 'damaged', 'z']) await put(`/${there}/${key}`, key);
    await put(`/${there}/large`, 'x'.repeat(100));
    const limit = { maxBytes: 0, maxObjects: 0, maxBytesPerObject: 50 };
    await operatorOf(world).must('PUT', '/buckets/bucket/quota', limit);
    const denied = `arn:aws:s3:::${there}/denied`;
    const Statement = [{ Effect: 'Deny', Principal: '*', Action: 's3:GetObject', Resource: denied }];
    const policy = JSON.stringify({ Version: '2012-10-17', Statement });
    expect((await upstream.world.client.put(`/${there}?policy`, { body: policy })).status).toBe(204);
    const get: typeof world.context.metadata.get = async (at, key) => {
      if ((at.in as { key?: string }).key === 'damaged' || (key as { key?: string }).key === 'damaged')
        throw new MetadataDamaged('a row of objects is damaged', {
          table: 'objects',
          row: 'damaged',
          key: new Uint8Array(),
        });
      return world.context.metadata.get(at, key);
    };
    const context = { ...world.context, metadata: faulty(world.context.metadata, { get }) };
    const failed = new Map<string, string>();
    const counts = await imported({ context }, { failed: (key, why) => failed.set(key, why) });
    expect(counts).toEqual({ imported: 2, failed: 3 });
    expect(Object.fromEntries(failed)).toEqual({
      damaged: 'a row of objects is damaged',
      denied: expect.stringContaining('403'),
      large: 'it has 100 bytes, and maxBytesPerObject of the bucket is 50',
    });
    for (const key of ['a', 'z']) expect((await world.client.get(`/bucket/${key}`)).text).toBe(key);
    // What was in the way is away: the next run imports them.
    await operatorOf(world).must('PUT', '/buckets/bucket/quota', { ...limit, maxBytesPerObject: 0 });
    await upstream.world.client.delete(`/${there}?policy`);
    expect(await imported(world)).toEqual({ imported: 3, present: 2 });
  });

  test('counts and names keys that are no UTF-8 or too long, also where a page has no others, and imports the others', async () => {
    await using proxy = await startFaultyUpstream(upstream.url);
    const { world } = await inFront({ endpoint: proxy.url });
    await using _ = world;
    const long = 'k'.repeat(1_025);
    const pages = [
      ['a', '%FF1'],
      ['%FF2', 'x%E9'],
      ['%FF3', long, 'z'],
    ];
    const listing = ({ target }: { readonly target: string }) => {
      const token = new URL(target, proxy.url).searchParams.get('continuation-token') ?? '0';
      const keys = pages[Number(token)] ?? [];
      const next = Number(token) + 1;
      const contents = keys.map(
        (key) =>
          `<Contents><Key>${key}</Key><Size>1</Size><ETag>"e"</ETag><LastModified>2026-01-01T00:00:00Z</LastModified></Contents>`,
      );
      const rest = next < pages.length ? `<NextContinuationToken>${next}</NextContinuationToken>` : '';
      const page = `<ListBucketResult><EncodingType>url</EncodingType><IsTruncated>${rest !== ''}</IsTruncated>${rest}${contents.join('')}</ListBucketResult>`;
      return { status: 200, page };
    };
    proxy.fail(({ target }) => target.includes('list-type=2'), listing, 100);
    const failed = new Map<string, string>();
    const run = { headers: false, failed: (key: string, why: string) => void failed.set(key, why) };
    expect(await imported(world, run)).toEqual({ imported: 2, failed: 5 });
    const noText = 'the key is no UTF-8';
    expect(Object.fromEntries(failed)).toEqual({
      ...{ '%FF1': noText, '%FF2': noText, 'x%E9': noText, '%FF3': noText },
      [long]: expect.stringContaining('1024 bytes'),
    });
    expect((await world.client.get('/bucket?list-type=2')).all('Key')).toEqual(['a', 'z']);
  });

  test('makes one row of a key in two concurrent runs', async () => {
    const { world, there } = await inFront();
    for (let i = 0; i < 40; i += 1) await put(`/${there}/key-${i}`, 'x');
    await Promise.all([imported(world), imported(world)]);
    expect(await world.usage('bucket')).toEqual({ bytes: 40, objects: 40 });
    await world.close();
  });
});

test('fsck reports an imported object that was deleted upstream, and treats none as an orphan', async () => {
  const { world, there } = await inFront();
  await world.client.put('/bucket/own', { body: 'own' });
  for (const key of ['one', 'two']) await put(`/${there}/${key}`, key);
  await imported(world);
  await put(`/${there}/not-imported`, 'later');
  expect(await findings(world, { fix: true, drop: false, deep: true })).toEqual([]);
  await remove(upstream.world.client, `/${there}/two`);
  expect(await findings(world, { fix: false, drop: false })).toMatchObject([{ kind: 'missing', key: 'two' }]);
  expect((await upstream.world.client.get(`/${there}/not-imported`)).text).toBe('later');
  await world.close();
});

async function findings(
  { context }: GatewayWorld,
  mode: NonNullable<FsckOptions['mode']>,
): Promise<FsckFinding[]> {
  const found: FsckFinding[] = [];
  await runFsck(context, (finding) => void found.push(finding), { mode });
  return found;
}
