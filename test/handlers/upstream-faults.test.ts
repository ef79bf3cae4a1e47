/** Faults of an upstream and of the connection to it: clients get the right error, nothing is lost, nothing is left behind. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { configWith } from '../../src/config/read-config.ts';
import { type Clock, systemClock } from '../../src/ports/clock.ts';
import { DataUnavailable, unknownSize } from '../../src/ports/object-bytes.ts';
import { serve } from '../../src/runtime/node.ts';
import { type BehindFaults, behindFaults, expectStored } from '../support/behind-faults.ts';
import { faulty } from '../support/faulty.ts';
import type { Asked, Fault, FaultyUpstream } from '../support/faulty-upstream.ts';
import { alice, type GatewayWorld } from '../support/gateway.ts';
import { bytesOf, complete, createUpload, MiB, type PartOf, putPart } from '../support/gateway-bodies.ts';
import type { Answer } from '../support/gateway-client.ts';
import { big } from '../support/gateway-upload.ts';
import { signer, toRequest } from '../support/sign.ts';

let behind: BehindFaults;
let way: FaultyUpstream;
let world: GatewayWorld;
const settings = { SVC_UPSTREAM_TIMEOUT: '2s' };
beforeAll(async () => {
  behind = await behindFaults();
  way = behind.way;
});
afterAll(() => behind[Symbol.asyncDispose]());
beforeEach(async () => {
  world = await behind.open({ settings });
});
afterEach(async () => {
  way.repair();
  await world.close();
});

/** True for a PUT of an object or part, but not of the probe. */
const put = ({ method, target }: Asked): boolean => method === 'PUT' && !target.endsWith('/sluice-probe');
const read = ({ method, target }: Asked): boolean => method === 'GET' && target.includes('.0');
const completion = ({ method, target }: Asked): boolean => method === 'POST' && target.includes('uploadId=');
const any = (): boolean => true;

const resets: Fault = { reset: 'before' };
const slowDown: Fault = { status: 503, code: 'SlowDown' };
const proxyPage = (status: number): Fault => ({
  status,
  page: '<html><body>default backend</body></html>',
  headers: { 'content-type': 'text/html' },
});
const passing: readonly (readonly [string, Fault])[] = [
  ['a connection that breaks', resets],
  ['an answer that does not arrive', { reset: 'after' }],
  ['500', { status: 500, code: 'InternalError' }],
  ['503 SlowDown', slowDown],
  ['a 502 of some proxy', { status: 502 }],
  ['a 404 of some proxy', proxyPage(404)],
];

const isAway = (answer: Answer): void => {
  expect([answer.status, answer.code]).toEqual([503, 'ServiceUnavailable']);
  expect(Number(answer.header('retry-after'))).toBeGreaterThan(0);
};

const nothingIsLeft = (objects: number): Promise<void> => {
  way.repair();
  return expectStored(world, objects);
};

describe('a small PUT', () => {
  test.each(passing)('is tried again after %s', async (_, fault) => {
    way.fail(put, fault, 1);
    expect((await world.client.put('/bucket/key', { body: 'hello' })).status).toBe(200);
    expect((await world.client.get('/bucket/key')).text).toBe('hello');
    await nothingIsLeft(1);
  });

  test.each(passing)('is answered 503 where %s does not pass', async (_, fault) => {
    await world.client.put('/bucket/key', { body: 'former' });
    way.fail(put, fault);
    isAway(await world.client.put('/bucket/key', { body: 'hello' }));
    way.repair();
    expect((await world.client.get('/bucket/key')).text).toBe('former');
    await nothingIsLeft(1);
  });
});

