/** The fetch runtime: the gateway's request from a Request, and a Response from its reply. */
import { expect, test, vi } from 'vitest';
import { memory, openGateway, silentTelemetry, type Telemetry } from '../../src/mod.ts';
import { type FetchFacts, fromRequest, toResponse } from '../../src/protocol/fetch.ts';
import { WireHeaders } from '../../src/protocol/wire.ts';
import { signer, toRequest } from '../support/sign.ts';

const bytes = (content: string): Uint8Array => new TextEncoder().encode(content);

test('the target is the path and query of the URL, without its origin and fragment', () => {
  const target = (url: string): string => fromRequest(new Request(url)).wire.target;
  expect(target('http://h')).toBe('/');
  expect(target('http://h?a=/')).toBe('/?a=/');
  expect(target('https://h:1/a%2Fb//c+d?x=1&y#z')).toBe('/a%2Fb//c+d?x=1&y');
});

test('values from the runtime take precedence', () => {
  const { wire } = fromRequest(new Request('http://h/a/../b'), {
    target: '/a/../b',
    remote: '10.0.0.1',
    secure: true,
  });
  expect(wire).toMatchObject({ target: '/a/../b', remote: '10.0.0.1', secure: true, method: 'GET' });
});

test('the host comes from its header, else from the URL', () => {
  expect(fromRequest(new Request('http://a:80/')).wire.headers.get('host')).toBe('a');
  expect(fromRequest(new Request('http://a:81/')).wire.headers.get('host')).toBe('a:81');
  expect(fromRequest(new Request('http://a/', { headers: { host: 'b' } })).wire.headers.get('host')).toBe(
    'b',
  );
});

test('a body is read array by array, and leaving it cancels the stream', async () => {
  let cancelled = false;
  const stream = () =>
    new ReadableStream({
      pull: (controller) => controller.enqueue(bytes('ab')),
      cancel: () => {
        cancelled = true;
      },
    });
  const request = new Request('http://h/', { method: 'PUT', body: stream(), duplex: 'half' } as RequestInit);
  const seen: string[] = [];
  for await (const array of fromRequest(request).body ?? []) {
    seen.push(new TextDecoder().decode(array));
    if (seen.length === 2) break;
  }
  expect(seen).toEqual(['ab', 'ab']);
  await Promise.resolve();
  expect(cancelled).toBe(true);
  expect(fromRequest(new Request('http://h/')).body).toBeUndefined();
});

test('a body that breaks off is a fault of the client: 400, and the log has the cause at INFO', async () => {
  const lines: [string, string, unknown][] = [];
  const log: Telemetry['log'] = (level, message, fields) =>
    void lines.push([level, message, fields?.['cause']]);
  const me = { accessKey: 'ACCESSKEY', secretKey: 'secret-of-me', owner: 'me', root: true };
  const sign = signer({ ...me, host: 'h' });
  await using gateway = await openGateway({
    credentials: [me],
    storage: memory(),
    // Their lines would be among those of the requests.
    workers: false,
    telemetry: { ...silentTelemetry, log },
  });
  const created = sign.request({ method: 'PUT', path: '/photos' });
  expect((await gateway.fetch(toRequest(created))).status).toBe(200);
  const cause = new Error('Network connection lost.');
  const put = sign.request({ method: 'PUT', path: '/photos/cat', body: 'meow', payload: 'unsigned' });
  const remove = sign.request({
    method: 'POST',
    path: '/photos',
    query: { delete: '' },
    body: '<Delete><Object><Key>cat</Key></Object></Delete>',
  });
  for (const signed of [put, remove]) {
    let pulls = 0;
    const body = new ReadableStream<Uint8Array>({
      pull(controller) {
        pulls += 1;
        if (pulls === 1) controller.enqueue(new Uint8Array(2));
        else controller.error(cause);
      },
    });
    const { url, method, headers } = toRequest(signed);
    const init = { method, headers, body, duplex: 'half' };
    const reply = await gateway.fetch(new Request(url, init as RequestInit));
    expect([reply.status, await reply.text()]).toEqual([
      400,
      expect.stringContaining('<Code>IncompleteBody</Code>'),
    ]);
  }
  const refused = ['INFO', 'request refused', cause];
  expect(lines.filter(([level]) => level !== 'DEBUG')).toEqual([refused, refused]);
});

test('a wrong signature is blamed on a segment . or .. and on a header that was sent twice only where they may be the cause', async () => {
  const me = { accessKey: 'ACCESSKEY', secretKey: 'secret-of-me', owner: 'me', root: true };
  await using gateway = await openGateway({ credentials: [me], storage: memory(), workers: false });
  const sign = signer({ ...me, host: 'h' });
  const messageOf = async (
    signed: ReturnType<typeof sign.request>,
    facts: FetchFacts = {},
  ): Promise<string> => {
    const reply = await gateway.fetch(toRequest(signed), facts);
    expect(reply.status).toBe(403);
    return /<Message>(.*?)<\/Message>/.exec(await reply.text())?.[1] ?? '';
  };
  const wrong = signer({ ...me, secretKey: 'another', host: 'h' }).request({ path: '/photos/cat' });
  const usual = /^The request signature .* Check your key and signing method\./;
  expect(await messageOf(wrong)).toMatch(
    new RegExp(`${usual.source} If the path that was signed has a segment`),
  );
  expect(await messageOf(wrong, { target: '/photos/cat' })).toMatch(new RegExp(`${usual.source}$`));
  const values = ['1', '2'].map((value) => ['x-amz-meta-a', value] as const);
  const twice = sign.request({ method: 'PUT', path: '/photos/cat', body: '', headers: values });
  const hint = 'If x-amz-meta-a was sent more than once';
  expect(await messageOf(twice, { isRewritten: false })).toMatch(new RegExp(`${usual.source} ${hint}`));
  const raw = { headers: new WireHeaders(twice.headers.flat()), target: '/photos/cat' };
  const answered = await gateway.fetch(toRequest(twice), raw);
  expect(await answered.text()).toContain('NoSuchBucket');
  const tampered = new WireHeaders([...twice.headers.flat(), 'x-amz-meta-a', '3, 4']);
  expect(await messageOf(twice, { ...raw, headers: tampered })).toMatch(new RegExp(`${usual.source}$`));
});

