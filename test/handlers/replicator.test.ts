/** The replicator between two and three gateways, each behind a real listener. */
import { type AddressInfo, createServer } from 'node:net';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { openBucket } from '../../src/domain/common/buckets.ts';
import { everyResync, stepResync } from '../../src/domain/replication/resync.ts';
import { putTask } from '../../src/metadata/background/tasks.ts';
import { findHead, objectsAt } from '../../src/metadata/objects/objects.ts';
import { findSite } from '../../src/metadata/site.ts';
import { type Clock, systemClock } from '../../src/ports/clock.ts';
import type { Reply } from '../../src/protocol/reply.ts';
import { ambush } from '../support/ambush.ts';
import { operatorOf } from '../support/clusters.ts';
import { customer, encryptingSettings, provider, service } from '../support/encryption.ts';
import { faulty } from '../support/faulty.ts';
import { complete, createUpload, putPart, setVersioning } from '../support/gateway-bodies.ts';
import { whileHeld } from '../support/held-body.ts';
import { hurriedClock } from '../support/notify-world.ts';
import {
  alike,
  drained,
  hideContent,
  keys,
  leaveFenceBehind,
  link,
  modifications,
  never,
  openSite,
  refusal,
  rule,
  run,
  settings,
  settled,
  statusOf,
  until,
  versions,
} from '../support/replication-sites.ts';

describe('one way', () => {
  test('versions, markers, metadata, tags and parts arrive with their ids, and the status becomes COMPLETED', async () => {
    const [near, far] = [await openSite(), await openSite()];
    await link(near, far);
    run(near);
    const { client } = near.world;
    await client.put('/bucket/a', {
      body: 'one',
      headers: { '*-meta-colour': 'blue', 'content-type': 'text/x' },
    });
    await client.put('/bucket/a', { body: 'two', headers: { '*-tagging': 'k=v' } });
    await client.put('/bucket/empty', { body: '' });
    await client.put('/bucket/gone', { body: 'x' });
    await client.delete('/bucket/gone');
    const uploadId = await createUpload(client, '/bucket/parts');
    const large = Buffer.alloc(5 * 1024 * 1024, 7);
    const parts = [
      await putPart(client, '/bucket/parts', { uploadId, number: 1, body: large }),
      await putPart(client, '/bucket/parts', { uploadId, number: 3, body: 'the end' }),
    ];
    await complete(client, '/bucket/parts', { uploadId, parts });
    await alike(near, far);
    for (const path of ['/bucket/a', '/bucket/empty', '/bucket/parts'])
      await settled(near, path, 'COMPLETED');
    expect(await statusOf(far, '/bucket/a')).toBe('REPLICA');
    const first = (await versions(near)).filter(({ key }) => key === 'a')[1];
    const old = await far.world.client.get(`/bucket/a?versionId=${first?.id}`);
    expect([old.text, old.header('*-meta-colour'), old.header('content-type')]).toEqual([
      'one',
      'blue',
      'text/x',
    ]);
    expect((await far.world.client.get('/bucket/a?tagging')).text).toContain('<Value>v</Value>');
    expect((await far.world.client.get('/bucket/parts')).text.length).toBe(large.length + 'the end'.length);
    expect((await far.world.client.head('/bucket/parts?partNumber=3')).header('content-length')).toBe('7');
  });

  test('the bandwidth of a peer bounds what is sent to it', async () => {
    const slept: number[] = [];
    // The pace says how long it would wait, and waits a moment.
    const clock: Clock = {
      ...systemClock,
      sleep: (ms, signal) => {
        slept.push(ms);
        return systemClock.sleep(Math.min(ms, 10), signal);
      },
    };
    const [near, far] = [await openSite({ clock, settings }), await openSite()];
    await link(near, far);
    const peer = { ...keys, endpoint: far.endpoint, bandwidth: 65_536 };
    await operatorOf(near.world).must('PUT', '/replication/peers/far', peer);
    const body = Buffer.alloc(10 * 65_536, 'sluice');
    await near.world.client.put('/bucket/large', { body });
    slept.length = 0;
    run(near);
    await alike(near, far);
    expect((await far.world.client.get('/bucket/large')).text).toBe(body.toString());
    // Ten seconds, less what the test itself took.
    expect(slept.filter((ms) => ms > 8_000 && ms < 10_500)).not.toEqual([]);
  });

  test('changes of tags follow, and a version is sent once', async () => {
    const [near, far] = [await openSite(), await openSite()];
    await link(near, far);
    run(near);
    await near.world.client.put('/bucket/a', { body: 'one' });
    await settled(near, '/bucket/a', 'COMPLETED');
    const body = '<Tagging><TagSet><Tag><Key>k</Key><Value>later</Value></Tag></TagSet></Tagging>';
    await near.world.client.put('/bucket/a?tagging', { body });
    await vi.waitFor(
      async () => expect((await far.world.client.get('/bucket/a?tagging')).text).toContain('later'),
      until,
    );
    await settled(near, '/bucket/a', 'COMPLETED');
    expect(far.requests).toEqual(['PUT replica', 'PUT replica-state']);
  });

  test('permanent deletions are replicated only where the rule has DeleteReplication', async () => {
    const [near, far, other] = [await openSite(), await openSite(), await openSite()];
    await link(near, far, { more: '<DeleteReplication><Status>Enabled</Status></DeleteReplication>' });
    run(near);
    const { client } = near.world;
    const put = await client.put('/bucket/a', { body: 'one' });
    await settled(near, '/bucket/a', 'COMPLETED');
    await client.delete(`/bucket/a?versionId=${put.header('*-version-id')}`);
    await vi.waitFor(async () => expect(await versions(far)).toEqual([]), until);
    await link(near, other);
    const kept = await client.put('/bucket/b', { body: 'two' });
    await settled(near, '/bucket/b', 'COMPLETED');
    await client.delete(`/bucket/b?versionId=${kept.header('*-version-id')}`);
    await client.put('/bucket/c', { body: 'three' });
    await settled(near, '/bucket/c', 'COMPLETED');
    expect((await versions(other)).map(({ key }) => key)).toEqual(['b', 'c']);
  });

  test('an object with a key of its client becomes FAILED, with the reason in the list of failures', async () => {
    const clock = hurriedClock();
    const near = await openSite({ clock, settings: { ...settings, ...(await encryptingSettings()) } });
    const far = await openSite();
    await link(near, far);
    run(near);
    const headers = customer();
    await near.world.client.put('/bucket/secret', { body: 'one', headers });
    await vi.waitFor(async () => {
      const head = await near.world.client.head('/bucket/secret', { headers });
      expect(head.header('*-replication-status')).toBe('FAILED');
    }, until);
    const { failed } = await operatorOf(near.world).must('GET', '/replication/failed');
    expect(failed).toMatchObject([{ key: 'secret', destination: 'far/bucket' }]);
    expect(JSON.stringify(failed)).toContain('SSE-C');
    expect(far.requests).toEqual([]);
    clock.hurry(near.world.context.config.SVC_REPLICATION_FAILED_RETENTION + 1_000);
    expect((await operatorOf(near.world).must('GET', '/replication/failed'))['failed']).toEqual([]);
  });
});

