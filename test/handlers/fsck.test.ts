/** The fsck worker as operators see it, and an index that is rebuilt from stored bytes. @storage */
import { describe, expect, test } from 'vitest';
import { openBucket } from '../../src/domain/common/buckets.ts';
import { runFsck } from '../../src/domain/fsck/fsck.ts';
import { type LostBucket, type Rebuilt, rebuildIndex } from '../../src/domain/fsck/rebuild.ts';
import { findBucket, removeBucket } from '../../src/metadata/buckets/buckets.ts';
import { objectsAt } from '../../src/metadata/objects/objects.ts';
import { encodeReplica } from '../../src/metadata/objects/properties.ts';
import { uploads } from '../../src/metadata/tables.ts';
import type { Owner } from '../../src/ports/object-bytes.ts';
import { silentTelemetry } from '../../src/ports/telemetry.ts';
import { compareAll, repairAlone } from '../../src/workers/fsck.ts';
import { backends, type GatewayWorld, openGateway, operator } from '../support/gateway.ts';
import { bytesOf, complete, MiB, md5, putPart } from '../support/gateway-bodies.ts';
import { steppingClock, tickingClock } from '../support/recorded.ts';
import { openSite, sendObject, versionAt, written } from '../support/replicas.ts';
import { virtualClock } from '../support/virtual-clock.ts';

const never = new AbortController().signal;
const dayMs = 86_400_000;
/** A page that takes so long is the only one of its unit. */
const pageMs = 150;

/** Removes every row of the bucket's objects, as a failed disk would. */
async function loseRows(
  { context }: GatewayWorld,
  isLost: (key: string) => boolean = () => true,
): Promise<void> {
  const bucket = await openBucket(context, 'bucket');
  const rows = await context.metadata.scan(objectsAt(bucket)).next(10_000);
  for (const { row, revision } of rows) {
    if (!isLost(row.key)) continue;
    const { space, key, slot } = row;
    await context.metadata.commit(objectsAt(bucket), [{ remove: { space, key, slot }, expect: revision }]);
  }
}
async function loseSession({ context: { metadata } }: GatewayWorld, uploadId: string): Promise<void> {
  const at = { table: uploads, in: { uploadId } };
  for (const { row, revision } of await metadata.scan(at).next(100))
    await metadata.commit(at, [{ remove: { part: row.part }, expect: revision }]);
}

async function rebuilt(
  world: GatewayWorld,
  options: { buckets?: readonly LostBucket[]; atOnce?: number } = {},
) {
  const told: Rebuilt[] = [];
  const report = (each: Rebuilt): void => void told.push(each);
  const summary = await rebuildIndex(world.context, { buckets: [], report, ...options });
  return { told, summary };
}
const compared = async (world: GatewayWorld, fix = false) =>
  runFsck(world.context, () => {}, { mode: { fix, drop: false } });
const versioning = async ({ client }: GatewayWorld, status: string) =>
  client.put('/bucket?versioning', {
    body: `<VersioningConfiguration><Status>${status}</Status></VersioningConfiguration>`,
  });

