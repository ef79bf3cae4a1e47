/** `sluice/testing`: an S3 server in the process of the test, whose time and faults are the test's. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import {
  CopyObjectCommand,
  CreateBucketCommand,
  DeleteObjectCommand,
  GetObjectCommand,
  GetObjectTaggingCommand,
  HeadObjectCommand,
  type LifecycleRule,
  ListBucketsCommand,
  ListObjectsV2Command,
  PutBucketLifecycleConfigurationCommand,
  PutBucketNotificationConfigurationCommand,
  PutObjectCommand,
  PutObjectLegalHoldCommand,
  type QueueConfiguration,
  RestoreObjectCommand,
  S3Client,
} from '@aws-sdk/client-s3';
import { getSignedUrl } from '@aws-sdk/s3-request-presigner';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import {
  startTestServer,
  type TestServer,
  type TestServerOptions,
} from '../../src/runtime/testing/test-server.ts';

let s3: TestServer;
let client: S3Client;
/** A client that shows each refusal at once. */
const clientOf = ({ clientOptions }: TestServer): S3Client =>
  new S3Client({ ...clientOptions, maxAttempts: 1 });

beforeAll(async () => {
  s3 = await startTestServer();
  client = clientOf(s3);
});
beforeEach(() => s3.reset());
afterAll(async () => {
  client?.destroy();
  await s3?.close();
});

const at = (key: string) => ({ Bucket: 'photos', Key: key });
const text = async (key: string) =>
  (await client.send(new GetObjectCommand(at(key)))).Body?.transformToString();
const keys = async () =>
  ((await client.send(new ListObjectsV2Command({ Bucket: 'photos' }))).Contents ?? []).map(({ Key }) => Key);
const bytes = Uint8Array.from([0, 255, 1]);

describe('seed', () => {
  test('makes buckets and objects with types, metadata and tags, and neither requests nor events', async () => {
    await s3.seed({
      photos: {
        'a/ä b.txt': 'hello',
        'cat.jpg': {
          body: bytes,
          contentType: 'image/jpeg',
          metadata: { colour: 'grey' },
          tags: { kind: 'a cat/dog+' },
        },
        empty: '',
      },
      other: {},
    });
    expect([s3.requests, s3.events]).toEqual([[], []]);
    expect(await text('a/ä b.txt')).toBe('hello');
    const cat = await client.send(new GetObjectCommand(at('cat.jpg')));
    expect([cat.ContentType, cat.Metadata, await cat.Body?.transformToByteArray()]).toEqual([
      'image/jpeg',
      { colour: 'grey' },
      bytes,
    ]);
    const { TagSet } = await client.send(new GetObjectTaggingCommand(at('cat.jpg')));
    expect(TagSet).toEqual([{ Key: 'kind', Value: 'a cat/dog+' }]);
    await s3.seed({ photos: { 'cat.jpg': 'replaced' } });
    expect(await text('cat.jpg')).toBe('replaced');
    const { Buckets } = await client.send(new ListBucketsCommand({}));
    expect(Buckets?.map(({ Name }) => Name)).toEqual(['other', 'photos']);
  });

  test('is refused with the reason', async () => {
    await expect(s3.seed({ Photos_: {} })).rejects.toThrow('InvalidBucketName');
    const untyped = { photos: { cat: 5 as unknown as string } };
    await expect(s3.seed(untyped)).rejects.toThrow('seed: the body of photos/cat must be a string');
  });

  test('of the options comes back with reset', async () => {
    await using own = await startTestServer({ seed: { photos: { cat: 'meow' } }, region: 'eu-central-1' });
    const other = clientOf(own);
    const seeded = await other.send(new GetObjectCommand(at('cat')));
    expect(await seeded.Body?.transformToString()).toBe('meow');
    await other.send(new DeleteObjectCommand(at('cat')));
    await own.reset();
    await other.send(new HeadObjectCommand(at('cat')));
    expect(own.boto3).toContain(`endpoint_url="${own.endpoint}", region_name="eu-central-1"`);
    expect(own.requests.map(({ operation }) => operation)).toEqual(['HeadObject']);
    other.destroy();
  });
});

