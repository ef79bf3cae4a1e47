/** Public clients with their default settings against the durable Worker: miniflare serves it on a port, with a Durable Object and R2. */
import { randomBytes } from 'node:crypto';
import { Readable } from 'node:stream';
import {
  CopyObjectCommand,
  CreateBucketCommand,
  DeleteBucketCommand,
  DeleteObjectsCommand,
  GetObjectCommand,
  HeadObjectCommand,
  NoSuchKey,
  PutObjectCommand,
  paginateListObjectsV2,
  S3Client,
} from '@aws-sdk/client-s3';
import { Upload } from '@aws-sdk/lib-storage';
import { getSignedUrl } from '@aws-sdk/s3-request-presigner';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { sender } from '../runtimes/client.ts';
import { startWorkerd } from '../runtimes/workerd.ts';
import { testCredentials } from '../support/server.ts';
import { type Client, installed } from './installed.ts';
import { awsKeys, configureS3cmd, mib, openWorld, region, sha, shaOfFile, type World } from './world.ts';

const keys = Array.from({ length: 120 }, (_, index) => `many/k ${String(index).padStart(3, '0')} é+&.txt`);
let world: World;

beforeAll(async () => {
  const worker = await startWorkerd({ isDurable: true });
  const server = { ...worker, credentials: testCredentials };
  world = openWorld(server, (place) => ({ S3_ENDPOINT_URL: place.url, ...awsKeys(place) }));
});
afterAll(() => world?.stop());

