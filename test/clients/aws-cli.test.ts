/** The AWS CLI with its default settings: `s3` for files and trees, `s3api` for single requests. */
import { mkdirSync, readdirSync, readFileSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { hashCrc64 } from '../../src/backends/crypto/crc.ts';
import { type Api, type AwsCli, openAwsCli } from './drivers.ts';
import {
  keyCount,
  largeBytes,
  mib,
  type SampleFile,
  sha,
  shaOfFile,
  type World,
  wideDirectory,
  wideKeys,
} from './world.ts';

const bucket = 'cli-bucket';
let cli: AwsCli;
let world: World;
let large: SampleFile;

beforeAll(async () => {
  cli = await openAwsCli();
  world = cli.world;
  large = world.file('large.bin', largeBytes);
  await aws('s3', 'mb', `s3://${bucket}`);
});
afterAll(() => world?.stop());

const aws = (...args: string[]): Promise<string> => cli.aws(...args);
const api: Api = (...args) => cli.apiOf(bucket)(...args);

test('a bucket that was made is listed', async () => {
  expect(await aws('s3', 'ls')).toContain(bucket);
});

test('a small object is downloaded unchanged', async () => {
  const small = world.file('small.bin', 4_096);
  await aws('s3', 'cp', small.path, `s3://${bucket}/small é.bin`);
  await aws('s3', 'cp', `s3://${bucket}/small é.bin`, 'small.back');
  expect(await shaOfFile(world.path('small.back'))).toBe(small.sha);
});

test('100 MiB are uploaded in 13 parts and downloaded unchanged', async () => {
  await aws('s3', 'cp', '--no-progress', large.path, `s3://${bucket}/large.bin`);
  const head = await api('head-object', '--key', 'large.bin');
  expect(head['ETag']).toMatch(/-13"$/);
  await aws('s3', 'cp', '--no-progress', `s3://${bucket}/large.bin`, 'large.back');
  expect(await shaOfFile(world.path('large.back'))).toBe(large.sha);
});

/**
 * Times of listings are whole seconds, as in the public service: a file that was written in the second of its upload counts as newer than
 * the object. So the files of a tree get an earlier time.
 */
function makeOlder(tree: string): void {
  const time = Date.now() / 1_000 - 60;
  for (const entry of readdirSync(tree, { recursive: true, withFileTypes: true }))
    if (entry.isFile()) utimesSync(join(entry.parentPath, entry.name), time, time);
}

test('a tree of 2,500 files is synchronised once, and listed whole', async () => {
  const tree = wideDirectory(world);
  makeOlder(tree);
  await aws('s3', 'sync', '--only-show-errors', tree, `s3://${bucket}/`);
  expect(await aws('s3', 'sync', '--dryrun', tree, `s3://${bucket}/`)).toBe('');
  const listed = (await api('list-objects-v2', '--prefix', 'wide/')) as { Contents: { Key: string }[] };
  expect(listed.Contents.map(({ Key }) => Key)).toEqual(wideKeys());
  const lines = (await aws('s3', 'ls', '--recursive', `s3://${bucket}/wide/`)).trim().split('\n');
  expect(lines).toHaveLength(keyCount);
});

test('a synchronisation transfers what changed, and deletes what was removed', async () => {
  const tree = world.path('sync');
  mkdirSync(tree);
  for (const name of ['kept', 'changed', 'gone']) writeFileSync(`${tree}/${name}`, name);
  makeOlder(tree);
  await aws('s3', 'sync', tree, `s3://${bucket}/sync`);
  writeFileSync(`${tree}/changed`, 'changed again');
  rmSync(`${tree}/gone`);
  const told = await aws('s3', 'sync', '--delete', tree, `s3://${bucket}/sync`);
  expect(told.trim().split('\n')).toHaveLength(2);
  await aws('s3', 'sync', `s3://${bucket}/sync`, world.path('synced'));
  expect(readdirSync(world.path('synced'))).toEqual(['changed', 'kept']);
  expect(readFileSync(world.path('synced/changed'), 'utf8')).toBe('changed again');
});

test('a synchronisation with exact timestamps transfers nothing twice', async () => {
  const tree = world.path('exact');
  mkdirSync(tree);
  for (const name of ['a', 'b']) writeFileSync(`${tree}/${name}`, name);
  await aws('s3', 'sync', tree, `s3://${bucket}/exact`);
  const down = ['s3', 'sync', '--exact-timestamps', `s3://${bucket}/exact`, world.path('exact-back')];
  expect((await aws(...down)).trim().split('\n')).toHaveLength(2);
  expect(await aws(...down)).toBe('');
});

test('a range brings its bytes alone', async () => {
  const range = `bytes=${5 * mib}-${5 * mib + 9}`;
  const told = await api('get-object', '--key', 'large.bin', '--range', range, 'range.back');
  expect(readFileSync(world.path('range.back'))).toEqual(large.bytes.subarray(5 * mib, 5 * mib + 10));
  expect(told['ContentRange']).toBe(`bytes ${5 * mib}-${5 * mib + 9}/${largeBytes}`);
});

// The CLI does not presign PutObject.
test('a presigned URL gets', async () => {
  const url = (await aws('s3', 'presign', `s3://${bucket}/small é.bin`)).trim();
  const answer = await fetch(url);
  expect(answer.status).toBe(200);
  expect(sha(await answer.bytes())).toBe(await shaOfFile(world.path('small.back')));
});

test('a conditional put writes where nothing is, and is refused where something is', async () => {
  const put = ['--key', 'once', '--body', 'small.bin'] as const;
  await api('put-object', ...put, '--if-none-match', '*');
  const again = await cli.attempt('s3api', 'put-object', '--bucket', bucket, ...put, '--if-none-match', '*');
  expect(again.code).not.toBe(0);
  expect(again.stderr).toContain('PreconditionFailed');
  const { ETag } = await api('head-object', '--key', 'once');
  await api('put-object', ...put, '--if-match', ETag as string);
});

const crc64 = (bytes: Uint8Array): string => {
  const hash = hashCrc64();
  hash.update(bytes);
  return Buffer.from(hash.digest()).toString('base64');
};
/** `s3 cp` sends CRC32 of the parts by default. Without the CRT, the CLI cannot compute CRC64NVME, so the caller does. */
const checksums = [
  {
    says: 'CRC32 of the whole',
    create: ['--checksum-algorithm', 'CRC32', '--checksum-type', 'FULL_OBJECT'],
    part: () => ['--checksum-algorithm', 'CRC32'],
    name: 'ChecksumCRC32',
    type: 'FULL_OBJECT',
  },
  {
    says: 'CRC64NVME',
    create: ['--checksum-algorithm', 'CRC64NVME'],
    part: (bytes: Uint8Array) => ['--checksum-crc64-nvme', crc64(bytes)],
    name: 'ChecksumCRC64NVME',
    type: 'FULL_OBJECT',
  },
  {
    says: 'SHA256',
    create: ['--checksum-algorithm', 'SHA256'],
    part: () => ['--checksum-algorithm', 'SHA256'],
    name: 'ChecksumSHA256',
    type: 'COMPOSITE',
  },
] as const;
test.each(checksums)('an upload by parts with $says keeps it', async ({ says, create, part, name, type }) => {
  const key = ['--key', `parts with ${says}`] as const;
  const { UploadId } = await api('create-multipart-upload', ...key, ...create);
  const upload = [...key, '--upload-id', UploadId as string] as const;
  const files = [world.file('part-1', 5 * mib), world.file('part-2', 1_000)];
  const Parts: Record<string, unknown>[] = [];
  for (const [index, { path, bytes }] of files.entries()) {
    const PartNumber = index + 1;
    const sent = ['--part-number', String(PartNumber), '--body', path, ...part(bytes)];
    const told = await api('upload-part', ...upload, ...sent);
    Parts.push({ PartNumber, ETag: told['ETag'], [name]: told[name] });
  }
  await api('complete-multipart-upload', ...upload, '--multipart-upload', JSON.stringify({ Parts }));
  const got = await api('get-object', ...key, '--checksum-mode', 'ENABLED', 'parts.back');
  const whole = Buffer.concat(files.map(({ bytes }) => bytes));
  expect(await shaOfFile(world.path('parts.back'))).toBe(sha(whole));
  expect(got['ChecksumType']).toBe(type);
  if (name === 'ChecksumCRC64NVME') expect(got[name]).toBe(crc64(whole));
  else expect(got[name]).toMatch(type === 'COMPOSITE' ? /-2$/ : /=$/);
});

test('an open upload is listed until it is aborted', async () => {
  const { UploadId } = await api('create-multipart-upload', '--key', 'begun');
  const listed = (await api('list-multipart-uploads')) as { Uploads: { Key: string; UploadId: string }[] };
  expect(listed.Uploads).toMatchObject([{ Key: 'begun', UploadId }]);
  const upload = ['--key', 'begun', '--upload-id', UploadId as string] as const;
  await api('upload-part', ...upload, '--part-number', '7', '--body', 'small.bin');
  const parts = (await api('list-parts', ...upload)) as { Parts: { Size: number; PartNumber: number }[] };
  expect(parts.Parts).toMatchObject([{ PartNumber: 7, Size: 4_096 }]);
  await api('abort-multipart-upload', ...upload);
  expect(await api('list-multipart-uploads')).not.toHaveProperty('Uploads');
});

test('a copy and a move keep the bytes', async () => {
  await aws('s3', 'cp', '--no-progress', `s3://${bucket}/large.bin`, `s3://${bucket}/copy`);
  await aws('s3', 'mv', '--no-progress', `s3://${bucket}/copy`, `s3://${bucket}/moved`);
  await aws('s3', 'cp', '--no-progress', `s3://${bucket}/moved`, 'moved.back');
  expect(await shaOfFile(world.path('moved.back'))).toBe(large.sha);
  expect(await aws('s3', 'ls', `s3://${bucket}/moved`)).toContain(String(largeBytes));
});

test('versions are listed with their markers, and each can be got and deleted', async () => {
  const versioned = cli.apiOf('cli-versions');
  await versioned('create-bucket');
  await versioned('put-bucket-versioning', '--versioning-configuration', 'Status=Enabled');
  const versions: unknown[] = [];
  for (const text of ['one', 'two']) {
    writeFileSync(world.path('version'), text);
    versions.push((await versioned('put-object', '--key', 'key', '--body', 'version'))['VersionId']);
  }
  const marker = await versioned('delete-object', '--key', 'key');
  const listed = (await versioned('list-object-versions')) as Record<string, Record<string, unknown>[]>;
  expect(listed['Versions']?.map(({ VersionId }) => VersionId)).toEqual(versions.toReversed());
  expect(listed['DeleteMarkers']).toMatchObject([{ VersionId: marker['VersionId'], IsLatest: true }]);
  await versioned('get-object', '--key', 'key', '--version-id', String(versions[0]), 'version.back');
  expect(readFileSync(world.path('version.back'), 'utf8')).toBe('one');
  const Objects = [...versions, marker['VersionId']].map((VersionId) => ({ Key: 'key', VersionId }));
  await versioned('delete-objects', '--delete', JSON.stringify({ Objects }));
  await versioned('delete-bucket');
});

test('a thousand are deleted in one request, the rest one by one, and the bucket with them', async () => {
  const full = await cli.attempt('s3', 'rb', `s3://${bucket}`);
  expect(full.stderr).toContain('BucketNotEmpty');
  for (const Quiet of [true, false]) {
    const from = Quiet ? 0 : 1_000;
    const Objects = wideKeys()
      .slice(from, from + 1_000)
      .map((Key) => ({ Key }));
    writeFileSync(world.path('delete.json'), JSON.stringify({ Objects, Quiet }));
    const told = await api('delete-objects', '--delete', 'file://delete.json');
    expect(told).not.toHaveProperty('Errors');
    expect((told['Deleted'] as unknown[] | undefined)?.length).toBe(Quiet ? undefined : 1_000);
  }
  await aws('s3', 'rb', '--force', `s3://${bucket}`);
  expect(await aws('s3', 'ls')).toBe('');
});