describe('a large PUT', () => {
  const body = bytesOf(MiB);

  test.each([...passing, ['silence', { stall: true }] as const])(
    'is answered 503 after %s',
    async (_, fault) => {
      way.fail(put, fault, 1);
      isAway(await world.client.put('/bucket/key', { body }));
      expect((await world.client.get('/bucket/key')).status).toBe(404);
      await nothingIsLeft(0);
      expect((await world.client.put('/bucket/key', { body })).status).toBe(200);
      await nothingIsLeft(1);
    },
  );

  test('is sent again if no byte of it was taken, when the upstream is available again', async () => {
    let pauses = 0;
    const sleep: Clock['sleep'] = async () => {
      pauses += 1;
      if (pauses === 2) await way.comeBack();
    };
    const patience = {
      // No pause but those between the attempts.
      settings: { ...settings, SVC_USAGE_TRAFFIC_INTERVAL: '0' },
      clock: faulty(systemClock, { sleep }),
    };
    await using patient = await behind.open(patience);
    await way.leave();
    expect((await patient.client.put('/bucket/key', { body })).status).toBe(200);
    expect(pauses).toBe(2);
    expect(Buffer.compare((await patient.client.get('/bucket/key')).bytes, body)).toBe(0);
    expect(await patient.stored()).toEqual(await patient.owned('bucket'));
  });

  test('is answered 503 while the upstream is away', async () => {
    await way.leave();
    isAway(await world.client.put('/bucket/key', { body }));
    await way.comeBack();
    await nothingIsLeft(0);
  });

  test('that arrived as something else is not acknowledged', async () => {
    way.fail(put, { headers: { etag: '"00000000000000000000000000000000"' } });
    isAway(await world.client.put('/bucket/key', { body, payload: 'unsigned' }));
    await nothingIsLeft(0);
  });

  test('whose ETag is none of MD5 is: what an upstream encrypts has others', async () => {
    for (const headers of [
      { etag: '"00000000000000000000000000000000"', 'x-amz-server-side-encryption': 'aws:kms' },
      { etag: '"abc"' },
    ]) {
      way.fail(put, { headers });
      expect((await world.client.put('/bucket/key', { body, payload: 'unsigned' })).status).toBe(200);
    }
    await nothingIsLeft(1);
  });

  test('is read no faster than the upstream accepts it', async () => {
    way.fail(put, { deaf: true });
    const { bytes } = world.context;
    let pulled = 0;
    const source = (async function* () {
      for (; pulled < 256; pulled += 1) yield new Uint8Array(MiB);
    })();
    const options = { cluster: bytes.clusters[0] ?? '', id: 'op.1', owner: { bucketId: 'b', key: 'k' } };
    await expect(bytes.write(source, { ...options, size: 256 * MiB })).rejects.toThrow(DataUnavailable);
    // The kernel buffers a few MiB between two sockets.
    expect(pulled).toBeLessThan(64);
  });

  test('whose client declared another digest is refused, and never complete upstream', async () => {
    const claimed = await world.client.put('/bucket/key', {
      body,
      headers: { 'content-md5': 'AAAAAAAAAAAAAAAAAAAAAA==' },
    });
    expect(claimed.code).toBe('BadDigest');
    expect(await world.stored()).toEqual([]);
    await nothingIsLeft(0);
  });
});

describe('a GET', () => {
  const body = bytesOf(3 * MiB);
  beforeEach(async () => {
    await world.client.put('/bucket/key', { body });
    way.seen();
  });

  test.each([...passing, ['silence', { stall: true }] as const])(
    'is answered 503 after %s',
    async (_, fault) => {
      way.fail(read, fault);
      isAway(await world.client.get('/bucket/key', { headers: { range: 'bytes=10-20' } }));
    },
  );

  test('that is large is answered 503 too, because nothing has been sent when the first bytes do not arrive', async () => {
    const config = configWith({ SVC_LISTEN: '127.0.0.1:0', SVC_SHUTDOWN_TIMEOUT: '0s' });
    const serving = await serve({ gateway: world.gateway, config });
    way.fail(read, slowDown);
    const sign = signer({ ...alice, host: new URL(serving.url).host });
    const large = await fetch(toRequest(sign.request({ path: '/bucket/key' })));
    expect([large.status, Number(large.headers.get('retry-after'))]).toEqual([503, 1]);
    await large.text();
    await serving.close();
  });

  test('that breaks off is taken up where it was, as often as it gets on', async () => {
    for (const [truncate, times] of [
      [1_000_000, 1],
      [1_000_000, 3],
      [0, 2],
    ] as const) {
      way.fail(read, { truncate }, times);
      expect(Buffer.compare((await world.client.get('/bucket/key')).bytes, body)).toBe(0);
      expect(way.seen().filter(read)).toHaveLength(times + 1);
    }
    way.fail(read, { truncate: 5 }, 1);
    const some = await world.client.get('/bucket/key', { headers: { range: 'bytes=10-20' } });
    expect(Buffer.compare(some.bytes, body.subarray(10, 21))).toBe(0);
  });

  test('that breaks off and gets nowhere is never a shorter one', async () => {
    way.fail(read, { truncate: 0 });
    isAway(await world.client.get('/bucket/key', { headers: { range: 'bytes=10-20' } }));
    isAway(await world.client.get('/bucket/key'));
  });

  test('never returns wrong bytes for missing ones', async () => {
    const headers = { range: 'bytes=0-9' };
    way.fail(read, { headers: { 'content-range': 'bytes 0-9/10' } });
    expect((await world.client.get('/bucket/key', { headers })).status).toBe(500);
    way.repair();
    const [id = ''] = await world.stored();
    const [cluster = ''] = world.context.bytes.clusters;
    await world.context.bytes.remove([{ cluster, id, size: body.length }]);
    expect((await world.client.get('/bucket/key', { headers })).status).toBe(500);
  });
});

