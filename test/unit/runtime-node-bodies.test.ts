/** Request bodies on the Node listener: Expect, backpressure, and bodies that are cut off, late or not read. */
import { randomFillSync } from 'node:crypto';
import { EventEmitter, once } from 'node:events';
import { createServer, type RequestListener, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { createGzip, gunzipSync } from 'node:zlib';
import { expect, onTestFinished, test } from 'vitest';
import { Refusal } from '../../src/base/errors.ts';
import { silentTelemetry } from '../../src/ports/telemetry.ts';
import type { Incoming } from '../../src/protocol/wire.ts';
import { toNodeHandler } from '../../src/runtime/node.ts';
import { serveStub, Talk, text } from '../support/server-stub.ts';

const put = (length: number, headers = ''): string =>
  `PUT /k HTTP/1.1\r\nHost: h\r\nContent-Length: ${length}\r\n${headers}\r\n`;
const get = 'GET / HTTP/1.1\r\nHost: h\r\n\r\n';
const gate = <Value>() => Promise.withResolvers<Value>();
const expectation = 'Expect: 100-continue\r\n';

async function lengthOf(body: Incoming['body']): Promise<number> {
  let length = 0;
  for await (const bytes of body ?? []) length += bytes.byteLength;
  return length;
}

/** Answers with the code of the error that reading the body threw. */
const reading = async ({ body }: Incoming) => {
  try {
    return text(`<${await lengthOf(body)} bytes>`);
  } catch (error) {
    return text(`<${error instanceof Refusal ? error.code : String(error)}>`, 400);
  }
};

test('100 Continue is sent when the body is first read', async () => {
  const { port } = await serveStub(async (incoming) => {
    await sleep(30);
    return reading(incoming);
  });
  const talk = new Talk(port).say(put(3, expectation));
  expect(await talk.sees('\r\n\r\n')).toBe('HTTP/1.1 100 Continue\r\n\r\n');
  await talk.say('abc').sees('<3 bytes>');
  await talk.say(`${put(2)}ab`).sees('<2 bytes>');
});

test('a refusal before the body is read saves the upload and closes', async () => {
  const { port } = await serveStub(async () => text('refused', 403));
  const seen = await new Talk(port).say(put(1_000_000_000, expectation)).ends();
  expect(seen).toMatch(/^HTTP\/1\.1 403 /);
  expect(seen).toMatch(/connection: close/i);
});

test('a small unread body is dropped and the connection lives on', async () => {
  const { port } = await serveStub(async ({ wire }) => text(`<${wire.method}>`));
  const talk = new Talk(port).say(put(100_000) + 'a'.repeat(100_000) + get);
  await talk.sees('<GET>');
  expect(talk.seen).toMatch(/<PUT>.*<GET>/s);
});

test('a body that is left half-way is dropped as well', async () => {
  const { port } = await serveStub(async ({ wire, body }) => {
    for await (const _ of body ?? []) break;
    return text(`<${wire.method}>`);
  });
  await new Talk(port).say(put(200_000) + 'a'.repeat(200_000) + get).sees('<GET>');
});

test.each(['', 'Connection: close\r\n'])(
  'the refusal of a long upload reaches a client that is still sending (%j)',
  async (headers) => {
    const { port } = await serveStub(async () => text('refused', 403));
    const talk = new Talk(port).say(put(8 * 1024 * 1024, headers));
    for (let i = 0; i < 8; i++) {
      talk.say('a'.repeat(1024 * 1024));
      await sleep(2);
    }
    const seen = await talk.ends();
    expect(seen).toContain('refused');
    expect(seen).toMatch(/connection: close/i);
    expect(talk.state).toBe('ended');
  },
);

test('an endless upload that was refused is cut', async () => {
  const { port } = await serveStub(async () => text('refused', 403));
  const talk = new Talk(port).say(put(1024 * 1024 * 1024));
  const piece = 'a'.repeat(1024 * 1024);
  let sent = 0;
  for (; sent < 1000 && !talk.socket.destroyed; sent++) {
    await new Promise((resolve) => talk.socket.write(piece, 'latin1', resolve));
  }
  expect(sent).toBeLessThan(500);
});

test('a body is read at the pace of its reader', async () => {
  const looked = gate<void>();
  const { port } = await serveStub(async ({ body }) => {
    for await (const _ of body ?? []) {
      await looked.promise;
      break;
    }
    return text('late', 400);
  });
  const talk = new Talk(port).say(put(64 * 1024 * 1024));
  const piece = 'a'.repeat(1024 * 1024);
  let takenBytes = 0;
  for (let i = 0; i < 64; i++) {
    talk.socket.write(piece, 'latin1', () => {
      takenBytes += piece.length;
    });
  }
  // Until nothing moves.
  for (let before = -1; before !== takenBytes; await sleep(300)) before = takenBytes;
  // Only the kernel's buffers on both sides fill; if the gateway read the body, it would take all bytes.
  expect(takenBytes).toBeLessThan(32 * 1024 * 1024);
  looked.resolve();
});

test('a slow client is read as it comes, over longer than the idle time', async () => {
  const { port } = await serveStub(reading, { SVC_IDLE_TIMEOUT: 4_000 });
  const talk = new Talk(port).say(put(12));
  for (let i = 0; i < 12; i++) {
    await sleep(400);
    talk.say('a');
  }
  await talk.sees('<12 bytes>');
});

test('a client that stops sending inside a body gets RequestTimeout', async () => {
  const { port } = await serveStub(reading, { SVC_IDLE_TIMEOUT: 100 });
  const seen = await new Talk(port).say(`${put(8)}abc`).ends();
  expect(seen).toContain('<RequestTimeout>');
});

test('a gateway that thinks for longer than the idle time is waited for', async () => {
  const { port } = await serveStub(
    async () => {
      await sleep(300);
      return text('thought');
    },
    { SVC_IDLE_TIMEOUT: 100 },
  );
  await new Talk(port).say(get).sees('thought');
});

test('a body that ends early gets IncompleteBody, and is never taken for complete', async () => {
  const { port } = await serveStub(reading);
  const talk = new Talk(port).say(`${put(8)}abc`);
  talk.socket.end();
  expect(await talk.ends()).toContain('<IncompleteBody>');
});

test('a chunked body with invalid framing gets BadRequest', async () => {
  const { port } = await serveStub(reading);
  const talk = new Talk(port).say(
    'PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nzz\r\n',
  );
  const seen = await talk.ends();
  expect(seen).toContain('<BadRequest>');
  expect(seen).not.toContain('bytes>');
});

test('a client that disappears inside its body fails the body and aborts the signal', async () => {
  const [failed, aborted, entered] = [gate<unknown>(), gate<void>(), gate<void>()];
  const { port } = await serveStub(async ({ body, signal }) => {
    signal.addEventListener('abort', () => aborted.resolve());
    entered.resolve();
    await lengthOf(body).catch(failed.resolve);
    await aborted.promise;
    return text('nobody hears this');
  });
  const talk = new Talk(port).say(`${put(8)}abc`);
  await entered.promise;
  talk.socket.resetAndDestroy();
  expect(await failed.promise).toBeInstanceOf(Error);
  await aborted.promise;
});

test('a client that disappears while it is waited on aborts the signal', async () => {
  const [aborted, entered] = [gate<void>(), gate<void>()];
  const { port } = await serveStub(async ({ signal }) => {
    entered.resolve();
    await new Promise((resolve) => signal.addEventListener('abort', resolve));
    aborted.resolve();
    return text('nobody hears this');
  });
  const talk = new Talk(port).say(get);
  await entered.promise;
  talk.socket.destroy();
  await aborted.promise;
});

test('the arrays of a long body are freed when its request has ended', async () => {
  const arrays: Uint8Array[] = [];
  const { port } = await serveStub(async ({ wire, body }) => {
    for await (const bytes of body ?? []) arrays.push(bytes);
    return text(`<${wire.method}>`);
  });
  const talk = new Talk(port).say(put(1_000_000));
  talk.say('a'.repeat(1_000_000));
  await talk.sees('<PUT>');
  await talk.say(get).sees('<GET>');
  // A short array, and one that shares its memory with the head, are left to the collector.
  const kept = arrays.filter(({ length, buffer }) => length >= 16 * 1024 && length === buffer.byteLength);
  expect([arrays.length > 3, kept]).toEqual([true, []]);
});

/** A server of node:http, as an application has it. */
async function serveApplication(
  listener: RequestListener,
  event: 'request' | 'checkContinue' = 'request',
): Promise<Talk> {
  const server = createServer().on(event, listener).listen(0, '127.0.0.1');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  await once(server, 'listening');
  return new Talk((server.address() as AddressInfo).port);
}

test('toNodeHandler refuses a body that the application has read before, and says what would be right', async () => {
  const lines: string[] = [];
  const telemetry = { ...silentTelemetry, log: (...line: unknown[]) => void lines.push(line.join(' ')) };
  const handle = toNodeHandler({ handle: reading }, { telemetry });
  const talk = await serveApplication(async (request, response) => {
    // As parsers of bodies do; the gateway is mounted after them.
    if (request.url === '/k') for await (const _ of request);
    handle(request, response);
  });
  const must = 'mount the gateway before parsers of bodies';
  expect(await talk.say(`${put(3)}abc`).sees('</Error>')).toMatch(`HTTP/1.1 500 `);
  expect(lines).toEqual([expect.stringMatching(`^ERROR .*${must}`)]);
  expect(await talk.say(get.replace(' / ', ' /k ')).sees('<0 bytes>')).toContain(must);
  await talk.say(`${put(3).replace('/k', '/other')}abc`).sees('<3 bytes>');
});

/** How an application comes to call the handler. */
const continues = {
  'of node:http': ['request', false],
  'in its own listener of checkContinue': ['checkContinue', false],
  'in its own listener of checkContinue, which sends it too': ['checkContinue', true],
} as const;

test.each(Object.entries(continues))(
  'toNodeHandler sends 100 Continue once %s',
  async (_, [event, sends]) => {
    const handle = toNodeHandler({ handle: reading });
    const talk = await serveApplication((request, response) => {
      if (sends) response.writeContinue();
      handle(request, response);
    }, event);
    expect(await talk.say(put(3, expectation)).sees('\r\n\r\n')).toBe('HTTP/1.1 100 Continue\r\n\r\n');
    expect((await talk.say('abc').sees('<3 bytes>')).match(/HTTP\/1\.1 \d+/g)).toEqual([
      'HTTP/1.1 100',
      'HTTP/1.1 200',
    ]);
  },
);

test('toNodeHandler in a listener of checkContinue refuses an upload before it is sent', async () => {
  const handle = toNodeHandler({ handle: async () => text('refused', 403) });
  const talk = await serveApplication(handle, 'checkContinue');
  expect(await talk.say(put(1_000_000_000, expectation)).ends()).toMatch(/^HTTP\/1\.1 403 /);
});

test('toNodeHandler refuses a request whose body stops for the idle time', async () => {
  const talk = await serveApplication(toNodeHandler({ handle: reading }, { idleTimeoutMs: 50 }));
  expect(await talk.say(`${put(3)}a`).ends()).toMatch(/^HTTP\/1\.1 400 .*<RequestTimeout>/s);
});

test.each([
  [{ idleTimeout: 5_000 }, 'toNodeHandler: idleTimeout is no option; telemetry and idleTimeoutMs are'],
  [{ idleTimeoutMs: -1 }, 'toNodeHandler: idleTimeoutMs is -1; it must be 0 or more milliseconds'],
  [{ idleTimeoutMs: Number.NaN }, 'toNodeHandler: idleTimeoutMs is NaN'],
])('toNodeHandler(gateway, %j) is refused', (options, why) => {
  const handle = () => Promise.reject(new Error('not asked'));
  expect(() => toNodeHandler({ handle }, options as object)).toThrow(why);
});

/** As middleware for compression does: it drops the callbacks of writes, and reads the bytes later. */
function compress(response: ServerResponse): void {
  const gzip = createGzip();
  const [write, end, writeHead] = [response.write, response.end, response.writeHead];
  gzip.on('data', (bytes) => {
    if (!write.call(response, bytes, 'latin1')) gzip.pause();
  });
  gzip.on('end', () => end.call(response, undefined, 'latin1'));
  response.on('drain', () => gzip.resume());
  Object.assign(response, {
    writeHead: (status: number, flat: string[]) => {
      const at = flat.findIndex((each, n) => n % 2 === 0 && each.toLowerCase() === 'content-length');
      return writeHead.call(response, status, at < 0 ? flat : flat.toSpliced(at, 2));
    },
    write: (bytes: Uint8Array) => gzip.write(bytes),
    end: (bytes?: Uint8Array) => void gzip.end(bytes),
    once: (event: string, listener: () => void) =>
      event === 'drain'
        ? void gzip.once(event, listener)
        : EventEmitter.prototype.once.call(response, event, listener),
  });
}

test('toNodeHandler writes through middleware that compresses its replies', async () => {
  const [pieces, pieceBytes] = [200, 50_000];
  const buffer = new Uint8Array(pieceBytes);
  async function* body(): AsyncGenerator<Uint8Array> {
    // Bytes that gzip cannot shorten, in an array that is used again for every second piece.
    for (let n = 0; n < pieces; n++)
      yield n % 2 === 0 ? randomFillSync(buffer).fill(n, 0, 1) : Uint8Array.of(n);
  }
  const headers: [string, string][] = [['Content-Length', String((pieces / 2) * (pieceBytes + 1))]];
  const handle = toNodeHandler({ handle: async () => ({ status: 200, headers, body: body() }) });
  const server = createServer((request, response) => {
    compress(response);
    handle(request, response);
  }).listen(0, '127.0.0.1');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const reply = await fetch(`http://127.0.0.1:${port}/k`, { signal: AbortSignal.timeout(60_000) });
  const bytes = gunzipSync(Buffer.from(await reply.arrayBuffer()));
  const starts = Array.from({ length: pieces / 2 }, (_, n) => bytes[n * (pieceBytes + 1)]);
  expect(bytes.length).toBe((pieces / 2) * (pieceBytes + 1));
  expect(starts).toEqual(starts.map((_, n) => 2 * n));
});

test('toNodeHandler answers the next request through middleware that drops the callbacks of writes', async () => {
  const length = 20_000_000;
  const headers: [string, string][] = [['Content-Length', String(length)]];
  async function* body(): AsyncGenerator<Uint8Array> {
    // More than the kernel takes at once, so that the end comes before it has been written.
    yield Buffer.alloc(length - 1, 'x');
    yield Buffer.from('x');
  }
  const handle = toNodeHandler({
    handle: async ({ wire }) =>
      wire.target === '/' ? text('<next>') : { status: 200, headers, body: body() },
  });
  const talk = await serveApplication((request, response) => {
    const { write, end } = response;
    Object.assign(response, {
      write: (bytes: Uint8Array) => write.call(response, bytes, 'latin1'),
      end: (bytes?: Uint8Array) => end.call(response, bytes, 'latin1'),
    });
    handle(request, response);
  });
  await talk.say(get.replace(' / ', ' /k ') + get).sees('<next>');
  expect(talk.seen.match(/x{1000}/g)?.length).toBe(length / 1000);
});

test('the promise of toNodeHandler resolves when the reply has left, and when its client has', async () => {
  const handle = toNodeHandler({
    handle: ({ wire, signal }) =>
      wire.target === '/'
        ? Promise.resolve(text('done'))
        : new Promise((resolve) => signal.addEventListener('abort', () => resolve(text('late')))),
  });
  const [ended, begun] = [[] as string[], gate<void>()];
  const talk = await serveApplication(async (request, response) => {
    begun.resolve();
    await handle(request, response);
    ended.push(`${request.url} ${response.writableFinished}`);
  });
  await talk.say(get).sees('done');
  await expect.poll(() => ended, { timeout: 60_000 }).toEqual(['/ true']);
  talk.say(get.replace(' / ', ' /slow '));
  await begun.promise;
  talk.socket.destroy();
  await expect.poll(() => ended, { timeout: 60_000 }).toEqual(['/ true', '/slow false']);
});
