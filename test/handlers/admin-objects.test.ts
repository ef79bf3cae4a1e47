/** What operators see of an object's versions and of open uploads. */
import { expect, test } from 'vitest';
import { findBucket } from '../../src/metadata/buckets/buckets.ts';
import { manifestRows, objectsAt } from '../../src/metadata/objects/objects.ts';
import { findSessionPart, uploadAt } from '../../src/metadata/objects/uploads.ts';
import { type BucketRow, manifestSegmentParts } from '../../src/metadata/tables.ts';
import type { Extent } from '../../src/ports/object-bytes.ts';
import { operatorOf } from '../support/clusters.ts';
import { alice, openGateway } from '../support/gateway.ts';
import { setVersioning } from '../support/gateway-bodies.ts';
import { virtualClock } from '../support/virtual-clock.ts';

const day = 24 * 60 * 60 * 1000;
const statOf = (key: string, bucket = 'bucket') => `/buckets/${bucket}/object?key=${encodeURIComponent(key)}`;
const lifecycle = `<LifecycleConfiguration><Rule><ID>old</ID><Status>Enabled</Status><Filter><Prefix>logs/</Prefix></Filter>
  <Expiration><Days>30</Days></Expiration></Rule></LifecycleConfiguration>`;

test('StatObject shows every version with its place, size, lock, encryption and expiration', async () => {
  await using world = await openGateway();
  const admin = operatorOf(world);
  await world.client.put('/bucket', { headers: { 'x-amz-bucket-object-lock-enabled': 'true' } });
  await world.client.put('/bucket?lifecycle', { body: lifecycle });
  const key = 'logs/ü <b>';
  const path = `/bucket/${encodeURIComponent(key).replace('%2F', '/')}`;
  await world.client.put(path, { body: 'first', headers: { 'x-amz-meta-color': 'red' } });
  await world.client.put(path, {
    body: Buffer.alloc(5 * 1024 * 1024, 1),
    headers: {
      'x-amz-object-lock-legal-hold': 'ON',
      'x-amz-tagging': 'a=b',
      'x-amz-server-side-encryption': 'AES256',
    },
  });
  await world.client.delete(path);
  const { versions, next } = (await admin.must('GET', statOf(key))) as {
    versions: Record<string, unknown>[];
    next?: string;
  };
  expect(next).toBeUndefined();
  expect(versions).toHaveLength(3);
  expect(versions[0]).toMatchObject({ isLatest: true, isDeleteMarker: true, size: 0, owner: alice.owner });
  expect(versions[1]).toMatchObject({
    isLatest: false,
    size: 5 * 1024 * 1024,
    storageClass: 'STANDARD',
    legalHold: true,
    encryption: { algorithm: 'AES256' },
    tags: { a: 'b' },
    extents: [{ cluster: 'default', chunks: 2 }],
  });
  expect(versions[2]).toMatchObject({ size: 5, metadata: { color: 'red' } });
  const stored = await world.stored();
  const named = versions.flatMap(({ extents }) => (extents as { id: string }[]).map(({ id }) => id));
  expect([...named].sort()).toEqual([...stored].sort());
});

test('StatObject shows until when an archived version is restored, and nothing once that is over', async () => {
  const clock = virtualClock(Date.UTC(2026, 0, 1, 10));
  await using world = await openGateway({ clock });
  const admin = operatorOf(world);
  await world.client.put('/bucket');
  await world.client.put('/bucket/a', { body: 'a', headers: { 'x-amz-storage-class': 'GLACIER' } });
  const restored = async () => {
    const { versions } = (await admin.must('GET', statOf('a'))) as { versions: Record<string, unknown>[] };
    return versions.map(({ restoredUntil }) => restoredUntil);
  };
  expect(await restored()).toEqual([undefined]);
  const body = '<RestoreRequest><Days>2</Days></RestoreRequest>';
  expect((await world.client.post('/bucket/a?restore', { body })).status).toBe(202);
  expect(await restored()).toEqual(['2026-01-04T00:00:00.000Z']);
  await clock.advance(3 * day);
  expect(await restored()).toEqual([undefined]);
});

test('StatObject names the rule that expires the latest version', async () => {
  await using world = await openGateway();
  const admin = operatorOf(world);
  await world.client.put('/bucket');
  await world.client.put('/bucket?lifecycle', { body: lifecycle });
  await world.client.put('/bucket/logs/a', { body: 'a' });
  const { versions } = (await admin.must('GET', statOf('logs/a'))) as { versions: Record<string, unknown>[] };
  expect(versions[0]?.['expires']).toMatchObject({ rule: 'old' });
  expect(versions[0]?.['versionId']).toBe('null');
  expect((await admin.ask('GET', statOf('absent'))).status).toBe(404);
  expect((await admin.ask('GET', statOf('a', 'absent'))).status).toBe(404);
});

test('StatObject pages through many versions', async () => {
  await using world = await openGateway();
  const admin = operatorOf(world);
  await world.client.put('/bucket');
  await setVersioning(world.client, 'bucket', 'Enabled');
  for (let index = 0; index < 5; index += 1) await world.client.put('/bucket/key', { body: `${index}` });
  const seen: unknown[] = [];
  for (let after = ''; ; ) {
    const page = await admin.must('GET', `${statOf('key')}&limit=2${after && `&after=${after}`}`);
    seen.push(...(page['versions'] as { versionId: string }[]).map(({ versionId }) => versionId));
    if (page['next'] === undefined) break;
    after = encodeURIComponent(page['next'] as string);
  }
  expect(new Set(seen).size).toBe(5);
});

