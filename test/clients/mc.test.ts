/** mc with its default settings. */
import { readdirSync, writeFileSync } from 'node:fs';
import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  keyCount,
  type ProgramWorld,
  sha,
  shaOfFile,
  startProgram,
  wideDirectory,
  wideKeys,
} from './world.ts';

const bucket = 'gateway/mc-bucket';
let world: ProgramWorld;

beforeAll(async () => {
  world = await startProgram('mc');
  await mc('alias', 'set', 'gateway', world.url, world.user.accessKey, world.user.secretKey);
  await mc('mb', bucket);
});
afterAll(() => world?.stop());

const mc = (...args: string[]): Promise<string> => world.tool(...args);
/** Parses the output of mc, which has one JSON object per line. */
const runJson = async (...args: string[]): Promise<Record<string, unknown>[]> =>
  (await mc('--json', ...args))
    .trim()
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Record<string, unknown>);

test('a bucket that was made is listed', async () => {
  expect(await runJson('ls', 'gateway')).toMatchObject([{ key: 'mc-bucket/' }]);
});

test('a small object is downloaded unchanged, with its metadata', async () => {
  await mc('cp', '--attr', 'colour=blue', world.small.path, `${bucket}/`);
  await mc('cp', `${bucket}/small é+.bin`, 'small.back');
  expect(await shaOfFile(world.path('small.back'))).toBe(world.small.sha);
  const [stat] = await runJson('stat', `${bucket}/small é+.bin`);
  expect(stat).toMatchObject({ size: world.small.size, metadata: { 'X-Amz-Meta-Colour': 'blue' } });
});

test('metadata beyond ASCII returns in encoded words', async () => {
  await mc('cp', '--attr', 'note=café 日本', world.small.path, `${bucket}/noted.bin`);
  const [stat] = await runJson('stat', `${bucket}/noted.bin`);
  const note = (stat?.['metadata'] as Record<string, string> | undefined)?.['X-Amz-Meta-Note'] ?? '';
  expect(
    note
      .replace(/^=\?UTF-8\?Q\?(.*)\?=$/, '$1')
      .replaceAll('_', ' ')
      .replaceAll('=', '%'),
  ).toBe(encodeURIComponent('café 日本').replaceAll('%20', ' '));
  await mc('cp', `${bucket}/noted.bin`, 'noted.back');
  expect(await shaOfFile(world.path('noted.back'))).toBe(world.small.sha);
});

test('100 MiB are uploaded in 7 parts and downloaded unchanged', async () => {
  await mc('cp', world.large.path, `${bucket}/large.bin`);
  expect((await runJson('stat', `${bucket}/large.bin`))[0]?.['etag']).toMatch(/-7$/);
  await mc('cp', `${bucket}/large.bin`, 'large.back');
  expect(await shaOfFile(world.path('large.back'))).toBe(world.large.sha);
});

test('a mirror of 2,500 files is listed whole, and has nothing to do again', async () => {
  const tree = wideDirectory(world);
  await mc('mirror', '--quiet', tree, bucket);
  const listed = await runJson('ls', '--recursive', `${bucket}/wide/`);
  expect(listed.map(({ key }) => `wide/${key}`)).toEqual(wideKeys());
  expect(await mc('diff', tree, bucket)).not.toContain('wide/');
  await mc('mirror', '--quiet', bucket, 'mirrored');
  expect(readdirSync(world.path('mirrored/wide'))).toHaveLength(keyCount);
});

test('cat brings the bytes, of a range as well', async () => {
  writeFileSync(world.path('text'), 'hello, gateway');
  await mc('cp', 'text', `${bucket}/text`);
  expect(await mc('cat', `${bucket}/text`)).toBe('hello, gateway');
  expect(await mc('cat', '--offset', '7', `${bucket}/text`)).toBe('gateway');
  expect(await mc('head', '--lines', '1', `${bucket}/text`)).toContain('hello');
});

test('an upload from a pipe is downloaded unchanged', async () => {
  await world.run(
    'sh',
    '-c',
    `head -c 20000000 '${world.large.path}' | '${world.program}' pipe ${bucket}/piped`,
  );
  await mc('cp', `${bucket}/piped`, 'piped.back');
  expect(await shaOfFile(world.path('piped.back'))).toBe(sha(world.large.bytes.subarray(0, 20_000_000)));
});

// Only downloads: for uploads, mc shares an HTML form instead of a presigned URL.
test('a URL that it shares gets', async () => {
  const [download] = await runJson('share', 'download', `${bucket}/small é+.bin`);
  const answer = await fetch(String(download?.['share']));
  expect(answer.status).toBe(200);
  expect(sha(await answer.bytes())).toBe(world.small.sha);
});

test('a copy and a move keep the bytes', async () => {
  await mc('cp', `${bucket}/large.bin`, `${bucket}/copy`);
  await mc('mv', `${bucket}/copy`, `${bucket}/moved`);
  await mc('cp', `${bucket}/moved`, 'moved.back');
  expect(await shaOfFile(world.path('moved.back'))).toBe(world.large.sha);
});

test('versions are listed, and an earlier one can be got', async () => {
  await mc('mb', 'gateway/mc-versions');
  await mc('version', 'enable', 'gateway/mc-versions');
  for (const text of ['one', 'two']) {
    writeFileSync(world.path('version'), text);
    await mc('cp', 'version', 'gateway/mc-versions/key');
  }
  await mc('rm', 'gateway/mc-versions/key');
  const versions = await runJson('ls', '--versions', 'gateway/mc-versions/key');
  expect(versions.map(({ isDeleteMarker }) => isDeleteMarker === true)).toEqual([true, false, false]);
  const first = String(versions[2]?.['versionId']);
  expect(await mc('cat', '--version-id', first, 'gateway/mc-versions/key')).toBe('one');
  await mc('rm', '--recursive', '--force', '--versions', 'gateway/mc-versions');
  await mc('rb', 'gateway/mc-versions');
});

test('a tree is deleted by the thousand, and the empty bucket is removed', async () => {
  await mc('rm', '--recursive', '--force', bucket);
  expect(await runJson('ls', '--recursive', bucket)).toEqual([]);
  await mc('rb', bucket);
  expect(await runJson('ls', 'gateway')).toEqual([]);
});
