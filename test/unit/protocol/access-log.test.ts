/** Lines of access logs in the format of the public service, for any request. */
import { expect, test } from 'vitest';
import { type AccessLogEntry, accessLogLine } from '../../../src/domain/deliveries/access-log-lines.ts';
import { loggedOperation } from '../../../src/gateway/report.ts';

const entry: AccessLogEntry = {
  bucketOwner: 'owner',
  bucket: 'bucket',
  time: Date.UTC(2026, 1, 6, 0, 0, 38),
  remote: '192.0.2.3',
  requester: 'arn:aws:iam::owner:user/alice',
  requestId: '3E57427F3EXAMPLE',
  operation: 'REST.GET.OBJECT',
  key: 'a b/ü',
  method: 'GET',
  target: '/bucket/a%20b/%C3%BC?versionId=v',
  status: 200,
  error: undefined,
  bytesSent: 113,
  objectSize: 113,
  totalMs: 7.4,
  turnAroundMs: 6.6,
  referer: undefined,
  userAgent: 'S3Console/0.4',
  versionId: 'v',
  signatureVersion: 'SigV4',
  cipher: 'TLS_AES_128_GCM_SHA256',
  authType: 'AuthHeader',
  host: 'bucket.example.com',
  tlsVersion: 'TLSv1.3',
  accessPoint: 'arn:aws:s3:us-east-1:owner:accesspoint/ap',
  isByAcl: true,
};

test('a line has the fields of the public service, in its order', () => {
  expect(accessLogLine(entry)).toBe(
    'owner bucket [06/Feb/2026:00:00:38 +0000] 192.0.2.3 arn:aws:iam::owner:user/alice 3E57427F3EXAMPLE ' +
      'REST.GET.OBJECT a%20b/%C3%BC "GET /bucket/a%20b/%C3%BC?versionId=v HTTP/1.1" 200 - 113 113 7 7 "-" ' +
      '"S3Console/0.4" v 3E57427F3EXAMPLE SigV4 TLS_AES_128_GCM_SHA256 AuthHeader bucket.example.com TLSv1.3 ' +
      'arn:aws:s3:us-east-1:owner:accesspoint/ap Yes',
  );
});

test('every field is in the line', () => {
  const line = accessLogLine(entry);
  for (const [field, value] of Object.entries(entry)) {
    const changed = typeof value === 'number' ? value + 5_000 : typeof value === 'boolean' ? !value : 'other';
    expect(accessLogLine({ ...entry, [field]: changed }), field).not.toBe(line);
  }
});

test('unknown values are written as a dash', () => {
  const bare = {
    ...entry,
    ...{ requester: undefined, key: '', bytesSent: 0, objectSize: undefined, turnAroundMs: 0 },
    ...{ userAgent: '', versionId: undefined, signatureVersion: undefined, cipher: undefined },
    ...{
      authType: undefined,
      host: undefined,
      tlsVersion: undefined,
      accessPoint: undefined,
      isByAcl: false,
      error: 'AccessDenied',
    },
    target: '/bucket',
    status: 403,
  };
  expect(accessLogLine(bare)).toBe(
    'owner bucket [06/Feb/2026:00:00:38 +0000] 192.0.2.3 - 3E57427F3EXAMPLE REST.GET.OBJECT - ' +
      '"GET /bucket HTTP/1.1" 403 AccessDenied - - 7 - "-" "-" - 3E57427F3EXAMPLE - - - - - - -',
  );
});

test('nothing that a client sends ends its field or its line', () => {
  const userAgent = 'x" 200 - \\" \r\nforged';
  const line = accessLogLine({ ...entry, userAgent, referer: '"', host: 'a b', versionId: 'v w' });
  expect(line).not.toMatch(/[\r\n\\]/);
  expect(line.match(/"/g)).toHaveLength(6);
  expect(line).toContain('"%22" "x%22 200 - %5C%22 %0D%0Aforged" v%20w ');
  expect(accessLogLine({ ...entry, userAgent: 'y'.repeat(100_000) }).length).toBeLessThan(3_000);
});

test('the signature of a presigned URL is not logged', () => {
  const target = '/b/k?X-Amz-Credential=AK&X-Amz-Signature=abc&x-store-security-token=def&Signature=ghi&a=b';
  const line = accessLogLine({ ...entry, target });
  expect(line).not.toMatch(/abc|def|ghi/);
  expect(line).toContain('?X-Amz-Credential=AK&X-Amz-Signature=-&x-store-security-token=-&Signature=-&a=b ');
});

test('operations have the names of the public service', () => {
  const names = {
    GetObject: 'REST.GET.OBJECT',
    HeadBucket: 'REST.HEAD.BUCKET',
    CopyObject: 'REST.COPY.OBJECT',
    DeleteObjects: 'REST.POST.MULTI_OBJECT_DELETE',
    ListObjectsV2: 'REST.GET.BUCKET',
    ListObjectVersions: 'REST.GET.BUCKETVERSIONS',
    ListMultipartUploads: 'REST.GET.UPLOADS',
    CreateMultipartUpload: 'REST.POST.UPLOADS',
    UploadPart: 'REST.PUT.PART',
    UploadPartCopy: 'REST.COPY.PART',
    CompleteMultipartUpload: 'REST.POST.UPLOAD',
    AbortMultipartUpload: 'REST.DELETE.UPLOAD',
    ListParts: 'REST.GET.UPLOAD',
    GetBucketPolicy: 'REST.GET.BUCKETPOLICY',
    GetBucketLogging: 'REST.GET.LOGGING_STATUS',
    PutBucketVersioning: 'REST.PUT.VERSIONING',
    PutPublicAccessBlock: 'REST.PUT.PUBLIC_ACCESS_BLOCK',
    PutObjectTagging: 'REST.PUT.OBJECT_TAGGING',
    GetBucketTagging: 'REST.GET.TAGGING',
    PutObjectRetention: 'REST.PUT.OBJECT_LOCK_RETENTION',
    RestoreObject: 'REST.POST.RESTORE',
  } as const;
  for (const [name, logged] of Object.entries(names))
    expect(loggedOperation(name as keyof typeof names)).toBe(logged);
});

const unit = ['"', '\\', '\u0000', '\u0085', ' ', '€', '𝄞', '\ud834', '%', 'y'];

test.each(unit)('the line of a request whose every text is full of %j is cut after it is escaped', (char) => {
  for (const length of [1, 700, 1_023, 1_024, 1_365, 2_047, 2_048, 2_049, 20_000]) {
    const text = `${'z'.repeat(length % 3)}${char.repeat(length)}`;
    const texts = { requester: text, remote: text, key: text, target: text, referer: text, userAgent: text };
    const line = accessLogLine({ ...entry, ...texts, versionId: text, host: text, accessPoint: text });
    // What is left of the 24 KiB of a row is for the names of the buckets and the prefix, whose 1,024 bytes may take 6,144.
    expect(Buffer.byteLength(JSON.stringify(line))).toBeLessThan(16 * 1024);
    expect(line).not.toMatch(/[\p{Cc}\\]/u);
    expect(line.match(/"/g)).toHaveLength(6);
    expect(line.isWellFormed()).toBe(true);
    // A cut leaves no part of an escape.
    if (char !== '%') expect(line).not.toMatch(/%(?![0-9A-F]{2})/);
  }
});

test('a key of 1,024 bytes is in the line as a whole', () => {
  for (const char of ['"', 'ü', '€', '𝄞']) {
    const key = char.repeat(1_024 / Buffer.byteLength(char));
    expect(accessLogLine({ ...entry, key })).toContain(` ${encodeURIComponent(key)} `);
  }
});