test('encrypted objects are encrypted anew at the destination, with the kind and the key that the rule names', async () => {
  const encrypting = { ...settings, ...(await encryptingSettings()) };
  const near = await openSite({ settings: encrypting });
  const far = await openSite({ settings: encrypting });
  const kms =
    '<SourceSelectionCriteria><SseKmsEncryptedObjects><Status>Enabled</Status></SseKmsEncryptedObjects></SourceSelectionCriteria>';
  const keyId =
    '<EncryptionConfiguration><ReplicaKmsKeyID>second</ReplicaKmsKeyID></EncryptionConfiguration>';
  await link(near, far, { criteria: kms, destination: keyId });
  run(near);
  const { client } = near.world;
  expect((await client.put('/bucket/service', { body: 'one', headers: service })).text).toBe('');
  expect((await client.put('/bucket/provider', { body: 'two', headers: provider('first') })).text).toBe('');
  for (const path of ['/bucket/service', '/bucket/provider']) await settled(near, path, 'COMPLETED');
  const [one, two] = [
    await far.world.client.get('/bucket/service'),
    await far.world.client.get('/bucket/provider'),
  ];
  expect([one.text, one.header('*-server-side-encryption')]).toEqual(['one', 'AES256']);
  expect([two.text, two.header('*-server-side-encryption')]).toEqual(['two', 'aws:kms']);
  expect(two.header('*-server-side-encryption-aws-kms-key-id')).toContain('second');
});

