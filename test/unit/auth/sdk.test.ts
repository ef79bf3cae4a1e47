/** Requests that @aws-sdk/client-s3 sends are accepted: its signer, default checksums and presigner. */

import { Readable } from 'node:stream';
import {
  DeleteObjectsCommand,
  GetObjectCommand,
  HeadBucketCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  S3Client,
  type S3ClientConfig,
  UploadPartCommand,
} from '@aws-sdk/client-s3';
import { getSignedUrl } from '@aws-sdk/s3-request-presigner';
import { describe, expect, test } from 'vitest';
import { encode, type SignedRequest } from '../../support/sign.ts';
import { alice, check, refusalCode } from '../../support/sign-check.ts';

interface SdkRequest {
  readonly method: string;
  readonly path: string;
  readonly query: Readonly<Record<string, string | string[] | null>>;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: unknown;
}

async function bytesOf(body: unknown): Promise<Uint8Array | undefined> {
  if (body === undefined || body === null) return undefined;
  if (typeof body === 'string') return Buffer.from(body);
  if (body instanceof Uint8Array) return body;
  const pieces: Uint8Array[] = [];
  for await (const piece of body as AsyncIterable<Uint8Array | string>) pieces.push(Buffer.from(piece));
  return Buffer.concat(pieces);
}

/** A client whose requests are captured instead of sent; each is answered with an empty success. */
function capturing(options: S3ClientConfig = {}) {
  const caught: SignedRequest[] = [];
  const client = new S3Client({
    region: 'us-east-1',
    endpoint: 'http://storage.test:9000',
    forcePathStyle: true,
    credentials: { accessKeyId: alice.accessKey, secretAccessKey: alice.secretKey },
    maxAttempts: 1,
    requestHandler: {
      handle: async (request: SdkRequest) => {
        const query = Object.entries(request.query)
          .flatMap(([name, value]) => [value ?? ''].flat().map((one) => `${encode(name)}=${encode(one)}`))
          .join('&');
        caught.push({
          method: request.method,
          target: query === '' ? request.path : `${request.path}?${query}`,
          headers: Object.entries(request.headers).map(([name, value]) => [name, String(value)]),
          body: await bytesOf(request.body),
        });
        return { response: { statusCode: 200, headers: {}, body: Readable.from([]) } };
      },
    } as NonNullable<S3ClientConfig['requestHandler']>,
    ...options,
  });
  return { client, caught };
}
/** The SDK signs with the system's clock. */
const sentAt = (request: SignedRequest): number => {
  const text = request.headers.find(([name]) => name.toLowerCase() === 'x-amz-date')?.[1] as string;
  return Date.parse(text.replace(/^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/, '$1-$2-$3T$4:$5:$6Z'));
};
const only = (caught: SignedRequest[]): SignedRequest => {
  expect(caught).toHaveLength(1);
  return caught[0] as SignedRequest;
};
const Bucket = 'bucket';
const text = 'what the client uploads'.repeat(10_000);

describe('the SDK for JavaScript', () => {
  test.each([
    [
      'GetObject',
      (client: S3Client) =>
        client.send(new GetObjectCommand({ Bucket, Key: 'a b/é+(1)!.txt', Range: 'bytes=0-9' })),
    ],
    ['HeadBucket', (client: S3Client) => client.send(new HeadBucketCommand({ Bucket }))],
    [
      'ListObjectsV2',
      (client: S3Client) =>
        client.send(new ListObjectsV2Command({ Bucket, Prefix: "a/ +'(", Delimiter: '/' })),
    ],
    [
      'DeleteObjects',
      (client: S3Client) =>
        client.send(new DeleteObjectsCommand({ Bucket, Delete: { Objects: [{ Key: 'a' }] } })),
    ],
    [
      'UploadPart',
      (client: S3Client) =>
        client.send(new UploadPartCommand({ Bucket, Key: 'k', UploadId: 'u/+=', PartNumber: 1, Body: text })),
    ],
  ])('%s', async (_, send) => {
    const { client, caught } = capturing();
    await send(client);
    const request = only(caught);
    expect((await check(request, { at: sentAt(request) })).identity?.owner).toBe('account-alice');
    const stolen = { ...request, method: 'PATCH' };
    expect(await refusalCode(stolen, { at: sentAt(request) })).toBe('SignatureDoesNotMatch');
  });

  test.each<[string, unknown, S3ClientConfig, string]>([
    ['a text', text, {}, '-'],
    ['a stream over http', 'stream', {}, 'STREAMING-UNSIGNED-PAYLOAD-TRAILER'],
    [
      'a stream over https',
      'stream',
      { endpoint: 'https://storage.test' },
      'STREAMING-UNSIGNED-PAYLOAD-TRAILER',
    ],
    ['a text without default checksums', text, { requestChecksumCalculation: 'WHEN_REQUIRED' }, '-'],
  ])('PutObject of %s', async (_, body, options, declared) => {
    const { client, caught } = capturing(options);
    const Body = body === 'stream' ? Readable.from([Buffer.from(text)]) : (body as string);
    const Metadata = { colour: 'blue', spaces: 'two  blanks' };
    await client.send(
      new PutObjectCommand({
        Bucket,
        Key: 'key',
        Body,
        ContentLength: text.length,
        Metadata,
        ACL: 'private',
      }),
    );
    const request = only(caught);
    if (declared !== '-')
      expect(request.headers.find(([name]) => name === 'x-amz-content-sha256')?.[1]).toBe(declared);
    const { content, payload } = await check(request, { at: sentAt(request) });
    expect(Buffer.from(content).toString()).toBe(text);
    expect(payload.length).toBe(text.length);
    if (declared !== '-') expect(payload.trailers.get('x-amz-checksum-crc32')).toMatch(/^[\w+/]{6}==$/);
  });

  test.each([
    ['GetObject', new GetObjectCommand({ Bucket, Key: 'a b/é+(1)!.txt', ResponseContentType: 'text/html' })],
    [
      'PutObject',
      new PutObjectCommand({
        Bucket,
        Key: 'key',
        ContentType: 'text/plain',
        ACL: 'private',
        Metadata: { a: 'b' },
      }),
    ],
  ])('a presigned %s', async (name, command) => {
    const { client } = capturing();
    const signingDate = new Date(Date.UTC(2026, 10, 21, 12));
    const url = await getSignedUrl(client, command as GetObjectCommand, { expiresIn: 60, signingDate });
    const { pathname, search, host } = new URL(url);
    const body = name === 'PutObject' ? Buffer.from('anything') : undefined;
    const method = name === 'PutObject' ? 'PUT' : 'GET';
    const request: SignedRequest = { method, target: pathname + search, headers: [['host', host]], body };
    expect((await check(request)).identity?.owner).toBe('account-alice');
    expect(await refusalCode({ ...request, method: 'DELETE' })).toBe('SignatureDoesNotMatch');
  });
});
