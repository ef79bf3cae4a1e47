/** Replies on the Node listener: framing, backpressure, reused buffers, streams that fail. */
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, onTestFinished, test, vi } from 'vitest';
import type { Reply } from '../../src/protocol/reply.ts';
import { serveStub, Talk, text } from '../support/server-stub.ts';

const ask = (target = '/', method = 'GET'): string => `${method} ${target} HTTP/1.1\r\nHost: h\r\n\r\n`;
const streamed = (body: AsyncIterable<Uint8Array>, length?: number): Reply => ({
  status: 200,
  headers: length === undefined ? [] : [['Content-Length', String(length)]],
  body,
});
const bytes = (content: string): Uint8Array => new TextEncoder().encode(content);

test('bytes and text get their length, an empty reply gets zero', async () => {
  const replies: Reply[] = [
    text('é'),
    { status: 200, headers: [], body: bytes('abc') },
    { status: 200, headers: [] },
  ];
  const { port } = await serveStub(async () => replies.shift() as Reply);
  const seen = await new Talk(port).say(ask() + ask() + ask()).sees('Content-Length', 3);
  expect([...seen.matchAll(/Content-Length: (\d+)/g)].map((match) => match[1])).toEqual(['2', '3', '0']);
});

test('a reply to HEAD keeps its length, has no body, and gives its stream back', async () => {
  let wasReturned = false;
  const stream = {
    [Symbol.asyncIterator]: () => ({
      next: () => Promise.reject(new Error('nobody reads this')),
      return: async () => {
        wasReturned = true;
        return { done: true as const, value: undefined };
      },
    }),
  };
  const { port } = await serveStub(async ({ wire }) =>
    wire.method === 'HEAD' ? streamed(stream, 123) : text('next'),
  );
  const seen = await new Talk(port).say(ask('/', 'HEAD') + ask()).sees('next');
  expect(seen).toMatch(/Content-Length: 123\r\n(?:.+\r\n)*\r\nHTTP\/1\.1 200/);
  expect(wasReturned).toBe(true);
});

test.each([204, 304])('a %d has no body and leaves the connection usable', async (status) => {
  const { port } = await serveStub(async ({ wire }) =>
    wire.target === '/' ? { status, headers: [] } : text('next'),
  );
  const seen = await new Talk(port).say(ask() + ask('/next')).sees('next');
  expect(seen).toMatch(new RegExp(`^HTTP/1\\.1 ${status} (?:.+\\r\\n)+\\r\\nHTTP/1\\.1 200`));
});

test('a stream without a length is chunked, one with a length is not', async () => {
  async function* stream() {
    yield bytes('one');
    yield bytes('');
    yield bytes('two');
  }
  const { port } = await serveStub(async ({ wire }) =>
    streamed(stream(), wire.target === '/' ? undefined : 6),
  );
  const seen = await new Talk(port).say(ask() + ask('/length')).sees('onetwo');
  expect(seen).toContain('3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n');
});

test('a buffer that is used again arrives as it was when it was yielded', async () => {
  const size = 128 * 1024;
  const count = 100;
  async function* pooled() {
    const pool = [new Uint8Array(size), new Uint8Array(size)];
    try {
      for (let i = 0; i < count; i++) {
        const buffer = pool[i % 2] as Uint8Array;
        buffer.fill(97 + (i % 26));
        yield buffer;
      }
    } finally {
      for (const buffer of pool) buffer.fill(33);
    }
  }
  const { port } = await serveStub(async () => streamed(pooled(), size * count));
  const socket = connect(port, '127.0.0.1');
  socket.write('GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n');
  // Let the kernel's buffers fill first, so that some arrays wait.
  await sleep(50);
  const seen = Buffer.concat(await socket.toArray());
  const body = seen.subarray(seen.indexOf('\r\n\r\n') + 4);
  const expected = Array.from({ length: count }, (_, i) => Buffer.alloc(size, 97 + (i % 26)));
  expect(body.equals(Buffer.concat(expected))).toBe(true);
});