describe('a destination that takes nothing', () => {
  for (const [what, answer] of [
    ['answers 503', refusal(503, 'SlowDown')],
    ['answers something that is no S3', { status: 502, headers: [], body: '<html>' }],
    ['redirects', { status: 307, headers: [['Location', 'http://127.0.0.1:1/']] }],
    ['refuses the key', refusal(403, 'InvalidAccessKeyId')],
    ['expects another region', refusal(400, 'AuthorizationHeaderMalformed')],
    ['has no such bucket', refusal(404, 'NoSuchBucket')],
  ] as const satisfies readonly (readonly [string, Reply])[])
    test(`${what}: versions stay PENDING, and arrive in order when it recovers`, async () => {
      const [near, far] = [await openSite(), await openSite()];
      // A rule to a bucket that is missing is refused, so this one is lost later.
      if (what !== 'has no such bucket') far.instead = () => answer;
      await link(near, far);
      far.instead = () => answer;
      run(near);
      for (const body of ['one', 'two', 'three']) await near.world.client.put('/bucket/a', { body });
      await vi.waitFor(async () => {
        const { destinations } = await operatorOf(near.world).must('GET', '/replication/status');
        const waits = { waiting: 3, waitingBytes: 11, state: 'failing' };
        expect(destinations).toMatchObject([{ destination: 'far/bucket', ...waits }]);
      }, until);
      expect(await statusOf(near, '/bucket/a')).toBe('PENDING');
      far.instead = undefined;
      await alike(near, far);
      await settled(near, '/bucket/a', 'COMPLETED');
    });
});

test('a version whose row changes while it is sent, because its bytes are moved, becomes COMPLETED', async () => {
  const [near, far] = [await openSite(), await openSite()];
  await link(near, far);
  const { metadata } = near.world.context;
  let moves = 0;
  far.before = async () => {
    const bucket = await openBucket(near.world.context, 'bucket');
    const found = await findHead(metadata, bucket, 'a');
    if (found === undefined) return;
    const { applied } = await metadata.commit(objectsAt(bucket), [
      { put: found.row, expect: found.revision },
    ]);
    moves += applied ? 1 : 0;
  };
  await near.world.client.put('/bucket/a', { body: 'one' });
  run(near);
  await settled(near, '/bucket/a', 'COMPLETED');
  expect(moves).toBeGreaterThan(0);
});

test('a content that cannot be read delays no other version', async () => {
  const [near, far] = [await openSite(), await openSite()];
  await link(near, far);
  for (const key of ['a', 'b', 'c']) await near.world.client.put(`/bucket/${key}`, { body: key });
  const found = await hideContent(near, 'b');
  for (const path of ['/bucket/a', '/bucket/c']) await settled(near, path, 'COMPLETED');
  expect(await statusOf(near, '/bucket/b')).toBe('PENDING');
  found();
  await settled(near, '/bucket/b', 'COMPLETED');
});

test('a peer that takes a part of a body and then nothing more counts as silent after SVC_REPLICATION_TIMEOUT', async () => {
  const near = await openSite({ settings: { ...settings, SVC_REPLICATION_TIMEOUT: '200ms' } });
  const server = createServer((socket) => socket.once('data', () => socket.pause()));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo;
  const { peers } = near.world.context;
  async function* endless(): AsyncGenerator<Uint8Array> {
    for (;;) yield new Uint8Array(1024 * 1024);
  }
  const access = { ...keys, endpoint: `http://127.0.0.1:${port}`, region: 'us-east-1' };
  const body = { length: 2 ** 40, pieces: endless() };
  const sent = peers?.send(access, { method: 'PUT', bucket: 'bucket', key: 'a', body }, never);
  await expect(sent).rejects.toThrow('the peer took nothing of the body for 200 ms');
});

test('two sites that replicate to each other have the same versions, and each crosses the link once', async () => {
  const [near, far] = [await openSite(), await openSite()];
  await link(near, far, { criteria: modifications });
  await link(far, near, { criteria: modifications });
  run(near, far);
  for (let n = 0; n < 10; n += 1) {
    await Promise.all([
      near.world.client.put(`/bucket/${n % 3}`, { body: `near ${n}` }),
      far.world.client.put(`/bucket/${n % 3}`, { body: `far ${n}` }),
    ]);
  }
  await vi.waitFor(async () => expect(await versions(near)).toHaveLength(20), until);
  await alike(near, far);
  for (const site of [near, far]) expect(site.requests).toEqual(Array(10).fill('PUT replica'));
  for (const site of [near, far]) await drained(site);
  // A version that would go back to its site is a replica where it arrived, and completed where it was written.
  for (const { id, key } of await versions(near)) {
    const path = `/bucket/${key}?versionId=${id}`;
    const statuses = [await statusOf(near, path), await statusOf(far, path)];
    expect(statuses.toSorted()).toEqual(['COMPLETED', 'REPLICA']);
  }
});