describe.each(backends)('a lost index: %s', (backend) => {
  test('is rebuilt from the bytes: objects, parts and versions, with their original ids', async () => {
    await using world = await openGateway({ backend, clock: tickingClock() });
    const { client } = world;
    await client.put('/bucket');
    await client.put('/bucket/plain', { body: 'plain', headers: { '*-storage-class': 'STANDARD_IA' } });
    await client.put('/bucket/over', { body: 'one' });
    const etag = (await client.put('/bucket/over', { body: 'two' })).header('etag');
    const big = bytesOf(9 * MiB, 3);
    await client.put('/bucket/big', { body: big });
    await client.put('/bucket/mixed', { body: 'null version' });
    await versioning(world, 'Enabled');
    const ids: (string | undefined)[] = [];
    for (const body of ['first', 'second', 'third'])
      ids.push((await client.put('/bucket/mixed', { body })).header('*-version-id'));
    const upload = (await client.post('/bucket/parts?uploads')).one('UploadId') ?? '';
    const etags: string[] = [];
    for (const [part, body] of [
      [1, bytesOf(5 * MiB, 1)],
      [2, bytesOf(100, 2)],
    ] as const) {
      const put = await client.put(`/bucket/parts?uploadId=${upload}&partNumber=${part}`, { body });
      etags.push(`<Part><PartNumber>${part}</PartNumber><ETag>${put.header('etag')}</ETag></Part>`);
    }
    const complete = `<CompleteMultipartUpload>${etags.join('')}</CompleteMultipartUpload>`;
    const done = await client.post(`/bucket/parts?uploadId=${upload}`, { body: complete });
    expect(done.status, done.text).toBe(200);
    await world.gc();

    await loseSession(world, upload);
    await loseRows(world);
    expect((await client.get('/bucket?versions')).all('Key')).toEqual([]);
    const { told, summary } = await rebuilt(world);
    expect(told.filter(({ kind }) => kind === 'left')).toEqual([]);
    expect(summary).toEqual({ rebuilt: 8, left: 0 });

    const plain = await client.get('/bucket/plain');
    expect([plain.text, plain.header('*-storage-class')]).toEqual(['plain', 'STANDARD_IA']);
    const over = await client.get('/bucket/over');
    expect([over.text, over.header('etag')]).toEqual(['two', etag]);
    expect(Buffer.compare((await client.get('/bucket/big')).bytes, big)).toBe(0);
    for (const [i, body] of ['first', 'second', 'third'].entries())
      expect((await client.get(`/bucket/mixed?versionId=${ids[i]}`)).text).toBe(body);
    expect((await client.get('/bucket/mixed')).text).toBe('third');
    expect((await client.get('/bucket/mixed?versionId=null')).text).toBe('null version');
    const parts = await client.get('/bucket/parts');
    expect(parts.bytes.length).toBe(5 * MiB + 100);
    expect(parts.header('etag')).toBe(done.one('ETag'));

    await compared(world, true);
    expect(await compared(world)).toMatchObject({ found: 0, leaving: 0 });
    expect((await rebuilt(world)).summary).toEqual({ rebuilt: 0, left: 0 });
  });

  test('with a lost bucket is restored under the bucket’s old id, which fsck reports', async () => {
    await using world = await openGateway({ backend });
    const { client, context } = world;
    await client.put('/bucket');
    for (let i = 0; i < 20; i += 1) await client.put(`/bucket/${i}`, { body: `body ${i}` });
    const found = await findBucket(context.metadata, 'bucket');
    if (found === undefined) throw new Error('no bucket');
    await loseRows(world);
    await removeBucket(context.metadata, found);
    const { id } = found.row;
    const findings: unknown[] = [];
    const fixing = { mode: { fix: true, drop: true } };
    const all = await runFsck(context, (finding) => void findings.push(finding), fixing);
    expect(all).toMatchObject({ found: 20, fixed: 0 });
    expect(findings[0]).toMatchObject({ kind: 'unowned', bucketId: id, left: expect.any(String) });
    expect((await rebuilt(world)).summary).toEqual({ rebuilt: 0, left: 1 });

    // With only 7 extents at once, many walks over the bytes give the same result.
    const buckets = [{ id, name: 'bucket', owner: 'alice-account' }];
    const { summary } = await rebuilt(world, { buckets, atOnce: 7 });
    expect(summary).toEqual({ rebuilt: 21, left: 0 });
    for (let i = 0; i < 20; i += 1) expect((await client.get(`/bucket/${i}`)).text).toBe(`body ${i}`);
    expect((await client.get('/')).all('Name')).toEqual(['bucket']);
  });
});

test('a rebuild changes nothing that is there, and makes nothing of what cannot be read', async () => {
  await using world = await openGateway();
  const { client, context } = world;
  await client.put('/bucket');
  await client.put('/bucket/there', { body: 'acknowledged' });
  await client.put('/bucket/sealed', { body: 'x', headers: { '*-server-side-encryption': 'AES256' } });
  const { id: bucketId } = await openBucket(context, 'bucket');
  const write = (id: string, key: string, more = {}) =>
    context.bytes.write(
      (async function* () {
        yield new TextEncoder().encode('never acknowledged');
      })(),
      { cluster: 'default', id, storageClass: 'STANDARD', owner: { bucketId, key, ...more } },
    );
  await write('leaked', 'there');
  await loseRows(world, (key) => key === 'sealed');
  const { told } = await rebuilt(world);
  expect(told.map(({ kind, key }) => `${kind} ${key}`).sort()).toEqual(['left sealed', 'left there']);
  expect((await client.get('/bucket/there')).text).toBe('acknowledged');
  expect((await client.get('/bucket/sealed')).status).toBe(404);
});

