/** The content of an object is held back halfway while its cluster, keys, locks or writer change. */
import { randomBytes } from 'node:crypto';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { blockXml } from '../support/access.ts';
import { openActions } from '../support/actions.ts';
import { evacuate, expectReady, extentsOn, fsckOf, openPair } from '../support/clusters.ts';
import { alice, backends, openGateway } from '../support/gateway.ts';
import {
  complete,
  completion,
  createUpload,
  putPart,
  setVersioning,
  versioning,
} from '../support/gateway-bodies.ts';
import type { Answer } from '../support/gateway-client.ts';
import { whileHeld } from '../support/held-body.ts';
import { type HeldWrite, heldContent, heldWriteNames, heldWrites } from '../support/held-writes.ts';
import { allow, openUser } from '../support/iam-users.ts';
import { configuration, dayMs, defaultRule, lockIn } from '../support/locks.ts';
import { virtualClock } from '../support/virtual-clock.ts';

/** Longer than the time for which a streamed body is stored under the authorization of its first byte. */
const heldMs = 2_000;

const tagging = '<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>';
const tagBucket = { method: 'PUT', path: '/bucket?tagging', ask: { body: tagging } };

describe.each(backends)('on %s', (backend) => {
  describe.each(heldWriteNames)('a held %s whose cluster is drained meanwhile', (name) => {
    test('is stored on the cluster where it began, which is not reported empty before the object has moved', async () => {
      const { world, admin, clock, drain } = await openPair(backend);
      await using _ = world;
      await world.client.put('/bucket');
      const { request, client, finish } = await heldWrites[name](world, {
        credential: alice,
        now: clock.now(),
      });
      const answer = await whileHeld(client, request, async () => {
        await drain();
        await clock.advance(heldMs);
      });
      expect(answer.status, answer.text).toBeLessThan(300);
      expect((await finish(world.client, answer)).status).toBeLessThan(300);
      expect(await extentsOn(world, 'a')).toBe(1);
      expect((await world.client.get('/bucket/key')).text).toBe(heldContent);
      expect(await admin.must('GET', '/clusters/a/drain-progress')).toMatchObject({ deregisterReady: false });
      await evacuate(world.context, clock);
      expect([await extentsOn(world, 'a'), await extentsOn(world, 'b')]).toEqual([0, 1]);
      expect((await world.client.get('/bucket/key')).text).toBe(heldContent);
      expect(await fsckOf(world)).toEqual([]);
      await expectReady(world, { admin, backend });
    });
  });

  test.each(heldWriteNames)(
    'the object of a held %s has the versioning and the default retention of its commit',
    async (name) => {
      const clock = virtualClock();
      await using world = await openGateway({ backend, clock });
      await world.client.put('/bucket');
      await world.client.put('/bucket/key', { body: 'former' });
      const { request, client, finish } = await heldWrites[name](world, {
        credential: alice,
        now: clock.now(),
      });
      const answer = await whileHeld(client, request, async () => {
        await setVersioning(world.client, 'bucket', 'Enabled');
        const body = configuration(defaultRule('COMPLIANCE', '<Days>1</Days>'));
        expect((await world.client.put('/bucket?object-lock', { body })).status).toBe(200);
      });
      expect((await finish(world.client, answer)).status).toBeLessThan(300);
      const head = await world.client.head('/bucket/key');
      const path = `/bucket/key?versionId=${head.header('*-version-id')}`;
      expect((await world.client.get('/bucket?versions')).all('VersionId')).toHaveLength(2);
      expect(lockIn(head).slice(0, 2)).toEqual(['COMPLIANCE', new Date(clock.now() + dayMs).toISOString()]);
      expect((await world.client.delete(path)).status).toBe(403);
      expect((await world.client.get(path)).text).toBe(heldContent);
    },
  );

  test.each(heldWriteNames)(
    'the object of a held %s has the default retention that was set before its commit',
    async (name) => {
      const clock = virtualClock();
      await using world = await openGateway({ backend, clock });
      await world.client.put('/bucket', { headers: { '*-bucket-object-lock-enabled': 'true' } });
      const { request, client, finish } = await heldWrites[name](world, {
        credential: alice,
        now: clock.now(),
      });
      const answer = await whileHeld(client, request, async () => {
        const body = configuration(defaultRule('GOVERNANCE', '<Days>2</Days>'));
        expect((await world.client.put('/bucket?object-lock', { body })).status).toBe(200);
      });
      expect((await finish(world.client, answer)).status).toBeLessThan(300);
      const [mode, until] = lockIn(await world.client.head('/bucket/key'));
      expect([mode, until]).toEqual(['GOVERNANCE', new Date(clock.now() + 2 * dayMs).toISOString()]);
    },
  );

  test('a held suspension of versioning is refused when Object Lock was enabled meanwhile', async () => {
    await using world = await openGateway({ backend });
    const { client } = world;
    await client.put('/bucket');
    await setVersioning(client, 'bucket', 'Enabled');
    const request = { method: 'PUT', path: '/bucket?versioning', ask: { body: versioning('Suspended') } };
    const answer = await whileHeld(client, request, async () => {
      expect((await client.put('/bucket?object-lock', { body: configuration() })).status).toBe(200);
    });
    expect([answer.status, answer.code]).toEqual([409, 'InvalidBucketState']);
    expect((await client.get('/bucket?versioning')).one('Status')).toBe('Enabled');
  });

  test('CompleteMultipartUpload of an upload with a public ACL is refused once public ACLs are blocked', async () => {
    await using world = await openGateway({ backend });
    const { client } = world;
    await client.put('/bucket', { headers: { '*-object-ownership': 'ObjectWriter' } });
    for (const isHeld of [false, true]) {
      const headers = { '*-acl': 'public-read' };
      const uploadId = await createUpload(client, '/bucket/key', { headers });
      const parts = [await putPart(client, '/bucket/key', { uploadId, number: 1, body: 'content' })];
      const block = () => client.put('/bucket?publicAccessBlock', { body: blockXml('BlockPublicAcls') });
      if (!isHeld) await block();
      const request = {
        method: 'POST',
        path: `/bucket/key?uploadId=${uploadId}`,
        ask: { body: completion(parts) },
      };
      const answer = await whileHeld(client, request, async () => (isHeld ? block() : undefined));
      expect([answer.status, answer.code]).toEqual([403, 'AccessDenied']);
      expect((await client.get('/bucket/key')).status).toBe(404);
      // The upload is unchanged: its owner can remove the block and complete it, or abort it.
      expect((await client.get(`/bucket/key?uploadId=${uploadId}`)).all('PartNumber')).toEqual(['1']);
      await client.delete('/bucket?publicAccessBlock');
      expect((await complete(client, '/bucket/key', { uploadId, parts })).status).toBe(200);
      expect((await world.anonymous.get('/bucket/key')).text).toBe('content');
      await client.delete('/bucket/key');
    }
  });
});