test('in a ring of three each version crosses each link once, and two of them for each version', async () => {
  const sites = [await openSite(), await openSite(), await openSite()] as const;
  const [a, b, c] = sites;
  await link(a, b, { criteria: modifications });
  await link(b, c, { criteria: modifications });
  await link(c, a, { criteria: modifications });
  run(...sites);
  for (const [n, site] of sites.entries()) await site.world.client.put('/bucket/key', { body: `${n}` });
  await vi.waitFor(async () => {
    for (const site of sites) expect(await versions(site)).toHaveLength(3);
  }, until);
  await alike(a, b);
  await alike(a, c);
  for (const site of sites) expect(site.requests).toEqual(['PUT replica', 'PUT replica']);
});

test('a resync sends the versions from before the rule, once, and those that failed', async () => {
  const [near, far] = [await openSite(), await openSite()];
  for (let n = 0; n < 230; n += 1) await near.world.client.put(`/bucket/${n}`, { body: `${n}` });
  await near.world.client.delete('/bucket/7');
  await link(near, far);
  run(near);
  const admin = operatorOf(near.world);
  expect(await admin.must('POST', '/replication/resync/bucket', {})).toMatchObject({ state: 'running' });
  await vi.waitFor(async () => {
    expect(await admin.must('GET', '/replication/resync/bucket')).toMatchObject({
      state: 'done',
      queued: 231,
    });
  }, until);
  await alike(near, far);
  await settled(near, '/bucket/8', 'COMPLETED');
  const sent = far.requests.length;
  await admin.must('POST', '/replication/resync/bucket', { status: 'all', prefix: '1' });
  await vi.waitFor(async () => {
    expect(await admin.must('GET', '/replication/resync/bucket')).toMatchObject({ state: 'done' });
  }, until);
  await drained(near);
  expect(new Set(far.requests.slice(sent))).toEqual(new Set(['PUT replica-state']));
});

test('a resync sends every version of a bucket whose change was cut short before its fence was raised', async () => {
  const [near, far] = [await openSite(), await openSite()];
  for (let n = 0; n < 5; n += 1) await near.world.client.put(`/bucket/${n}`, { body: `${n}` });
  await link(near, far);
  await leaveFenceBehind(near);
  run(near);
  await operatorOf(near.world).must('POST', '/replication/resync/bucket', {});
  await alike(near, far);
  await settled(near, '/bucket/4', 'COMPLETED');
});

test('a resync sends a version whose tags a client changes while it is queued', async () => {
  const [near, far] = [await openSite(), await openSite()];
  const { client, context } = near.world;
  await client.put('/bucket/key', { body: 'x' });
  await link(near, far);
  await operatorOf(near.world).must('POST', '/replication/resync/bucket', {});
  const tag = '<Tagging><TagSet><Tag><Key>k</Key><Value>v</Value></Tag></TagSet></Tagging>';
  let isTagged = false;
  const metadata = faulty(context.metadata, {
    async commit(at, changes, options) {
      if (!isTagged && at.table.name === 'objects') {
        isTagged = true;
        await client.put('/bucket/key?tagging', { body: tag });
      }
      return context.metadata.commit(at, changes, options);
    },
  });
  for await (const task of everyResync(context)) await stepResync({ ...context, metadata }, task);
  expect(isTagged).toBe(true);
  run(near);
  await settled(near, '/bucket/key', 'COMPLETED');
  expect((await far.world.client.get('/bucket/key?tagging')).text).toContain('<Value>v</Value>');
});

test('a resync sends a version that becomes current while it runs', async () => {
  const [near, far] = [await openSite(), await openSite()];
  const { client, context } = near.world;
  const former = await client.put('/bucket/0', { body: 'former' });
  const latest = await client.put('/bucket/0', { body: 'latest' });
  // More than a page of current versions.
  for (let n = 1; n <= 100; n += 1) await client.put(`/bucket/${n}`, { body: `${n}` });
  await link(near, far);
  const admin = operatorOf(near.world);
  await admin.must('POST', '/replication/resync/bucket', {});
  for await (const task of everyResync(context)) await stepResync(context, task);
  await client.delete(`/bucket/0?versionId=${latest.header('*-version-id')}`);
  run(near);
  await vi.waitFor(async () => {
    expect(await admin.must('GET', '/replication/resync/bucket')).toMatchObject({ state: 'done', read: 101 });
  }, until);
  await settled(near, '/bucket/0', 'COMPLETED');
  expect((await versions(far)).map(({ id }) => id)).toContain(former.header('*-version-id'));
});

