/** The replicator and peers that are no gateways of this kind: other S3 services, and servers that answer 200 to everything. */
import { createHash, createHmac } from 'node:crypto';
import { expect, test, vi } from 'vitest';
import { byteString, textOfOctets } from '../../src/base/text/utf8.ts';
import type { Reply } from '../../src/protocol/reply.ts';
import type { WireHeaders } from '../../src/protocol/wire.ts';
import { startWorkers } from '../../src/workers/registry.ts';
import { operatorOf } from '../support/clusters.ts';
import { encryptingSettings, provider } from '../support/encryption.ts';
import { alice } from '../support/gateway.ts';
import { complete, createUpload, putPart } from '../support/gateway-bodies.ts';
import { hurriedClock } from '../support/notify-world.ts';
import {
  drained,
  hideContent,
  keys,
  link,
  never,
  openSite,
  refusal,
  rule,
  run,
  type Site,
  settings,
  settled,
  statusOf,
  until,
  versions,
} from '../support/replication-sites.ts';

const listing: Reply = {
  status: 200,
  headers: [['Content-Type', 'application/xml']],
  body: '<?xml version="1.0"?><ListBucketResult><Name>bucket</Name></ListBucketResult>',
};
const page: Reply = { status: 200, headers: [['Content-Type', 'text/html']], body: '<html>It works</html>' };

/** The service does not know the query `replica`, and lists the bucket instead. */
async function openService(): Promise<Site> {
  const site = await openSite();
  site.instead = asService;
  return site;
}
const asService = (_method: string, target: string): Reply | undefined =>
  target.includes('?replica') ? listing : undefined;

const locked =
  '<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled></ObjectLockConfiguration>';

const tagging = (value: string): string =>
  `<Tagging><TagSet><Tag><Key>k</Key><Value>${value}</Value></Tag></TagSet></Tagging>`;

async function resync({ world }: Site, filter: object): Promise<void> {
  const admin = operatorOf(world);
  await admin.must('POST', '/replication/resync/bucket', filter);
  await vi.waitFor(
    async () =>
      expect(await admin.must('GET', '/replication/resync/bucket')).toMatchObject({ state: 'done' }),
    until,
  );
}

test('another S3 service gets versions in their order, with metadata, tags and parts, and delete markers', async () => {
  const [near, far] = [await openSite(), await openService()];
  await link(near, far);
  const { client } = near.world;
  const blue = {
    '*-meta-colour': 'blue',
    '*-tagging': 'k=v',
    '*-website-redirect-location': '/other',
    '*-storage-class': 'STANDARD_IA',
    'content-type': 'text/x',
  };
  for (const body of ['one', 'two']) await client.put('/bucket/a', { body, headers: blue });
  await client.put('/bucket/gone', { body: 'x' });
  await client.delete('/bucket/gone');
  const uploadId = await createUpload(client, '/bucket/parts');
  const parts = [
    await putPart(client, '/bucket/parts', { uploadId, number: 1, body: Buffer.alloc(5 * 1024 * 1024, 7) }),
    await putPart(client, '/bucket/parts', { uploadId, number: 3, body: 'the end' }),
  ];
  await complete(client, '/bucket/parts', { uploadId, parts });
  run(near);
  for (const path of ['/bucket/a', '/bucket/parts']) await settled(near, path, 'COMPLETED');
  await drained(near);
  const copy = await far.world.client.get('/bucket/a');
  expect([copy.text, copy.header('*-meta-colour'), copy.header('content-type')]).toEqual([
    'two',
    'blue',
    'text/x',
  ]);
  expect(copy.header('*-website-redirect-location')).toBe('/other');
  // The class of the source is not sent, because another service may not have it.
  expect(copy.header('*-storage-class')).toBeUndefined();
  expect((await far.world.client.get('/bucket/a?tagging')).text).toContain('<Value>v</Value>');
  const shown = async (site: Site) =>
    (await versions(site)).map(({ key, etag, isLatest }) => ({ key, etag, isLatest }));
  expect(await shown(far)).toEqual(await shown(near));
});

test('a version that is tagged before it is sent arrives at another S3 service with its tags', async () => {
  const [near, far] = [await openSite(), await openService()];
  await link(near, far);
  await near.world.client.put('/bucket/a', { body: 'one' });
  await near.world.client.put('/bucket/a?tagging', { body: tagging('early') });
  run(near);
  await settled(near, '/bucket/a', 'COMPLETED');
  await drained(near);
  expect((await far.world.client.get('/bucket/a')).text).toBe('one');
  expect((await far.world.client.get('/bucket/a?tagging')).text).toContain('early');
  expect(await versions(far)).toHaveLength(1);
});

