/**
 * Behaviours of the public S3 API as checks that run with the AWS SDK against any endpoint. Each follows from a page of
 * the API reference, and passes or throws.
 */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import * as sdk from '@aws-sdk/client-s3';
import { getSignedUrl } from '@aws-sdk/s3-request-presigner';

export interface Checked {
  readonly client: sdk.S3Client;
  readonly endpoint: string;
  /** A new, empty bucket. */
  readonly bucket: string;
}

type Check = (on: Checked) => Promise<void>;

const partBytes = 5 * 1024 * 1024;

async function put(
  { client, bucket: Bucket }: Checked,
  Key: string,
  more: Partial<sdk.PutObjectCommandInput> = {},
) {
  return client.send(new sdk.PutObjectCommand({ Bucket, Key, Body: 'meow', ...more }));
}

async function read(
  { client, bucket: Bucket }: Checked,
  Key: string,
  more: Partial<sdk.GetObjectCommandInput> = {},
) {
  const { Body, ...got } = await client.send(new sdk.GetObjectCommand({ Bucket, Key, ...more }));
  return { ...got, text: (await Body?.transformToString()) ?? '' };
}

/** The code, or for HEAD the status, with which a request is refused. */
async function refusal(asked: Promise<unknown>): Promise<string | number> {
  const error = await asked.then(
    () => undefined,
    (thrown: sdk.S3ServiceException) => thrown,
  );
  if (error === undefined) return 'none';
  return error.name === 'UnknownError' ? (error.$metadata?.httpStatusCode ?? 0) : error.name;
}

const statusOf = async (asked: Promise<unknown>): Promise<number> =>
  asked.then(
    (answer) => (answer as sdk.PutObjectCommandOutput).$metadata.httpStatusCode ?? 0,
    (error: sdk.S3ServiceException) => error.$metadata?.httpStatusCode ?? 0,
  );

const enableVersions = ({ client, bucket: Bucket }: Checked) =>
  client.send(new sdk.PutBucketVersioningCommand({ Bucket, VersioningConfiguration: { Status: 'Enabled' } }));

async function upload({ client, bucket: Bucket }: Checked, Key: string, parts: readonly Buffer[]) {
  const { UploadId } = await client.send(new sdk.CreateMultipartUploadCommand({ Bucket, Key }));
  const Parts: sdk.CompletedPart[] = [];
  for (const [index, Body] of parts.entries()) {
    const PartNumber = index + 1;
    const { ETag } = await client.send(
      new sdk.UploadPartCommand({ Bucket, Key, UploadId, PartNumber, Body }),
    );
    Parts.push({ ETag, PartNumber });
  }
  return { UploadId, Parts, target: { Bucket, Key, UploadId } };
}