describe('a completion', () => {
  let uploadId = '';
  let parts: PartOf[] = [];
  const body = Buffer.concat([big, Buffer.from('tail')]);
  beforeEach(async () => {
    uploadId = await createUpload(world.client, '/bucket/key');
    parts = [];
    for (const [i, part] of [big, 'tail'].entries())
      parts.push(await putPart(world.client, '/bucket/key', { uploadId, number: i + 1, body: part }));
  });
  const finish = () => complete(world.client, '/bucket/key', { uploadId, parts });
  const isComplete = async (): Promise<void> => {
    expect(Buffer.compare((await world.client.get('/bucket/key')).bytes, body)).toBe(0);
    await nothingIsLeft(1);
  };

  test.each([...passing, ['200 with an error in it', { status: 200, code: 'InternalError' }] as const])(
    'is requested again after %s',
    async (_, fault) => {
      way.fail(completion, fault, 1);
      expect((await finish()).status).toBe(200);
      await isComplete();
    },
  );

  test.each([...passing, ['200 with an error in it', { status: 200, code: 'InternalError' }] as const])(
    'that %s prevents leaves the upload open',
    async (_, fault) => {
      way.fail(completion, fault);
      isAway(await finish());
      expect((await world.client.get('/bucket/key')).status).toBe(404);
      await nothingIsLeft(1);
      // The retry succeeds although the upstream had completed the upload before.
      expect((await finish()).status).toBe(200);
      await isComplete();
    },
  );

  test('that failed although the upstream completed it can be aborted', async () => {
    way.fail(completion, { reset: 'after' });
    isAway(await finish());
    way.repair();
    expect((await world.client.delete('/bucket/key', { query: { uploadId } })).status).toBe(204);
    await nothingIsLeft(0);
  });

  test('of parts that the upstream has otherwise is refused, and then they can be sent again', async () => {
    way.fail(completion, { status: 400, code: 'InvalidPart' });
    const refused = await finish();
    expect([refused.status, refused.code]).toEqual([400, 'InvalidPart']);
    way.repair();
    parts[1] = await putPart(world.client, '/bucket/key', { uploadId, number: 2, body: 'tail' });
    expect((await finish()).status).toBe(200);
    await isComplete();
  });

  test('of an upload that the upstream has completed and forgotten succeeds, because the ETag is that of its parts', async () => {
    way.fail(completion, { replaced: { status: 404, code: 'NoSuchUpload' } }, 1);
    expect((await finish()).status).toBe(200);
    await isComplete();
  });

  describe('at an upstream whose ETags are no MD5s, as with SSE-KMS, which forgets what it has completed', () => {
    const kms = { etag: '"0123456789abcdef0123456789abcdef-2"', 'x-amz-server-side-encryption': 'aws:kms' };
    const isAboutObject = (asked: Asked): boolean => completion(asked) || asked.method === 'HEAD';
    const forgets = (asked: Asked): Fault =>
      asked.method === 'HEAD' ? { headers: kms } : { replaced: { status: 404, code: 'NoSuchUpload' } };

    test('succeeds', async () => {
      way.fail(isAboutObject, forgets);
      expect((await finish()).status).toBe(200);
      way.repair();
      await isComplete();
    });

    test('succeeds when it is requested again', async () => {
      way.fail(completion, { reset: 'after' });
      isAway(await finish());
      way.fail(isAboutObject, forgets);
      expect((await finish()).status).toBe(200);
      way.repair();
      await isComplete();
    });

    test('of other parts of the same size is refused', async () => {
      await putPart(world.client, '/bucket/key', { uploadId, number: 2, body: big });
      const other = await putPart(world.client, '/bucket/key', {
        uploadId,
        number: 3,
        body: bytesOf(big.length, 9),
      });
      way.fail(completion, { reset: 'after' });
      isAway(await complete(world.client, '/bucket/key', { uploadId, parts: parts.slice(0, 1) }));
      way.fail(isAboutObject, forgets);
      const refused = await complete(world.client, '/bucket/key', { uploadId, parts: [other] });
      expect([refused.status, refused.code]).toEqual([404, 'NoSuchUpload']);
    });
  });

  test('of an upload that the upstream has forgotten is refused', async () => {
    way.fail((asked) => completion(asked) || put(asked), { status: 404, code: 'NoSuchUpload' });
    expect((await finish()).code).toBe('NoSuchUpload');
    const part = { query: { uploadId, partNumber: '1' }, body: 'again' };
    expect((await world.client.put('/bucket/key', part)).code).toBe('NoSuchUpload');
    await nothingIsLeft(1);
    expect((await world.client.delete('/bucket/key', { query: { uploadId } })).status).toBe(204);
    await nothingIsLeft(0);
  });

  test('of a part whose second attempt was refused uses the first', async () => {
    const claims = { 'content-md5': 'AAAAAAAAAAAAAAAAAAAAAA==' };
    const query = { uploadId, partNumber: '1' };
    const refused = await world.client.put('/bucket/key', {
      query,
      body: bytesOf(5 * MiB, 9),
      headers: claims,
    });
    expect(refused.code).toBe('BadDigest');
    expect((await finish()).status).toBe(200);
    await isComplete();
  });
});