describe('the AWS SDK for JavaScript', () => {
  const Bucket = 'sdk';
  let client: S3Client;
  beforeAll(async () => {
    const { accessKey, secretKey } = world.user;
    const credentials = { accessKeyId: accessKey, secretAccessKey: secretKey };
    client = new S3Client({ endpoint: world.url, region, credentials });
    await client.send(new CreateBucketCommand({ Bucket }));
  });
  afterAll(() => client?.destroy());

  const read = async (Key: string, Range?: string): Promise<Uint8Array> => {
    const { Body } = await client.send(new GetObjectCommand({ Bucket, Key, Range }));
    return (await Body?.transformToByteArray()) ?? new Uint8Array();
  };

  test('an object keeps its bytes, metadata and checksum, also as a copy', async () => {
    const Body = randomBytes(300_000);
    const object = { Bucket, Key: 'é +&.bin', ContentType: 'image/png', Metadata: { colour: 'blue' } };
    const { ChecksumCRC32 } = await client.send(new PutObjectCommand({ ...object, Body }));
    const CopySource = `${Bucket}/${encodeURIComponent(object.Key)}`;
    await client.send(new CopyObjectCommand({ Bucket, Key: 'copy', CopySource }));
    for (const Key of [object.Key, 'copy']) {
      const got = await client.send(new HeadObjectCommand({ Bucket, Key, ChecksumMode: 'ENABLED' }));
      const { ContentType, Metadata } = object;
      expect(got).toMatchObject({ ContentLength: Body.length, ContentType, Metadata, ChecksumCRC32 });
      expect(sha(await read(Key))).toBe(sha(Body));
    }
  });

  // workerd alone answers no `Expect: 100-continue`, for which the SDK waits 6 s before each large body.
  test('lib-storage uploads a stream in parts, and a range across two of them has its bytes', async () => {
    const body = randomBytes(12 * mib);
    const params = {
      Bucket,
      Key: 'parts',
      Body: Readable.from([body.subarray(0, 7 * mib), body.subarray(7 * mib)]),
    };
    const { ETag } = await new Upload({ client, params }).done();
    expect(ETag).toMatch(/-3"$/);
    expect(sha(await read('parts'))).toBe(sha(body));
    const [first, last] = [5 * mib - 3, 5 * mib + 4];
    expect(Buffer.from(await read('parts', `bytes=${first}-${last}`))).toEqual(
      body.subarray(first, last + 1),
    );
  });

  test('a presigned URL puts, and another gets', async () => {
    const Key = 'by link é';
    const put = await getSignedUrl(client, new PutObjectCommand({ Bucket, Key }));
    const get = await getSignedUrl(client, new GetObjectCommand({ Bucket, Key }));
    expect((await fetch(put, { method: 'PUT', body: 'by url' })).status).toBe(200);
    expect(await (await fetch(get)).text()).toBe('by url');
    expect((await fetch(get.replace(/Signature=\w{4}/, 'Signature=0000'))).status).toBe(403);
  });

  test('a condition that fails and a missing key are errors with their names', async () => {
    const put = new PutObjectCommand({ Bucket, Key: 'once', Body: 'x', IfNoneMatch: '*' });
    await client.send(put);
    await expect(client.send(put)).rejects.toMatchObject({ name: 'PreconditionFailed' });
    await expect(read('missing')).rejects.toBeInstanceOf(NoSuchKey);
  });

  test('ListObjectsV2 lists each key once, DeleteObjects deletes them, and DeleteBucket the empty bucket', async () => {
    await Promise.all(keys.map((Key) => client.send(new PutObjectCommand({ Bucket, Key, Body: Key }))));
    const listed: string[] = [];
    for await (const { Contents = [] } of paginateListObjectsV2({ client, pageSize: 50 }, { Bucket }))
      listed.push(...Contents.map(({ Key = '' }) => Key));
    expect(listed.filter((key) => key.startsWith('many/'))).toEqual(keys);
    const Objects = listed.map((Key) => ({ Key }));
    const { Deleted, Errors } = await client.send(new DeleteObjectsCommand({ Bucket, Delete: { Objects } }));
    expect([Deleted?.length, Errors]).toEqual([listed.length, undefined]);
    await client.send(new DeleteBucketCommand({ Bucket }));
  });
});

/** How a program is called. A bucket is named as the program does; `gateway` is an alias of mc and a remote of rclone. */
interface Program {
  readonly bucket: string;
  /** More than a part, of which it makes `parts`. */
  readonly largeBytes: number;
  readonly parts: number;
  readonly begin: () => readonly string[];
  readonly make: readonly string[];
  readonly upload: readonly string[];
  readonly download: readonly string[];
  readonly show: (object: string) => readonly string[];
  readonly list: (bucket: string) => readonly string[];
  /** What it shows of an object in parts. rclone and s3cmd show no ETag. */
  readonly inspect?: { readonly show: (object: string) => readonly string[]; readonly expected: RegExp };
  readonly empty: (bucket: string) => readonly string[];
  readonly remove: readonly string[];
}

const show = (object: string) => ['cat', object];
const copies = { make: ['mb'], upload: ['cp'], download: ['cp'], show, remove: ['rb'] };

const programs = {
  mc: {
    ...copies,
    bucket: 'gateway/mc-bucket',
    largeBytes: 34 * mib,
    parts: 3,
    begin: () => ['alias', 'set', 'gateway', world.url, world.user.accessKey, world.user.secretKey],
    list: (bucket) => ['ls', '--recursive', bucket],
    inspect: { show: (object) => ['stat', object], expected: /ETag\s*: \w+-3\b/ },
    empty: (bucket) => ['rm', '--recursive', '--force', bucket],
  },
  s5cmd: {
    ...copies,
    bucket: 's3://s5cmd',
    largeBytes: 51 * mib,
    parts: 2,
    begin: () => ['version'],
    list: (bucket) => ['ls', `${bucket}/*`],
    inspect: { show: (object) => ['ls', '--etag', object], expected: /-2 / },
    empty: (bucket) => ['rm', `${bucket}/*`],
  },
  rclone: {
    bucket: 'gateway:rclone-bucket',
    largeBytes: 12 * mib,
    parts: 3,
    begin: () => {
      const { accessKey, secretKey } = world.user;
      const keys = ['access_key_id', accessKey, 'secret_access_key', secretKey];
      return ['config', 'create', 'gateway', 's3', 'endpoint', world.url, 'region', region, ...keys];
    },
    make: ['mkdir'],
    upload: ['copyto', '--s3-upload-cutoff', '5Mi', '--s3-chunk-size', '5Mi'],
    download: ['copyto'],
    show,
    list: (bucket) => ['lsf', '--recursive', bucket],
    empty: (bucket) => ['delete', bucket],
    remove: ['rmdir'],
  },
  s3cmd: {
    bucket: 's3://s3cmd-bucket',
    largeBytes: 31 * mib,
    parts: 3,
    begin: () => {
      configureS3cmd(world);
      return ['ls'];
    },
    make: ['mb'],
    upload: ['put', '--no-progress'],
    download: ['get', '--no-progress'],
    show: (object) => ['get', '--no-progress', '--quiet', object, '-'],
    list: (bucket) => ['ls', '--recursive', bucket],
    empty: (bucket) => ['del', '--recursive', '--force', bucket],
    remove: ['rb'],
  },
} satisfies Partial<Record<Client, Program>>;

describe.each(Object.entries<Program>(programs))('%s', (name, program) => {
  const { bucket, largeBytes, parts, inspect } = program;
  const run = (...args: string[]) => world.run(installed(name as Client), ...args);

  test('uploads and downloads small and large files, lists and deletes them', async () => {
    await run(...program.begin());
    await run(...program.make, bucket);
    const files = [world.file('small é+.bin', 4_096), world.file('large.bin', largeBytes)];
    for (const file of files) {
      const key = file.path.slice(world.home.length + 1);
      await run(...program.upload, file.path, `${bucket}/${key}`);
      await run(...program.download, `${bucket}/${key}`, `${name}-${key}.back`);
      expect(await shaOfFile(world.path(`${name}-${key}.back`)), key).toBe(file.sha);
    }
    const path = `/${bucket.split(/[/:]+/).at(-1)}/large.bin`;
    const { headers } = await sender({ url: world.url, ...world.user })('HEAD', path);
    expect(headers.etag).toMatch(new RegExp(`-${parts}"$`));
    if (inspect !== undefined)
      expect(await run(...inspect.show(`${bucket}/large.bin`))).toMatch(inspect.expected);
    const content = await run(...program.show(`${bucket}/small é+.bin`));
    expect(content.length).toBeGreaterThan(1_000);
    expect((await run(...program.list(bucket))).trim().split('\n')).toHaveLength(files.length);
    await run(...program.empty(bucket));
    await run(...program.remove, bucket);
  });
});

test('the Worker has logged no error', () => {
  expect(world.server.log()).not.toMatch(/ERROR/);
});