test('tags of an older version do not replace those of the latest version at another S3 service', async () => {
  const [near, far] = [await openSite(), await openService()];
  await link(near, far);
  run(near);
  const { client } = near.world;
  const first = await client.put('/bucket/a', { body: 'one' });
  await client.put('/bucket/a', { body: 'two' });
  await settled(near, '/bucket/a', 'COMPLETED');
  await client.put(`/bucket/a?tagging&versionId=${first.header('*-version-id')}`, { body: tagging('old') });
  await drained(near);
  const { client: there } = far.world;
  expect((await there.get('/bucket/a')).text).toBe('two');
  expect((await there.get('/bucket/a?tagging')).text).not.toContain('old');
  await client.put('/bucket/a?tagging', { body: tagging('new') });
  // The number of waiting versions can be 0 until the replicator has counted this one.
  await vi.waitFor(async () => expect((await there.get('/bucket/a?tagging')).text).toContain('new'), until);
  await drained(near);
  expect(await versions(far)).toHaveLength(2);
});

test('a retry does not put an older version above a newer one at another S3 service', async () => {
  const clock = hurriedClock();
  const near = await openSite({ clock, settings: { ...settings, SVC_REPLICATION_RETRY_MAX: '1s' } });
  const far = await openService();
  far.instead = () => refusal(503, 'SlowDown');
  await link(near, far);
  run(near);
  const { client } = near.world;
  const first = await client.put('/bucket/a', { body: 'one' });
  await vi.waitFor(async () => {
    clock.hurry(1_000);
    expect(await statusOf(near, '/bucket/a')).toBe('FAILED');
  }, until);
  far.instead = asService;
  // The destination rests after its failures.
  clock.hurry(60_000);
  await client.put('/bucket/a', { body: 'two' });
  await settled(near, '/bucket/a', 'COMPLETED');
  const admin = operatorOf(near.world);
  await admin.must('POST', '/replication/retry', { peer: 'far' });
  await drained(near);
  expect((await far.world.client.get('/bucket/a')).text).toBe('two');
  expect(await statusOf(near, `/bucket/a?versionId=${first.header('*-version-id')}`)).toBe('FAILED');
  const { failed } = await admin.must('GET', '/replication/failed');
  expect(JSON.stringify(failed)).toContain('newer version');
});

test('a resync leaves the current version of each key on top at another S3 service, and sends it once', async () => {
  const [near, far] = [await openSite(), await openService()];
  const { client } = near.world;
  for (const body of ['one', 'two', 'three']) await client.put('/bucket/a', { body });
  await client.put('/bucket/gone', { body: 'x' });
  await client.delete('/bucket/gone');
  await link(near, far);
  run(near);
  await resync(near, {});
  await drained(near);
  const { client: there } = far.world;
  expect((await there.get('/bucket/a')).text).toBe('three');
  expect((await there.get('/bucket/gone')).status).toBe(404);
  const before = await versions(far);
  await resync(near, { status: 'all' });
  await drained(near);
  expect(await versions(far)).toEqual(before);
});

test('a server that answers 200 to everything gets no version: all stay PENDING', async () => {
  const [near, far] = [await openSite(), await openSite()];
  let answered = 0;
  far.instead = () => {
    answered += 1;
    return page;
  };
  await link(near, far);
  run(near);
  await near.world.client.put('/bucket/a', { body: 'one' });
  // The second attempt comes after the first one has stored its outcome.
  await vi.waitFor(() => expect(answered).toBeGreaterThan(1), until);
  expect(await statusOf(near, '/bucket/a')).toBe('PENDING');
  far.instead = undefined;
  await settled(near, '/bucket/a', 'COMPLETED');
  expect(await versions(far)).toEqual(await versions(near));
});

for (const [what, open] of [
  ['a gateway', openSite],
  ['another S3 service', openService],
] as const)
  test(`a 200 that ${what} did not send completes nothing`, async () => {
    const [near, far] = [await openSite(), await open()];
    await link(near, far);
    run(near);
    const { client } = near.world;
    await client.put('/bucket/a', { body: 'one' });
    await settled(near, '/bucket/a', 'COMPLETED');
    // A proxy answers in its place, for a while.
    const { instead } = far;
    let answered = 0;
    far.instead = () => {
      answered += 1;
      return page;
    };
    await client.put('/bucket/a', { body: 'two' });
    await client.put('/bucket/b', { body: 'x' });
    await client.delete('/bucket/b');
    const uploadId = await createUpload(client, '/bucket/parts');
    const parts = [await putPart(client, '/bucket/parts', { uploadId, number: 1, body: 'the end' })];
    await complete(client, '/bucket/parts', { uploadId, parts });
    await vi.waitFor(() => expect(answered).toBeGreaterThan(0), until);
    far.instead = instead;
    for (const path of ['/bucket/a', '/bucket/parts']) await settled(near, path, 'COMPLETED');
    await drained(near);
    const shown = async (site: Site) => (await versions(site)).map(({ key, etag }) => ({ key, etag }));
    expect(await shown(far)).toEqual(await shown(near));
  });

