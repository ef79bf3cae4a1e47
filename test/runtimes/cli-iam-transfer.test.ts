/** `sluice admin iam export` and `iam import`: files of accounts between two running gateways. */
import { chmod, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { sender } from './client.ts';
import { endAll, finished, keysOf, serving } from './command.ts';

let home = '';
const servers: { url: string; env: Record<string, string> }[] = [];

beforeAll(async () => {
  home = await mkdtemp(join(tmpdir(), 'sluice-iam-transfer-'));
  for (let index = 0; index < 2; index += 1) {
    const server = await serving();
    const [accessKey = '', secretKey = ''] = keysOf(server);
    const env = {
      HOME: home,
      SLUICE_ENDPOINT: server.url,
      SLUICE_ACCESS_KEY: accessKey,
      SLUICE_SECRET_KEY: secretKey,
    };
    servers.push({ url: server.url, env });
  }
});
afterAll(async () => {
  await endAll();
  await rm(home, { recursive: true, force: true });
});

const on = (index: number, line: string) =>
  finished(['admin', ...line.split(' ')], servers[index]?.env ?? {});

test('an export with secrets under a passphrase is imported into another gateway, where its keys sign', async () => {
  const made = JSON.parse((await on(0, 'accounts create --account carol --json')).stdout) as Record<
    string,
    string
  >;
  const { accessKey = '', secretKey = '' } = made;
  expect((await on(0, 'accounts users create carol --name ann')).code).toBe(0);
  const file = join(home, 'accounts.jsonl');
  const passphrase = join(home, 'passphrase');
  await writeFile(passphrase, 'correct horse battery\n');
  const exported = await on(
    0,
    `iam export --to ${file} --account carol --secrets --passphrase-file ${passphrase}`,
  );
  expect([exported.code, exported.stderr]).toEqual([0, '']);
  expect((await stat(file)).mode & 0o777).toBe(0o600);
  const text = await readFile(file, 'utf8');
  expect(text).toContain(accessKey);
  expect(text).not.toContain(secretKey);
  // A file that exists is not replaced.
  expect(await on(0, `iam export --to ${file}`)).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('EEXIST'),
  });

  const importing = `iam import --from ${file} --passphrase-file ${passphrase}`;
  const planned = await on(1, `${importing} --dry-run`);
  expect(planned).toMatchObject({
    code: 0,
    stdout: 'created   carol\ncreated   carol users/ann\n',
    stderr: 'would be: 2 created, 0 changed, 0 unchanged, 0 in conflict\n',
  });
  expect((await on(1, 'accounts get carol')).code).toBe(1);
  const wrong = join(home, 'wrong');
  await writeFile(wrong, 'another passphrase');
  expect(await on(1, `iam import --from ${file} --passphrase-file ${wrong}`)).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('does not open the secret'),
  });
  expect((await on(1, `iam import --from ${file}`)).stderr).toContain('--passphrase-file is missing');
  expect((await on(1, importing)).code).toBe(0);
  const send = sender({ url: servers[1]?.url ?? '', accessKey, secretKey });
  expect((await send('PUT', '/of-carol')).status).toBe(200);
  expect(await on(1, importing)).toMatchObject({
    code: 0,
    stdout: '',
    stderr: '0 created, 0 changed, 2 unchanged, 0 in conflict\n',
  });
});

test('conflicts are listed and end with 1, and a file that is no export is refused without its text', async () => {
  const plain = join(home, 'plain.jsonl');
  expect((await on(0, `iam export --to ${plain} --account carol --secrets`)).code).toBe(0);
  expect((await stat(plain)).mode & 0o777).toBe(0o600);
  await on(1, 'accounts set carol --display-name Other');
  const conflict = await on(1, `iam import --from ${plain}`);
  expect([conflict.code, conflict.stdout]).toEqual([
    1,
    'conflict  carol (displayName)  It exists and differs: send overwrite to change it.\n',
  ]);
  expect((await on(1, `iam import --from ${plain} --overwrite`)).stdout).toBe(
    'changed   carol (displayName)\n',
  );
  const broken = join(home, 'broken.jsonl');
  await writeFile(broken, '{"format":"sluice-iam","version":1}\n{"secretKey":"hidden"');
  await chmod(broken, 0o600);
  const refused = await on(1, `iam import --from ${broken}`);
  expect([refused.code, refused.stderr]).toEqual([2, expect.stringContaining('line 2 is not a JSON object')]);
  expect(refused.stderr).not.toContain('hidden');
  expect((await on(1, 'iam export --accounts x')).code).toBe(2);
  expect((await on(1, 'iam import --from nowhere')).code).toBe(2);
});

test('an import splits records by their bytes, so that text of any language fits into the bodies of its requests', async () => {
  expect((await on(1, 'accounts create --account dora')).code).toBe(0);
  // 30 thousand characters and 90 thousand bytes: a body takes 64 KiB.
  const tags = Object.fromEntries(Array.from({ length: 15 }, (_, n) => [`tag-${n}`, '語'.repeat(250)]));
  const names = Array.from({ length: 8 }, (_, n) => `user-${n}`);
  const users = names.map((name) => ({ account: 'dora', record: { kind: 'users', name, tags } }));
  const file = join(home, 'tags.jsonl');
  const lines = [{ format: 'sluice-iam', version: 1 }, ...users].map((line) => JSON.stringify(line));
  await writeFile(file, lines.join('\n'));
  expect(await on(1, `iam import --from ${file}`)).toMatchObject({
    code: 0,
    stdout: names.map((name) => `created   dora users/${name}\n`).join(''),
  });
});