/** Not on engines, which have their own clocks: there the drain of this test is too recent for the cluster to count as empty. */
describe.each(['memory', 'embedded+file'] as const)('on %s', (backend) => {
  test.each(['PutObject', 'PostObject'] as const)(
    'a held %s whose cluster was found empty meanwhile is refused, and stores nothing',
    async (name) => {
      const { world, admin, clock, drain } = await openPair(backend, {
        settings: { SVC_BODY_RATE_MIN: '0' },
      });
      await using _ = world;
      await world.client.put('/bucket');
      const write = () => heldWrites[name](world, { credential: alice, now: clock.now() });
      const { request, client } = await write();
      const answer = await whileHeld(client, request, async () => {
        await drain();
        await evacuate(world.context, clock);
        await expectReady(world, { admin, backend });
      });
      expect([answer.status, answer.code]).toEqual([503, 'ServiceUnavailable']);
      expect((await world.client.get('/bucket/key')).status).toBe(404);
      await world.gc();
      expect(await extentsOn(world, 'a')).toBe(0);
      await expectReady(world, { admin, backend });
      // A retry goes to a cluster that accepts writes.
      const again = await write();
      expect((await whileHeld(again.client, again.request, async () => undefined)).status).toBeLessThan(300);
      expect([await extentsOn(world, 'a'), await extentsOn(world, 'b')]).toEqual([0, 1]);
    },
  );
});