test('ListOpenUploads shows age and bytes, and AbortUploads ends those that are older', async () => {
  const clock = virtualClock();
  await using world = await openGateway({ clock });
  const admin = operatorOf(world);
  await world.client.put('/bucket');
  const begin = async (key: string) =>
    (await world.client.post(`/bucket/${key}?uploads`)).one('UploadId') ?? '';
  const old = await begin('old');
  await world.client.put(`/bucket/old?uploadId=${old}&partNumber=1`, { body: 'content' });
  await world.client.put(`/bucket/old?uploadId=${old}&partNumber=2`, { body: 'more' });
  await clock.advance(2 * day);
  await begin('young');
  const { rows } = (await admin.must('GET', '/buckets/bucket/uploads')) as {
    rows: Record<string, unknown>[];
  };
  expect(rows).toMatchObject([
    { key: 'old', uploadId: old, parts: 2, bytes: 11, initiator: alice.owner, ageSeconds: 2 * 86_400 },
    { key: 'young', parts: 0, bytes: 0, ageSeconds: 0 },
  ]);
  const refused = await admin.ask('POST', '/buckets/bucket/uploads/abort', {});
  expect(refused.status).toBe(400);
  const aborted = await admin.must('POST', '/buckets/bucket/uploads/abort', { olderThanSeconds: 86_400 });
  expect(aborted).toEqual({ aborted: 1, isTruncated: false });
  expect(await admin.must('GET', '/buckets/bucket/uploads')).toMatchObject({ rows: [{ key: 'young' }] });
  const part = await world.client.put(`/bucket/old?uploadId=${old}&partNumber=3`, { body: 'late' });
  expect(part.one('Code')).toBe('NoSuchUpload');
  await world.gc();
  expect(await world.stored()).toEqual([]);
});

test('a page of open uploads reads at most 1,000 parts and those of one more upload, and the pages together list all', async () => {
  await using world = await openGateway();
  const admin = operatorOf(world);
  await world.client.put('/bucket');
  const uploads = 12;
  const { metadata } = world.context;
  for (let n = 0; n < uploads; n += 1) {
    const uploadId = (await world.client.post(`/bucket/key-${n}?uploads`)).all('UploadId')[0] as string;
    await world.client.put(`/bucket/key-${n}?uploadId=${uploadId}&partNumber=1`, { body: 'x' });
    const found = await findSessionPart(metadata, uploadId, 1);
    for (let part = 2; part <= 300; part += 1)
      await metadata.commit(uploadAt(uploadId), [
        { put: { ...(found as NonNullable<typeof found>).row, part }, expect: 'absent' },
      ]);
  }
  interface Page {
    rows: { key: string; parts: number; bytes: number }[];
    next?: string;
  }
  const pages: Page[] = [];
  for (let next: string | undefined = ''; next !== undefined; next = pages.at(-1)?.next) {
    const after = next === '' ? '' : `&after=${encodeURIComponent(next)}`;
    pages.push((await admin.must('GET', `/buckets/bucket/uploads?limit=1000${after}`)) as unknown as Page);
  }
  expect(pages.map(({ rows }) => rows.length)).toEqual([4, 4, 4]);
  const rows = pages.flatMap((page) => page.rows);
  expect(new Set(rows.map(({ key }) => key)).size).toBe(uploads);
  expect(rows.every(({ parts, bytes }) => parts === 300 && bytes === 300)).toBe(true);
});

test('a page of versions ends with the one whose extents reach 10,000, and the pages together show all', async () => {
  await using world = await openGateway();
  const admin = operatorOf(world);
  await world.client.put('/bucket');
  await setVersioning(world.client, 'bucket', 'Enabled');
  for (let n = 0; n < 7; n += 1) await world.client.put('/bucket/key', { body: `${n}` });
  const { metadata } = world.context;
  const bucket = (await findBucket(metadata, 'bucket'))?.row as BucketRow;
  const count = 4_000;
  const offsets = Array.from({ length: Math.ceil(count / manifestSegmentParts) }, (_, segment) => segment);
  const manifest = { manifestId: 'manifest', partCount: count, offsets };
  for (const { row, revision } of await metadata.scan(objectsAt(bucket)).next(100)) {
    const [extent] = 'extents' in row.manifest ? row.manifest.extents : [];
    const parts = Array.from({ length: count }, (_, n) => ({ number: n + 1, extent: extent as Extent }));
    await metadata.apply(manifestRows('manifest', parts));
    await metadata.commit(objectsAt(bucket), [{ put: { ...row, manifest }, expect: revision }]);
  }
  const pages: { versions: { versionId: string; extentsLeftOut: number }[]; next?: string }[] = [];
  for (let next: string | undefined = ''; next !== undefined; next = pages.at(-1)?.next) {
    const after = next === '' ? '' : `&after=${next}`;
    pages.push((await admin.must('GET', `/buckets/bucket/object?key=key${after}`)) as never);
  }
  expect(pages.map(({ versions }) => versions.length)).toEqual([3, 3, 1]);
  const versions = pages.flatMap((page) => page.versions);
  expect(new Set(versions.map(({ versionId }) => versionId)).size).toBe(7);
  expect(versions.every(({ extentsLeftOut }) => extentsLeftOut === 3_000)).toBe(true);
});