test('a version is COMPLETED in a bucket whose change was cut short before its fence was raised', async () => {
  const [near, far] = [await openSite(), await openSite()];
  await link(near, far);
  await near.world.client.put('/bucket/key', { body: 'x' });
  await leaveFenceBehind(near);
  run(near);
  await settled(near, '/bucket/key', 'COMPLETED');
});

test('a failure is queued again in a bucket whose change was cut short before its fence was raised', async () => {
  const near = await openSite({ settings: { ...settings, ...(await encryptingSettings()) } });
  await link(near, await openSite());
  run(near);
  await near.world.client.put('/bucket/secret', { body: 'one', headers: customer() });
  const admin = operatorOf(near.world);
  await vi.waitFor(
    async () => expect((await admin.must('GET', '/replication/failed'))['failed']).toHaveLength(1),
    until,
  );
  await leaveFenceBehind(near);
  expect(await admin.must('POST', '/replication/retry', { peer: 'far' })).toMatchObject({ retried: 1 });
});

const existing = '<ExistingObjectReplication><Status>Enabled</Status></ExistingObjectReplication>';

test('a rule with ExistingObjectReplication sends the versions from before it, without a further request', async () => {
  const [near, far] = [await openSite(), await openSite()];
  for (let n = 0; n < 20; n += 1) await near.world.client.put(`/bucket/${n}`, { body: `${n}` });
  run(near);
  await link(near, far, { more: existing });
  await alike(near, far);
  await settled(near, '/bucket/8', 'COMPLETED');
});

test('a PUT that began before a rule with ExistingObjectReplication, and commits once its resync has ended, is sent too', async () => {
  const [near, far] = [await openSite(), await openSite()];
  run(near);
  const put = { method: 'PUT', path: '/bucket/late', ask: { body: 'late' } };
  const late = await whileHeld(near.world.client, put, async () => {
    await link(near, far, { more: existing });
    const resync = () => operatorOf(near.world).must('GET', '/replication/resync/bucket');
    await vi.waitFor(async () => expect(await resync()).toMatchObject({ state: 'done' }), until);
  });
  expect(late.status).toBe(200);
  expect(await statusOf(near, '/bucket/late')).toMatch(/^(PENDING|COMPLETED)$/);
  await alike(near, far);
});

test('a rule with ExistingObjectReplication covers what a resync that runs was asked for', async () => {
  const [near, far] = [await openSite(), await openSite()];
  await near.world.client.put('/bucket/key', { body: 'x' });
  await link(near, far);
  const admin = operatorOf(near.world);
  await admin.must('POST', '/replication/resync/bucket', { status: 'failed', prefix: 'p' });
  await link(near, far, { more: existing });
  const resync = await admin.must('GET', '/replication/resync/bucket');
  expect(resync).toMatchObject({ state: 'running', status: 'none-or-failed', read: 0 });
  expect(resync).not.toHaveProperty('prefix');
  run(near);
  await alike(near, far);
});

test('a rule that replaces another one, while a resync of that one queues versions, sends them to its own destination', async () => {
  const { rightBefore, wrap } = ambush();
  const [near, former, present] = [await openSite({ settings, wrap }), await openSite(), await openSite()];
  for (let n = 0; n < 5; n += 1) await near.world.client.put(`/bucket/${n}`, { body: `${n}` });
  await link(near, former, { more: existing });
  rightBefore('objects', async () => {
    const peer = { ...keys, endpoint: present.endpoint };
    await operatorOf(near.world).must('PUT', '/replication/peers/present', peer);
    const put = await near.world.client.put('/bucket?replication', { body: rule('present', existing) });
    expect(put.text).toBe('');
  });
  run(near);
  await alike(near, present);
  await drained(near);
  expect(await versions(former)).toEqual([]);
  await settled(near, '/bucket/4', 'COMPLETED');
});

