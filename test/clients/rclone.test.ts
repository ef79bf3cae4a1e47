/** rclone with its default settings, once without a provider setting and once with the provider `Other`. */
import { writeFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  largeBytes,
  mib,
  type ProgramWorld,
  region,
  sha,
  shaOfFile,
  startProgram,
  wideDirectory,
  wideKeys,
} from './world.ts';

let world: ProgramWorld;

beforeAll(async () => {
  world = await startProgram('rclone', ({ home }) => ({ RCLONE_CONFIG: `${home}/rclone.conf` }));
  const { url, user } = world;
  const remote = (name: string, ...more: string[]): string =>
    [
      `[${name}]`,
      'type = s3',
      `endpoint = ${url}`,
      `region = ${region}`,
      `access_key_id = ${user.accessKey}`,
      `secret_access_key = ${user.secretKey}`,
      ...more,
    ].join('\n');
  writeFileSync(world.path('rclone.conf'), `${remote('plain')}\n${remote('other', 'provider = Other')}\n`);
});
afterAll(() => world?.stop());

const rclone = (...args: string[]): Promise<string> => world.tool(...args);

describe.each(['plain', 'other'])('the remote %s', (name) => {
  const bucket = `${name}:rclone-${name}`;

  test('a bucket that was made is listed', async () => {
    await rclone('mkdir', bucket);
    expect(await rclone('lsd', `${name}:`)).toContain(`rclone-${name}`);
  });

  test('a small object is downloaded unchanged', async () => {
    await rclone('copy', world.small.path, bucket);
    await rclone('copyto', `${bucket}/small é+.bin`, world.path(`small-${name}`));
    expect(await shaOfFile(world.path(`small-${name}`))).toBe(world.small.sha);
  });

  // rclone sends a file of up to 200 MiB in one PutObject, and a pipe as a multipart upload.
  test('100 MiB, and 12 MiB from a pipe, are downloaded unchanged', async () => {
    await rclone('copy', world.large.path, bucket);
    expect(await rclone('size', '--json', `${bucket}/large.bin`)).toContain(`"bytes":${largeBytes}`);
    await rclone('copyto', `${bucket}/large.bin`, world.path(`large-${name}`));
    expect(await shaOfFile(world.path(`large-${name}`))).toBe(world.large.sha);
    const pipe = `head -c ${12 * mib} '${world.large.path}' | '${world.program}' rcat '${bucket}/piped'`;
    await world.run('sh', '-c', pipe);
    await rclone('copyto', `${bucket}/piped`, world.path(`piped-${name}`));
    expect(await shaOfFile(world.path(`piped-${name}`))).toBe(sha(world.large.bytes.subarray(0, 12 * mib)));
  });

  test('a range brings its bytes alone', async () => {
    await rclone('copyto', world.path('rclone.conf'), `${bucket}/text`);
    expect(await rclone('cat', '--offset', '8', '--count', '4', `${bucket}/text`)).toBe('type');
  });

  // rclone does not presign PutObject.
  test('a URL that it presigns gets', async () => {
    const url = (await rclone('link', '--expire', '10m', `${bucket}/small é+.bin`)).trim();
    const answer = await fetch(url);
    expect(answer.status).toBe(200);
    expect(sha(await answer.bytes())).toBe(world.small.sha);
  });

  test('a copy within the remote has the bytes of its source', async () => {
    await rclone('copyto', `${bucket}/large.bin`, `${bucket}/copied`);
    await rclone('copyto', `${bucket}/copied`, world.path(`copied-${name}`));
    expect(await shaOfFile(world.path(`copied-${name}`))).toBe(world.large.sha);
  });
});

test('2,500 files are copied and listed, and the check finds no difference', async () => {
  const tree = wideDirectory(world);
  await rclone('copy', '--transfers', '16', tree, 'other:rclone-other/tree');
  const listed = await rclone('lsf', '--recursive', '--files-only', 'other:rclone-other/tree');
  expect(listed.trim().split('\n').toSorted()).toEqual(wideKeys());
  await rclone('check', tree, 'other:rclone-other/tree');
  writeFileSync(`${tree}/${wideKeys()[7]}`, 'changed');
  const { code, stderr } = await world.attempt(world.program, 'check', tree, 'other:rclone-other/tree');
  expect(code).not.toBe(0);
  expect(stderr).toContain('1 differences found');
});

test('purge removes the objects and the bucket', async () => {
  for (const bucket of ['plain:rclone-plain', 'other:rclone-other']) await rclone('purge', bucket);
  expect(await rclone('lsd', 'plain:')).toBe('');
});
