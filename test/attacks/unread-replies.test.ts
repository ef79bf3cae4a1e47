/** Clients that do not read large replies: what they hold is bounded, and is the share of their own account. */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { describe, expect, test } from 'vitest';
import type { Gateway } from '../../src/gateway.ts';
import type { Reply } from '../../src/protocol/reply.ts';
import { WireHeaders } from '../../src/protocol/wire.ts';
import { serve } from '../../src/runtime/node/node-server.ts';
import { policyOf } from '../support/access.ts';
import { operatorOf } from '../support/clusters.ts';
import { alice, openGateway } from '../support/gateway.ts';
import { type RequestSpec, type SignedRequest, signer } from '../support/sign.ts';

const MiB = 1024 * 1024;
/** Of a process with `SVC_MEMORY_MAX` of 256 MiB. */
const unsentMax = 32 * MiB;
/** A listing shows each of these characters as six. */
const long = '"'.repeat(1_000);

async function openWorld() {
  const world = await openGateway({ settings: { SVC_MEMORY_MAX: '256MiB', SVC_LISTEN: '127.0.0.1:0' } });
  for (const [client, bucket, keys] of [
    // The kernel takes some MiB of each reply: what is beyond that waits in the process.
    [world.client, 'of-alice', 1_000],
    [world.bob, 'of-bob', 50],
  ] as const) {
    await client.put(`/${bucket}`);
    for (let at = 0; at < keys; at += 1)
      await client.put(`/${bucket}/${at}${encodeURIComponent(long)}`, { body: '' });
  }
  const listed = await world.client.get('/of-alice?list-type=2');
  expect(listed.bytes.length).toBeGreaterThan(6_000_000);
  const serving = await serve({ gateway: world.gateway, config: world.context.config });
  return { world, serving, bytes: listed.bytes.length };
}

/** A client that sends a request and reads only the head of the reply. */
async function sendUnread(url: string, request: string): Promise<{ socket: Socket; status: number }> {
  const socket = connect({ port: Number(new URL(url).port), host: '127.0.0.1' });
  socket.on('error', () => {});
  socket.write(request);
  const [first] = (await once(socket, 'data')) as [Buffer];
  socket.pause();
  return { socket, status: Number(first.toString('latin1', 9, 12)) };
}

/** A request of alice. */
function signedText(url: string, spec: RequestSpec): string {
  const {
    target,
    headers,
    body = new Uint8Array(0),
  } = signer({ ...alice, host: new URL(url).host }).request(spec);
  const lines = headers.map(([name, value]) => `${name}: ${value}\r\n`).join('');
  return `${spec.method} ${target} HTTP/1.1\r\n${lines}\r\n${Buffer.from(body).toString()}`;
}

/** A client without a socket: it has the head of the reply, and reads nothing. */
async function askUnread(
  gateway: Gateway,
  { target, headers }: Pick<SignedRequest, 'target' | 'headers'>,
): Promise<Reply> {
  const wire = { method: 'GET', target, headers: new WireHeaders(headers.flat()), remote: '', secure: false };
  return gateway.handle({ wire, body: undefined, signal: new AbortController().signal });
}

/** Its client disconnects. */
async function cancel({ body }: Reply): Promise<void> {
  if (typeof body === 'object' && Symbol.asyncIterator in body) await body[Symbol.asyncIterator]().return?.();
}

const download = () => signer(alice).request({ method: 'GET', path: '/of-alice/key' });

const listing = { method: 'GET', path: '/of-alice', query: { 'list-type': '2' } };

