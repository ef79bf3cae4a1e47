/** The laws of replication peers that are other S3 services, which suites run on real ones. */
import { createHash, randomBytes } from 'node:crypto';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { operatorOf } from './clusters.ts';
import { complete, createUpload, putPart } from './gateway-bodies.ts';
import { elements, type LoadClient, loadClient, pathOf } from './load-client.ts';
import { roleArnOf } from './replication-role.ts';
import { keys, openSite, run, type Site, settled, statusOf, until } from './replication-sites.ts';

export interface PeerService extends AsyncDisposable {
  readonly endpoint: string;
  readonly region?: string;
  readonly accessKey: string;
  readonly secretKey: string;
}

export interface PeerLaws {
  readonly open: () => Promise<PeerService>;
}

const enabled = '<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>';
const md5 = (text: string) => ({ 'content-md5': createHash('md5').update(text).digest('base64') });
const partBytes = 5 * 1024 * 1024;

/** Inside of a `describe`. */
export function peerLaws({ open }: PeerLaws): void {
  let service: PeerService;
  let far: LoadClient;
  let buckets = 0;

  beforeAll(async () => {
    service = await open();
    far = loadClient(service.endpoint, service);
  });
  afterAll(async () => {
    far.close();
    await service[Symbol.asyncDispose]();
  });

  async function makeBucket({ lock = false, name = `copies-${buckets}` } = {}) {
    buckets += 1;
    const headers: Record<string, string> = lock ? { '*-bucket-object-lock-enabled': 'true' } : {};
    // MinIO wants a length.
    await far.expect({ method: 'PUT', path: pathOf(name), headers: { ...headers, 'content-length': '0' } });
    if (!lock)
      await far.expect({ method: 'PUT', path: pathOf(name), query: { versioning: '' }, body: enabled });
    return name;
  }

  async function putPeer(near: Site, others: Partial<PeerService> = {}): Promise<void> {
    const { endpoint, region, accessKey, secretKey } = service;
    const peer = { ...keys, endpoint, region, accessKey, secretKey, ...others };
    await operatorOf(near.world).must('PUT', '/replication/peers/far', peer);
  }

  async function replicateTo(near: Site, bucket: string, others: Partial<PeerService> = {}): Promise<void> {
    await putPeer(near, others);
    const body = `<ReplicationConfiguration><Role>${roleArnOf('alice-account')}</Role><Rule><ID>r</ID><Priority>1</Priority>
      <Filter/><Status>Enabled</Status><Destination><Bucket>arn:sluice:replication::far:${bucket}</Bucket></Destination>
      <DeleteMarkerReplication><Status>Enabled</Status></DeleteMarkerReplication>
      <DeleteReplication><Status>Enabled</Status></DeleteReplication></Rule></ReplicationConfiguration>`;
    expect((await near.world.client.put('/bucket?replication', { body })).text).toBe('');
  }

  async function putParts({ world: { client } }: Site, path: string): Promise<Buffer> {
    const content = randomBytes(partBytes + 7);
    const uploadId = await createUpload(client, path);
    const parts = [
      await putPart(client, path, { uploadId, number: 1, body: content.subarray(0, partBytes) }),
      await putPart(client, path, { uploadId, number: 2, body: content.subarray(partBytes) }),
    ];
    await complete(client, path, { uploadId, parts });
    return content;
  }

  test('POST …/check passes each step, and leaves nothing', async () => {
    const near = await openSite();
    const bucket = await makeBucket();
    await replicateTo(near, bucket);
    const checked = await operatorOf(near.world).must('POST', '/replication/peers/far/check', { bucket });
    expect(checked).toMatchObject({ ok: true });
    const { text } = await far.expect({ path: pathOf(bucket), query: { versions: '' } });
    expect(elements(text, 'Key')).toEqual([]);
  });

  test('versions in their order, metadata, tags, parts and delete markers arrive; deletions of versions are not sent', async () => {
    const near = await openSite();
    const bucket = await makeBucket();
    await replicateTo(near, bucket);
    const { client } = near.world;
    const headers = { '*-meta-colour': 'blue', '*-tagging': 'k=v', 'content-type': 'text/x' };
    const first = await client.put('/bucket/a', { body: 'one', headers });
    await client.put('/bucket/a', { body: 'two', headers });
    await client.put('/bucket/gone', { body: 'x' });
    await client.delete('/bucket/gone');
    const content = await putParts(near, '/bucket/parts');
    const empty = await client.put('/bucket/dir%20%2B/empty', { body: '' });
    expect(empty.status).toBe(200);
    run(near);
    for (const path of ['/bucket/a', '/bucket/parts', '/bucket/dir%20%2B/empty'])
      await settled(near, path, 'COMPLETED');
    await vi.waitFor(async () => {
      const { text } = await far.expect({ path: pathOf(bucket), query: { versions: '' } });
      expect(elements(text, 'Key').toSorted()).toEqual(['a', 'a', 'dir +/empty', 'gone', 'gone', 'parts']);
      expect(text).toContain('<DeleteMarker>');
    }, until);
    const copy = await far.expect({ path: pathOf(bucket, 'a') });
    expect([copy.text, copy.headers['x-amz-meta-colour'], copy.headers['content-type']]).toEqual([
      ...['two', 'blue', 'text/x'],
    ]);
    const tags = await far.expect({ path: pathOf(bucket, 'a'), query: { tagging: '' } });
    expect(elements(tags.text, 'Value')).toEqual(['v']);
    const joined = await far.expect({ path: pathOf(bucket, 'parts') });
    expect(joined.body.equals(content)).toBe(true);
    expect(joined.headers.etag).toBe((await client.head('/bucket/parts')).header('etag'));
    const body = '<Tagging><TagSet><Tag><Key>k</Key><Value>w</Value></Tag></TagSet></Tagging>';
    await client.put('/bucket/a?tagging', { body });
    await vi.waitFor(async () => {
      const changed = await far.expect({ path: pathOf(bucket, 'a'), query: { tagging: '' } });
      expect(elements(changed.text, 'Value')).toEqual(['w']);
    }, until);
    await client.delete(`/bucket/a?versionId=${first.header('*-version-id')}`);
    await client.put('/bucket/last', { body: 'x' });
    await settled(near, '/bucket/last', 'COMPLETED');
    const { text } = await far.expect({ path: pathOf(bucket), query: { versions: '', prefix: 'a' } });
    expect(elements(text, 'VersionId')).toHaveLength(2);
  });

  test('a bucket with Object Lock takes objects and parts, which are sent with a digest', async () => {
    const near = await openSite();
    const bucket = await makeBucket({ lock: true });
    const body =
      '<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled><Rule><DefaultRetention><Mode>GOVERNANCE</Mode><Days>1</Days></DefaultRetention></Rule></ObjectLockConfiguration>';
    await far.expect({
      method: 'PUT',
      path: pathOf(bucket),
      query: { 'object-lock': '' },
      body,
      headers: md5(body),
    });
    await replicateTo(near, bucket);
    await near.world.client.put('/bucket/a', { body: 'one' });
    const content = await putParts(near, '/bucket/parts');
    run(near);
    for (const path of ['/bucket/a', '/bucket/parts']) await settled(near, path, 'COMPLETED');
    const joined = await far.expect({ path: pathOf(bucket, 'parts') });
    expect(joined.body.equals(content)).toBe(true);
  });

  test('without the bucket, and with wrong keys, versions wait, and the status says what to do', async () => {
    const near = await openSite();
    run(near);
    const admin = operatorOf(near.world);
    const says = (advice: string) =>
      vi.waitFor(async () => {
        const { destinations } = await admin.must('GET', '/replication/status');
        expect(destinations).toMatchObject([
          { lastError: { message: expect.stringContaining(advice) }, waiting: 1 },
        ]);
      }, until);
    await replicateTo(near, 'missing', { secretKey: 'wrong-secret-key' });
    await near.world.client.put('/bucket/a', { body: 'one' });
    await says('PUT the peer again with the right secret key');
    // The rule was stored while the peer could not be asked for the bucket.
    await putPeer(near);
    await says('create the bucket at the peer');
    expect(await statusOf(near, '/bucket/a')).toBe('PENDING');
    await makeBucket({ name: 'missing' });
    await settled(near, '/bucket/a', 'COMPLETED');
  });
}
