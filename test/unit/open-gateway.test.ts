/** The library's face: one call opens a gateway, and adapters pass on what they know of the client. */

import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type RequestListener, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import { openAdminClient } from '../../src/admin-client.ts';
import {
  type AccessKey,
  bunHandler,
  chunked,
  denoHandler,
  directory,
  honoHandler,
  memory,
  memoryChunks,
  memoryStore,
  type OpenGateway,
  type OpenOptions,
  openGateway,
  s3,
  systemClock,
  systemRandom,
  workerHandler,
} from '../../src/mod.ts';
import { routeHandler, toNodeHandler } from '../../src/runtime/node.ts';
import { startTestServer } from '../../src/runtime/testing/test-server.ts';
import { signer, toRequest } from '../support/sign.ts';

const me: AccessKey = { accessKey: 'ACCESSKEY', secretKey: 'secret-of-me', owner: 'me', root: true };
const host = 'app.example.com';
const sign = signer({ ...me, host });
const folder = await mkdtemp(join(tmpdir(), 'sluice-open-'));
afterAll(() => rm(folder, { recursive: true, force: true }));

const send = (gateway: Pick<OpenGateway, 'fetch'>, spec: Parameters<typeof sign.request>[0]) =>
  gateway.fetch(toRequest(sign.request(spec)));

/** A framework that answers with a `Response`: it rewrites the path, and keeps the headers of lengths and encodings for itself. */
const framework =
  (handle: (request: Request) => Promise<Response>): RequestListener =>
  async (incoming, outgoing) => {
    const headers = Object.entries(incoming.headers).map(([name, value]) => [name, String(value)] as const);
    const { method = 'GET', url = '/' } = incoming;
    const body = method === 'GET' || method === 'HEAD' ? {} : { body: incoming, duplex: 'half' };
    incoming.url = '/rewritten';
    const made = new Request(`http://${host}${url}`, {
      method,
      headers: headers.map(([n, v]) => [n, v]),
      ...body,
    } as RequestInit);
    const response = await handle(made);
    outgoing.statusCode = response.status;
    response.headers.forEach((value, name) => {
      if (!name.startsWith('content-')) outgoing.setHeader(name, value);
    });
    outgoing.end(Buffer.from(await response.arrayBuffer()));
  };

interface Sent {
  readonly method?: string;
  readonly target: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
}

