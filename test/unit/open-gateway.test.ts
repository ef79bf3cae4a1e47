/** The library's face: one call opens a gateway, and adapters pass on what they know of the client. */
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import {
  type AccessKey,
  bunHandler,
  denoHandler,
  directory,
  honoHandler,
  memory,
  type OpenGateway,
  type OpenOptions,
  openGateway,
  workerHandler,
} from '../../src/mod.ts';
import { toNodeHandler } from '../../src/runtime/node.ts';
import { signer, toRequest } from '../support/sign.ts';

const me: AccessKey = { accessKey: 'ACCESSKEY', secretKey: 'secret-of-me', owner: 'me', root: true };
const host = 'app.example.com';
const sign = signer({ ...me, host });
const folder = await mkdtemp(join(tmpdir(), 'sluice-open-'));
afterAll(() => rm(folder, { recursive: true, force: true }));

const send = (gateway: Pick<OpenGateway, 'fetch'>, spec: Parameters<typeof sign.request>[0]) =>
  gateway.fetch(toRequest(sign.request(spec)));

describe.each([
  ['memory()', () => memory()],
  ['directory()', () => directory(join(folder, 'data'))],
] as const)('openGateway with %s', (_, storage) => {
  test('serves signed requests under its base path', async () => {
    await using gateway = await openGateway({ credentials: [me], storage: storage(), basePath: '/s3' });
    expect((await send(gateway, { method: 'PUT', path: '/s3/photos' })).status).toBe(200);
    const put = { method: 'PUT', path: '/s3/photos/cat', body: 'meow', payload: 'streaming' } as const;
    expect((await send(gateway, put)).status).toBe(200);
    expect(await (await send(gateway, { path: '/s3/photos/cat' })).text()).toBe('meow');
    expect(await (await send(gateway.mount(''), { path: '/photos/cat' })).text()).toBe('meow');
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

test('wrong options are refused together, by the names that the caller wrote', async () => {
  const options = {
    credentials: [],
    storage: memory(),
    memoryMax: 'much',
    bucketShards: 3,
    bukketShards: 4,
  } as OpenOptions;
  const opening = openGateway(options);
  await expect(opening).rejects.toThrow('memoryMax');
  await expect(opening).rejects.toThrow('bucketShards');
  await expect(opening).rejects.toThrow('bukketShards is no option');
  await expect(opening).rejects.toThrow('credentials must have an entry such as');
  await expect(opening).rejects.not.toThrow('SVC_');
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
  async function opened(): Promise<OpenGateway> {
    const gateway = await openGateway({ credentials: [me], storage: memory(), workers: false });
    await send(gateway, { method: 'PUT', path: '/photos' });
    await send(gateway, { method: 'PUT', path: '/photos/cat', body: 'meow' });
    expect(
      (await send(gateway, { method: 'PUT', path: '/photos', query: { policy: '' }, body: deny })).status,
    ).toBe(204);
    return gateway;
  }

  const cases: readonly (readonly [string, (gateway: OpenGateway, address: string) => Promise<Response>])[] =
    [
      ['fetch', (gateway, remote) => gateway.fetch(new Request(url), { remote })],
      [
        'denoHandler',
        (gateway, hostname) => denoHandler(gateway)(new Request(url), { remoteAddr: { hostname } }),
      ],
      [
        'bunHandler',
        (gateway, address) => bunHandler(gateway)(new Request(url), { requestIP: () => ({ address }) }),
      ],
      [
        'workerHandler',
        (gateway, address) =>
          workerHandler(gateway)(new Request(url, { headers: { 'cf-connecting-ip': address } })),
      ],
      [
        'honoHandler',
        (gateway, address) =>
          honoHandler(gateway, () => ({ remote: { address } }))({ req: { raw: new Request(url) } }),
      ],
    ];
  test.each(cases)('holds through %s, and for other addresses it does not', async (_, ask) => {
    await using gateway = await opened();
    expect((await ask(gateway, '127.0.0.1')).status).toBe(403);
    expect((await ask(gateway, '192.0.2.1')).status).toBe(200);
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
