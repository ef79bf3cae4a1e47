/** s5cmd with its default settings. */
import { readdirSync, writeFileSync } from 'node:fs';
import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  awsKeys,
  keyCount,
  type ProgramWorld,
  sha,
  shaOfFile,
  startProgram,
  wideDirectory,
  wideKeys,
} from './world.ts';

const bucket = 's3://s5cmd-bucket';
let world: ProgramWorld;

beforeAll(async () => {
  world = await startProgram('s5cmd', (place) => ({ S3_ENDPOINT_URL: place.url, ...awsKeys(place) }));
  await s5cmd('mb', bucket);
});
afterAll(() => world?.stop());

const s5cmd = (...args: string[]): Promise<string> => world.tool(...args);
const lines = (text: string): string[] => text.split('\n').filter((line) => line !== '');

test('a bucket that was made is listed', async () => {
  expect(await s5cmd('ls')).toContain(bucket);
  await s5cmd('head', bucket);
});

test('a small object is downloaded unchanged', async () => {
  await s5cmd('cp', world.small.path, `${bucket}/`);
  await s5cmd('cp', `${bucket}/small é+.bin`, 'small.back');
  expect(await shaOfFile(world.path('small.back'))).toBe(world.small.sha);
});

test('100 MiB are uploaded in 2 parts and downloaded unchanged', async () => {
  await s5cmd('cp', world.large.path, `${bucket}/large.bin`);
  expect(await s5cmd('ls', '--etag', `${bucket}/large.bin`)).toMatch(/-2 /);
  await s5cmd('cp', `${bucket}/large.bin`, 'large.back');
  expect(await shaOfFile(world.path('large.back'))).toBe(world.large.sha);
});

test('a tree of 2,500 files goes up by one command, and is listed whole', async () => {
  const tree = wideDirectory(world);
  await s5cmd('cp', `${tree}/`, `${bucket}/`);
  const listed = lines(await s5cmd('ls', '--show-fullpath', `${bucket}/wide/*`));
  expect(listed).toEqual(wideKeys().map((key) => `${bucket}/${key}`));
  expect(await s5cmd('du', `${bucket}/wide/*`)).toContain(`${keyCount} objects`);
  expect(lines(await s5cmd('sync', '--size-only', `${tree}/`, `${bucket}/`))).toEqual([]);
});

test('a wildcard brings what it names', async () => {
  await s5cmd('cp', `${bucket}/wide/k 00*`, 'some/');
  expect(readdirSync(world.path('some'))).toHaveLength(100);
});

test('a range is how it downloads: in pieces, each of them whole', async () => {
  await s5cmd('cp', '--part-size', '7', '--concurrency', '4', `${bucket}/large.bin`, 'pieces.back');
  expect(await shaOfFile(world.path('pieces.back'))).toBe(world.large.sha);
});

// s5cmd does not presign PutObject.
test('a URL that it presigns gets', async () => {
  const url = (await s5cmd('presign', `${bucket}/small é+.bin`)).trim();
  const answer = await fetch(url);
  expect(answer.status).toBe(200);
  expect(sha(await answer.bytes())).toBe(world.small.sha);
});

test('what is piped in is what cat brings', async () => {
  writeFileSync(world.path('text'), 'hello, gateway');
  await world.run('sh', '-c', `'${world.program}' pipe ${bucket}/piped < text`);
  expect(await s5cmd('cat', `${bucket}/piped`)).toBe('hello, gateway');
});

test('a copy and a move keep the bytes', async () => {
  await s5cmd('cp', `${bucket}/large.bin`, `${bucket}/copy`);
  await s5cmd('mv', `${bucket}/copy`, `${bucket}/moved`);
  await s5cmd('cp', `${bucket}/moved`, 'moved.back');
  expect(await shaOfFile(world.path('moved.back'))).toBe(world.large.sha);
});

test('a wildcard deletes by the thousand, and the empty bucket is removed', async () => {
  expect(lines(await s5cmd('rm', `${bucket}/wide/*`))).toHaveLength(keyCount);
  await s5cmd('rm', `${bucket}/*`);
  await s5cmd('rb', bucket);
  expect(await s5cmd('ls')).toBe('');
});