const gcRemovesAll = (): Promise<void> =>
  expect
    .poll(
      async () => {
        await world.gc();
        return world.stored();
      },
      { timeout: 60_000 },
    )
    .toEqual([]);

test('an upload that could not be aborted because of a 404 of some proxy is aborted later', async () => {
  const uploadId = await createUpload(world.client, '/bucket/key');
  way.fail(({ method }) => method === 'DELETE', proxyPage(404));
  expect((await world.client.delete('/bucket/key', { query: { uploadId } })).status).toBe(204);
  await world.gc();
  way.repair();
  expect(await world.stored()).toHaveLength(1);
  await gcRemovesAll();
});

test.each([404, 200])('bytes are not called missing after a %i of some proxy to HEAD', async (status) => {
  await world.client.put('/bucket/key', { body: 'hello' });
  const { bytes } = world.context;
  const [cluster = ''] = bytes.clusters;
  const [id = ''] = await world.stored();
  way.fail(({ method }) => method === 'HEAD', proxyPage(status));
  await expect(bytes.isStored({ cluster, id, size: 5 })).rejects.toThrow(DataUnavailable);
  const imported = bytes.foreign?.describe(cluster, `sluice/${id}.0`, AbortSignal.timeout(60_000));
  await expect(imported).rejects.toThrow(DataUnavailable);
});