test('a 404 that another S3 service did not send does not stand for its delete marker', async () => {
  const [near, far] = [await openSite(), await openService()];
  const { client } = near.world;
  await far.world.client.put('/bucket/gone', { body: 'x' });
  await client.put('/bucket/gone', { body: 'x' });
  await client.delete('/bucket/gone');
  await link(near, far);
  let answered = 0;
  far.instead = (method, target) => {
    if (method !== 'HEAD' && !(method === 'GET' && target.startsWith('/bucket/gone')))
      return asService(method, target);
    answered += 1;
    return { ...page, status: 404 };
  };
  run(near);
  await resync(near, {});
  await vi.waitFor(() => expect(answered).toBeGreaterThan(0), until);
  far.instead = asService;
  await drained(near);
  expect((await far.world.client.get('/bucket/gone')).status).toBe(404);
});

test.each([404, 200, 503])(
  'an upload that a %i of some proxy did not abort at a peer is aborted later',
  async (status) => {
    const [near, far] = [await openSite(), await openSite()];
    await link(near, far);
    const { client } = near.world;
    const uploadId = await createUpload(client, '/bucket/parts');
    const parts = [await putPart(client, '/bucket/parts', { uploadId, number: 1, body: 'the end' })];
    await complete(client, '/bucket/parts', { uploadId, parts });
    const open = async () => (await far.world.client.get('/bucket?uploads')).all('UploadId');
    // No part arrives, and no abort: neither of the replicator that began the upload, nor of the next one.
    const isAbort = (method: string, target: string): boolean =>
      method === 'DELETE' && target.includes('uploadId=');
    let aborts = 0;
    far.instead = (method, target) => {
      // The next one aborts what the first one has left. It begins no other upload, because nobody knows one whose answer was lost by the stop.
      const isBegin = method === 'POST' && target.includes('uploads');
      if (target.includes('partNumber=') || (isBegin && aborts > 0)) return refusal(503, 'SlowDown');
      if (!isAbort(method, target)) return undefined;
      aborts += 1;
      return { ...page, status };
    };
    for (let runs = 1; runs <= 2; runs += 1) {
      const running = startWorkers(near.world.context, ['replicator'], never);
      const asked = aborts;
      await vi.waitFor(() => expect(aborts).toBeGreaterThan(asked), until);
      await running.stop();
    }
    expect(await open()).not.toEqual([]);
    far.instead = undefined;
    run(near);
    await settled(near, '/bucket/parts', 'COMPLETED');
    await vi.waitFor(async () => expect(await open()).toEqual([]), until);
  },
);

test('where a version cannot be read, the later ones of its key wait for it, and those of other keys do not', async () => {
  const [near, far] = [await openSite(), await openService()];
  await link(near, far);
  const { client } = near.world;
  await client.put('/bucket/a', { body: 'first' });
  const found = await hideContent(near, 'a');
  // More than one batch of a slot.
  for (let n = 0; n < 130; n += 1) await client.put('/bucket/a', { body: `${n}` });
  await client.put('/bucket/b', { body: 'x' });
  await settled(near, '/bucket/b', 'COMPLETED');
  expect((await versions(far)).map(({ key }) => key)).toEqual(['b']);
  found();
  await settled(near, '/bucket/a', 'COMPLETED');
  const etags = async (site: Site) => (await versions(site)).map(({ etag }) => etag);
  expect(await etags(far)).toEqual(await etags(near));
});

/** Whether a signature is right over the bytes that arrived, with runs of blanks folded as the public documentation says. */
function isSignedAsSent(method: string, target: string, headers: WireHeaders): boolean {
  const [, scope = '', signed = '', signature] =
    /Credential=[^/]+\/([^,]+), SignedHeaders=([^,]+), Signature=(\w+)/.exec(
      headers.get('authorization') ?? '',
    ) ?? [];
  const lines = signed.split(';').map((name) => `${name}:${headers.get(name)?.trim().replace(/ +/g, ' ')}\n`);
  const [path, query = ''] = target.split('?');
  const payload = headers.get('x-amz-content-sha256');
  const canonical = `${method}\n${path}\n${query}\n${lines.join('')}\n${signed}\n${payload}`;
  const digest = createHash('sha256').update(canonical, 'latin1').digest('hex');
  const mac = (key: string | Buffer, text: string) => createHmac('sha256', key).update(text).digest();
  const key = scope.split('/').reduce<string | Buffer>(mac, `AWS4${alice.secretKey}`);
  const text = `AWS4-HMAC-SHA256\n${headers.get('x-amz-date')}\n${scope}\n${digest}`;
  return mac(key, text).toString('hex') === signature;
}

