/** `toNodeHandler` on a server of node:http2: one connection, requests at the same time. */
import { type ClientHttp2Session, connect, createServer, type IncomingHttpHeaders } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { expect, onTestFinished, test, vi } from 'vitest';
import { memory, type OpenGateway, openGateway } from '../../src/mod.ts';
import { toNodeHandler } from '../../src/runtime/node.ts';

const me = { accessKey: 'ACCESSKEY', secretKey: 'secret-of-me', owner: 'me', root: true };
type Method = 'GET' | 'HEAD' | 'PUT' | 'DELETE';

interface Answer {
  readonly headers: IncomingHttpHeaders & { readonly ':status'?: number };
  readonly body: Buffer;
}

async function open({ checksContinue = false } = {}) {
  const gateway = await openGateway({ credentials: [me], storage: memory(), workers: false });
  const handle = toNodeHandler(gateway);
  const server = createServer(handle).listen(0, '127.0.0.1');
  if (checksContinue) server.on('checkContinue', handle);
  await new Promise((resolve) => server.once('listening', resolve));
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  // In MB, of what the client has not sent yet.
  const session = connect(origin, { maxSessionMemory: 100 });
  onTestFinished(async () => {
    session.destroy();
    server.close();
    await gateway.close();
  });
  const world = { gateway, origin, session };
  expect((await ask(world, 'PUT', '')).headers[':status']).toBe(200);
  return world;
}

interface World {
  readonly gateway: OpenGateway;
  readonly origin: string;
  readonly session: ClientHttp2Session;
}

function begin({ gateway, origin, session }: World, method: Method, key: string, length?: number) {
  const link = gateway.presign({ method, origin, bucket: 'photos', key, expiresSeconds: 60 });
  const path = link.slice(origin.length);
  const size = length === undefined ? {} : { 'content-length': length };
  return session.request({ ':method': method, ':path': path, ...size }, { endStream: length === undefined });
}

function ask(world: World, method: Method, key: string, body?: Buffer): Promise<Answer> {
  const stream = begin(world, method, key, body?.length);
  if (body !== undefined) stream.end(body);
  return new Promise((resolve, reject) => {
    let headers: IncomingHttpHeaders = {};
    const pieces: Buffer[] = [];
    stream.on('response', (received) => {
      headers = received;
    });
    stream.on('data', (piece: Buffer) => pieces.push(piece));
    stream.on('end', () => resolve({ headers, body: Buffer.concat(pieces) }));
    stream.on('error', reject);
  });
}

test('objects are written and read over HTTP/2, several at a time on one connection', async () => {
  const world = await open();
  const bodies = Array.from({ length: 8 }, (_, n) => Buffer.alloc(700_000 + n, n));
  const puts = await Promise.all(bodies.map((body, n) => ask(world, 'PUT', `../${n}`, body)));
  expect(puts.map(({ headers }) => headers[':status'])).toEqual(Array(8).fill(200));
  const gets = await Promise.all(bodies.map((_, n) => ask(world, 'GET', `../${n}`)));
  for (const [n, { headers, body }] of gets.entries()) {
    expect(headers['content-length']).toBe(String(700_000 + n));
    expect(body.equals(bodies[n] as Buffer)).toBe(true);
  }
  const head = await ask(world, 'HEAD', '../3');
  expect([head.headers['content-length'], head.body.length]).toEqual(['700003', 0]);
  expect((await ask(world, 'DELETE', '../3')).headers[':status']).toBe(204);
  const missing = await ask(world, 'GET', '../3');
  expect([missing.headers[':status'], missing.body.toString()]).toEqual([
    404,
    expect.stringContaining('<Code>NoSuchKey<'),
  ]);
});

test('an upload over HTTP/2 that is refused is answered, and the connection lives on', async () => {
  const world = await open();
  const body = Buffer.alloc(20_000_000);
  const { session } = world;
  const stream = session.request({ ':method': 'PUT', ':path': '/photos/cat', 'content-length': body.length });
  stream.on('error', () => {});
  const status = new Promise((resolve) => stream.on('response', (head) => resolve(head[':status'])));
  stream.end(body);
  expect(await status).toBe(403);
  await vi.waitFor(() => expect(stream.closed).toBe(true), { timeout: 60_000 });
  expect((await ask(world, 'HEAD', 'cat')).headers[':status']).toBe(404);
});

test('an upload over HTTP/2 whose client leaves stores nothing', async () => {
  const world = await open();
  const stream = begin(world, 'PUT', 'cat', 1_000_000);
  stream.on('error', () => {});
  stream.write(Buffer.alloc(100_000));
  await vi.waitFor(() => expect(stream.pending).toBe(false), { timeout: 60_000 });
  stream.close(8);
  await vi.waitFor(() => expect(stream.destroyed).toBe(true), { timeout: 60_000 });
  expect((await ask(world, 'HEAD', 'cat')).headers[':status']).toBe(404);
});

test.each([
  ['Node itself sends it', false],
  ['the application has a listener of checkContinue', true],
])('an upload over HTTP/2 that expects 100 Continue gets it once where %s', async (_, checksContinue) => {
  const world = await open({ checksContinue });
  const { origin, session } = world;
  const link = world.gateway.presign({
    method: 'PUT',
    origin,
    bucket: 'photos',
    key: 'cat',
    expiresSeconds: 60,
  });
  const path = link.slice(origin.length);
  const stream = session.request({
    ':method': 'PUT',
    ':path': path,
    'content-length': 4,
    expect: '100-continue',
  });
  let continued = 0;
  stream.on('continue', () => {
    continued += 1;
  });
  const status = new Promise((resolve) => stream.on('response', (head) => resolve(head[':status'])));
  await expect.poll(() => continued, { timeout: 60_000 }).toBe(1);
  stream.end('meow');
  expect([await status, continued]).toEqual([200, 1]);
});

test('a request over HTTP/2 whose Host differs from its authority is refused', async () => {
  const { session } = await open();
  const stream = session.request({
    ':path': '/photos',
    ':authority': 'app.example.com',
    host: 'other.example.com',
  });
  const status = new Promise((resolve) => stream.on('response', (head) => resolve(head[':status'])));
  expect(await status).toBe(400);
});