test('what is torn or has a part missing is not taken for a whole object', async () => {
  await using world = await openGateway();
  await world.client.put('/bucket');
  const { id: bucketId } = await openBucket(world.context, 'bucket');
  const plant = async (id: string, more: Partial<Owner>): Promise<void> => {
    const source = (async function* () {
      for (let i = 0; i < 4; i += 1) yield bytesOf(MiB, i);
    })();
    const owner = { bucketId, key: 'torn', ...more };
    await world.context.bytes.write(source, { cluster: 'default', id, storageClass: 'STANDARD', owner });
  };
  await plant('op', { size: 20 * MiB });
  const uploadId = 'a'.repeat(32);
  for (const part of [1, 3]) await plant(`part${part}`, { key: 'parts', uploadId, part });
  const other = 'b'.repeat(32);
  await plant('whole', { key: 'torn-part', uploadId: other, part: 1 });
  await plant('half', { key: 'torn-part', uploadId: other, part: 2, size: 5 * MiB });
  await plant('last', { key: 'torn-part', uploadId: other, part: 3 });
  const { told } = await rebuilt(world);
  expect(new Set(told.map(({ kind, key }) => `${kind} ${key}`))).toEqual(
    new Set(['left torn', 'left parts', 'left torn-part']),
  );
});

test('a version that is stored on two clusters, because it was being moved, becomes one version', async () => {
  await using world = await openGateway({ clock: tickingClock() });
  const { client, context } = world;
  await client.put('/bucket');
  await versioning(world, 'Enabled');
  const id = (await client.put('/bucket/key', { body: 'content' })).header('*-version-id') ?? '';
  const { id: bucketId } = await openBucket(context, 'bucket');
  const [first] = await world.stored();
  const source = (async function* () {
    yield new TextEncoder().encode('content');
  })();
  const owner = { bucketId, key: 'key', version: id, size: 7 };
  await context.bytes.write(source, { cluster: 'default', id: `${first}z`, storageClass: 'STANDARD', owner });
  await loseRows(world);
  expect((await rebuilt(world)).summary).toEqual({ rebuilt: 1, left: 0 });
  expect((await client.get('/bucket?versions')).all('VersionId')).toEqual([id]);
  expect((await client.get('/bucket/key')).text).toBe('content');
});

test('a rebuild gives replicas their version ids, also those that arrived after newer versions', async () => {
  await using world = await openSite();
  const now = Date.now();
  const local = await world.client.put('/bucket/key', { body: 'local' });
  const older = [1000, 3000, 2000].map((ago) => versionAt(now - ago));
  for (const version of older)
    await sendObject(world.client, '/bucket/key', written(version, { version }), version);
  const inParts = versionAt(now - 1500);
  const document = written('part', { version: inParts, etag: `${md5(Buffer.from(md5('part'), 'hex'))}-1` });
  const begun = await world.client.post(`/bucket/key?uploads&replica=${inParts}`, {
    body: encodeReplica(document),
  });
  const uploadId = begun.one('UploadId') ?? '';
  const part = await putPart(world.client, '/bucket/key', { uploadId, number: 1, body: 'part' });
  expect((await complete(world.client, '/bucket/key', { uploadId, parts: [part] })).status).toBe(200);
  older.push(inParts);
  await world.gc();
  await loseRows(world);
  await loseSession(world, uploadId);
  expect((await rebuilt(world)).told.length).toBe(5);
  const listed = await world.client.get('/bucket?versions');
  const wanted = [local.header('*-version-id'), ...older.toSorted().reverse()];
  expect(listed.all('VersionId')).toEqual(wanted);
  expect((await world.client.get('/bucket/key')).text).toBe('local');
});

test('a rebuild that is killed at any commit continues to the same result', async () => {
  for (let killedAt = 1; killedAt < 10; killedAt += 1) {
    await using world = await openGateway({ clock: tickingClock() });
    const { client, context } = world;
    await client.put('/bucket');
    await client.put('/bucket/a', { body: 'null' });
    await versioning(world, 'Enabled');
    for (const body of ['one', 'two', 'three']) await client.put('/bucket/a', { body });
    const before = (await client.get('/bucket?versions')).all('VersionId');
    await loseRows(world);
    let commits = 0;
    const { metadata } = context;
    const commit: typeof metadata.commit = (...given) => {
      commits += 1;
      return commits >= killedAt ? Promise.reject(new Error('killed')) : metadata.commit(...given);
    };
    const dying = { ...context, metadata: { ...metadata, commit } };
    await rebuildIndex(dying, { buckets: [], report: () => {} }).catch(() => undefined);
    await rebuilt(world);
    expect((await client.get('/bucket?versions')).all('VersionId')).toEqual(before);
    expect((await client.get('/bucket/a')).text).toBe('three');
    expect((await client.get('/bucket/a?versionId=null')).text).toBe('null');
  }
});