test('a version that a peer removed permanently stays removed there after a resync, unless the resync restores it', async () => {
  const [near, far] = [await openSite(), await openSite()];
  await link(near, far);
  run(near);
  const removed = await near.world.client.put('/bucket/removed', { body: 'x'.repeat(6_000_000) });
  const kept = await near.world.client.put('/bucket/kept', { body: 'x' });
  await vi.waitFor(async () => expect(await versions(far)).toHaveLength(2), until);
  await far.world.client.delete(`/bucket/removed?versionId=${removed.header('*-version-id')}`);
  const admin = operatorOf(near.world);
  const resync = async (body: object): Promise<void> => {
    await admin.must('POST', '/replication/resync/bucket', body);
    await vi.waitFor(async () => {
      expect(await admin.must('GET', '/replication/resync/bucket')).toMatchObject({ state: 'done' });
    }, until);
    await drained(near);
  };
  await resync({ status: 'all' });
  expect((await versions(far)).map(({ id }) => id)).toEqual([kept.header('*-version-id')]);
  await settled(near, '/bucket/removed', 'COMPLETED');
  await resync({ status: 'all', restoreRemoved: true });
  expect(await versions(far)).toEqual(await versions(near));
});

test('in a ring a removal that overtakes its version on another way keeps it away', async () => {
  const sites = [await openSite(), await openSite(), await openSite()] as const;
  const [a, b, c] = sites;
  const more = '<DeleteReplication><Status>Enabled</Status></DeleteReplication>';
  await link(a, b, { criteria: modifications, more });
  await link(b, c, { criteria: modifications });
  run(a);
  const put = await a.world.client.put('/bucket/key', { body: 'x' });
  await vi.waitFor(async () => expect(await versions(b)).toHaveLength(1), until);
  // The queue of b holds the version for c, and c hears of its removal first.
  await c.world.client.delete(`/bucket/key?replica=${put.header('*-version-id')}`);
  run(b);
  await settled(b, '/bucket/key', 'REPLICA');
  await drained(b);
  expect(c.requests).toEqual(['PUT replica']);
  expect(await versions(c)).toEqual([]);
});

test('a rule for a peer that does not exist is refused, and a resync without a rule', async () => {
  const { world } = await openSite();
  const put = await world.client.put('/bucket?replication', { body: rule('nowhere') });
  expect([put.status, put.code]).toEqual([400, 'InvalidArgument']);
  expect(put.text).toContain('There is no replication peer nowhere.');
  const resync = await operatorOf(world).ask('POST', '/replication/resync/bucket', {});
  expect(resync.status).toBe(404);
});

test.each(['another bucket of this gateway', 'a copy of this gateway from its backup'])(
  'a rule to %s is refused, and a version that waits for it is FAILED',
  async (which) => {
    const near = await openSite();
    const { client, context } = near.world;
    const isCopy = which.startsWith('a copy');
    const far = isCopy ? await openSite() : near;
    const id = await findSite(context);
    if (isCopy) {
      const task = { name: '', state: { id }, expect: 'absent' } as const;
      expect(await putTask(far.world.context.metadata, { kind: 'site' }, task)).toMatchObject({
        applied: true,
      });
    } else {
      await client.put('/other');
      await setVersioning(client, 'other', 'Enabled');
    }
    const bucket = isCopy ? 'bucket' : 'other';
    const admin = operatorOf(near.world);
    await admin.must('PUT', '/replication/peers/far', { ...keys, endpoint: far.endpoint });
    const body = rule('far').replace(':bucket</Bucket>', `:${bucket}</Bucket>`);
    const refused = await client.put('/bucket?replication', { body });
    expect(refused.status).toBe(400);
    expect(refused.text).toMatch(/belongs to this installation, or to a copy/);
    const { steps } = await admin.must('POST', '/replication/peers/far/check', { bucket });
    expect(steps).toContainEqual(expect.objectContaining({ step: 'site', state: 'failed' }));

    // A peer that does not answer the Put.
    far.instead = () => refusal(503, 'SlowDown');
    expect((await client.put('/bucket?replication', { body })).text).toBe('');
    await client.put('/bucket/key', { body: 'x' });
    far.instead = undefined;
    run(near);
    await settled(near, '/bucket/key', 'FAILED');
    expect((await far.world.client.get(`/${bucket}/key`)).status).toBe(404);
    const { failed } = await admin.must('GET', '/replication/failed');
    expect(failed).toMatchObject([{ error: expect.stringContaining('this installation') }]);
  },
);
