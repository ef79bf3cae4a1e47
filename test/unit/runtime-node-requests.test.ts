/** Requests that the Node listener accepts, and those that it refuses before the gateway sees them. */
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import type { Socket } from 'node:net';
import { expect, onTestFinished, test, vi } from 'vitest';
import type { Incoming } from '../../src/protocol/wire.ts';
import { serveStub, Talk, text } from '../support/server-stub.ts';

const get = (target: string, headers = ''): string => `GET ${target} HTTP/1.1\r\nHost: h\r\n${headers}\r\n`;

test('passes the target of the request line unchanged', async () => {
  const targets: string[] = [];
  const { port } = await serveStub(async ({ wire }) => {
    targets.push(wire.target);
    return text('ok');
  });
  const raw = ['//a//b', '/a/%2e%2e/b', '/a/../b/./c', '/a+b?x=1+2', '/%C3%A9%2F', '/a?b&c=&&d', '/a\\b'];
  const talk = new Talk(port);
  for (const target of raw) talk.say(get(target));
  await talk.sees('\r\n\r\nok', raw.length);
  expect(targets).toEqual(raw);
});

test.each(['nonsense', '200-ok', ''])('an expectation of "%s" is ignored', async (expectation) => {
  const { port } = await serveStub(async ({ body }) => text(`${await lengthOf(body)} bytes`));
  const head = `PUT /k HTTP/1.1\r\nHost: h\r\nExpect: ${expectation}\r\nContent-Length: 5\r\n\r\n`;
  const seen = await new Talk(port).say(`${head}hello`).sees('5 bytes');
  expect(seen).toContain('200 OK');
  expect(seen).not.toContain('100 Continue');
});

test('keeps repeated headers apart and in order', async () => {
  let all: readonly string[] = [];
  const { port } = await serveStub(async ({ wire }) => {
    all = wire.headers.all('x-amz-meta-a');
    return text('ok');
  });
  await new Talk(port).say(get('/', 'X-Amz-Meta-A: 1\r\nx-amz-meta-a: 2\r\n')).sees('ok');
  expect(all).toEqual(['1', '2']);
});

test('an absolute target addresses the same thing', async () => {
  const { port } = await serveStub(async ({ wire }) => text(wire.target));
  const seen = await new Talk(port)
    .say('GET http://H/b/k?x HTTP/1.1\r\nHost: h\r\n\r\n')
    .sees('\r\n\r\n/b/k?x');
  expect(seen).toContain('200 OK');
});

test('answers pipelined requests in order, one after the other', async () => {
  const events: string[] = [];
  const { port } = await serveStub(async ({ wire }) => {
    events.push(`begin ${wire.target}`);
    await new Promise((resolve) => setTimeout(resolve, wire.target === '/0' ? 50 : 1));
    events.push(`end ${wire.target}`);
    return text(`<${wire.target}>`);
  });
  const targets = Array.from({ length: 50 }, (_, i) => `/${i}`);
  const talk = new Talk(port).say(targets.map((target) => get(target)).join(''));
  const seen = await talk.sees('</', 50);
  expect([...seen.matchAll(/<(\/\d+)>/g)].map((match) => match[1])).toEqual(targets);
  expect(events).toEqual(targets.flatMap((target) => [`begin ${target}`, `end ${target}`]));
});

test('a pipelined request behind a body is served when the body was read', async () => {
  const { port } = await serveStub(async ({ body }) => text(`${await lengthOf(body)} bytes`));
  const put = 'PUT /k HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello';
  await new Talk(port).say(put + get('/') + put).sees('5 bytes', 2);
});

test('a client that pipelines single bytes while its request is handled is paused after some hundred', async () => {
  const [entered, release] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const sockets: Socket[] = [];
  const onSocket = (message: unknown): void => {
    sockets.push((message as { readonly socket: Socket }).socket);
  };
  subscribe('net.server.socket', onSocket);
  onTestFinished(() => {
    unsubscribe('net.server.socket', onSocket);
  });
  const { port } = await serveStub(async ({ wire }) => {
    entered.resolve();
    if (wire.target === '/slow') await release.promise;
    return text(wire.target);
  });
  const talk = new Talk(port).say(get('/slow'));
  talk.socket.setNoDelay(true);
  await entered.promise;
  for (const byte of `GET /next HTTP/1.1\r\nHost: h\r\nX-Long: ${'x'.repeat(20_000)}\r\n\r\n`) {
    talk.say(byte);
    await new Promise(setImmediate);
  }
  await vi.waitFor(() => expect(sockets[0]?.isPaused()).toBe(true), { timeout: 60_000 });
  release.resolve();
  expect(await talk.sees('/next')).toContain('/slow');
});

