/**
 * What operators read when a destination takes nothing, and what becomes of the versions: a peer that hangs, answers
 * garbage or refuses, and buckets, rules and peers that change while the replicator runs.
 */

import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import type { Context } from '../../src/context.ts';
import { laneSlot, queuedByHour } from '../../src/metadata/background/hourly-queues.ts';
import { commitReplicationPeer, findReplicationPeer } from '../../src/metadata/background/replication.ts';
import { systemClock } from '../../src/ports/clock.ts';
import { silentTelemetry, type Telemetry } from '../../src/ports/telemetry.ts';
import type { Reply } from '../../src/protocol/reply.ts';
import { operatorOf } from '../support/clusters.ts';
import { faulty } from '../support/faulty.ts';
import { bob } from '../support/gateway.ts';
import { complete, createUpload, putPart, setVersioning } from '../support/gateway-bodies.ts';
import { onCount } from '../support/metric-calls.ts';
import { hurriedClock } from '../support/notify-world.ts';
import {
  alike,
  drained,
  keys,
  link,
  openSite,
  refusal,
  rule,
  run,
  type Site,
  settings,
  settled,
  statusOf,
  until,
  versions,
} from '../support/replication-sites.ts';

interface Counted {
  readonly site: Site;
  readonly failures: string[];
  readonly givenUp: string[];
}

/** A site with a short time-out unless another one is named, and the causes that its metrics count. */
async function openCounted(SVC_REPLICATION_TIMEOUT = '2s'): Promise<Counted> {
  const failures: string[] = [];
  const givenUp: string[] = [];
  const telemetry = {
    ...silentTelemetry,
    ...onCount({
      svc_replication_failures_total: ({ why }) => void failures.push(why),
      svc_replication_given_up_total: ({ why }) => void givenUp.push(why),
    }),
  };
  const site = await openSite({ telemetry, settings: { ...settings, SVC_REPLICATION_TIMEOUT } });
  return { site, failures, givenUp };
}

interface Shown {
  readonly state: string;
  readonly lastError: { readonly message: string };
  readonly refused: { readonly reasons: readonly { readonly error: string }[] };
}

/** Waits until the status names the error. */
const says = ({ world }: Site, error: string | RegExp) =>
  vi.waitFor(async () => {
    const { destinations } = await operatorOf(world).must('GET', '/replication/status');
    const [{ state, lastError, refused }] = destinations as [Shown];
    const errors = state === 'failing' ? [lastError.message] : refused.reasons.map((each) => each.error);
    expect(errors).toContainEqual(expect.stringMatching(error));
  }, until);