describe('fail', () => {
  beforeEach(() => s3.seed({ photos: { cat: 'meow' }, other: { cat: 'meow' } }));

  test('refuses the next requests as the service does, and then no more', async () => {
    s3.fail({ next: 'SlowDown', count: 2, operation: 'PutObject', bucket: 'photos' });
    expect(await text('cat')).toBe('meow');
    await client.send(new PutObjectCommand({ Bucket: 'other', Key: 'cat', Body: 'x' }));
    const refused = await client
      .send(new PutObjectCommand({ ...at('new'), Body: 'x' }))
      .catch((error) => error);
    expect(refused).toMatchObject({ name: 'SlowDown', message: 'Please reduce your request rate.' });
    expect(refused.$metadata).toMatchObject({ httpStatusCode: 503, requestId: expect.stringMatching(/./) });
    const patient = new S3Client(s3.clientOptions);
    expect((await patient.send(new PutObjectCommand({ ...at('new'), Body: 'x' }))).$metadata.attempts).toBe(
      2,
    );
    patient.destroy();
    const ofPuts = s3.requests.filter(
      ({ operation, bucket }) => operation === 'PutObject' && bucket === 'photos',
    );
    expect(ofPuts.map(({ status, code }) => [status, code])).toEqual([
      [503, 'SlowDown'],
      [503, 'SlowDown'],
      [200, undefined],
    ]);
  });

  test('writes the XML, the ids and Retry-After of the error', async () => {
    s3.fail({ next: 'SlowDown' });
    const reply = await fetch(`${s3.endpoint}/photos/cat`);
    const body = await reply.text();
    expect([reply.status, reply.headers.get('retry-after'), reply.headers.get('content-type')]).toEqual([
      503,
      '1',
      'application/xml',
    ]);
    expect(body).toContain(`<Code>SlowDown</Code><Message>Please reduce your request rate.</Message>`);
    expect(body).toContain(`<RequestId>${reply.headers.get('x-amz-request-id')}</RequestId>`);
    s3.fail({ next: 'NoSuchKey', operation: 'HeadObject' });
    await expect(client.send(new HeadObjectCommand(at('cat')))).rejects.toMatchObject({ name: 'NotFound' });
    s3.fail({ next: 'NoSuchKey', key: 'cat' });
    await expect(client.send(new GetObjectCommand(at('cat')))).rejects.toMatchObject({
      name: 'NoSuchKey',
      Key: 'cat',
    });
    s3.fail({ next: 'InternalError', count: 5 });
    await s3.reset();
    expect((await client.send(new ListBucketsCommand({}))).Buckets).toEqual([]);
  });

  test('refuses unknown codes and operations with the nearest known one', () => {
    expect(() => s3.fail({ next: 'SlowDwon' })).toThrow('SlowDwon is no known error code; SlowDown is one');
    expect(() => s3.fail({ next: 'SlowDown', operation: 'PutObjekt' })).toThrow('PutObject is one');
    expect(() => s3.fail({ next: 'SlowDown', count: 0 })).toThrow('from 1');
    const untyped = s3 as unknown as { fail(fault: object): void };
    expect(() => untyped.fail({ code: 'SlowDown' })).toThrow('undefined is no known error code');
    const misspelt = { next: 'SlowDown', buckt: 'photos' };
    expect(() => s3.fail(misspelt)).toThrow('buckt is no known option; bucket is one');
    expect(() => s3.latency({ ms: 5, ...misspelt })).toThrow('next is no known option');
  });
});

test('a start that fails says why, and nothing of it keeps the process alive', async () => {
  const module = new URL('../../src/runtime/testing/test-server.ts', import.meta.url).href;
  const { port } = new URL(s3.endpoint);
  const script = `const { startTestServer } = await import(${JSON.stringify(module)});
    for (const options of [{ seed: { Photos_: {} } }, { port: ${port} }, { port: 'x' }, { prot: 1 }])
      await startTestServer(options).catch(({ message }) => console.log(message.slice(0, 60)));
    console.log('timers: ' + process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length);`;
  const args = ['--input-type=module', '--eval', script];
  const { stdout } = await promisify(execFile)(process.execPath, args);
  expect(stdout.trim().split('\n')).toEqual([
    expect.stringMatching(/^seed: PUT \/Photos_ was refused/),
    expect.stringContaining('EADDRINUSE'),
    expect.stringMatching(/^port is x; it must be a whole number from 0 to 65535/),
    'prot is no known option; port is one',
    'timers: 0',
  ]);
});

test('latency delays the operation that it names, until it is 0', async () => {
  await s3.seed({ photos: { cat: 'meow' } });
  s3.latency({ operation: 'GetObject', ms: 80 });
  await client.send(new HeadObjectCommand(at('cat')));
  await text('cat');
  s3.latency({ operation: 'GetObject', ms: 0 });
  await text('cat');
  const [head, slow, get] = s3.requests.map(({ ms }) => ms);
  expect(slow).toBeGreaterThanOrEqual(79);
  expect(s3.requests.map(({ operation }) => operation)).toEqual(['HeadObject', 'GetObject', 'GetObject']);
  expect(Math.min(head ?? 0, get ?? 0)).toBeLessThan(slow ?? 0);
});