describe('large replies that clients do not read', () => {
  test('take a bounded part of the memory: the account gets SlowDown, others are served, and an end of the connections frees it', async () => {
    const { world, serving, bytes } = await openWorld();
    await using _ = world;
    const head = signedText(serving.url, listing);
    const unread = [];
    for (let at = 0; at < 8; at += 1) unread.push(await sendUnread(serving.url, head));
    const served = unread.filter(({ status }) => status === 200).length;
    expect(served * bytes).toBeLessThanOrEqual(unsentMax);
    expect(served).toBeGreaterThan(1);
    expect(unread.at(-1)?.status).toBe(503);

    const refused = await world.client.get('/of-alice?list-type=2');
    expect([refused.status, refused.code]).toEqual([503, 'SlowDown']);
    expect((await world.bob.get('/of-bob?list-type=2')).status).toBe(200);
    // Small replies need none of it.
    expect((await world.client.get('/of-alice?list-type=2&max-keys=1')).status).toBe(200);

    for (const { socket } of unread) socket.destroy();
    await expect.poll(async () => (await world.client.get('/of-alice?list-type=2')).status).toBe(200);
    await serving.close();
  });

  test('of anonymous callers count for the account of the bucket', async () => {
    const { world, serving } = await openWorld();
    await using _ = world;
    for (const [client, bucket] of [
      [world.client, 'of-alice'],
      [world.bob, 'of-bob'],
    ] as const)
      await client.put(`/${bucket}?policy`, {
        body: policyOf({ Action: 's3:ListBucket', Resource: `arn:aws:s3:::${bucket}` }),
      });
    const unread = [];
    for (let at = 0; at < 8; at += 1)
      unread.push(
        await sendUnread(serving.url, `GET /of-alice?list-type=2 HTTP/1.1\r\nhost: localhost\r\n\r\n`),
      );
    expect(unread.at(-1)?.status).toBe(503);
    expect((await world.anonymous.get('/of-alice?list-type=2')).status).toBe(503);
    // They leave a part to the account itself.
    expect((await world.client.get('/of-alice?list-type=2')).status).toBe(200);
    expect((await world.anonymous.get('/of-bob?list-type=2')).status).toBe(200);
    for (const { socket } of unread) socket.destroy();
    await serving.close();
  });

  test('refuse a deletion of many keys before it deletes any', async () => {
    const { world, serving } = await openWorld();
    await using _ = world;
    const head = signedText(serving.url, listing);
    const unread = [];
    for (let at = 0; at < 8; at += 1) unread.push(await sendUnread(serving.url, head));
    const objects = Array.from({ length: 1_000 }, (_, at) => `<Object><Key>${at}${long}</Key></Object>`);
    const body = `<Delete>${objects.join('')}</Delete>`;
    const refused = await world.client.post('/of-alice?delete', { body });
    expect([refused.status, refused.code]).toEqual([503, 'SlowDown']);
    // A reply that is always small is not refused.
    expect((await world.client.post('/of-alice/upload?uploads')).status).toBe(200);
    expect((await world.client.head(`/of-alice/0${encodeURIComponent(long)}`)).status).toBe(200);
    for (const { socket } of unread) socket.destroy();
    await expect.poll(async () => (await world.client.post('/of-alice?delete', { body })).status).toBe(200);
    expect((await world.client.head(`/of-alice/0${encodeURIComponent(long)}`)).status).toBe(404);
    await serving.close();
  });

  test('and downloads that they do not read are bounded in the same way', async () => {
    await using world = await openGateway({ settings: { SVC_MEMORY_MAX: '64MiB' } });
    const { client, bob, gateway } = world;
    const content = new Uint8Array(MiB);
    for (const [owner, bucket] of [
      [client, 'of-alice'],
      [bob, 'of-bob'],
    ] as const) {
      await owner.put(`/${bucket}`);
      await owner.put(`/${bucket}/key`, { body: content });
    }
    const body = policyOf({ Action: 's3:GetObject', Resource: 'arn:aws:s3:::of-alice/*' });
    await client.put('/of-alice?policy', { body });
    const ask = () => askUnread(gateway, { target: '/of-alice/key', headers: [['host', 'localhost']] });
    const unread = [];
    // 256 KiB each. Anonymous callers hold half of the memory at most, and those of one bucket's account three quarters of that.
    for (let at = 0; at < 120; at += 1) unread.push(await ask());
    expect(unread.filter(({ status }) => status === 200)).toHaveLength(96);
    // The account itself goes on reading and writing, and so does another one.
    expect((await client.get('/of-alice/key')).bytes.length).toBe(MiB);
    expect((await client.put('/of-alice/other', { body: content })).status).toBe(200);
    expect((await bob.get('/of-bob/key')).bytes.length).toBe(MiB);
    for (const reply of unread) await cancel(reply);
    expect((await ask()).status).toBe(200);
  });

  test('and a download that is cancelled before its first byte holds no memory, also under a limit of bytes', async () => {
    await using world = await openGateway({ settings: { SVC_MEMORY_MAX: '64MiB' } });
    const { client, gateway } = world;
    await client.put('/of-alice');
    await client.put('/of-alice/key', { body: new Uint8Array(MiB) });
    await operatorOf(world).must('PUT', '/buckets/of-alice/limits', { bytesPerSecond: 1024 ** 3 });
    for (let at = 0; at < 300; at += 1) {
      const reply = await askUnread(gateway, download());
      expect(reply.status).toBe(200);
      await cancel(reply);
    }
  });

  test('and those of an account leave memory for its uploads, and for other accounts', async () => {
    await using world = await openGateway({ settings: { SVC_MEMORY_MAX: '64MiB' } });
    const { client, bob, gateway } = world;
    const content = new Uint8Array(MiB);
    await client.put('/of-alice');
    await client.put('/of-alice/key', { body: content });
    await bob.put('/of-bob');
    const unread = [];
    for (let at = 0; at < 200; at += 1) unread.push(await askUnread(gateway, download()));
    expect(unread.filter(({ status }) => status === 200)).toHaveLength(192);
    expect((await client.head('/of-alice/key')).status).toBe(200);
    expect((await bob.put('/of-bob/key', { body: content })).status).toBe(200);
    expect((await bob.get('/of-bob/key')).bytes.length).toBe(MiB);
    for (const reply of unread) await cancel(reply);
    expect((await client.get('/of-alice/key')).bytes.length).toBe(MiB);
  });
});
