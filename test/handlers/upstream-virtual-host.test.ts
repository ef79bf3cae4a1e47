/** An upstream in virtual-host style: the bucket is part of the host name, also in TLS. */
import dns, { type LookupOptions } from 'node:dns';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createSecureContext, createServer } from 'node:tls';
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { alice, type GatewayWorld, openGateway } from '../support/gateway.ts';
import { bytesOf, complete, createUpload, MiB, putPart } from '../support/gateway-bodies.ts';
import { one, wildcard } from '../support/server-tls.ts';
import { startUpstream, type UpstreamServer } from '../support/upstream.ts';

const domain = 's3.test';
type Found = (error: null, address: unknown, family?: number) => void;

let directory: string;
let plain: UpstreamServer;
let secure: UpstreamServer;
const path = (name: string): string => join(directory, name);
/** The host names that were resolved. */
const asked = new Set<string>();

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'sluice-virtual-host-'));
  await writeFile(path('wildcard.pem'), wildcard.cert);
  await writeFile(path('wildcard.key'), wildcard.key);
  const settings = { SVC_DOMAIN: domain };
  plain = await startUpstream({ settings });
  secure = await startUpstream(
    { settings },
    { SVC_TLS_CERT_FILE: path('wildcard.pem'), SVC_TLS_KEY_FILE: path('wildcard.key') },
  );
  // Only this resolver knows the addresses of this domain's hosts.
  vi.spyOn(dns, 'lookup').mockImplementation(((host: string, { all }: LookupOptions, found: Found) => {
    asked.add(host);
    if (all === true) found(null, [{ address: '127.0.0.1', family: 4 }]);
    else found(null, '127.0.0.1', 4);
  }) as typeof dns.lookup);
});
beforeEach(() => asked.clear());
afterAll(async () => {
  vi.restoreAllMocks();
  await plain?.[Symbol.asyncDispose]();
  await secure?.[Symbol.asyncDispose]();
  await rm(directory, { recursive: true, force: true });
});

/** A gateway in front of a bucket of the server at this address. */
const openFront = (url: string, bucket: string, more: object = {}): Promise<GatewayWorld> => {
  const { protocol, port } = new URL(url);
  return openGateway({
    settings: {
      SVC_DATA_BACKEND: 'upstream-store',
      SVC_UPSTREAMS: JSON.stringify([{ id: 'default', bucket, style: 'virtual-host', ...more }]),
      SVC_UPSTREAM_ENDPOINT: `${protocol}//${domain}:${port}`,
      SVC_UPSTREAM_ACCESS_KEY: alice.accessKey,
      SVC_UPSTREAM_SECRET_KEY: alice.secretKey,
    },
  });
};

async function putThrough(world: GatewayWorld): Promise<number> {
  await world.client.put('/bucket');
  return (await world.client.put('/bucket/key', { body: 'hello' })).status;
}

describe.each(['plain', 'over TLS'])('%s', (way) => {
  test('objects and uploads are written, read, found and removed', async () => {
    const upstream = way === 'plain' ? plain : secure;
    const bucket = await upstream.bucket();
    const trust = way === 'plain' ? {} : { caFile: path('wildcard.pem') };
    await using world = await openFront(upstream.url, bucket, trust);
    const { client } = world;
    const lying = async (): Promise<number> =>
      (await upstream.world.client.get(`/${bucket}?list-type=2`)).all('Key').length;
    await client.put('/bucket');
    const large = bytesOf(3 * MiB);
    expect((await client.put('/bucket/small', { body: 'hello' })).status).toBe(200);
    expect((await client.put('/bucket/large', { body: large })).status).toBe(200);
    const uploadId = await createUpload(client, '/bucket/parts');
    const first = await putPart(client, '/bucket/parts', { uploadId, number: 1, body: bytesOf(5 * MiB, 2) });
    const last = await putPart(client, '/bucket/parts', { uploadId, number: 2, body: 'last' });
    expect((await complete(client, '/bucket/parts', { uploadId, parts: [first, last] })).status).toBe(200);
    expect(await lying()).toBe(3);
    expect([...asked]).toEqual([`${bucket}.${domain}`]);

    expect((await client.get('/bucket/small')).text).toBe('hello');
    const range = await client.get('/bucket/large', { headers: { range: 'bytes=1000000-1000009' } });
    expect(Buffer.compare(range.bytes, large.subarray(1_000_000, 1_000_010))).toBe(0);
    expect((await client.get('/bucket/parts', { headers: { range: 'bytes=-4' } })).text).toBe('last');
    expect([...(await world.stored())].sort()).toEqual([...(await world.owned('bucket'))].sort());
    expect((await world.context.bytes.health())[0]).toMatchObject({
      status: 'ok',
      pools: [{ state: 'reachable' }],
    });
    for (const key of ['small', 'large', 'parts']) await client.delete(`/bucket/${key}`);
    await world.gc();
    expect(await lying()).toBe(0);
  });
});

describe('the certificate is the bucket’s host’s', () => {
  test('a wildcard certificate is valid for one label: not for a bucket with a dot in its name', async () => {
    const dotted = 'with.dot';
    await secure.world.client.put(`/${dotted}`);
    await using world = await openFront(secure.url, dotted, { caFile: path('wildcard.pem') });
    expect(await putThrough(world)).toBe(503);
    expect([...asked]).toEqual([`${dotted}.${domain}`]);
    await using careless = await openFront(secure.url, dotted, { insecure: true });
    expect(await putThrough(careless)).toBe(200);
  });

  test('an upstream with several certificates selects one by SNI, which has the bucket’s name', async () => {
    const names: string[] = [];
    const right = createSecureContext(wildcard);
    const toPlain = createServer({
      ...one,
      SNICallback: (name, choose) => {
        names.push(name);
        choose(null, name.endsWith(`.${domain}`) ? right : undefined);
      },
    });
    toPlain.on('secureConnection', (socket) => {
      const behind = connect(Number(new URL(plain.url).port), '127.0.0.1');
      socket.pipe(behind).pipe(socket);
      const end = (): void => void [socket, behind].map((each) => each.destroy());
      for (const each of [socket, behind]) each.on('error', end);
    });
    await new Promise<void>((resolve) => toPlain.listen(0, '127.0.0.1', resolve));
    try {
      const { port } = toPlain.address() as { readonly port: number };
      const bucket = await plain.bucket();
      const world = await openFront(`https://127.0.0.1:${port}`, bucket, { caFile: path('wildcard.pem') });
      expect(await putThrough(world)).toBe(200);
      await world.close();
      expect(new Set(names)).toEqual(new Set([`${bucket}.${domain}`]));
    } finally {
      toPlain.close();
    }
  });
});
