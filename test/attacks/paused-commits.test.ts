/** A request is paused right before a commit, as in a suspended machine, while others change what it has read; then it goes on. */
import { describe, expect, test } from 'vitest';
import { createGateway } from '../../src/admin-gateway.ts';
import { openBucket } from '../../src/domain/common/buckets.ts';
import { uploadsIn } from '../../src/metadata/objects/uploads.ts';
import { carryOutLifecycles } from '../../src/workers/lifecycle.ts';
import { domain, furnished } from '../support/access-points.ts';
import { operatorOf } from '../support/clusters.ts';
import { faulty } from '../support/faulty.ts';
import { alice, bob, type GatewayWorld, openGateway } from '../support/gateway.ts';
import { complete, createUpload, setVersioning } from '../support/gateway-bodies.ts';
import { openClient } from '../support/gateway-client.ts';
import { pausedProcess } from '../support/paused-process.ts';
import { openSite, rowsOf, sendObject, versionAt, written } from '../support/replicas.ts';
import { virtualClock } from '../support/virtual-clock.ts';

const dayMs = 86_400_000;
const never = new AbortController().signal;

/** A gateway in another process over the same stores, which can be paused. */
function otherProcess({ context }: GatewayWorld, credential = alice) {
  const process = pausedProcess(context);
  const gateway = createGateway(process.context, { basePath: '' });
  return { ...process, client: openClient(gateway, context.clock, { credential }) };
}