test.each([
  ['beyond Latin-1', 'attachment; filename="日本.txt"'],
  ['of Latin-1', 'attachment; filename="café.txt"'],
  ['as HTTP delivers them, a character for each byte', byteString('"日本 café"')],
  ['with runs of blanks', 'attachment;  filename="a   b.txt"'],
])(
  'headers %s arrive at another S3 service, under a signature over the bytes that are sent',
  async (_what, value) => {
    const [near, far] = [await openSite(), await openService()];
    const wrong: string[] = [];
    let puts = 0;
    far.instead = (method, target, headers) => {
      if (method === 'PUT') puts += 1;
      if (method === 'PUT' && !isSignedAsSent(method, target, headers)) wrong.push(target);
      return asService(method, target);
    };
    await link(near, far);
    run(near);
    const headers = { 'content-disposition': value, '*-meta-name': value };
    // Clients sign the text whose bytes they send.
    const tamper = { canonicalRequest: (text: string) => text.replaceAll(value, textOfOctets(value)) };
    expect((await near.world.client.put('/bucket/a', { body: 'x', headers, tamper })).status).toBe(200);
    await settled(near, '/bucket/a', 'COMPLETED');
    expect({ puts, wrong }).toEqual({ puts: 1, wrong: [] });
    const [here, there] = [
      await near.world.client.head('/bucket/a'),
      await far.world.client.head('/bucket/a'),
    ];
    for (const name of Object.keys(headers)) expect(there.header(name)).toBe(here.header(name));
  },
);

test('each part for a bucket with Object Lock of another S3 service has a Content-MD5, and without Object Lock none', async () => {
  for (const lock of [true, false]) {
    const [near, far] = [await openSite(), await openService()];
    const digests: (string | undefined)[] = [];
    far.instead = (method, target, headers) => {
      if (method === 'PUT' && target.includes('partNumber=')) digests.push(headers.get('content-md5'));
      if (target.includes('?object-lock') && lock) return { status: 200, headers: [], body: locked };
      return asService(method, target);
    };
    await link(near, far);
    const { client } = near.world;
    const uploadId = await createUpload(client, '/bucket/parts');
    const bodies = [Buffer.alloc(5 * 1024 * 1024, 7), Buffer.from('the end')];
    const parts = [];
    for (const [n, body] of bodies.entries())
      parts.push(await putPart(client, '/bucket/parts', { uploadId, number: n + 1, body }));
    await complete(client, '/bucket/parts', { uploadId, parts });
    run(near);
    await settled(near, '/bucket/parts', 'COMPLETED');
    const md5 = (body: Buffer) => createHash('md5').update(body).digest('base64');
    expect(digests).toEqual(bodies.map((body) => (lock ? md5(body) : undefined)));
  }
});

test('objects under a key of the provider arrive in a bucket with Object Lock of another S3 service, which asks for a digest', async () => {
  const encrypting = { ...settings, ...(await encryptingSettings()) };
  const [near, far] = [await openSite({ settings: encrypting }), await openSite({ settings: encrypting })];
  far.instead = (method, target, headers) => {
    if (target.includes('?object-lock')) return { status: 200, headers: [], body: locked };
    // As the public service, which takes a checksum of the SDKs too.
    if (method === 'PUT' && !headers.has('content-md5')) return refusal(400, 'InvalidRequest');
    return asService(method, target);
  };
  const accounts = [{ account: alice.owner, buckets: ['*'], keys: ['second'] }];
  const peer = { ...keys, accounts, endpoint: far.endpoint };
  await operatorOf(near.world).must('PUT', '/replication/peers/far', peer);
  const criteria =
    '<SourceSelectionCriteria><SseKmsEncryptedObjects><Status>Enabled</Status></SseKmsEncryptedObjects></SourceSelectionCriteria>';
  const keyId =
    '<EncryptionConfiguration><ReplicaKmsKeyID>second</ReplicaKmsKeyID></EncryptionConfiguration>';
  const { client } = near.world;
  expect((await client.put('/bucket?replication', { body: rule('far', '', criteria, keyId) })).text).toBe('');
  run(near);
  await client.put('/bucket/plain', { body: 'one' });
  await client.put('/bucket/secret', { body: 'two', headers: provider('first') });
  for (const path of ['/bucket/plain', '/bucket/secret']) await settled(near, path, 'COMPLETED');
  const copy = await far.world.client.get('/bucket/secret');
  expect([copy.text, copy.header('*-server-side-encryption')]).toEqual(['two', 'aws:kms']);
});
