/** `sluice dev`: a server for development, whose output a person reads. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { GetObjectCommand, ListBucketsCommand, S3Client } from '@aws-sdk/client-s3';
import { afterAll, afterEach, expect, test, vi } from 'vitest';
import { endAll, finished, type Run, started } from './command.ts';

const folder = mkdtempSync(join(tmpdir(), 'sluice-dev-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
afterEach(endAll);

const patience = { timeout: 180_000, interval: 50 };

async function ready(run: Run): Promise<string> {
  const found = () => /endpoint +(\S+)[\s\S]*\n {2}try .*\n/.exec(run.stdout)?.[1];
  await vi.waitFor(() => expect(found(), run.stderr).toBeDefined(), patience);
  return found() ?? '';
}

test('serves the folders of --seed and the buckets of --bucket, shows each request, and stops with Ctrl-C', async () => {
  mkdirSync(join(folder, 'photos/2026'), { recursive: true });
  writeFileSync(join(folder, 'photos/2026/a b.txt'), 'hello');
  writeFileSync(join(folder, 'no-bucket.txt'), '');
  const run = started(['dev', '--port', '0', '--seed', folder, '--bucket=empty']);
  const endpoint = await ready(run);
  expect(run.stdout).toMatch(/access key +sluice\n +secret key +sluice-secret\n +buckets +empty, photos\n/);
  const credentials = { accessKeyId: 'sluice', secretAccessKey: 'sluice-secret' };
  const client = new S3Client({ endpoint, region: 'us-east-1', credentials, forcePathStyle: true });
  const { Buckets } = await client.send(new ListBucketsCommand({}));
  expect(Buckets?.map(({ Name }) => Name)).toEqual(['empty', 'photos']);
  const { Body } = await client.send(new GetObjectCommand({ Bucket: 'photos', Key: '2026/a b.txt' }));
  expect(await Body?.transformToString()).toBe('hello');
  const missing = client.send(new GetObjectCommand({ Bucket: 'photos', Key: 'none' }));
  await expect(missing).rejects.toMatchObject({ name: 'NoSuchKey' });
  client.destroy();
  const lines = () => run.stdout.split('\n\n')[1] ?? '';
  await vi.waitFor(() => expect(lines()).toContain('NoSuchKey'), patience);
  expect(lines().split('\n').slice(1)).toEqual([
    expect.stringMatching(/^GET +GetObject +200 {2}[\d.]+ ms {2}\/photos\/2026\/a%20b\.txt\?x-id=GetObject$/),
    expect.stringMatching(/^GET +GetObject +404 NoSuchKey {2}[\d.]+ ms {2}\/photos\/none\?x-id=GetObject$/),
    '',
  ]);
  run.child.kill('SIGINT');
  expect([await run.ended, run.stderr]).toEqual([0, '']);
});

test.each([
  [['--prot', '1'], '--prot is not a flag of dev; --port is'],
  [['--port', '70000'], '--port=70000 is no port from 0 to 65535'],
  [['--bucket'], "'--bucket"],
  [['photos'], "'photos'"],
])('refuses %j', async (args, why) => {
  const { code, stdout, stderr } = await finished(['dev', ...args]);
  expect([code, stdout]).toEqual([2, '']);
  expect(stderr).toContain(why);
});

test('says in one line that a port is taken, and that a directory does not exist', async () => {
  const port = new URL(await ready(started(['dev', '--port', '0']))).port;
  const taken = await finished(['dev', '--port', port]);
  expect([taken.code, taken.stderr]).toEqual([1, expect.stringMatching(/^sluice: .*EADDRINUSE.*\n$/)]);
  const missing = await finished(['dev', '--port', '0', '--seed', join(folder, 'none')]);
  expect([missing.code, missing.stderr]).toEqual([1, expect.stringMatching(/^sluice: ENOENT.*\n$/)]);
});
