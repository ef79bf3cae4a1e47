/** `routeHandler` in frameworks that make a `Request` of Node's own request, and write the `Response` themselves. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
import { gunzipSync, gzipSync } from 'node:zlib';
import { expect, onTestFinished, test } from 'vitest';
import { memory, openGateway } from '../../src/mod.ts';
import { routeHandler } from '../../src/runtime/node.ts';
import { Talk } from '../support/server-stub.ts';

const me = { accessKey: 'ACCESSKEY', secretKey: 'secret-of-me', owner: 'me', root: true };
const put = (path: string, length: number): string =>
  `PUT ${path} HTTP/1.1\r\nHost: h\r\nContent-Length: ${length}\r\n\r\n`;
const get = 'GET /photos/cat HTTP/1.1\r\nHost: h\r\n\r\n';

/** As Hono and h3 have one: with the parts of a `Request` of Node, which cannot copy it. */
const toFrameworkRequest = ({ method, url, headers, signal, body }: Request): Request =>
  ({ method, url, headers, signal, body }) as Request;

async function serveFramework(handle: (request: Request) => Promise<Response>): Promise<number> {
  const server = createServer(async (incoming, outgoing) => {
    const { method = '', url = '', headers } = incoming;
    const hasBody = headers['content-length'] !== undefined;
    const body = hasBody ? (Readable.toWeb(incoming) as ReadableStream<Uint8Array>) : null;
    const init = { method, headers: headers as Record<string, string>, body, duplex: 'half' as const };
    const response = await handle(toFrameworkRequest(new Request(`http://h${url}`, init)));
    outgoing.writeHead(response.status, Object.fromEntries(response.headers));
    outgoing.end(Buffer.from(await response.arrayBuffer()));
  }).listen(0, '127.0.0.1');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  await once(server, 'listening');
  return (server.address() as AddressInfo).port;
}

test.each([1_000, 1_000_000, 8_000_000])(
  'the refusal of an upload of %d bytes leaves its connection to the next request',
  async (length) => {
    const gateway = await openGateway({ credentials: [me], storage: memory(), workers: false });
    onTestFinished(() => gateway.close());
    const talk = new Talk(await serveFramework(routeHandler(gateway)));
    await talk.say(put('/photos/cat', length) + 'a'.repeat(length)).sees('</Error>');
    await talk.say(get).sees('</Error>', 2);
    expect(talk.seen.match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 404', 'HTTP/1.1 404']);
  },
);

test('a body that is left half-way is refused with a reply, and leaves its connection to the next request', async () => {
  const handle = routeHandler({
    fetch: async ({ method, body }) => {
      for await (const _ of body ?? []) break;
      return new Response(`<${method}>`, { status: 400 });
    },
  });
  const talk = new Talk(await serveFramework(handle));
  await talk.say(put('/photos/cat', 1_000_000) + 'a'.repeat(1_000_000)).sees('<PUT>');
  await talk.say(get).sees('<GET>');
});

test('an endless body that was refused is read no further than 16 MiB', async () => {
  let sentBytes = 0;
  let isLeft = false;
  const handle = routeHandler({ fetch: async () => new Response('refused', { status: 403 }) });
  const port = await serveFramework((request) => {
    const reader = (request.body as ReadableStream<Uint8Array>).getReader();
    const body = new ReadableStream<Uint8Array>({
      async pull(controller) {
        const { value = new Uint8Array() } = await reader.read();
        sentBytes += value.byteLength;
        controller.enqueue(value);
      },
      cancel() {
        isLeft = true;
      },
    });
    return handle({ ...request, body } as Request);
  });
  const talk = new Talk(port).say(put('/photos/cat', 1_000_000_000));
  for (let n = 0; n < 24; n++) talk.say('a'.repeat(1_000_000));
  await talk.sees('refused');
  await expect.poll(() => isLeft, { timeout: 60_000 }).toBe(true);
  expect(sentBytes / 2 ** 20).toBeGreaterThanOrEqual(16);
  expect(sentBytes / 2 ** 20).toBeLessThan(17);
});

const texts = { 'content-type': 'text/plain', 'content-length': '11' };

test.each([
  ['as it is', texts, [undefined, 11, 'meow'.padEnd(11)]],
  ['in an encoding of its own', { ...texts, 'content-encoding': 'x-own' }, ['x-own', 11, 'meow'.padEnd(11)]],
] as const)('the length and encoding of a reply %s are those of the gateway', async (_, headers, seen) => {
  const handle = routeHandler({ fetch: async () => new Response('meow'.padEnd(11), { headers }) });
  // As Next.js does.
  const port = await serveFramework(async (request) => {
    const { status, body } = await handle(request);
    return new Response(body, { status });
  });
  expect(await ask(port)).toEqual(seen);
});

test('a reply that the framework compresses has the length and encoding of the framework', async () => {
  const handle = routeHandler({ fetch: async () => new Response('meow'.padEnd(11), { headers: texts }) });
  const port = await serveFramework(async (request) => {
    const { body } = await handle(request);
    const packed = gzipSync(Buffer.from(await new Response(body).arrayBuffer()));
    return new Response(packed, { headers: { 'content-encoding': 'gzip' } });
  });
  const [encoding, length, body] = await ask(port);
  expect([encoding, gunzipSync(Buffer.from(body, 'latin1')).toString()]).toEqual(['gzip', 'meow'.padEnd(11)]);
  expect([undefined, body.length]).toContain(length);
});

/** @returns Content-Encoding, Content-Length and the body, as they were sent */
async function ask(port: number): Promise<[string | undefined, number | undefined, string]> {
  const seen = await new Talk(port).say(get.replace('Host: h', 'Host: h\r\nConnection: close')).ends();
  const [head = '', ...body] = seen.split('\r\n\r\n');
  const find = (name: string): string | undefined => new RegExp(`^${name}: (.*)$`, 'im').exec(head)?.[1];
  const length = find('content-length');
  const isChunked = find('transfer-encoding') === 'chunked';
  const text = body.join('\r\n\r\n');
  return [
    find('content-encoding'),
    length === undefined ? undefined : Number(length),
    isChunked ? text.replace(/^[0-9a-f]+\r\n/, '').replace(/\r\n0\r\n.*$/s, '') : text,
  ];
}