test('the signal is the request’s', () => {
  const controller = new AbortController();
  const { signal } = fromRequest(new Request('http://h/', { signal: controller.signal }));
  controller.abort();
  expect(signal.aborted).toBe(true);
});

test('an abort ends the read of a body that has nothing to read, and cancels the body', async () => {
  const cancel = vi.fn();
  const body = new ReadableStream<Uint8Array>({ start: (stream) => stream.enqueue(bytes('meow')), cancel });
  const controller = new AbortController();
  const { signal } = controller;
  const init = { method: 'PUT', body, signal, duplex: 'half' };
  const { body: pieces } = fromRequest(new Request('http://h/photos/cat', init));
  const reading = (pieces as AsyncIterable<Uint8Array>)[Symbol.asyncIterator]();
  expect((await reading.next()).value).toEqual(bytes('meow'));
  // The second piece never comes.
  const waiting = reading.next();
  controller.abort(new Error('the application gave up'));
  await expect(waiting).rejects.toThrow('the application gave up');
  expect(cancel).toHaveBeenCalledOnce();
});

test('a request that was aborted before it began changes nothing', async () => {
  const me = { accessKey: 'ACCESSKEY', secretKey: 'secret-of-me', owner: 'me', root: true };
  await using gateway = await openGateway({ credentials: [me], storage: memory(), workers: false });
  const link = { origin: 'http://h', bucket: 'photos', expiresSeconds: 60 } as const;
  const send = (method: 'PUT' | 'HEAD' | 'DELETE', key: string, init: RequestInit = {}): Promise<Response> =>
    gateway.fetch(new Request(gateway.presign({ ...link, method, key }), { method, ...init }));
  await send('PUT', '');
  const headers = { 'content-length': '4' };
  const put = await send('PUT', 'cat', { body: 'meow', headers, signal: AbortSignal.abort() });
  expect([put.status, (await send('HEAD', 'cat')).status]).toEqual([400, 404]);
  expect((await send('PUT', 'dog', { body: 'woof', headers })).status).toBe(200);
  const gone = await send('DELETE', 'dog', { signal: AbortSignal.abort() });
  expect([gone.status, await gone.text()]).toEqual([400, expect.stringContaining('<Code>RequestTimeout<')]);
  expect((await send('HEAD', 'dog')).status).toBe(200);
});

test('fetch of what is no Request says what it needs', async () => {
  const me = { accessKey: 'ACCESSKEY', secretKey: 'secret-of-me', owner: 'me', root: true };
  await using gateway = await openGateway({ credentials: [me], storage: memory(), workers: false });
  // A request of Hono, and one of node:http.
  const requests = [undefined, 'http://h/', { method: 'GET', url: 'http://h/' }, { url: '/', headers: {} }];
  for (const request of requests)
    await expect(gateway.fetch(request as unknown as Request)).rejects.toThrow('fetch needs a Request');
});

test('a streamed reply copies buffers that are used again', async () => {
  async function* pooled() {
    const buffer = new Uint8Array(4);
    for (const letter of 'abc') {
      buffer.fill(letter.charCodeAt(0));
      yield buffer;
    }
  }
  const response = toResponse({
    status: 200,
    headers: [
      ['X-A', '1'],
      ['X-A', '2'],
    ],
    body: pooled(),
  });
  expect(response.headers.get('x-a')).toBe('1, 2');
  expect(await response.text()).toBe('aaaabbbbcccc');
});

test('a streamed reply is pulled, passes empty arrays over, and stops when cancelled', async () => {
  let pulled = 0;
  let returned = false;
  async function* endless() {
    try {
      for (;;) {
        pulled += 1;
        yield pulled % 2 === 0 ? bytes('ab') : new Uint8Array();
      }
    } finally {
      returned = true;
    }
  }
  const response = toResponse({ status: 200, headers: [], body: endless() });
  await Promise.resolve();
  expect(pulled).toBe(0);
  const reader = response.body?.getReader();
  expect((await reader?.read())?.value).toEqual(bytes('ab'));
  expect(pulled).toBe(2);
  await reader?.cancel();
  expect(returned).toBe(true);
});

test('a stream that breaks makes the response fail', async () => {
  async function* broken() {
    yield bytes('a');
    throw new Error('the disk is gone');
  }
  await expect(toResponse({ status: 200, headers: [], body: broken() }).text()).rejects.toThrow(
    'the disk is gone',
  );
});

test('a reply to HEAD keeps its length and gives its stream back', () => {
  let returned = false;
  const body: AsyncIterable<Uint8Array> = {
    [Symbol.asyncIterator]: () => ({
      next: () => Promise.reject(new Error('nobody reads this')),
      return: async () => {
        returned = true;
        return { done: true, value: undefined };
      },
    }),
  };
  const response = toResponse({ status: 200, headers: [['Content-Length', '12']], body }, 'HEAD');
  expect(response.body).toBeNull();
  expect(response.headers.get('content-length')).toBe('12');
  expect(returned).toBe(true);
  for (const status of [204, 304]) expect(toResponse({ status, headers: [], body: 'x' }).body).toBeNull();
});
