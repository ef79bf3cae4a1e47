/** s3cmd with its default settings, except the endpoint, which is plain HTTP. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { sender } from '../runtimes/client.ts';
import { seedWide } from './seed.ts';
import {
  configureS3cmd,
  keyCount,
  largeBytes,
  type ProgramWorld,
  region,
  sha,
  shaOfFile,
  startProgram,
  wideKeys,
} from './world.ts';

const bucket = 's3cmd-bucket';
let world: ProgramWorld;

beforeAll(async () => {
  world = await startProgram('s3cmd');
  configureS3cmd(world);
  await s3cmd('mb', `s3://${bucket}`);
});
afterAll(() => world?.stop());

const s3cmd = (...args: string[]): Promise<string> => world.tool(...args);

test('a bucket that was made is listed', async () => {
  expect(await s3cmd('ls')).toContain(`s3://${bucket}`);
  expect(await s3cmd('info', `s3://${bucket}`)).toContain(`Location:  ${region}`);
});

test('a small object is downloaded unchanged', async () => {
  await s3cmd('put', world.small.path, `s3://${bucket}/small é+.bin`);
  await s3cmd('get', `s3://${bucket}/small é+.bin`, 'small.back');
  expect(await shaOfFile(world.path('small.back'))).toBe(world.small.sha);
});

test('100 MiB are uploaded in 7 parts and downloaded unchanged', async () => {
  await s3cmd('put', '--no-progress', world.large.path, `s3://${bucket}/large.bin`);
  const { headers } = await sender({ url: world.url, ...world.user })('HEAD', `/${bucket}/large.bin`);
  expect(headers['etag']).toMatch(/-7"$/);
  await s3cmd('get', '--no-progress', `s3://${bucket}/large.bin`, 'large.back');
  expect(await shaOfFile(world.path('large.back'))).toBe(world.large.sha);
});

// s3cmd reports 0 bytes sent, because it takes the size of the pipe; the upload is complete.
test('an upload from a pipe is downloaded unchanged', async () => {
  await world.run(
    'sh',
    '-c',
    `head -c 20000000 '${world.large.path}' | '${world.program}' put - s3://${bucket}/piped`,
  );
  await s3cmd('get', '--no-progress', `s3://${bucket}/piped`, 'piped.back');
  expect(await shaOfFile(world.path('piped.back'))).toBe(sha(world.large.bytes.subarray(0, 20_000_000)));
});

test('an interrupted download resumes with a range request', async () => {
  writeFileSync(world.path('cut.back'), world.large.bytes.subarray(0, largeBytes / 2));
  await s3cmd('get', '--continue', '--no-progress', `s3://${bucket}/large.bin`, 'cut.back');
  expect(await shaOfFile(world.path('cut.back'))).toBe(world.large.sha);
});

test('2,500 keys are listed, each once', async () => {
  await seedWide(world, bucket);
  const lines = (await s3cmd('ls', '--recursive', `s3://${bucket}/wide/`)).trim().split('\n');
  expect(lines.map((line) => line.slice(line.indexOf('s3://')))).toEqual(
    wideKeys().map((key) => `s3://${bucket}/${key}`),
  );
});

test('a tree is synchronised once', async () => {
  for (const name of ['one', 'two']) world.file(join('sync', name), 100);
  const first = await s3cmd('sync', `${world.path('sync')}/`, `s3://${bucket}/sync/`);
  expect(first.match(/^upload:/gm)).toHaveLength(2);
  expect(await s3cmd('sync', `${world.path('sync')}/`, `s3://${bucket}/sync/`)).not.toContain('upload:');
});

// s3cmd does not presign PutObject, and `signurl` supports only signature version 2.
test('a signed URL gets; it is of version 2', async () => {
  const url = (await s3cmd('signurl', `s3://${bucket}/small é+.bin`, '+600')).trim();
  expect(url).toContain('AWSAccessKeyId=');
  const answer = await fetch(url);
  expect(answer.status).toBe(200);
  expect(sha(await answer.bytes())).toBe(world.small.sha);
});

test('a copy and a move keep the bytes', async () => {
  await s3cmd('cp', `s3://${bucket}/small é+.bin`, `s3://${bucket}/copy`);
  await s3cmd('mv', `s3://${bucket}/copy`, `s3://${bucket}/moved`);
  await s3cmd('get', `s3://${bucket}/moved`, 'moved.back');
  expect(await shaOfFile(world.path('moved.back'))).toBe(world.small.sha);
  expect(await s3cmd('ls', `s3://${bucket}/copy`)).toBe('');
});

test('a tree is deleted by the thousand, and the empty bucket is removed', async () => {
  const told = await s3cmd('del', '--recursive', '--force', `s3://${bucket}/`);
  expect(told.match(/^delete:/gm)?.length).toBeGreaterThan(keyCount);
  await s3cmd('rb', `s3://${bucket}`);
  expect(await s3cmd('ls')).toBe('');
});