export const behaviours: Readonly<Record<string, Check>> = {
  'PutObject, GetObject': async (on) => {
    const { ETag } = await put(on, 'cat', { ContentType: 'image/x-cat', Metadata: { name: 'Tom' } });
    const got = await read(on, 'cat');
    assert.deepEqual(
      [got.text, got.ContentType, got.Metadata, got.ETag],
      ['meow', 'image/x-cat', { name: 'Tom' }, ETag],
    );
    assert.equal(ETag, `"${createHash('md5').update('meow').digest('hex')}"`);
  },
  'PutObject of an aws-chunked stream': async (on) => {
    const body = Buffer.alloc(300_000, 'x');
    const { Readable } = await import('node:stream');
    await put(on, 'stream', { Body: Readable.from([body]), ContentLength: body.length });
    assert.equal((await read(on, 'stream')).text.length, body.length);
  },
  'HeadObject has the length and the headers of the object': async (on) => {
    await put(on, 'cat', {
      CacheControl: 'max-age=9',
      ContentDisposition: 'inline',
      ContentEncoding: 'x-own',
    });
    const head = await on.client.send(new sdk.HeadObjectCommand({ Bucket: on.bucket, Key: 'cat' }));
    assert.deepEqual(
      [head.ContentLength, head.CacheControl, head.ContentDisposition, head.ContentEncoding],
      [4, 'max-age=9', 'inline', 'x-own'],
    );
  },
  'GetObject of a missing key is NoSuchKey': async (on) => {
    assert.equal(await refusal(read(on, 'missing')), 'NoSuchKey');
  },
  'GetObject of a missing bucket is NoSuchBucket': async (on) => {
    assert.equal(await refusal(read({ ...on, bucket: `${on.bucket}-missing` }, 'cat')), 'NoSuchBucket');
  },
  'GetObject with a range is 206': async (on) => {
    await put(on, 'cat');
    const got = await read(on, 'cat', { Range: 'bytes=1-2' });
    assert.deepEqual([got.text, got.ContentRange, got.$metadata.httpStatusCode], ['eo', 'bytes 1-2/4', 206]);
    assert.equal((await read(on, 'cat', { Range: 'bytes=-1' })).text, 'w');
  },
  'GetObject with a range past the end is InvalidRange': async (on) => {
    await put(on, 'cat');
    assert.equal(await refusal(read(on, 'cat', { Range: 'bytes=10-' })), 'InvalidRange');
  },
  'GetObject with If-None-Match is 304, with If-Match 412': async (on) => {
    const { ETag } = await put(on, 'cat');
    assert.equal(await statusOf(read(on, 'cat', { IfNoneMatch: ETag })), 304);
    assert.equal(await statusOf(read(on, 'cat', { IfMatch: '"other"' })), 412);
  },
  'GetObject with response-content-type': async (on) => {
    await put(on, 'cat');
    const got = await read(on, 'cat', {
      ResponseContentType: 'text/x-mine',
      ResponseCacheControl: 'no-store',
    });
    assert.deepEqual([got.ContentType, got.CacheControl], ['text/x-mine', 'no-store']);
  },
  'PutObject with If-None-Match: * only creates': async (on) => {
    await put(on, 'cat', { IfNoneMatch: '*' });
    assert.equal(await statusOf(put(on, 'cat', { IfNoneMatch: '*', Body: 'other' })), 412);
    assert.equal((await read(on, 'cat')).text, 'meow');
  },
  'PutObject with If-Match only replaces what it names': async (on) => {
    const { ETag } = await put(on, 'cat');
    assert.equal(await statusOf(put(on, 'cat', { IfMatch: '"other"' })), 412);
    assert.equal(await statusOf(put(on, 'cat', { IfMatch: ETag })), 200);
  },
  'PutObject with a wrong Content-MD5 is BadDigest': async (on) => {
    const ContentMD5 = createHash('md5').update('other').digest('base64');
    assert.equal(await refusal(put(on, 'cat', { ContentMD5 })), 'BadDigest');
    assert.equal(await refusal(read(on, 'cat')), 'NoSuchKey');
  },
  'PutObject with a wrong checksum is refused': async (on) => {
    assert.equal(
      await statusOf(put(on, 'cat', { ChecksumSHA256: createHash('sha256').digest('base64') })),
      400,
    );
  },
  'GetObject with checksum mode returns the checksum': async (on) => {
    await put(on, 'cat', { ChecksumAlgorithm: 'CRC32C' });
    assert.equal((await read(on, 'cat', { ChecksumMode: 'ENABLED' })).ChecksumCRC32C, 'u86qsg==');
  },
  'PutObject of a key above 1,024 bytes is KeyTooLongError': async (on) => {
    assert.equal(await refusal(put(on, 'k'.repeat(1025))), 'KeyTooLongError');
  },
  'keys keep spaces, plus, percent, Unicode and slashes': async (on) => {
    const keys = ['a b', 'a+b', 'a%2Fb', 'ä/ö', 'a//b', '/lead', "it's (me)!*"];
    for (const key of keys) await put(on, key, { Body: key });
    for (const key of keys) assert.equal((await read(on, key)).text, key);
    const { Contents = [] } = await on.client.send(new sdk.ListObjectsV2Command({ Bucket: on.bucket }));
    assert.deepEqual(new Set(Contents.map(({ Key }) => Key)), new Set(keys));
  },
  'keys with dot segments': async (on) => {
    await put(on, 'a/../b');
    await put(on, 'a/./b', { Body: 'other' });
    assert.deepEqual([(await read(on, 'a/../b')).text, (await read(on, 'a/./b')).text], ['meow', 'other']);
  },
  'listings are in the order of UTF-8 bytes': async (on) => {
    for (const key of ['b', 'a', 'B', 'a/b', 'é']) await put(on, key);
    const { Contents = [] } = await on.client.send(new sdk.ListObjectsV2Command({ Bucket: on.bucket }));
    assert.deepEqual(
      Contents.map(({ Key }) => Key),
      ['B', 'a', 'a/b', 'b', 'é'],
    );
  },
  'ListObjectsV2 pages and groups by delimiter': async (on) => {
    for (const key of ['a', 'b/1', 'b/2', 'c/1', 'd']) await put(on, key);
    const ask = { Bucket: on.bucket, Delimiter: '/', MaxKeys: 2 };
    const first = await on.client.send(new sdk.ListObjectsV2Command(ask));
    assert.deepEqual(
      [first.Contents?.[0]?.Key, first.CommonPrefixes?.[0]?.Prefix, first.IsTruncated],
      ['a', 'b/', true],
    );
    const next = await on.client.send(
      new sdk.ListObjectsV2Command({ ...ask, ContinuationToken: first.NextContinuationToken }),
    );
    assert.deepEqual(
      [next.CommonPrefixes?.[0]?.Prefix, next.Contents?.[0]?.Key, next.KeyCount, next.IsTruncated],
      ['c/', 'd', 2, false],
    );
  },
  'ListObjects has a NextMarker with a delimiter': async (on) => {
    for (const key of ['a/1', 'b/1', 'c']) await put(on, key);
    const ask = { Bucket: on.bucket, Delimiter: '/', MaxKeys: 1 };
    const { NextMarker } = await on.client.send(new sdk.ListObjectsCommand(ask));
    assert.equal(NextMarker, 'a/');
    const next = await on.client.send(new sdk.ListObjectsCommand({ ...ask, Marker: NextMarker }));
    assert.equal(next.CommonPrefixes?.[0]?.Prefix, 'b/');
  },
  'DeleteObject of a missing key is 204': async (on) => {
    const gone = new sdk.DeleteObjectCommand({ Bucket: on.bucket, Key: 'missing' });
    assert.equal(await statusOf(on.client.send(gone)), 204);
  },
  'DeleteObjects deletes several': async (on) => {
    for (const key of ['a', 'b', 'c']) await put(on, key);
    const Delete = { Objects: [{ Key: 'a' }, { Key: 'b' }, { Key: 'missing' }] };
    const { Deleted } = await on.client.send(new sdk.DeleteObjectsCommand({ Bucket: on.bucket, Delete }));
    assert.equal(Deleted?.length, 3);
    const { KeyCount } = await on.client.send(new sdk.ListObjectsV2Command({ Bucket: on.bucket }));
    assert.equal(KeyCount, 1);
  },
  'DeleteBucket of a full bucket is BucketNotEmpty': async (on) => {
    await put(on, 'cat');
    const gone = new sdk.DeleteBucketCommand({ Bucket: on.bucket });
    assert.equal(await refusal(on.client.send(gone)), 'BucketNotEmpty');
  },
  'CreateBucket of a bad name is InvalidBucketName': async (on) => {
    const made = new sdk.CreateBucketCommand({ Bucket: 'Not_A_Name' });
    assert.equal(await refusal(on.client.send(made)), 'InvalidBucketName');
  },
  'CopyObject keeps or replaces metadata': async (on) => {
    await put(on, 'cat', { Metadata: { name: 'Tom' }, ContentType: 'image/x-cat' });
    const copy = { Bucket: on.bucket, CopySource: `${on.bucket}/cat` };
    await on.client.send(new sdk.CopyObjectCommand({ ...copy, Key: 'same' }));
    await on.client.send(
      new sdk.CopyObjectCommand({ ...copy, Key: 'new', MetadataDirective: 'REPLACE', Metadata: { a: 'b' } }),
    );
    assert.deepEqual((await read(on, 'same')).Metadata, { name: 'Tom' });
    assert.deepEqual([(await read(on, 'new')).Metadata, (await read(on, 'new')).text], [{ a: 'b' }, 'meow']);
  },
  'CopyObject to itself without a change is InvalidRequest': async (on) => {
    await put(on, 'cat');
    const copy = new sdk.CopyObjectCommand({ Bucket: on.bucket, Key: 'cat', CopySource: `${on.bucket}/cat` });
    assert.equal(await refusal(on.client.send(copy)), 'InvalidRequest');
  },
  'CopyObject with x-amz-copy-source-if-none-match is 412': async (on) => {
    const { ETag } = await put(on, 'cat');
    const copy = { Bucket: on.bucket, Key: 'copy', CopySource: `${on.bucket}/cat` };
    assert.equal(
      await statusOf(on.client.send(new sdk.CopyObjectCommand({ ...copy, CopySourceIfNoneMatch: ETag }))),
      412,
    );
  },
  'tags of objects': async (on) => {
    await put(on, 'cat', { Tagging: 'kind=pet' });
    const { TagSet } = await on.client.send(
      new sdk.GetObjectTaggingCommand({ Bucket: on.bucket, Key: 'cat' }),
    );
    assert.deepEqual([TagSet, (await read(on, 'cat')).TagCount], [[{ Key: 'kind', Value: 'pet' }], 1]);
  },
  'a multipart upload, and its ETag': async (on) => {
    const parts = [Buffer.alloc(partBytes, 'a'), Buffer.from('end')];
    const { target, Parts } = await upload(on, 'large', parts);
    const { ETag } = await on.client.send(
      new sdk.CompleteMultipartUploadCommand({ ...target, MultipartUpload: { Parts } }),
    );
    const digests = parts.map((part) => createHash('md5').update(part).digest());
    assert.equal(ETag, `"${createHash('md5').update(Buffer.concat(digests)).digest('hex')}-2"`);
    assert.equal((await read(on, 'large', { Range: `bytes=${partBytes}-` })).text, 'end');
  },
  'a part that is too small is EntityTooSmall': async (on) => {
    const { target, Parts } = await upload(on, 'large', [Buffer.from('small'), Buffer.from('end')]);
    const done = new sdk.CompleteMultipartUploadCommand({ ...target, MultipartUpload: { Parts } });
    assert.equal(await refusal(on.client.send(done)), 'EntityTooSmall');
  },
  'a part that is not there is InvalidPart': async (on) => {
    const { target } = await upload(on, 'large', [Buffer.from('end')]);
    const Parts = [{ PartNumber: 2, ETag: '"0123456789abcdef0123456789abcdef"' }];
    const done = new sdk.CompleteMultipartUploadCommand({ ...target, MultipartUpload: { Parts } });
    assert.equal(await refusal(on.client.send(done)), 'InvalidPart');
  },
  'AbortMultipartUpload, then NoSuchUpload': async (on) => {
    const { target } = await upload(on, 'large', [Buffer.from('part')]);
    await on.client.send(new sdk.AbortMultipartUploadCommand(target));
    assert.equal(await refusal(on.client.send(new sdk.ListPartsCommand(target))), 'NoSuchUpload');
  },
  'ListMultipartUploads and ListParts': async (on) => {
    const { target, UploadId } = await upload(on, 'large', [Buffer.from('part')]);
    const { Uploads } = await on.client.send(new sdk.ListMultipartUploadsCommand({ Bucket: on.bucket }));
    const { Parts } = await on.client.send(new sdk.ListPartsCommand(target));
    assert.deepEqual([Uploads?.[0]?.UploadId, Parts?.[0]?.Size], [UploadId, 4]);
  },
  'UploadPartCopy with a range': async (on) => {
    await put(on, 'cat');
    const target = { Bucket: on.bucket, Key: 'copied' };
    const { UploadId } = await on.client.send(new sdk.CreateMultipartUploadCommand(target));
    const source = { CopySource: `${on.bucket}/cat`, CopySourceRange: 'bytes=1-2' };
    const { CopyPartResult } = await on.client.send(
      new sdk.UploadPartCopyCommand({ ...target, UploadId, PartNumber: 1, ...source }),
    );
    const Parts = [{ PartNumber: 1, ETag: CopyPartResult?.ETag }];
    await on.client.send(
      new sdk.CompleteMultipartUploadCommand({ ...target, UploadId, MultipartUpload: { Parts } }),
    );
    assert.equal((await read(on, 'copied')).text, 'eo');
  },
  'versions and delete markers': async (on) => {
    await enableVersions(on);
    const first = await put(on, 'cat', { Body: 'first' });
    await put(on, 'cat', { Body: 'second' });
    const gone = await on.client.send(new sdk.DeleteObjectCommand({ Bucket: on.bucket, Key: 'cat' }));
    assert.deepEqual([gone.DeleteMarker, await refusal(read(on, 'cat'))], [true, 'NoSuchKey']);
    assert.equal((await read(on, 'cat', { VersionId: first.VersionId })).text, 'first');
    await on.client.send(
      new sdk.DeleteObjectCommand({ Bucket: on.bucket, Key: 'cat', VersionId: gone.VersionId }),
    );
    assert.equal((await read(on, 'cat')).text, 'second');
  },
  'ListObjectVersions has versions and markers, newest first': async (on) => {
    await enableVersions(on);
    const first = await put(on, 'cat');
    const second = await put(on, 'cat');
    await on.client.send(new sdk.DeleteObjectCommand({ Bucket: on.bucket, Key: 'cat' }));
    const listed = await on.client.send(new sdk.ListObjectVersionsCommand({ Bucket: on.bucket }));
    assert.deepEqual(
      listed.Versions?.map(({ VersionId }) => VersionId),
      [second.VersionId, first.VersionId],
    );
    assert.equal(listed.DeleteMarkers?.[0]?.IsLatest, true);
  },
  'Object Lock keeps a version': async (on) => {
    const locked = { ...on, bucket: `${on.bucket}-locked` };
    await on.client.send(
      new sdk.CreateBucketCommand({ Bucket: locked.bucket, ObjectLockEnabledForBucket: true }),
    );
    const until = {
      ObjectLockMode: 'COMPLIANCE',
      ObjectLockRetainUntilDate: new Date(Date.now() + 3_600_000),
    } as const;
    const { VersionId } = await put(locked, 'cat', until);
    const gone = new sdk.DeleteObjectCommand({ Bucket: locked.bucket, Key: 'cat', VersionId });
    assert.equal(await refusal(on.client.send(gone)), 'AccessDenied');
  },
  'CORS: a preflight request is answered by the rules': async (on) => {
    const CORSRules = [
      { AllowedOrigins: ['https://app.example.com'], AllowedMethods: ['PUT'], AllowedHeaders: ['*'] },
    ];
    await on.client.send(
      new sdk.PutBucketCorsCommand({ Bucket: on.bucket, CORSConfiguration: { CORSRules } }),
    );
    const ask = (origin: string) =>
      fetch(`${on.endpoint}/${on.bucket}/cat`, {
        method: 'OPTIONS',
        headers: { origin, 'access-control-request-method': 'PUT' },
      });
    const allowed = await ask('https://app.example.com');
    assert.deepEqual(
      [allowed.status, allowed.headers.get('access-control-allow-origin')],
      [200, 'https://app.example.com'],
    );
    assert.equal((await ask('https://other.example.com')).status, 403);
  },
  'configurations of lifecycle and website are stored': async (on) => {
    const Bucket = on.bucket;
    const Rules = [
      { ID: 'old', Status: 'Enabled', Filter: { Prefix: 'old/' }, Expiration: { Days: 3 } },
    ] as const;
    await on.client.send(
      new sdk.PutBucketLifecycleConfigurationCommand({
        Bucket,
        LifecycleConfiguration: { Rules: [...Rules] },
      }),
    );
    const lifecycle = await on.client.send(new sdk.GetBucketLifecycleConfigurationCommand({ Bucket }));
    assert.equal(lifecycle.Rules?.[0]?.Expiration?.Days, 3);
    await on.client.send(
      new sdk.PutBucketWebsiteCommand({
        Bucket,
        WebsiteConfiguration: { IndexDocument: { Suffix: 'index.html' } },
      }),
    );
    const website = await on.client.send(new sdk.GetBucketWebsiteCommand({ Bucket }));
    assert.equal(website.IndexDocument?.Suffix, 'index.html');
  },
  'a bucket without a policy is NoSuchBucketPolicy': async (on) => {
    const asked = new sdk.GetBucketPolicyCommand({ Bucket: on.bucket });
    assert.equal(await refusal(on.client.send(asked)), 'NoSuchBucketPolicy');
  },
  'a bucket policy opens a bucket to anonymous readers': async (on) => {
    await put(on, 'cat');
    const url = `${on.endpoint}/${on.bucket}/cat`;
    assert.equal((await fetch(url)).status, 403);
    const Statement = [
      { Effect: 'Allow', Principal: '*', Action: 's3:GetObject', Resource: `arn:aws:s3:::${on.bucket}/*` },
    ];
    await on.client
      .send(new sdk.DeletePublicAccessBlockCommand({ Bucket: on.bucket }))
      .catch(() => undefined);
    await on.client.send(
      new sdk.PutBucketPolicyCommand({
        Bucket: on.bucket,
        Policy: JSON.stringify({ Version: '2012-10-17', Statement }),
      }),
    );
    assert.equal((await fetch(url)).status, 200);
  },
  'a wrong secret key is SignatureDoesNotMatch': async (on) => {
    const { accessKeyId } = await on.client.config.credentials();
    const region = await on.client.config.region();
    const client = new sdk.S3Client({
      endpoint: on.endpoint,
      region,
      forcePathStyle: true,
      credentials: { accessKeyId, secretAccessKey: 'another-secret-key' },
    });
    assert.equal(await refusal(put({ ...on, client }, 'cat')), 'SignatureDoesNotMatch');
  },
  'an unknown access key is InvalidAccessKeyId': async (on) => {
    const region = await on.client.config.region();
    const credentials = { accessKeyId: 'NOBODYHASTHISKEY', secretAccessKey: 'another-secret-key' };
    const client = new sdk.S3Client({ endpoint: on.endpoint, region, forcePathStyle: true, credentials });
    assert.equal(await refusal(put({ ...on, client }, 'cat')), 'InvalidAccessKeyId');
  },
  'a presigned link works, and a changed one does not': async (on) => {
    await put(on, 'cat');
    const asked = new sdk.GetObjectCommand({ Bucket: on.bucket, Key: 'cat' });
    const link = await getSignedUrl(on.client, asked, { expiresIn: 60 });
    assert.equal(await (await fetch(link)).text(), 'meow');
    assert.equal((await fetch(link.replace('/cat?', '/dog?'))).status, 403);
  },
  'a body that differs from its signed hash is refused': async (on) => {
    const asked = new sdk.PutObjectCommand({ Bucket: on.bucket, Key: 'cat', Body: 'meow' });
    asked.middlewareStack.add(
      (next) => (args) => {
        (args.request as { body: unknown }).body = 'woof';
        return next(args);
      },
      { step: 'deserialize', priority: 'high' },
    );
    assert.equal(await statusOf(on.client.send(asked)), 400);
  },
  'GetObjectAttributes has size and parts': async (on) => {
    await put(on, 'cat');
    const got = await on.client.send(
      new sdk.GetObjectAttributesCommand({
        Bucket: on.bucket,
        Key: 'cat',
        ObjectAttributes: ['ObjectSize', 'ETag'],
      }),
    );
    assert.deepEqual([got.ObjectSize, got.ETag?.includes('"')], [4, false]);
  },
  'HeadBucket and GetBucketLocation': async (on) => {
    assert.equal(await statusOf(on.client.send(new sdk.HeadBucketCommand({ Bucket: on.bucket }))), 200);
    assert.equal(
      await statusOf(on.client.send(new sdk.HeadBucketCommand({ Bucket: `${on.bucket}-no` }))),
      404,
    );
    await on.client.send(new sdk.GetBucketLocationCommand({ Bucket: on.bucket }));
  },
  'ListBuckets has the bucket': async (on) => {
    const { Buckets = [] } = await on.client.send(new sdk.ListBucketsCommand({}));
    assert(Buckets.some(({ Name }) => Name === on.bucket));
  },
};

/** Runs a check in a bucket of its own. */
export async function has(name: string, client: sdk.S3Client, endpoint: string): Promise<boolean> {
  const bucket = `behaviour-${Object.keys(behaviours).indexOf(name)}`;
  try {
    // On a slow machine the SDK may have sent it twice.
    await client.send(new sdk.CreateBucketCommand({ Bucket: bucket })).catch((error: unknown) => {
      if (!(error instanceof sdk.BucketAlreadyOwnedByYou)) throw error;
    });
    await behaviours[name]?.({ client, endpoint, bucket });
    return true;
  } catch {
    return false;
  }
}