/** A peer that is no gateway. */
async function listen(answer: RequestListener): Promise<string> {
  const server = createServer(answer).listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

const putPeer = ({ world }: Site, access: object) =>
  operatorOf(world).must('PUT', '/replication/peers/far', { ...keys, ...access });

/** More than the buffers of a connection hold. */
const pausedBytes = 32 * 1024 * 1024;

/** Describes itself as a gateway does, and answers everything else as it is told. */
const almostGateway =
  (answer: RequestListener): RequestListener =>
  (request, reply) => {
    if (request.url?.includes('replica-state=') === true)
      return void reply.writeHead(404).end('<Error><Code>NoSuchVersion</Code></Error>');
    if (request.method !== 'GET') return answer(request, reply);
    reply.writeHead(200, { 'content-type': 'application/json' });
    reply.end(JSON.stringify({ site: 'elsewhere', versioning: 'Enabled', objectLock: false }));
  };

describe('the status, the metrics and the list of failures name the cause', () => {
  test.each<[what: string, why: string, error: RegExp, break_: (far: Site, near: Site) => Promise<unknown>]>([
    [
      'has no such bucket',
      'no-bucket',
      /404 NoSuchBucket: create the bucket at the peer/,
      (far) => far.world.client.delete('/bucket'),
    ],
    [
      'has no versioning',
      'no-versioning',
      /no versioning: enable it there/,
      (far) => setVersioning(far.world.client, 'bucket', 'Suspended'),
    ],
    [
      'knows another secret key',
      'credentials',
      /403 SignatureDoesNotMatch: PUT the peer again with the right secret key/,
      (far, near) => putPeer(near, { endpoint: far.endpoint, secretKey: 'another-secret-key' }),
    ],
    [
      'does not know the access key',
      'credentials',
      /403 InvalidAccessKeyId: PUT the peer again with a key that it knows/,
      (far, near) => putPeer(near, { endpoint: far.endpoint, accessKey: 'UNKNOWNKEY0000000001' }),
    ],
    [
      'denies the user',
      'denied',
      /403 AccessDenied: allow s3:ReplicateObject/,
      (far, near) =>
        putPeer(near, { endpoint: far.endpoint, accessKey: bob.accessKey, secretKey: bob.secretKey }),
    ],
    [
      'was removed by the operator',
      'no-peer',
      /no replication peer far: PUT \/admin\/v1\/replication\/peers\/far/,
      // DELETE refuses it while a rule names it: an export from another installation may lack it.
      async (_far, near) => {
        const { metadata } = near.world.context;
        const found = await findReplicationPeer(metadata, 'far');
        const expect = found?.revision ?? 'absent';
        if (expect !== 'absent') await commitReplicationPeer(metadata, { remove: { id: 'far' }, expect }, []);
      },
    ],
  ])('a peer that %s: %s', async (_what, why, error, breakIt) => {
    const [{ site: near, failures, givenUp }, far] = [await openCounted(), await openSite()];
    await link(near, far);
    await breakIt(far, near);
    run(near);
    await near.world.client.put('/bucket/a', { body: 'one' });
    await says(near, error);
    expect(failures).toContain(why);
    expect(await statusOf(near, '/bucket/a')).toBe('PENDING');
    await far.world.client.put('/bucket');
    await setVersioning(far.world.client, 'bucket', 'Enabled');
    await putPeer(near, { endpoint: far.endpoint });
    await settled(near, '/bucket/a', 'COMPLETED');
    await alike(near, far);
    expect(givenUp).toEqual([]);
  });

  test('a peer whose clock is two hours off', async () => {
    const clock = { ...systemClock, now: () => Date.now() - 2 * 60 * 60 * 1000 };
    const [{ site: near, failures }, far] = [await openCounted(), await openSite({ clock })];
    await link(near, far);
    run(near);
    await near.world.client.put('/bucket/a', { body: 'one' });
    await says(near, /403 RequestTimeTooSkewed: correct the clock of this machine or of the peer/);
    expect(failures).toContain('clock');
    expect(await statusOf(near, '/bucket/a')).toBe('PENDING');
  });

  test.each<[what: string, why: string, error: RegExp, answer: RequestListener, bytes?: number]>([
    [
      'never answers',
      'no-answer',
      /no answer within 2000 ms: POST .*\/check says which step fails/,
      () => {},
    ],
    [
      'hangs in the middle of its answer',
      'no-answer',
      /the answer stopped in its middle for 2000 ms/,
      (_request, reply) => {
        reply.writeHead(200, { 'content-type': 'application/json', 'content-length': '1000' });
        reply.write('{"site');
      },
    ],
    [
      'closes the connection',
      'no-answer',
      /the peer closed the connection before its answer was complete|ECONNRESET|EPIPE/,
      (request) => request.socket.destroy(),
    ],
    [
      'answers what is no HTTP',
      'no-answer',
      /./,
      (request) => void request.socket.end('garbage without an end of line'),
    ],
    [
      'answers garbage with status 200',
      'not-s3',
      /answered by 200, but not as an S3 service does: see what answers at the peer's endpoint/,
      (_request, reply) => reply.end('garbage'),
    ],
    [
      'answers 503',
      'unavailable',
      /answered by 503/,
      (_request, reply) => reply.writeHead(503).end('<html>away</html>'),
    ],
    [
      'takes a part of a body and hangs',
      'no-answer',
      /the peer took nothing of the body for 2000 ms/,
      almostGateway((request) => void request.once('data', () => request.pause())),
      pausedBytes,
    ],
    [
      'answers in the middle of a body, and hangs',
      'no-answer',
      /./,
      almostGateway((request, reply) => {
        request.once('data', () => {
          reply.writeHead(200, { 'content-length': '1000' });
          reply.write('<Error>');
        });
      }),
      pausedBytes,
    ],
  ])('a peer that %s: %s', async (_what, why, error, answer, bytes = 8) => {
    const [{ site: near, failures, givenUp }, far] = [await openCounted(), await openSite()];
    await link(near, far);
    await putPeer(near, { endpoint: await listen(answer) });
    run(near);
    const body = Buffer.alloc(bytes, 7);
    expect((await near.world.client.put('/bucket/a', { body })).status).toBe(200);
    await says(near, error);
    expect(failures).toContain(why);
    await putPeer(near, { endpoint: far.endpoint });
    await settled(near, '/bucket/a', 'COMPLETED');
    await alike(near, far);
    expect(givenUp).toEqual([]);
  });

  test('a peer that refuses one version for ever: it becomes FAILED with the reason, and the others arrive', async () => {
    const [{ site: near, givenUp }, far] = [await openCounted(), await openSite()];
    await link(near, far);
    far.instead = (method, target) =>
      method === 'PUT' && target.includes('/bad?') ? refusal(400, 'InvalidArgument') : undefined;
    run(near);
    for (const key of ['bad', 'good']) await near.world.client.put(`/bucket/${key}`, { body: key });
    await settled(near, '/bucket/bad', 'FAILED');
    await settled(near, '/bucket/good', 'COMPLETED');
    expect(givenUp).toEqual(['refused']);
    const { failed } = await operatorOf(near.world).must('GET', '/replication/failed');
    const error = 'ReplicateObject was answered by 400 InvalidArgument';
    expect(failed).toMatchObject([{ key: 'bad', destination: 'far/bucket', error }]);
  });
});

test('a version whose status cannot be stored, because others change its row all the time, keeps no other one waiting', async () => {
  let lost = 0;
  const errors: string[] = [];
  const wrap = (context: Context): Context => {
    const { metadata } = context;
    // As a request that changes the row ahead of each commit.
    const commit: typeof metadata.commit = async (at, changes, ...more) => {
      const puts = changes.flatMap((change) => ('put' in change ? [change.put as object] : []));
      if (!puts.some((put) => /"contended".*"COMPLETED"/.test(JSON.stringify(put))))
        return metadata.commit(at, changes, ...more);
      lost += 1;
      return { applied: false, because: 'conflict' };
    };
    const log: Telemetry['log'] = (level, message) => void (level === 'ERROR' && errors.push(message));
    return {
      ...context,
      metadata: faulty(metadata, { commit }),
      telemetry: { ...context.telemetry, log },
    };
  };
  const [near, far] = [await openSite({ wrap }), await openSite()];
  await link(near, far);
  run(near);
  await near.world.client.put('/bucket/contended', { body: 'x' });
  await vi.waitFor(() => expect(lost).toBeGreaterThan(8), until);
  await near.world.client.put('/bucket/other', { body: 'x' });
  await settled(near, '/bucket/other', 'COMPLETED');
  expect(errors).toEqual([]);
});

test('of a bucket that was deleted and made again only the versions of the new one are sent', async () => {
  const [near, far] = [await openSite(), await openSite()];
  const { client } = near.world;
  far.instead = () => refusal(503, 'SlowDown');
  await link(near, far);
  run(near);
  const old = await client.put('/bucket/a', { body: 'old' });
  await says(near, /503/);
  await client.delete(`/bucket/a?versionId=${old.header('*-version-id')}`);
  expect((await client.delete('/bucket?replication')).status).toBe(204);
  expect((await client.delete('/bucket')).status).toBe(204);
  await client.put('/bucket');
  await setVersioning(client, 'bucket', 'Enabled');
  await link(near, far);
  await client.put('/bucket/a', { body: 'new' });
  far.instead = undefined;
  await settled(near, '/bucket/a', 'COMPLETED');
  await alike(near, far);
  expect((await far.world.client.get('/bucket/a')).text).toBe('new');
  expect(far.requests).toEqual(['PUT replica']);
  await drained(near);
});

test('versions go to the destination of the rule under which they were queued; a rule that is removed or changed keeps what waits', async () => {
  const [near, far, other] = [await openSite(), await openSite(), await openSite()];
  const { client } = near.world;
  const admin = operatorOf(near.world);
  far.instead = () => refusal(503, 'SlowDown');
  await link(near, far);
  run(near);
  await client.put('/bucket/a', { body: 'for far' });
  await says(near, /503/);
  await admin.must('PUT', '/replication/peers/other', { ...keys, endpoint: other.endpoint });
  expect((await client.put('/bucket?replication', { body: rule('other') })).text).toBe('');
  await client.put('/bucket/b', { body: 'for the other' });
  await settled(near, '/bucket/b', 'COMPLETED');
  await client.delete('/bucket?replication');
  await client.put('/bucket/c', { body: 'for none' });
  expect(await statusOf(near, '/bucket/c')).toBeUndefined();
  far.instead = undefined;
  await settled(near, '/bucket/a', 'COMPLETED');
  expect((await versions(far)).map(({ key }) => key)).toEqual(['a']);
  expect((await versions(other)).map(({ key }) => key)).toEqual(['b']);
});

test.each([
  ['one', 'two'],
  ['two', 'one'],
])(
  'the status names every destination and its oldest version, however long the queue of %s is',
  async (long, short) => {
    const near = await openSite();
    const admin = operatorOf(near.world);
    const { client, context } = near.world;
    for (const peer of ['one', 'two']) {
      await admin.must('PUT', `/replication/peers/${peer}`, { ...keys, endpoint: 'http://127.0.0.1:1' });
      expect((await client.put('/bucket?replication', { body: rule(peer) })).text).toBe('');
      for (let n = 0; n < 3; n += 1) await client.put(`/bucket/${n}`, { body: `${peer} ${n}` });
    }
    const waits = { waiting: 3, waitingBytes: 15, isCut: false };
    const counted = async () => {
      const { destinations, isCut } = await admin.must('GET', '/replication/status');
      return {
        isCut,
        of: new Map((destinations as { destination: string }[]).map((one) => [one.destination, one])),
      };
    };
    const few = await counted();
    expect(few.isCut).toBe(false);
    for (const name of ['one/bucket', 'two/bucket']) expect(few.of.get(name)).toMatchObject(waits);
    // More than are counted wait for one destination, whose slots may be read first.
    const destination = { Bucket: `arn:sluice:replication::${long}:bucket` };
    const due = await context.metadata.now();
    for (let n = 0; n < 21_000; n += 60)
      await context.metadata.apply(
        await Promise.all(
          Array.from({ length: 60 }, (_, m) =>
            queuedByHour(
              context,
              { queue: 'replication', slot: laneSlot(`${long}/bucket`, `${n + m}`) },
              { task: { destination, bytes: 1 }, id: `${n + m}`, due, requestId: '' },
            ),
          ),
        ),
      );
    await vi.waitFor(async () => expect((await counted()).isCut).toBe(true), until);
    const many = await counted();
    expect(many.of.get(`${short}/bucket`)).toMatchObject(waits);
    expect(many.of.get(`${long}/bucket`)).toMatchObject({ isCut: true });
  },
);

test('a version that is too large for the quota of a peer delays no other key, and removals make room', async () => {
  const [{ site: near, failures }, far] = [await openCounted(), await openSite()];
  const { client } = near.world;
  const more = '<DeleteReplication><Status>Enabled</Status></DeleteReplication>';
  await link(near, far, { more });
  run(near);
  const first = await client.put('/bucket/first', { body: 'x'.repeat(50) });
  await settled(near, '/bucket/first', 'COMPLETED');
  const limits = { maxBytes: 100, maxObjects: 0, maxBytesPerObject: 0 };
  await operatorOf(far.world).must('PUT', '/buckets/bucket/quota', limits);
  await client.put('/bucket/large', { body: 'x'.repeat(60) });
  await vi.waitFor(() => expect(failures).toContain('quota'), until);
  const keys = Array.from({ length: 40 }, (_, n) => `/bucket/small-${n}`);
  for (const key of keys) await client.put(key, { body: 'y' });
  for (const key of keys) await settled(near, key, 'COMPLETED');
  expect(await statusOf(near, '/bucket/large')).toBe('PENDING');
  await client.delete(`/bucket/first?versionId=${first.header('*-version-id')}`);
  await settled(near, '/bucket/large', 'COMPLETED');
  await alike(near, far);
});

test('a removal does not wait behind a newer version of its key, which the peer has no room for', async () => {
  const [{ site: near, failures, givenUp }, far] = [await openCounted(), await openSite()];
  const { client } = near.world;
  const more = '<DeleteReplication><Status>Enabled</Status></DeleteReplication>';
  await link(near, far, { more });
  run(near);
  const first = await client.put('/bucket/key', { body: 'x'.repeat(60) });
  await settled(near, '/bucket/key', 'COMPLETED');
  const limits = { maxBytes: 100, maxObjects: 0, maxBytesPerObject: 0 };
  await operatorOf(far.world).must('PUT', '/buckets/bucket/quota', limits);
  await client.put('/bucket/key', { body: 'y'.repeat(60) });
  await vi.waitFor(() => expect(failures).toContain('quota'), until);
  await client.delete(`/bucket/key?versionId=${first.header('*-version-id')}`);
  await settled(near, '/bucket/key', 'COMPLETED');
  await alike(near, far);
  expect(givenUp).toEqual([]);
});

test('a peer whose quota refuses everything gets all versions once it has room, and the status says how many it refuses and why', async () => {
  const [{ site: near, givenUp }, far] = [await openCounted('20s'), await openSite()];
  const quota = '/buckets/bucket/quota';
  const limits = { maxBytes: 1, maxObjects: 0, maxBytesPerObject: 0 };
  await operatorOf(far.world).must('PUT', quota, limits);
  await link(near, far);
  const put = (n: number) => near.world.client.put(`/bucket/${n}`, { body: 'xx' });
  await Promise.all(Array.from({ length: 60 }, (_, n) => put(n)));
  run(near);
  await vi.waitFor(async () => {
    const { destinations } = await operatorOf(near.world).must('GET', '/replication/status');
    expect(destinations).toMatchObject([
      { refused: { objects: expect.any(Number), reasons: [{ error: expect.stringMatching(/make room/) }] } },
    ]);
    const [{ refused }] = destinations as [{ readonly refused: { readonly objects: number } }];
    expect(refused.objects).toBeGreaterThan(30);
  }, until);
  await operatorOf(far.world).must('DELETE', quota);
  await drained(near);
  await alike(near, far);
  expect(givenUp).toEqual([]);
});

test('large versions to a peer that takes them slowly delay no large versions to another one', async () => {
  const [{ site: near }, far, other] = [await openCounted('60s'), await openSite(), await openSite()];
  await link(near, far);
  const { client } = near.world;
  await operatorOf(near.world).must('PUT', '/replication/peers/other', { ...keys, endpoint: other.endpoint });
  await client.put('/second');
  await setVersioning(client, 'second', 'Enabled');
  expect((await client.put('/second?replication', { body: rule('other') })).text).toBe('');
  let release = (): void => {};
  const slow = new Promise<void>((resolve) => (release = resolve));
  let begun = 0;
  far.before = (target) => {
    if (!target.includes('/large')) return undefined;
    begun += 1;
    return slow;
  };
  const body = Buffer.alloc(1024 * 1024, 7);
  for (let n = 0; n < 12; n += 1) await client.put(`/bucket/large-${n}`, { body });
  run(near);
  await vi.waitFor(() => expect(begun).toBe(4), until);
  for (let n = 0; n < 8; n += 1) await client.put(`/second/large-${n}`, { body });
  for (let n = 0; n < 8; n += 1) await settled(near, `/second/large-${n}`, 'COMPLETED');
  // What is in memory is bounded.
  expect(begun).toBe(4);
  release();
  await drained(near);
  await alike(near, far);
});

const html = (status: number): Reply => ({
  status,
  headers: [['Content-Type', 'text/html']],
  body: '<html><h1>The plain HTTP request was sent to HTTPS port</h1></html>',
});

describe('answers that pass make no version FAILED: once the peer answers again, everything arrives', () => {
  test.each<[what: string, answer: Reply, isForAll: boolean]>([
    ['400 of a proxy', html(400), true],
    ['404 of a proxy', html(404), true],
    ['405 of a proxy', html(405), true],
    ['413 of a proxy', html(413), true],
    ['400 IncompleteBody', refusal(400, 'IncompleteBody'), true],
    ['400 BadDigest', refusal(400, 'BadDigest'), true],
    ['400 XAmzContentSHA256Mismatch', refusal(400, 'XAmzContentSHA256Mismatch'), false],
    ['400 with a throttling of keys', refusal(400, 'KMS.ThrottlingException'), false],
  ])('%s', async (_what, answer, isForAll) => {
    const [{ site: near, givenUp }, far] = [await openCounted('20s'), await openSite()];
    await link(near, far);
    run(near);
    const { client } = near.world;
    // Then the peer's description of itself is known.
    await client.put('/bucket/first', { body: 'x' });
    await settled(near, '/bucket/first', 'COMPLETED');
    let answered = 0;
    far.instead = (method) => {
      if (!isForAll && method !== 'PUT') return undefined;
      answered += 1;
      return answer;
    };
    const paths = Array.from({ length: 10 }, (_, n) => `/bucket/${n}`);
    for (const path of paths) await client.put(path, { body: 'x' });
    await client.delete('/bucket/0');
    await vi.waitFor(() => expect(answered).toBeGreaterThan(2), until);
    far.instead = undefined;
    for (const path of paths.slice(1)) await settled(near, path, 'COMPLETED');
    await drained(near);
    expect(givenUp).toEqual([]);
    // As a gateway, not as any other service: the ids of the versions are the same.
    await alike(near, far);
  });
});

test.each<[what: string, answer: Reply, refused: number, sent: number[]]>([
  ['503, twice', refusal(503, 'SlowDown'), 2, [1, 2, 3, 3, 3]],
  ['502 of a proxy', html(502), 1, [1, 2, 3, 3]],
  ['a body that was cut', refusal(400, 'IncompleteBody'), 1, [1, 2, 3, 3]],
  ['503, three times', refusal(503, 'SlowDown'), 3, [1, 2, 3, 3, 3, 1, 2, 3]],
  ['403 is not tried again', refusal(403, 'AccessDenied'), 1, [1, 2, 3, 1, 2, 3]],
])(
  'a part is sent three times at most before the upload begins again: %s',
  async (_what, answer, times, sent) => {
    const [{ site: near }, far] = [await openCounted('20s'), await openSite()];
    await link(near, far);
    const { client } = near.world;
    const uploadId = await createUpload(client, '/bucket/a');
    const bodies = [Buffer.alloc(5 * 1024 * 1024, 1), Buffer.alloc(5 * 1024 * 1024, 2), Buffer.from('3')];
    const parts = [];
    for (const [n, body] of bodies.entries())
      parts.push(await putPart(client, '/bucket/a', { uploadId, number: n + 1, body }));
    await complete(client, '/bucket/a', { uploadId, parts });
    const numbers: number[] = [];
    let left = times;
    far.instead = (method, target) => {
      const number = method === 'PUT' ? Number(/partNumber=(\d+)/.exec(target)?.[1] ?? 0) : 0;
      if (number > 0) numbers.push(number);
      if (number !== 3 || left === 0) return undefined;
      left -= 1;
      return answer;
    };
    run(near);
    await settled(near, '/bucket/a', 'COMPLETED');
    expect(numbers).toEqual(sent);
    await alike(near, far);
    expect((await far.world.client.get('/bucket?uploads')).text).not.toContain('<Upload>');
  },
);

describe('versions that a destination refuses delay no others of their bucket', () => {
  test.each<[what: string, status: number, code: string]>([
    ['needs a key service that it does not have', 501, 'NotImplemented'],
    ['denies by a policy', 403, 'AccessDenied'],
    ['fails to store', 500, 'InternalError'],
  ])('forty that it %s, and a hundred others', async (_what, status, code) => {
    const [{ site: near, givenUp }, far] = [await openCounted('20s'), await openSite()];
    await link(near, far);
    const isBad = (target: string): boolean => /\/bucket\/bad/.test(target);
    far.instead = (method, target) => (method === 'PUT' && isBad(target) ? refusal(status, code) : undefined);
    const { client } = near.world;
    for (let n = 0; n < 40; n += 1) await client.put(`/bucket/bad-${n}`, { body: 'x' });
    for (let n = 0; n < 100; n += 1) await client.put(`/bucket/good-${n}`, { body: 'x' });
    await client.put('/bucket/bad-0', { body: 'a later version' });
    run(near);
    for (let n = 0; n < 100; n += 1) await settled(near, `/bucket/good-${n}`, 'COMPLETED');
    // A version of an object does not overtake one that waits.
    expect(await statusOf(near, '/bucket/bad-0')).toBe('PENDING');
    await vi.waitFor(async () => {
      const { destinations } = await operatorOf(near.world).must('GET', '/replication/status');
      expect(destinations).toMatchObject([
        {
          state: 'ok',
          refused: { objects: 40, reasons: [{ error: expect.stringContaining(code), objects: 40 }] },
        },
      ]);
    }, until);
    far.instead = undefined;
    await drained(near);
    await alike(near, far);
    expect(givenUp).toEqual([]);
  });

  // As behind a proxy that changes the path or the headers of one request.
  test.each([
    [403, 'SignatureDoesNotMatch'],
    [403, 'InvalidAccessKeyId'],
    [403, 'RequestTimeTooSkewed'],
    [400, 'AuthorizationHeaderMalformed'],
    [400, 'ExpiredToken'],
    [400, 'RequestTimeout'],
    [404, 'NoSuchBucket'],
  ])(
    'one that it answers by %i %s: it becomes FAILED, and the destination rests for no other',
    async (status, code) => {
      const clock = hurriedClock();
      const limits = { ...settings, SVC_REPLICATION_RETRY_MAX: '1s' };
      const [near, far] = [await openSite({ clock, settings: limits }), await openSite()];
      await link(near, far);
      far.instead = (method, target) =>
        method === 'PUT' && target.includes('/poison?') ? refusal(status, code) : undefined;
      run(near);
      const { client } = near.world;
      await client.put('/bucket/poison', { body: 'x' });
      let others = 0;
      const states = new Set<string>();
      await vi.waitFor(async () => {
        await client.put(`/bucket/other-${others}`, { body: 'x' });
        await settled(near, `/bucket/other-${others}`, 'COMPLETED');
        others += 1;
        const { destinations } = await operatorOf(near.world).must('GET', '/replication/status');
        for (const { state } of destinations as readonly Shown[]) states.add(state);
        clock.hurry(1_000);
        expect(await statusOf(near, '/bucket/poison')).toBe('FAILED');
      }, until);
      expect([...states]).toEqual(['ok']);
      const { failed } = await operatorOf(near.world).must('GET', '/replication/failed');
      expect(failed).toMatchObject([{ key: 'poison', error: expect.stringContaining(code) }]);
      expect(JSON.stringify(failed)).not.toContain('PUT the peer again');
    },
  );

  test('one at which the peer hangs, and others', async () => {
    const [{ site: near }, far] = [await openCounted(), await openSite()];
    await link(near, far);
    const hanging = Promise.withResolvers<undefined>();
    far.before = (target) => (target.includes('/bad') ? hanging.promise : undefined);
    const { client } = near.world;
    await client.put('/bucket/bad', { body: 'x' });
    for (let n = 0; n < 20; n += 1) await client.put(`/bucket/good-${n}`, { body: 'x' });
    run(near);
    for (let n = 0; n < 20; n += 1) await settled(near, `/bucket/good-${n}`, 'COMPLETED');
    expect(await statusOf(near, '/bucket/bad')).toBe('PENDING');
    far.before = undefined;
    hanging.resolve(undefined);
    await settled(near, '/bucket/bad', 'COMPLETED');
  });
});