describe.each(heldWriteNames)('a held %s', (name) => {
  test('is refused when its user was deleted meanwhile, with its access key', async () => {
    const clock = virtualClock();
    await using world = await openGateway({ clock });
    await world.client.put('/bucket');
    const { credential } = await openUser(world, 'user', { policy: allow('s3:*') });
    const { request, client } = await heldWrites[name](world, { credential, now: clock.now() });
    const answer = await whileHeld(client, request, async () => {
      await deleteUser(world, credential.accessKey);
      await clock.advance(heldMs);
    });
    expect([answer.status, answer.code]).toEqual([403, 'InvalidAccessKeyId']);
    expect((await world.client.get('/bucket/key')).status).toBe(404);
    const [uploadId] = (await world.client.get('/bucket?uploads')).all('UploadId');
    if (uploadId !== undefined)
      expect((await world.client.get(`/bucket/key?uploadId=${uploadId}`)).all('PartNumber')).toEqual([]);
    await world.gc();
    expect(await world.stored()).toEqual([]);
  });

  test('that is encrypted can be read after the master key was replaced meanwhile', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'sluice-held-'));
    onTestFinished(() => rm(directory, { recursive: true, force: true }));
    const start = () => openGateway({ settings: { SVC_DATA_DIR: directory } });
    const headers = { 'x-amz-server-side-encryption': 'AES256' };
    const keyFile = join(directory, 'master.key');
    let finish: HeldWrite['finish'];
    let answer: Answer;
    {
      await using world = await start();
      await world.client.put('/bucket');
      const held = await heldWrites[name](world, { credential: alice, headers });
      finish = held.finish;
      answer = await whileHeld(held.client, held.request, async () => {
        const keys = await readFile(keyFile, 'utf8');
        await writeFile(keyFile, `${randomBytes(32).toString('base64')}\n${keys}`, { mode: 0o600 });
      });
      expect(answer.status, answer.text).toBeLessThan(300);
    }
    await using world = await start();
    expect((await finish(world.client, answer)).status).toBeLessThan(300);
    const got = await world.client.get('/bucket/key');
    expect([got.status, got.header('*-server-side-encryption')]).toEqual([200, 'AES256']);
    expect(got.text).toBe(heldContent);
    expect(await fsckOf(world)).toEqual([]);
  });
});

test('a held configuration is refused when its user was deleted meanwhile, with its access key', async () => {
  await using world = await openGateway();
  await world.client.put('/bucket');
  const { credential } = await openUser(world, 'user', { policy: allow('s3:*') });
  const answer = await whileHeld(world.as({ credential }), tagBucket, () =>
    deleteUser(world, credential.accessKey),
  );
  expect([answer.status, answer.code]).toEqual([403, 'InvalidAccessKeyId']);
  expect((await world.client.get('/bucket?tagging')).code).toBe('NoSuchTagSet');
});

async function deleteUser(world: Parameters<typeof openActions>[0], AccessKeyId: string): Promise<void> {
  const iam = openActions(world);
  const UserName = 'user';
  const steps = [
    ['DeleteAccessKey', { UserName, AccessKeyId }],
    ['DeleteUserPolicy', { UserName, PolicyName: 'test' }],
    ['DeleteUser', { UserName }],
  ] as const;
  for (const [action, parameters] of steps) expect((await iam(action, parameters)).status, action).toBe(200);
}