/** Sends to a server of node:http, whose clients seem to have the address. */
async function through(
  listener: RequestListener,
  address: string,
  headers: Record<string, string> = {},
  { method = 'GET', target = '/photos/cat', body = '' }: Partial<Sent> = {},
): Promise<Response> {
  const server = createServer(listener);
  server.on('connection', (socket) => Object.defineProperty(socket, 'remoteAddress', { value: address }));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  try {
    return await new Promise<Response>((resolve, reject) => {
      const asking = request({
        port,
        host: '127.0.0.1',
        path: target,
        method,
        headers: { host, ...headers },
      });
      asking.on('error', reject);
      asking.on('response', async (answer) => {
        const bytes = Buffer.concat(await answer.toArray());
        const { statusCode: status = 0 } = answer;
        const fields = Object.entries(answer.headers).map(([n, v]) => [n, String(v)] as [string, string]);
        resolve(new Response(status === 204 ? null : bytes, { status, headers: fields }));
      });
      asking.end(body);
    });
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

const upstream = await startTestServer({ seed: { store: {} } });
afterAll(() => upstream.close());
const { accessKeyId: accessKey, secretAccessKey: secretKey } = upstream.credentials;
const inFrontOf = { endpoint: upstream.endpoint, bucket: 'store', accessKey, secretKey, prefix: 'app/' };

describe.each([
  ['memory()', () => memory()],
  ['directory()', () => directory(join(folder, 'data'))],
  ['s3()', () => s3({ ...inFrontOf, metadata: join(folder, 'front') })],
  [
    'stores of its own',
    () => ({
      metadata: memoryStore({ clock: systemClock, random: systemRandom() }),
      bytes: chunked({ default: memoryChunks() }),
    }),
  ],
] as const)('openGateway with %s', (_, storage) => {
  test('serves signed requests under its base path', async () => {
    await using gateway = await openGateway({ credentials: [me], storage: storage(), basePath: '/s3' });
    expect((await send(gateway, { method: 'PUT', path: '/s3/photos' })).status).toBe(200);
    const put = { method: 'PUT', path: '/s3/photos/cat', body: 'meow', payload: 'streaming' } as const;
    expect((await send(gateway, put)).status).toBe(200);
    expect(await (await send(gateway, { path: '/s3/photos/cat' })).text()).toBe('meow');
    expect(await (await send(gateway.mount(''), { path: '/photos/cat' })).text()).toBe('meow');
  });

  test('makes a bucket by a link with the key "", also where the bucket is the account’s already', async () => {
    await using gateway = await openGateway({ credentials: [me], storage: storage(), basePath: '/s3' });
    const asked = { origin: 'http://localhost', bucket: 'uploads', key: '', expiresSeconds: 60 } as const;
    const link = gateway.presign({ ...asked, method: 'PUT' });
    for (const _ of [1, 2])
      expect((await gateway.fetch(new Request(link, { method: 'PUT' }))).status).toBe(200);
    expect((await send(gateway, { path: '/s3/uploads' })).status).toBe(200);
  });

  test('presigns a link that works without credentials until it expires', async () => {
    await using gateway = await openGateway({ credentials: [me], storage: storage(), workers: false });
    await send(gateway, { method: 'PUT', path: '/photos' });
    const link = { origin: `http://${host}`, bucket: 'photos', key: 'ä b/c+d', expiresSeconds: 60 };
    const put = gateway.presign({ ...link, method: 'PUT' });
    expect(
      (
        await gateway.fetch(
          new Request(put, { method: 'PUT', body: 'hello', headers: { 'content-length': '5' } }),
        )
      ).status,
    ).toBe(200);
    const query = { 'response-content-type': 'text/x-mine' };
    const got = await gateway.fetch(new Request(gateway.presign({ ...link, method: 'GET', query })));
    expect([got.headers.get('content-type'), await got.text()]).toEqual(['text/x-mine', 'hello']);
    const other = gateway.presign({ ...link, method: 'GET' }).replace('c%2Bd', 'other');
    expect((await gateway.fetch(new Request(other))).status).toBe(403);
    expect(() => gateway.presign({ ...link, method: 'GET', expiresSeconds: 604_801 })).toThrow('1 to 604800');
  });
});

test('presign and presignPost refuse callers without types that leave out options, and name what would be right', async () => {
  await using gateway = await openGateway({ credentials: [me], storage: memory(), workers: false });
  // A caller in JavaScript.
  const untyped = gateway as unknown as Record<string, (options: object) => unknown>;
  const link = { method: 'GET', origin: 'http://files.example', bucket: 'b', expiresSeconds: 60 };
  expect(() => untyped['presign']?.(link)).toThrow(
    'presign: key must be the key of an object, such as a/b.txt',
  );
  expect(() => untyped['presign']?.({ ...link, key: 'k', method: 'get', bucket: undefined })).toThrow(
    'presign: method must be one of GET, HEAD, PUT, DELETE; bucket must be the name of a bucket, such as photos',
  );
  expect(() => untyped['presignPost']?.({ expiresSeconds: 60, key: 'k', bucket: 'b/c' })).toThrow(
    /^presignPost: origin must be .*; bucket must be the name/,
  );
  const bare = gateway as unknown as Record<string, () => unknown>;
  expect(() => bare['presign']?.()).toThrow(/^presign: method must be one of/);
  expect(() => bare['presignPost']?.()).toThrow(/^presignPost: origin must be/);
  expect(() => untyped['presign']?.({ ...link, key: 'k', expiresSeconds: '60' })).toThrow(
    'expiresSeconds is "60"; it must be a whole number',
  );
});

test.each([
  [{ bytes: { max: Number(undefined) } }, 'bytes must be whole numbers'],
  [{ bytes: { max: -1 } }, 'bytes must be whole numbers'],
  [{ bytes: { max: 1.5 } }, 'bytes must be whole numbers'],
  [{ bytes: { max: Number.POSITIVE_INFINITY } }, 'bytes must be whole numbers'],
  [{ bytes: { min: 2, max: 1 } }, 'bytes must be whole numbers, min at most max'],
  [{ bytes: 10 }, 'bytes must be whole numbers'],
  [{ bytes: null }, 'bytes must be whole numbers'],
  // biome-ignore lint/suspicious/noTemplateCurlyInString: the public API writes it so.
  [{ key: '${filename}/${filename}' }, 'key may have ${filename} once, at its end'],
  // biome-ignore lint/suspicious/noTemplateCurlyInString: the public API writes it so.
  [{ key: '${filename}.jpg' }, 'key may have ${filename} once, at its end'],
  [{ contentType: 5 }, 'contentType must be'],
  [{ fields: { acl: undefined } }, 'fields must be texts by name'],
  [{ acl: 'public-read' }, 'acl is no option: fields takes what the public API has'],
  [
    { origin: 'https://files.example.com/s3' },
    'origin must be where clients reach the gateway, without a path',
  ],
  [{ expiresSeconds: Number(undefined) }, 'expiresSeconds'],
] as const)('presignPost refuses %j, with which no upload would pass', async (wrong, message) => {
  await using gateway = await openGateway({ credentials: [me], storage: memory(), workers: false });
  const form = { origin: 'https://files.example.com', bucket: 'photos', key: 'cat.jpg', expiresSeconds: 60 };
  const make = gateway.presignPost as unknown as (options: object) => unknown;
  expect(() => make({ ...form, ...wrong })).toThrow(message);
  const fine = {
    origin: 'https://files.example.com/',
    bytes: { max: 0 },
    contentType: undefined,
    acl: undefined,
  };
  expect(make({ ...form, ...fine })).toMatchObject({ url: 'https://files.example.com/photos' });
});

describe('presignPost', () => {
  const origin = `http://${host}`;
  const ask = { origin, bucket: 'photos', key: 'cat.jpg', expiresSeconds: 60 } as const;
  const open = async (): Promise<OpenGateway> => {
    const gateway = await openGateway({
      credentials: [me],
      storage: memory(),
      workers: false,
      basePath: '/s3',
    });
    await send(gateway, { method: 'PUT', path: '/s3/photos' });
    return gateway;
  };
  type Form = ReturnType<OpenGateway['presignPost']>;
  const post = async (
    gateway: OpenGateway,
    { url, fields }: Form,
    { name = 'my cat.jpg', file = 'meow', type = '' } = {},
  ) => {
    const form = new FormData();
    for (const [field, value] of Object.entries(fields)) form.set(field, value);
    if (type !== '') form.set('Content-Type', type);
    form.set('file', new Blob([file]), name);
    // As bytes, because Node's stream of a form throws when a refusal cancels it.
    const encoded = new Response(form);
    const headers = { 'content-type': encoded.headers.get('content-type') ?? '' };
    return gateway.fetch(new Request(url, { method: 'POST', body: await encoded.bytes(), headers }));
  };

  test('makes a form that uploads one file to its key', async () => {
    await using gateway = await open();
    const fields = { acl: 'private', 'x-amz-meta-album': 'küche', success_action_status: '201' };
    const form = gateway.presignPost({ ...ask, fields, contentType: 'image/jpeg' });
    expect(form.url).toBe(`${origin}/s3/photos`);
    expect((await post(gateway, form)).status).toBe(201);
    const got = await send(gateway, { path: '/s3/photos/cat.jpg' });
    expect([got.headers.get('content-type'), await got.text()]).toEqual(['image/jpeg', 'meow']);
    const moved = { ...form, fields: { ...form.fields, key: 'dog.jpg' } };
    expect((await post(gateway, moved)).status).toBe(403);
    const further = { ...form, fields: { ...form.fields, 'x-amz-meta-more': 'x' } };
    expect((await post(gateway, further)).status).toBe(403);
  });

  test('leaves no timer of a form that is refused before its file is read', async () => {
    await using gateway = await open();
    const form = gateway.presignPost({ ...ask, contentType: 'image/' });
    const set = vi.spyOn(globalThis, 'setTimeout');
    const cleared = vi.spyOn(globalThis, 'clearTimeout');
    onTestFinished(() => void vi.restoreAllMocks());
    expect((await post(gateway, form, { type: 'text/plain' })).status).toBe(403);
    // SVC_BODY_TIMEOUT
    const timers = set.mock.calls.flatMap(([, ms], index) =>
      ms === 30_000 ? [set.mock.results[index]] : [],
    );
    expect(timers).toHaveLength(1);
    expect(cleared.mock.calls.flat()).toContain(timers[0]?.value);
  });

  test('keeps the name of the file, and bounds its size and type', async () => {
    await using gateway = await open();
    const form = gateway.presignPost({
      ...ask,
      // biome-ignore lint/suspicious/noTemplateCurlyInString: the public API writes it so.
      key: 'ann/${filename}',
      bytes: { min: 2, max: 4 },
      contentType: 'image/',
    });
    expect((await post(gateway, form, { type: 'image/png' })).status).toBe(204);
    expect((await send(gateway, { path: '/s3/photos/ann/my%20cat.jpg' })).status).toBe(200);
    expect((await post(gateway, form, { type: 'text/html' })).status).toBe(403);
    expect((await post(gateway, form, { type: 'image/png', file: 'x' })).status).toBe(400);
    expect((await post(gateway, form, { type: 'image/png', file: 'large' })).status).toBe(400);
    expect(() => gateway.presignPost({ ...ask, expiresSeconds: 0 })).toThrow('1 to 604800');
    expect(() => gateway.presignPost({ ...ask, accessKey: 'OTHER' })).toThrow(
      'OTHER is none of the credentials',
    );
  });
});

test('what a directory has stored is there after the gateway was opened again', async () => {
  const storage = directory(join(folder, 'again'));
  {
    await using gateway = await openGateway({ credentials: [me], storage });
    await send(gateway, { method: 'PUT', path: '/photos' });
    await send(gateway, { method: 'PUT', path: '/photos/cat', body: 'meow' });
  }
  await using gateway = await openGateway({ credentials: [me], storage });
  expect(await (await send(gateway, { path: '/photos/cat' })).text()).toBe('meow');
});

test('s3() stores the bytes in the other service, below its prefix', async () => {
  await using gateway = await openGateway({
    credentials: [me],
    storage: s3({ ...inFrontOf, prefix: 'below/', metadata: join(folder, 'below') }),
    workers: false,
  });
  await send(gateway, { method: 'PUT', path: '/photos' });
  const before = upstream.requests.length;
  await send(gateway, { method: 'PUT', path: '/photos/cat', body: 'meow' });
  const puts = upstream.requests.slice(before).filter(({ operation }) => operation === 'PutObject');
  expect(puts).toMatchObject([{ bucket: 'store', key: expect.stringMatching(/^below\//), status: 200 }]);
});

test('a target that is a Cloudflare Queue is refused where there are no bindings', async () => {
  const notifyTargets = [{ id: 'jobs', type: 'queue' as const, binding: 'EVENTS', url: '', accounts: ['*'] }];
  await expect(
    openGateway({ credentials: [me], storage: directory(join(tmpdir(), 'never-made')), notifyTargets }),
  ).rejects.toThrow(
    'the target jobs is of type queue, and only a Cloudflare Worker can send to a Cloudflare Queue',
  );
});

test('wrong options are refused together, each with what would be right', async () => {
  const options = {
    credentials: [],
    storage: './data',
    workers: 'notify',
    basePath: 's3/',
    telemetry: { log() {}, count() {}, set() {} },
    onEvent: 'log',
    eventDelivery: 'once',
    memoryMax: 'much',
    bucketShards: 3,
    putRace: 'lose',
    bukketShards: 4,
    listen: '0.0.0.0:9000',
    dataDir: './data',
  } as unknown as OpenOptions;
  const message = await openGateway(options).then(
    () => '',
    (error: Error) => error.message,
  );
  expect(
    message
      .replace(/^openGateway: /, '')
      .split('; ')
      .toSorted(),
  ).toEqual([
    'basePath=s3/ must be empty, or begin with a slash, not end with one, and have letters, digits and ._~- in between, such as /s3',
    'bucketShards is',
    'bucketShards=3 is not a power of two',
    'bukketShards is no option',
    'credentials must have an entry such as { accessKey, secretKey, owner: "me", root: true }',
    'dataDir follows from storage: leave it out, or choose another storage',
    'eventDelivery must be at-least-once or best-effort',
    'listen is a setting of `sluice serve` (SVC_LISTEN), not of an embedded gateway',
    'memoryMax=much is not a size such as 512MiB',
    'onEvent must be a function',
    'putRace=lose is not one of winner, retry',
    "storage must be memory(), directory('./data'), s3({ … }) or { metadata, bytes }",
    'telemetry lacks replace, observe, know, onRead, metrics: begin with { ...silentTelemetry, log(level, message, fields) { … } }',
    'workers must be true, false or a list of names',
  ]);
  const open = openGateway as (options?: unknown) => Promise<OpenGateway>;
  for (const none of [undefined, null, 'data'])
    await expect(open(none)).rejects.toThrow(
      'openGateway: needs options, such as { credentials: [ … ], storage: memory()',
    );
  const working = { credentials: [me], storage: memory(), workers: false };
  await expect(open({ ...working, eventDelivery: 'best-effort' })).rejects.toThrow(
    'openGateway: eventDelivery is without onEvent: leave it out',
  );
  for (const telemetry of [console, null, 'log'])
    await expect(open({ ...working, telemetry })).rejects.toThrow('openGateway: telemetry lacks ');
  await expect(openGateway({ credentials: [me], storage: memory(), workers: ['notfy'] })).rejects.toThrow(
    /workers.*notfy/,
  );
});

/** From an environment or a file of JSON. */
const absent = [undefined, null, '', ' '] as const;
const stores = {
  metadata: memoryStore({ clock: systemClock, random: systemRandom() }),
  bytes: chunked({ default: memoryChunks() }),
};

test.each(absent)(
  'a storage whose directory or store is %j is refused, and none in memory takes its place',
  async (value) => {
    const made = inFrontOf as Parameters<typeof s3>[0];
    for (const [storage, message] of [
      [directory(value as string), "path of directory() must be the path of a directory, such as './data'"],
      [
        s3({ ...made, metadata: value as string }),
        "metadata of s3() must be the path of a directory, such as './data'",
      ],
      [{ ...stores, metadata: value }, 'storage must be memory()'],
      [{ ...stores, bytes: value }, 'storage must be memory()'],
      [value, 'storage must be memory()'],
      ...(['endpoint', 'bucket', 'accessKey', 'secretKey'] as const).map(
        (name) =>
          [
            s3({ ...made, metadata: join(folder, 'never'), [name]: value }),
            `${name} of s3() must be`,
          ] as const,
      ),
    ] as const)
      await expect(openGateway({ credentials: [me], storage: storage as never }), message).rejects.toThrow(
        message,
      );
  },
);

test.each(absent)('an option that is %j is refused, unless it is undefined', async (value) => {
  for (const option of ['domain', 'region', 'masterKeyFile', 'memoryMax'] as const) {
    const opening = openGateway({ credentials: [me], storage: memory(), workers: false, [option]: value });
    if (value === undefined) await (await opening).close();
    else
      await expect(opening).rejects.toThrow(
        `openGateway: ${option} is ${value === null ? 'null' : 'empty'}: leave it out, or give it a value`,
      );
  }
  for (const name of ['accessKey', 'secretKey', 'owner'])
    await expect(
      openGateway({ credentials: [{ ...me, [name]: value }], storage: memory(), workers: false }),
      name,
    ).rejects.toThrow(name);
});

test('a base path that no request can have is refused, by basePath and by mount', async () => {
  await using gateway = await openGateway({ credentials: [me], storage: memory(), workers: false });
  const wrong = [
    '/',
    's3',
    '/s3/',
    '//',
    '/é',
    '/s 3',
    '/%C3%A9',
    '/s3/*',
    '/s3/:id',
    '/a/../b',
    '/.',
    null,
    5,
  ];
  for (const path of wrong as readonly string[]) {
    const must = `${path} must be empty, or begin with a slash`;
    const opening = openGateway({ credentials: [me], storage: memory(), workers: false, basePath: path });
    await expect(opening).rejects.toThrow(`openGateway: basePath=${must}`);
    expect(() => gateway.mount(path)).toThrow(`mount: ${must}`);
  }
  await send(gateway, { method: 'PUT', path: '/photos' });
  for (const path of ['', '/s3', '/api/v1.0/s3_files~x', '/...'])
    expect([path, (await send(gateway.mount(path), { path: `${path}/photos` })).status]).toEqual([path, 200]);
});

test.each(['', '/s3', '/s3/'])(
  'openAdminClient reaches the operator API of a gateway by an endpoint with the path "%s"',
  async (path) => {
    const basePath = path.replace(/\/$/, '');
    const admin = { ...me, operator: true };
    await using gateway = await openGateway({
      credentials: [admin],
      storage: memory(),
      workers: false,
      basePath,
    });
    await send(gateway, { method: 'PUT', path: `${basePath}/photos` });
    const { accessKey, secretKey } = me;
    const client = openAdminClient({
      endpoint: `http://${host}${path}`,
      accessKey,
      secretKey,
      fetch: (url, init) => gateway.fetch(new Request(url, init)),
    });
    expect((await client.call('ListBuckets')).json.rows.map(({ name }) => name)).toEqual(['photos']);
    const { json } = await client.call('GetBucket', { path: { name: 'photos' } });
    expect(json.name).toBe('photos');
  },
);

test('options may be lists, numbers and switches, as their types say', async () => {
  await using gateway = await openGateway({
    credentials: [me],
    storage: memory(),
    workers: false,
    trustedProxies: ['10.0.0.0/8', '192.0.2.0/24'],
    memoryMax: 128 * 1024 * 1024,
    bucketShards: 8,
    sigv2Presign: false,
    bodyTimeout: '20s',
    notifyTargets: [{ id: 'hook', type: 'webhook', url: 'https://example.com/', accounts: ['me'] }],
  });
  expect((await send(gateway, { method: 'PUT', path: '/photos' })).status).toBe(200);
});

describe('a policy that denies an address', () => {
  const deny = JSON.stringify({
    Version: '2012-10-17',
    Statement: [
      { Effect: 'Allow', Principal: '*', Action: 's3:GetObject', Resource: 'arn:aws:s3:::photos/*' },
      {
        Effect: 'Deny',
        Principal: '*',
        Action: 's3:GetObject',
        Resource: 'arn:aws:s3:::photos/*',
        Condition: { IpAddress: { 'aws:SourceIp': ['127.0.0.0/8', '::1'] } },
      },
    ],
  });
  const url = `http://${host}/photos/cat`;
  async function opened(trustedProxies: readonly string[] = []): Promise<OpenGateway> {
    const gateway = await openGateway({
      credentials: [me],
      storage: memory(),
      workers: false,
      trustedProxies,
    });
    await send(gateway, { method: 'PUT', path: '/photos' });
    await send(gateway, { method: 'PUT', path: '/photos/cat', body: 'meow' });
    expect(
      (await send(gateway, { method: 'PUT', path: '/photos', query: { policy: '' }, body: deny })).status,
    ).toBe(204);
    return gateway;
  }

  type Ask = (gateway: OpenGateway, address: string, headers?: Record<string, string>) => Promise<Response>;
  const cases: readonly (readonly [string, Ask])[] = [
    ['fetch', (gateway, remote, headers = {}) => gateway.fetch(new Request(url, { headers }), { remote })],
    [
      'denoHandler',
      (gateway, hostname, headers = {}) =>
        denoHandler(gateway)(new Request(url, { headers }), { remoteAddr: { hostname } }),
    ],
    [
      'bunHandler',
      (gateway, address, headers = {}) =>
        bunHandler(gateway)(new Request(url, { headers }), { requestIP: () => ({ address }) }),
    ],
    [
      'workerHandler',
      (gateway, address, headers = {}) =>
        workerHandler(gateway)(new Request(url, { headers: { ...headers, 'cf-connecting-ip': address } })),
    ],
    [
      'honoHandler',
      (gateway, address, headers = {}) =>
        honoHandler(gateway, () => ({ remote: { address } }))({
          req: { raw: new Request(url, { headers }) },
        }),
    ],
    ['toNodeHandler', (gateway, ...client) => through(toNodeHandler(gateway), ...client)],
    ['routeHandler', (gateway, ...client) => through(framework(routeHandler(gateway)), ...client)],
  ];
  test.each(cases)('holds through %s, and for other addresses it does not', async (_, ask) => {
    await using gateway = await opened();
    expect((await ask(gateway, '127.0.0.1')).status).toBe(403);
    expect((await ask(gateway, '192.0.2.1')).status).toBe(200);
    const claim = { 'x-forwarded-for': '192.0.2.1' };
    expect((await ask(gateway, '127.0.0.1', claim)).status).toBe(403);
  });

  test.each(cases)('holds through %s for the client of a trusted proxy', async (_, ask) => {
    await using gateway = await opened(['10.0.0.0/8']);
    for (const [client, status] of [
      ['127.0.0.1', 403],
      ['192.0.2.1', 200],
    ] as const) {
      const headers = { 'x-forwarded-for': client };
      expect((await ask(gateway, '10.1.2.3', headers)).status).toBe(status);
    }
  });

  test('holds where the address is unknown', async () => {
    await using gateway = await opened();
    expect((await gateway.fetch(new Request(url))).status).toBe(403);
    expect((await honoHandler(gateway)({ req: { raw: new Request(url) } })).status).toBe(403);
  });

  test('holds through toNodeHandler, which has the raw path too', async () => {
    await using gateway = await opened();
    const server = createServer(toNodeHandler(gateway));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as AddressInfo;
    try {
      expect((await fetch(`http://127.0.0.1:${port}/photos/cat`)).status).toBe(403);
      const own = signer({ ...me, host: `127.0.0.1:${port}` });
      const body = 'x'.repeat(300_000);
      const put = own.request({ method: 'PUT', path: '/photos/large', body });
      expect((await fetch(toRequest(put))).status).toBe(200);
      const raw = own.request({ method: 'PUT', path: '/photos/a/../b', body: 'dots' });
      const status = await new Promise((resolve, reject) => {
        const headers = Object.fromEntries(raw.headers);
        const asking = request({ port, host: '127.0.0.1', path: raw.target, method: 'PUT', headers });
        asking.on('response', (answer) => resolve(answer.resume().statusCode)).on('error', reject);
        asking.end('dots');
      });
      expect(status).toBe(200);
      const listed = await (await fetch(toRequest(own.request({ path: '/photos' })))).text();
      expect(
        [...listed.matchAll(/<Key>([^<]+)<.*?<Size>(\d+)</g)].map(([, key, size]) => [key, size]),
      ).toEqual([
        ['a/../b', '4'],
        ['cat', '4'],
        ['large', '300000'],
      ]);
    } finally {
      server.closeAllConnections();
      server.close();
    }
  });
});

test.each(
  Object.entries({ bunHandler, denoHandler, honoHandler, routeHandler, toNodeHandler, workerHandler }),
)('%s refuses the promise of a gateway, and says what would be right', async (name, handler) => {
  const opening = openGateway({ credentials: [me], storage: memory(), workers: false });
  for (const wrong of [opening, undefined, null, {}])
    expect(() => (handler as (gateway: unknown) => unknown)(wrong)).toThrow(
      `${name} needs an open gateway: pass on the result of await openGateway({ … })`,
    );
  await (await opening).close();
});

describe('routeHandler', () => {
  const direct = '127.0.0.1';

  test('has the raw path, and the headers that the framework drops', async () => {
    await using gateway = await openGateway({ credentials: [me], storage: memory(), workers: false });
    await send(gateway, { method: 'PUT', path: '/photos' });
    const listener = framework(routeHandler(gateway));
    const ask = (method: string, path: string, body = '', more: readonly [string, string][] = []) => {
      const signed = sign.request({ method, path, body, headers: more });
      return through(listener, direct, Object.fromEntries(signed.headers), {
        method,
        target: signed.target,
        body,
      });
    };
    for (const path of ['/photos/a/../b', '/photos//c/./d', '/photos/e%2Ff'])
      expect((await ask('PUT', path, 'dots', [['content-encoding', 'x-own']])).status).toBe(200);
    const head = await ask('HEAD', '/photos/a/../b');
    expect([head.status, head.headers.get('content-length'), head.headers.get('content-encoding')]).toEqual([
      200,
      '4',
      'x-own',
    ]);
    const listed = await (await send(gateway, { path: '/photos' })).text();
    expect([...listed.matchAll(/<Key>([^<]+)</g)].map(([, key]) => key)).toEqual(['/c/./d', 'a/../b', 'e/f']);
  });

  test('takes facts only for the request that the client has sent', async () => {
    let facts: unknown;
    const handle = routeHandler({
      fetch: async (_, given) => {
        facts = given;
        return new Response('');
      },
    });
    const seen: unknown[] = [];
    const other: RequestListener = async (_, response) => {
      for (const [path, init] of [
        ['/photos/cat', {}],
        ['/photos/cat?x=1', {}],
        ['/photos/dog', {}],
        ['/photos/cat', { method: 'DELETE' }],
      ] as const) {
        await handle(new Request(`http://${host}${path}`, init));
        seen.push(facts);
      }
      response.end();
    };
    await through(other, '192.0.2.1');
    expect(seen).toEqual([
      expect.objectContaining({ remote: '192.0.2.1', target: '/photos/cat', secure: false }),
      undefined,
      undefined,
      undefined,
    ]);
    await handle(new Request(`http://${host}/photos/cat`));
    expect(facts).toBeUndefined();
  });

  test('opens the gateway at the first request', async () => {
    let count = 0;
    const handle = routeHandler(async () => {
      count += 1;
      return { fetch: async () => new Response('') };
    });
    expect(count).toBe(0);
    await handle(new Request(`http://${host}/photos`));
    expect(count).toBe(1);
  });
});