describe('the worker', () => {
  const at = '/admin/v1/fsck';
  const asked = async (world: GatewayWorld) =>
    JSON.parse((await world.as({ credential: operator }).get(at)).text);
  const plant = async ({ context }: GatewayWorld) => {
    const { id: bucketId } = await openBucket(context, 'bucket');
    const source = (async function* () {
      yield new Uint8Array(3);
    })();
    const owner = { bucketId, key: 'k' };
    await context.bytes.write(source, { cluster: 'default', id: 'stray', storageClass: 'STANDARD', owner });
  };

  test('begins when it is due, reports its state, and repairs if it is configured to', async () => {
    for (const fix of [false, true]) {
      const clock = virtualClock();
      const logged: string[] = [];
      await using world = await openGateway({
        clock,
        settings: { SVC_FSCK_INTERVAL: '1d', SVC_FSCK_FIX: String(fix) },
        telemetry: { ...silentTelemetry, log: (level, message) => void logged.push(`${level} ${message}`) },
      });
      await world.client.put('/bucket');
      await plant(world);
      const slow = { ...world.context, clock: steppingClock(pageMs, clock) };
      const unit = compareAll(slow);
      for (let i = 0; i < 9; i += 1) await unit(never);
      expect(await asked(world)).toMatchObject({ state: 'done', found: 0, stored: 0 });
      clock.jump(dayMs);
      await unit(never);
      expect(await asked(world)).toMatchObject({ state: 'running', at: 'versions' });
      // Another process takes over in the middle of the run.
      const successor = compareAll(world.context);
      for (let i = 0; i < 9; i += 1) await successor(never);
      expect(await asked(world)).toMatchObject({
        state: 'done',
        fix,
        found: 1,
        fixed: fix ? 1 : 0,
        stored: 1,
      });
      expect(logged).toContain('WARN metadata and data do not match');
      await world.gc();
      expect(await world.stored()).toEqual(fix ? [] : ['stray']);
    }
  });

  test('begins sooner on an operator’s request only, once', async () => {
    await using world = await openGateway();
    await world.client.put('/bucket');
    await plant(world);
    const post = async (body?: string) =>
      world.as({ credential: operator }).post(at, body === undefined ? {} : { body });
    expect((await world.as({ credential: operator }).get(at)).status).toBe(404);
    for (const client of [world.client, world.anonymous]) {
      expect((await client.post(at)).status).toBe(403);
      expect((await client.get(at)).status).toBe(403);
    }
    expect((await post('{"fix":1}')).status).toBe(400);
    const begun = await post('{"fix":true}');
    expect([begun.status, JSON.parse(begun.text)]).toMatchObject([202, { state: 'running', fix: true }]);
    const unit = compareAll({ ...world.context, clock: steppingClock(pageMs) });
    await unit(never);
    expect(JSON.parse((await post('{"fix":false}')).text)).toMatchObject({ state: 'running', fix: true });
    for (let i = 0; i < 9; i += 1) await unit(never);
    expect(await asked(world)).toMatchObject({ state: 'done', found: 1, fixed: 1 });
  });

  test.each([
    ['many pages where each takes 2 ms', 2, 4, 8],
    ['one page where each takes longer than a tenth of a second', pageMs, 160, 175],
  ])('a unit processes %s', async (_, stepMs, unitsMin, unitsMax) => {
    await using world = await openGateway();
    for (let i = 0; i < 40; i += 1) await world.client.put(`/bucket-${i}`);
    await world.as({ credential: operator }).post(at);
    const unit = compareAll({ ...world.context, clock: steppingClock(stepMs) });
    let units = 0;
    for (; (await asked(world)).state !== 'done' && units < 1_000; units += 1)
      expect(await unit(never)).toBe('idle');
    expect(units).toBeGreaterThanOrEqual(unitsMin);
    expect(units).toBeLessThanOrEqual(unitsMax);
    expect(await asked(world)).toMatchObject({ found: 0 });
  });

  test('waits while a rebuild is running, and repairs nothing meanwhile', async () => {
    const logged: string[] = [];
    await using world = await openGateway({
      telemetry: { ...silentTelemetry, log: (_, message) => void logged.push(message) },
    });
    await world.client.put('/bucket');
    await plant(world);
    const unit = compareAll(world.context);
    await repairAlone(world.context, never, async () => {
      await world.as({ credential: operator }).post(at, { body: '{"fix":true}' });
      for (let i = 0; i < 9; i += 1) await unit(never);
      expect(await asked(world)).toMatchObject({ state: 'running', fix: true, at: 'metadata', found: 0 });
      expect(logged.filter((message) => message === 'fsck is waiting')).toHaveLength(1);
    });
    for (let i = 0; i < 12; i += 1) await unit(never);
    expect(await asked(world)).toMatchObject({ state: 'done', found: 1, fixed: 1 });
  });
});