describe('clock.advance', () => {
  // Smaller objects have no transitions, as in the public service.
  const large = 'meow'.repeat(50_000);
  beforeEach(() => s3.seed({ photos: { 'old/cat': large, dog: 'woof' } }));
  const day = 86_400_000;

  test('carries out lifecycle rules, whose events are observed', async () => {
    const rule: LifecycleRule = {
      ID: 'rule',
      Status: 'Enabled',
      Filter: { Prefix: 'old/' },
      Transitions: [{ Days: 30, StorageClass: 'GLACIER' }],
      Expiration: { Days: 60 },
    };
    await client.send(
      new PutBucketLifecycleConfigurationCommand({
        Bucket: 'photos',
        LifecycleConfiguration: { Rules: [rule] },
      }),
    );
    const before = s3.clock.now().getTime();
    await s3.clock.advance('29 days');
    expect(await keys()).toEqual(['dog', 'old/cat']);
    expect(s3.events).toEqual([]);
    await s3.clock.advance('60 days');
    expect(await keys()).toEqual(['dog']);
    expect(s3.events.map(({ eventName, s3: { object } }) => [eventName, object.key])).toEqual([
      ['LifecycleTransition', 'old/cat'],
      ['LifecycleExpiration:Delete', 'old/cat'],
    ]);
    expect(s3.clock.now().getTime() - before).toBeGreaterThanOrEqual(89 * day);
    await s3.reset();
    expect(s3.clock.now().getTime() - before).toBeLessThan(day);
  });

  test('ends restores', async () => {
    await client.send(new PutObjectCommand({ ...at('archived'), Body: 'cold', StorageClass: 'GLACIER' }));
    await expect(text('archived')).rejects.toMatchObject({ name: 'InvalidObjectState' });
    await client.send(new RestoreObjectCommand({ ...at('archived'), RestoreRequest: { Days: 3 } }));
    expect(await text('archived')).toBe('cold');
    await s3.clock.advance('5 days');
    await expect(text('archived')).rejects.toMatchObject({ name: 'InvalidObjectState' });
  });

  test('ends retention, and no legal hold', async () => {
    await client.send(new CreateBucketCommand({ Bucket: 'locked', ObjectLockEnabledForBucket: true }));
    const lock = {
      ObjectLockMode: 'COMPLIANCE',
      ObjectLockRetainUntilDate: new Date(Date.now() + 10 * day),
    } as const;
    const put = async (Key: string) =>
      (await client.send(new PutObjectCommand({ Bucket: 'locked', Key, Body: Key, ...lock }))).VersionId;
    const retained = { Bucket: 'locked', Key: 'retained', VersionId: await put('retained') };
    const held = { Bucket: 'locked', Key: 'held', VersionId: await put('held') };
    await client.send(new PutObjectLegalHoldCommand({ ...held, LegalHold: { Status: 'ON' } }));
    await s3.clock.advance('9 days');
    await expect(client.send(new DeleteObjectCommand(retained))).rejects.toMatchObject({
      name: 'AccessDenied',
    });
    await s3.clock.advance('2 days');
    await client.send(new DeleteObjectCommand(retained));
    await expect(client.send(new DeleteObjectCommand(held))).rejects.toMatchObject({ name: 'AccessDenied' });
  });

  test('ends presigned URLs; clients with the system’s clock go on, and sign new ones', async () => {
    const sign = () => getSignedUrl(client, new GetObjectCommand(at('dog')), { expiresIn: 900 });
    const url = await sign();
    expect((await fetch(url)).status).toBe(200);
    await s3.clock.advance('14 minutes');
    expect((await fetch(url)).status).toBe(200);
    await s3.clock.advance('2 minutes');
    const expired = await fetch(url);
    expect([expired.status, await expired.text()]).toEqual([
      403,
      expect.stringContaining('Request has expired'),
    ]);
    const later = await sign();
    expect((await fetch(later)).status).toBe(200);
    await s3.clock.advance(3_600_000);
    expect((await fetch(later)).status).toBe(403);
    expect(await text('dog')).toBe('woof');
  });

  test('refuses what is no duration', async () => {
    await expect(s3.clock.advance('30 dayz')).rejects.toThrow(
      'write milliseconds, or a text such as "30 days"',
    );
    await expect(s3.clock.advance(-1)).rejects.toThrow(RangeError);
  });
});

