/** What operators see of an object's versions and of open uploads. */
import { expect, test } from 'vitest';
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