test('a client that does not read holds up the stream, not the memory', async () => {
  let yielded = 0;
  async function* endless() {
    const buffer = new Uint8Array(256 * 1024);
    for (;;) {
      yielded += buffer.byteLength;
      yield buffer;
    }
  }
  const { port } = await serveStub(async () => streamed(endless()));
  const talk = new Talk(port).say(ask());
  talk.socket.pause();
  let before = -1;
  while (before !== yielded) {
    // At most the kernel's buffers on both sides and two arrays.
    expect(yielded).toBeLessThan(16 * 1024 * 1024);
    before = yielded;
    await sleep(200);
  }
});

test('a client that pipelines requests and does not read gets few replies, which then all arrive in order', async () => {
  let count = 0;
  const { port } = await serveStub(async ({ wire }) => {
    count += 1;
    return { status: 200, headers: [['X-Target', wire.target]], body: Buffer.alloc(1024 * 1024) };
  });
  const [socket, total] = [connect(port, '127.0.0.1'), 100];
  onTestFinished(() => {
    socket.destroy();
  });
  socket.pause();
  socket.write(Array.from({ length: total }, (_, i) => ask(`/${i}`)).join(''));
  await vi.waitFor(() => expect(count).toBeGreaterThan(0), { timeout: 60_000 });
  let before = 0;
  // Until nothing moves.
  while (before !== count) {
    before = count;
    await sleep(500);
  }
  // The kernel takes a few MiB.
  expect(count).toBeLessThan(total / 2);
  const targets: string[] = [];
  socket.setEncoding('latin1').on('data', (data: string) => {
    for (const match of data.matchAll(/X-Target: \/(\d+)/g)) targets.push(match[1] as string);
  });
  socket.resume();
  await vi.waitFor(() => expect(count).toBe(total), { timeout: 60_000 });
  await vi.waitFor(() => expect(targets.at(-1)).toBe(String(total - 1)), { timeout: 60_000 });
});

test('a client that does not read for the idle time is cut, and the stream is given back', async () => {
  const returned = Promise.withResolvers<void>();
  async function* endless() {
    try {
      for (;;) yield new Uint8Array(256 * 1024);
    } finally {
      returned.resolve();
    }
  }
  const { port } = await serveStub(async () => streamed(endless()), { SVC_IDLE_TIMEOUT: 200 });
  const talk = new Talk(port).say(ask());
  talk.socket.pause();
  await returned.promise;
});

/** Reads one array of 64 KiB at each interval; the rest waits in the kernels' buffers. */
function readSlowly(talk: Talk, everyMs: number): () => void {
  const { socket } = talk;
  const pause = (): void => void socket.pause();
  socket.on('data', pause);
  const timer = setInterval(() => socket.resume(), everyMs);
  return () => {
    clearInterval(timer);
    socket.off('data', pause);
    socket.resume();
  };
}

test('a client that reads steadily but slowly gets the whole reply, over many idle times', async () => {
  const size = 24 * 1024 * 1024;
  async function* long() {
    for (let left = size; left > 0; left -= 256 * 1024) yield new Uint8Array(256 * 1024).fill(97);
  }
  // The kernel accepts more bytes only when a third of its buffer is free, which this client reaches after about four seconds.
  const { port } = await serveStub(async () => streamed(long(), size), { SVC_IDLE_TIMEOUT: 2_000 });
  const talk = new Talk(port).say(ask());
  const hurry = readSlowly(talk, 300);
  await sleep(9_000);
  hurry();
  await vi.waitFor(() => expect(talk.seen.length).toBeGreaterThan(size), { timeout: 60_000 });
});

test('a client that reads slowly what the kernel holds of a finished reply is not reset', async () => {
  const size = 3 * 1024 * 1024;
  const { port } = await serveStub(
    async () => ({ status: 200, headers: [], body: new Uint8Array(size).fill(97) }),
    {
      SVC_IDLE_TIMEOUT: 1_500,
    },
  );
  const talk = new Talk(port).say(ask());
  const hurry = readSlowly(talk, 200);
  await sleep(6_000);
  hurry();
  await talk.ends();
  expect(talk.seen.length).toBeGreaterThan(size);
  expect(talk.state).toBe('ended');
});