describe.each(['memory', 'embedded+file'] as const)('on %s', (backend) => {
  test('a removal of the only version that was paused hides no replica that arrived behind that version meanwhile', async () => {
    await using site = await openSite({ backend });
    const { client } = site;
    const local = await client.put('/bucket/key', { body: 'local' });
    const late = otherProcess(site);
    late.pauseBefore('commit', 'objects');
    const removing = late.client.delete(`/bucket/key?versionId=${local.header('*-version-id')}`);
    await late.stands;
    const version = versionAt(Date.now() - 10_000);
    const sent = await sendObject(client, '/bucket/key', written('replica', { version }), 'replica');
    expect(sent.header('*-replica-outcome'), sent.text).toBe('stored');
    late.goOn();
    expect((await removing).status).toBe(204);
    expect((await rowsOf(site.context, 'bucket', 'key')).map((row) => row.version)).toEqual([version]);
    expect((await client.get('/bucket/key')).text).toBe('replica');
    expect((await client.get('/bucket?list-type=2')).all('Key')).toEqual(['key']);
    expect(await site.usage('bucket')).toEqual({ bytes: 7, objects: 1 });
  });

  test('a removal of the latest version that was paused makes the newest of the others the latest, also a replica that arrived meanwhile', async () => {
    await using site = await openSite({ backend });
    const { client } = site;
    const versions = [30_000, 10_000].map((ago) => versionAt(Date.now() - ago));
    const [oldest = '', newer = ''] = versions;
    const local = await client.put('/bucket/key', { body: 'local' });
    await sendObject(client, '/bucket/key', written('oldest', { version: oldest }), 'oldest');
    const late = otherProcess(site);
    late.pauseBefore('commit', 'objects');
    const removing = late.client.delete(`/bucket/key?versionId=${local.header('*-version-id')}`);
    await late.stands;
    await sendObject(client, '/bucket/key', written('newer', { version: newer }), 'newer');
    late.goOn();
    expect((await removing).status).toBe(204);
    expect((await client.get('/bucket/key')).text).toBe('newer');
    expect((await client.get('/bucket?versions')).all('VersionId')).toEqual([newer, oldest]);
  });

  test('a DeleteBucket that was paused until others opened the bucket again aborts no upload in it', async () => {
    const clock = virtualClock();
    await using world = await openGateway({ backend, clock });
    const { client, context } = world;
    await client.put('/bucket');
    const { promise: stands, resolve: stand } = Promise.withResolvers<void>();
    const { promise: resumed, resolve: goOn } = Promise.withResolvers<void>();
    const { metadata } = context;
    const paused = faulty(metadata, {
      async raiseFence(...input) {
        stand();
        await resumed;
        return metadata.raiseFence(...input);
      },
    });
    const gateway = createGateway({ ...context, metadata: paused }, { basePath: '' });
    const deleting = openClient(gateway, clock, { credential: alice }).delete('/bucket');
    await stands;
    clock.jump(31_000);
    // The first commit opens the bucket, whose DeleteBucket seems to have died.
    expect((await client.put('/bucket/key', { body: 'content' })).status).toBe(200);
    await client.delete('/bucket/key');
    const uploadId = await createUpload(client, '/bucket/key');
    const path = `/bucket/key?partNumber=1&uploadId=${uploadId}`;
    const part = await client.put(path, { body: 'part' });
    expect(part.status, part.text).toBe(200);
    goOn();
    expect((await deleting).status).toBe(409);
    const parts = [{ number: 1, etag: part.header('etag') ?? '' }];
    const completed = await complete(client, '/bucket/key', { uploadId, parts });
    expect(completed.status, completed.text).toBe(200);
    expect((await client.get('/bucket/key')).text).toBe('part');
  });

  test('gc aborts the uploads of a bucket whose DeleteBucket was killed after its commit', async () => {
    await using world = await openGateway({ backend });
    const { client, context } = world;
    await client.put('/bucket');
    const { id } = await openBucket(context, 'bucket');
    const uploadId = await createUpload(client, '/bucket/key');
    await client.put(`/bucket/key?partNumber=1&uploadId=${uploadId}`, { body: 'part' });
    const dying = otherProcess(world);
    dying.pauseBefore('get', 'uploads');
    void dying.client.delete('/bucket');
    await dying.stands;
    expect((await client.head('/bucket')).status).toBe(404);
    expect((await world.stored()).length).toBe(1);
    await world.gc();
    expect(await world.stored()).toEqual([]);
    expect(await context.metadata.scan(uploadsIn(id)).next(1)).toEqual([]);
  });

  test('a CreateBucket that was paused while its account was deleted makes no bucket', async () => {
    await using world = await openGateway({ backend });
    const admin = operatorOf(world);
    const made = (await admin.must('POST', '/accounts', { account: 'carol' })) as Record<string, string>;
    const credential = {
      ...alice,
      owner: 'carol',
      accessKey: made['accessKey'] ?? '',
      secretKey: made['secretKey'] ?? '',
    };
    const late = otherProcess(world, credential);
    late.pauseBefore('commit', 'buckets');
    const creating = late.client.put('/bucket');
    await late.stands;
    expect((await admin.ask('DELETE', '/accounts/carol')).status).toBe(204);
    late.goOn();
    expect((await creating).status).toBe(403);
    expect((await world.client.put('/bucket')).status).toBe(200);
  });

  test('a CreateBucket that was paused does not take the host of an access point that was made meanwhile', async () => {
    await using world = await openGateway({ backend, settings: { SVC_DOMAIN: domain } });
    const late = otherProcess(world, bob);
    late.pauseBefore('commit', 'buckets');
    const creating = late.client.put('/photos-alice-account');
    await late.stands;
    await furnished(world);
    late.goOn();
    expect((await creating).status).toBe(400);
    const atHost = world.as({ host: `photos-alice-account.${domain}` });
    expect((await atHost.get('/key')).text).toBe('x');
  });

  test('a CreateAccessPoint that was paused does not take the host of a bucket that was made meanwhile', async () => {
    await using world = await openGateway({ backend });
    await world.client.put('/bucket');
    const late = otherProcess(world);
    late.pauseBefore('commit', 'access_point_aliases');
    const creating = late.client.get('/', {
      query: { Action: 'CreateAccessPoint', Name: 'photos', Bucket: 'bucket' },
    });
    await late.stands;
    expect((await world.bob.put('/photos-alice-account')).status).toBe(200);
    late.goOn();
    expect((await creating).status).toBe(400);
    expect((await world.bob.put('/photos-alice-account/key', { body: 'x' })).status).toBe(200);
    expect((await world.bob.delete('/photos-alice-account/key')).status).toBe(204);
    expect((await world.bob.delete('/photos-alice-account')).status).toBe(204);
    expect((await world.bob.put('/photos-alice-account')).status).toBe(200);
  });

  test('a CreateBucket that was paused until others created a bucket in its place does not exceed maxBuckets', async () => {
    const clock = virtualClock();
    await using world = await openGateway({ backend, clock });
    const quota = { maxBuckets: 1, totalMaxBytes: 0 };
    await operatorOf(world).must('PUT', `/iam/users/${alice.owner}/quota`, quota);
    const late = otherProcess(world);
    late.pauseBefore('commit', 'buckets');
    const creating = late.client.put('/late');
    await late.stands;
    clock.jump(11 * 60_000);
    expect((await world.client.put('/bucket')).status).toBe(200);
    late.goOn();
    const answer = await creating;
    expect([answer.status, answer.text], answer.text).toEqual([
      403,
      expect.stringContaining('QuotaExceeded'),
    ]);
    expect((await world.client.get('/')).all('Name')).toEqual(['bucket']);
  });

  describe('a lifecycle worker that was paused', () => {
    async function openRuled(rule: string) {
      const clock = virtualClock();
      const world = await openGateway({ backend, clock, settings: { SVC_LIFECYCLE_RATE: '1000000' } });
      await world.client.put('/bucket');
      await setVersioning(world.client, 'bucket', 'Enabled');
      const body = `<LifecycleConfiguration><Rule><ID>rule</ID><Status>Enabled</Status><Filter/>${rule}</Rule></LifecycleConfiguration>`;
      expect((await world.client.put('/bucket?lifecycle', { body })).status).toBe(200);
      return { world, clock, late: pausedProcess(world.context) };
    }
    async function pass(context: GatewayWorld['context']): Promise<void> {
      const unit = carryOutLifecycles(context);
      while ((await unit(never)) === 'busy');
    }
    const write = async ({ client }: GatewayWorld, body: string): Promise<string> =>
      (await client.put('/bucket/key', { body })).header('*-version-id') ?? '';

    const newerTwo =
      '<NoncurrentVersionExpiration><NoncurrentDays>1</NoncurrentDays><NewerNoncurrentVersions>2</NewerNoncurrentVersions></NoncurrentVersionExpiration>';

    test('keeps the versions that its rule keeps, after a newer one was removed meanwhile', async () => {
      const { world, clock, late } = await openRuled(newerTwo);
      await using _ = world;
      const versions: string[] = [];
      for (const body of ['1', '2', '3', '4']) versions.push(await write(world, body));
      const [first = '', second = '', third = '', current = ''] = versions;
      clock.jump(3 * dayMs);
      late.pauseBefore('commit', 'objects');
      const passing = pass(late.context);
      await late.stands;
      // Two noncurrent versions are left, and the rule keeps two.
      expect((await world.client.delete(`/bucket/key?versionId=${third}`)).status).toBe(204);
      late.goOn();
      await passing;
      const listed = await world.client.get('/bucket?versions');
      expect(listed.all('VersionId')).toEqual([current, second, first]);
      // A later pass removes what the rule does not keep.
      await write(world, '5');
      clock.jump(3 * dayMs);
      await pass(world.context);
      expect((await world.client.get('/bucket?versions')).all('VersionId')).not.toContain(first);
    });

    test('aborts no upload whose rule was removed meanwhile', async () => {
      const { world, clock, late } = await openRuled(
        '<AbortIncompleteMultipartUpload><DaysAfterInitiation>1</DaysAfterInitiation></AbortIncompleteMultipartUpload>',
      );
      await using _ = world;
      const uploadId = await createUpload(world.client, '/bucket/key');
      clock.jump(3 * dayMs);
      late.pauseBefore('get', 'uploads');
      const passing = pass(late.context);
      await late.stands;
      expect((await world.client.delete('/bucket?lifecycle')).status).toBe(204);
      late.goOn();
      await passing;
      const part = await world.client.put(`/bucket/key?partNumber=1&uploadId=${uploadId}`, { body: 'part' });
      expect(part.status, part.text).toBe(200);
    });
  });
});