test('one connection serves many requests', async () => {
  const { port } = await serveStub(async () => text('pong'));
  const talk = new Talk(port);
  for (let i = 1; i <= 5; i++) await talk.say(get('/')).sees('pong', i);
  expect(talk.state).toBe('open');
});

test('a request without a body has none, one with a length or chunks has one', async () => {
  const { port } = await serveStub(async ({ body }) =>
    text(body === undefined ? 'none' : `some ${await lengthOf(body)}`),
  );
  const post = (headers: string, body = ''): string =>
    `POST / HTTP/1.1\r\nHost: h\r\n${headers}\r\n\r\n${body}`;
  const talk = new Talk(port).say(get('/') + post('Content-Length: 0'));
  await talk.sees('none', 2);
  await talk.say(post('Transfer-Encoding: chunked', '3\r\nabc\r\n0\r\n\r\n')).sees('some 3');
  await talk.say(post('Content-Length: 2', 'ab')).sees('some 2');
});

const smuggled = {
  'a length beside chunks':
    'POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nX',
  'two lengths that differ': 'POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab',
  'two lengths in one line': 'POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1, 2\r\n\r\nab',
  'a signed length': 'POST / HTTP/1.1\r\nHost: h\r\nContent-Length: +1\r\n\r\na',
  'a coding that does not end in chunked':
    'POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n',
  'an unknown coding': 'POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n',
  'bare line feeds': 'GET / HTTP/1.1\nHost: h\n\n',
  'a bare line feed between headers': 'GET / HTTP/1.1\r\nHost: h\nX: y\r\n\r\n',
  'a space before the colon': 'POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n',
  'a folded header': 'GET / HTTP/1.1\r\nHost: h\r\nX: a\r\n b\r\n\r\n',
  'a control character in a header': 'GET / HTTP/1.1\r\nHost: h\r\nX: a\u0001b\0\r\n\r\n',
  'no host': 'GET / HTTP/1.1\r\n\r\n',
  'two hosts': 'GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n',
  'a target for another host': 'GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n',
  'no HTTP at all': 'hello there\r\n\r\n',
} as const;

test.each(Object.entries(smuggled))('refuses %s with 400 and closes', async (_name, request) => {
  let asked = 0;
  const { port } = await serveStub(async ({ body }: Incoming) => {
    asked++;
    await lengthOf(body);
    return text('taken');
  });
  const seen = await new Talk(port).say(request + get('/smuggled')).ends();
  expect(seen).toMatch(/^HTTP\/1\.1 400 /);
  expect(seen).not.toContain('taken');
  expect(asked).toBe(0);
});

test('garbage after a request does not affect its answer, and ends the connection', async () => {
  const { port } = await serveStub(async () => {
    await new Promise((resolve) => setTimeout(resolve, 20));
    return text('answer');
  });
  const seen = await new Talk(port).say(`${get('/')}garbage\r\n\r\n`).ends();
  expect(seen).toContain('answer');
});

test('takes headers up to the limit and refuses more', async () => {
  const { port } = await serveStub(async ({ wire }) => text(`${[...wire.headers.names()].length} names`));
  const many = Array.from({ length: 2500 }, (_, i) => `x${i}: 1\r\n`).join('');
  await new Talk(port).say(get('/', many.slice(0, many.indexOf('x2100:')))).sees('2101 names');
  const seen = await new Talk(port).say(get('/', `x: ${'a'.repeat(40_000)}\r\n`)).ends();
  expect(seen).toMatch(/^HTTP\/1\.1 400 /);
  expect(seen).toContain('<Code>RequestHeaderSectionTooLarge</Code>');
});

test('cuts a client that does not finish its headers', async () => {
  const { port } = await serveStub(async () => text('ok'), { SVC_HEADER_TIMEOUT: 200 });
  const seen = await new Talk(port).say('GET / HTTP/1.1\r\nHost: h\r\n').ends();
  expect(seen).toContain('<Code>RequestTimeout</Code>');
});

test('closes a connection that stays idle', async () => {
  const { port } = await serveStub(async () => text('ok'), { SVC_IDLE_TIMEOUT: 100 });
  const talk = new Talk(port).say(get('/'));
  await talk.sees('ok');
  await talk.ends();
  await new Talk(port).ends();
});

async function lengthOf(body: Incoming['body']): Promise<number> {
  let length = 0;
  for await (const bytes of body ?? []) length += bytes.byteLength;
  return length;
}