test('a client that goes away stops the stream', async () => {
  const returned = Promise.withResolvers<void>();
  async function* endless() {
    try {
      for (;;) {
        yield new Uint8Array(1024);
        await sleep(5);
      }
    } finally {
      returned.resolve();
    }
  }
  const { port, logged } = await serveStub(async () => streamed(endless()));
  const talk = new Talk(port).say(ask());
  await talk.sees('\r\n\r\n');
  talk.socket.destroy();
  await returned.promise;
  expect(logged).toEqual([]);
});

test('the stream of a reply to a client that has disconnected is released unread', async () => {
  const [returned, entered] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const stream = {
    [Symbol.asyncIterator]: () => ({
      next: () => Promise.reject(new Error('nobody reads this')),
      return: async () => {
        returned.resolve();
        return { done: true as const, value: undefined };
      },
    }),
  };
  const { port } = await serveStub(async ({ signal }) => {
    entered.resolve();
    await new Promise((resolve) => signal.addEventListener('abort', resolve));
    return streamed(stream);
  });
  const talk = new Talk(port).say(ask());
  await entered.promise;
  talk.socket.destroy();
  await returned.promise;
});

test.each([
  ['with a length', 'HTTP/1.1', 100],
  ['in chunks', 'HTTP/1.1', undefined],
  ['up to the end of the connection', 'HTTP/1.0', undefined],
])('a stream %s that breaks is cut, never completed', async (_how, version, length) => {
  async function* broken() {
    yield bytes('first part');
    await sleep(10);
    throw new Error('the disk is gone');
  }
  const { port, logged, fields } = await serveStub(async () => {
    const reply = streamed(broken(), length);
    return { ...reply, headers: [...reply.headers, ['x-amz-request-id', 'R1']] };
  });
  const talk = new Talk(port).say(`GET / ${version}\r\nHost: h\r\n\r\n`);
  const seen = await talk.ends();
  expect(seen).toContain('first part');
  expect(seen).not.toContain('\r\n0\r\n\r\n');
  expect(talk.state).toBe('reset');
  expect(logged).toEqual(['a reply was cut off']);
  expect(fields[0]).toMatchObject({ request_id: 'R1' });
});

test('a stream that breaks before its first byte is a clean error', async () => {
  // biome-ignore lint/correctness/useYield: it throws before it yields
  async function* broken(): AsyncGenerator<Uint8Array> {
    throw new Error('the disk is gone');
  }
  const { port } = await serveStub(async () => streamed(broken(), 100));
  const seen = await new Talk(port).say(ask()).ends();
  expect(seen).toMatch(/^HTTP\/1\.1 500 /);
  expect(seen).not.toContain('disk');
});

test.each([2, 4])(
  'a stream of 3 bytes that announced %d is cut, so that the next reply cannot shift',
  async (length) => {
    async function* stream() {
      yield bytes('a');
      await sleep(5);
      yield bytes('bc');
    }
    const { port } = await serveStub(async () => streamed(stream(), length));
    const talk = new Talk(port).say(ask() + ask());
    const seen = await talk.ends();
    expect(talk.state).toBe('reset');
    expect(seen.split('HTTP/1.1').length).toBe(2);
  },
);

test.each([2, 4])(
  'bytes or text of length 3 that announced %d are an error, so that the next reply cannot shift',
  async (length) => {
    for (const body of [bytes('abc'), 'abc']) {
      const { port, logged } = await serveStub(async () => ({
        status: 200,
        headers: [['Content-Length', String(length)]],
        body,
      }));
      const seen = await new Talk(port).say(ask() + ask()).ends();
      expect(seen).toMatch(/^HTTP\/1\.1 500 /);
      expect(seen).not.toContain('abc');
      expect(logged).toEqual(['a reply was cut off']);
    }
  },
);

test('a header that HTTP cannot carry is an error, not a crash', async () => {
  const { port } = await serveStub(async () => ({ status: 200, headers: [['X', 'a\r\nb']], body: 'c' }));
  expect(await new Talk(port).say(ask()).ends()).toMatch(/^HTTP\/1\.1 500 /);
});

test('a gateway that throws is an error, not a crash', async () => {
  const { port, logged } = await serveStub(async () => {
    throw new Error('a bug');
  });
  expect(await new Talk(port).say(ask()).sees('InternalError')).toMatch(/^HTTP\/1\.1 500 /);
  expect(logged).toEqual(['the gateway threw']);
});