test('events show changes at once, with the targets that notifications name', async () => {
  await s3.seed({ photos: {} });
  const put = (key: string) => client.send(new PutObjectCommand({ ...at(key), Body: 'meow' }));
  await put('a b.jpg');
  expect(s3.events).toMatchObject([
    {
      eventName: 'ObjectCreated:Put',
      s3: { bucket: { name: 'photos' }, object: { key: 'a+b.jpg', size: 4 } },
      targets: [],
    },
  ]);
  const QueueArn = 'arn:aws:sqs:us-east-1:000000000000:queue';
  const rule: QueueConfiguration = {
    QueueArn,
    Events: ['s3:ObjectCreated:*'],
    Filter: { Key: { FilterRules: [{ Name: 'suffix', Value: '.jpg' }] } },
  };
  const notify = (arn: string) =>
    client.send(
      new PutBucketNotificationConfigurationCommand({
        Bucket: 'photos',
        NotificationConfiguration: {
          QueueConfigurations: [{ ...rule, QueueArn: arn }],
        },
      }),
    );
  await notify(QueueArn);
  await expect(notify(`${QueueArn}-missing`)).rejects.toMatchObject({ name: 'InvalidArgument' });
  await put('b.jpg');
  await put('b.txt');
  await client.send(new CopyObjectCommand({ ...at('c.jpg'), CopySource: 'photos/b.txt' }));
  await client.send(new DeleteObjectCommand(at('c.jpg')));
  const seen = s3.events
    .slice(1)
    .map(({ eventName, s3: { object }, targets }) => [eventName, object.key, targets]);
  expect(seen).toEqual([
    ['ObjectCreated:Put', 'b.jpg', [QueueArn]],
    ['ObjectCreated:Put', 'b.txt', []],
    ['ObjectCreated:Copy', 'c.jpg', [QueueArn]],
    ['ObjectRemoved:Delete', 'c.jpg', []],
  ]);
});

test('requests show operation, bucket, key, headers and outcome, without the signature', async () => {
  await s3.seed({ photos: {} });
  const metadata = { colour: 'grey' };
  await client.send(new PutObjectCommand({ ...at('a/cat'), Body: 'meow', Metadata: metadata }));
  await expect(text('none')).rejects.toMatchObject({ name: 'NoSuchKey' });
  expect(s3.requests).toMatchObject([
    {
      method: 'PUT',
      operation: 'PutObject',
      bucket: 'photos',
      key: 'a/cat',
      status: 200,
      headers: { 'x-amz-meta-colour': 'grey' },
    },
    {
      method: 'GET',
      target: '/photos/none?x-id=GetObject',
      operation: 'GetObject',
      status: 404,
      code: 'NoSuchKey',
    },
  ]);
  expect(s3.requests[0]?.headers).not.toHaveProperty('authorization');
  expect((await fetch(`${s3.endpoint}/photos/none`, { headers: { host: 'x' } })).status).toBe(403);
});

test('there is no operator area: admin is a name of a bucket', async () => {
  const reply = await fetch(`${s3.endpoint}/admin/v1/status`);
  expect([reply.status, await reply.text()]).toEqual([
    404,
    expect.stringContaining('<Code>NoSuchBucket</Code>'),
  ]);
});

test.each<readonly [TestServerOptions, string]>([
  [{ credentials: { accessKeyId: 'a b', secretAccessKey: 'sluice-secret' } }, 'startTestServer: credentials'],
  [{ region: 'EU West' }, 'startTestServer: region'],
  [{ host: 'no host' }, 'startTestServer: host'],
  [{ targets: ['a b'] }, 'startTestServer: targets: entry 1 needs an id'],
  [{ region: 5 } as unknown as TestServerOptions, 'region is of type number; it must be a string'],
  [{ credentials: {} } as TestServerOptions, 'accessKeyId is of type undefined; it must be a string'],
  [{ targets: 'queue' } as unknown as TestServerOptions, 'targets is queue; it must be a list of names'],
  [{ seed: { photos: 'cat' } } as unknown as TestServerOptions, 'seed: needs buckets with their objects'],
  [{ seed: { photos: { cat: null } } } as unknown as TestServerOptions, 'the body of photos/cat must be'],
])('startTestServer(%j) is refused', async (options, why) => {
  await expect(startTestServer(options)).rejects.toThrow(why);
});