const upload = '<Upload><Key>a</Key><UploadId>b</UploadId></Upload>';
const uploads = `<ListMultipartUploadsResult><IsTruncated>true</IsTruncated>${upload}`;
const marker = '<NextKeyMarker>a</NextKeyMarker></ListMultipartUploadsResult>';
const objects = '<ListBucketResult><IsTruncated>true</IsTruncated>';
const token = '<NextContinuationToken>a</NextContinuationToken></ListBucketResult>';
const object = '<Contents><Key>a</Key><Size>1</Size></Contents>';
test.each([
  ['repeats a page of objects', objects + object + token],
  ['repeats an empty page of objects', objects + token],
  ['says that more objects follow, and not where', `${objects + object}</ListBucketResult>`],
  ['repeats a page of uploads', uploads + marker],
  ['says that more uploads follow, and not where', `${uploads}</ListMultipartUploadsResult>`],
])('a listing of an upstream that %s ends with an error', { timeout: 30_000 }, async (_, text) => {
  const { bytes } = world.context;
  const [cluster = ''] = bytes.clusters;
  const isOfUploads = text.startsWith(uploads);
  const listed = ({ method, target }: Asked): boolean =>
    method === 'GET' && target.includes(isOfUploads ? 'uploads=' : 'list-type=');
  // Requests of the tests before.
  way.seen();
  way.fail(listed, { status: 200, page: text });
  const extent = { cluster, id: 'op.1', size: unknownSize };
  const walk = isOfUploads ? bytes.remove([extent]) : bytes.isStored(extent);
  await expect(walk).rejects.toThrow(DataUnavailable);
  expect(way.seen().length).toBeLessThan(20);
});

test('a PUT that some proxy answered 200 is not acknowledged', async () => {
  way.fail(put, proxyPage(200));
  isAway(await world.client.put('/bucket/key', { body: 'hello' }));
  isAway(await world.client.put('/bucket/key', { body: bytesOf(MiB) }));
  await nothingIsLeft(0);
});

test('a part that does not arrive is answered 503, and taken when it is sent again', async () => {
  const uploadId = await createUpload(world.client, '/bucket/key');
  way.fail(put, resets, 1);
  const query = { uploadId, partNumber: '1' };
  isAway(await world.client.put('/bucket/key', { query, body: big }));
  const part = await putPart(world.client, '/bucket/key', { uploadId, number: 1, body: big });
  expect((await complete(world.client, '/bucket/key', { uploadId, parts: [part] })).status).toBe(200);
  await nothingIsLeft(1);
});

test('an upload that cannot be opened upstream is none', async () => {
  way.fail(any, slowDown);
  isAway(await world.client.post('/bucket/key?uploads'));
  way.repair();
  expect((await world.client.get('/bucket?uploads')).all('UploadId')).toEqual([]);
  way.fail(({ method }) => method === 'POST', { reset: 'after' });
  isAway(await world.client.post('/bucket/key?uploads'));
  expect(await world.stored()).toHaveLength(1);
  await nothingIsLeft(0);
});

test.each([
  ['503', slowDown],
  ['a 404 of some proxy', proxyPage(404)],
  ['a 200 of some proxy', proxyPage(200)],
] as const)('what could not be deleted because of %s is deleted later', async (_, fault) => {
  await world.client.put('/bucket/key', { body: 'hello' });
  way.fail(({ method }) => method === 'DELETE', fault);
  expect((await world.client.delete('/bucket/key')).status).toBe(204);
  await world.collect();
  way.repair();
  expect(await world.stored()).toHaveLength(1);
  await gcRemovesAll();
});

test('a refusal by the upstream is logged for the operator, and its text is not sent to clients', async () => {
  await world.client.put('/bucket/key', { body: 'hello' });
  for (const code of ['AccessDenied', 'SignatureDoesNotMatch', 'NoSuchBucket', 'PermanentRedirect']) {
    const status = { NoSuchBucket: 404, PermanentRedirect: 301 }[code] ?? 403;
    way.fail(any, { status, code });
    for (const answer of [
      await world.client.put('/bucket/other', { body: 'x' }),
      await world.client.get('/bucket/key'),
    ])
      expect([answer.status, answer.code, answer.text.includes(way.url)]).toEqual([
        500,
        'InternalError',
        false,
      ]);
    const [health] = await world.context.bytes.health();
    expect(health?.pools[0]).toMatchObject({ state: 'error', bytesUsed: 0, chunkCount: 0 });
  }
  way.repair();
  const [health] = await world.context.bytes.health();
  expect(health).toMatchObject({ status: 'ok', problems: [], pools: [{ state: 'reachable' }] });
});
