/** `sluice admin iam export` and `iam import`: files of accounts between two running gateways. */
import { once } from 'node:events';
import { chmod, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { startServer } from '../support/server.ts';
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
  await writeFile(
    broken,
    '{"format":"sluice-iam","version":1}\n{"secretKey":"hidden"\n{"end":true,"records":1}\n',
  );
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
  const end = { end: true, records: users.length };
  const lines = [{ format: 'sluice-iam', version: 1 }, ...users, end].map((line) => JSON.stringify(line));
  await writeFile(file, lines.join('\n'));
  expect(await on(1, `iam import --from ${file}`)).toMatchObject({
    code: 0,
    stdout: names.map((name) => `created   dora users/${name}\n`).join(''),
  });
});

test('an import of a file that was cut short changes nothing, and a line that is no record is named', async () => {
  expect((await on(0, 'accounts create --account eve')).code).toBe(0);
  expect((await on(0, 'accounts users create eve --name ann')).code).toBe(0);
  const file = join(home, 'eve.jsonl');
  expect((await on(0, `iam export --to ${file} --account eve`)).code).toBe(0);
  const lines = (await readFile(file, 'utf8')).trim().split('\n');
  expect(lines.at(-1)).toBe('{"end":true,"records":2}');
  const header = '{"format":"sluice-iam","version":1}';
  const sealing = '{"format":"sluice-iam","version":1,"sealing":{"salt":5,"cost":32768}}';
  const end = '{"end":true,"records":1}';
  for (const [text, why] of [
    [lines.slice(0, -1), 'has no end line: it was cut short, or an earlier version wrote it; run'],
    [[lines[0], lines[1], lines[3]], 'has 1 records, and its end line names 2'],
    [[...lines, lines[1]], 'has no end line'],
    [[header, '{"account":"eve"}', end], ': line 2 has no record'],
    [[header, '[1]', end], ': line 2 is not a JSON object'],
    [[header, '{"record":{}}', end], ': line 2 has no account'],
    [[header, '{"account":"eve","record":{"keys":[5]}}', end], ': line 2 has keys that are not a list'],
    [[sealing, end], ': line 1 has no salt of its sealing'],
  ] as const) {
    await writeFile(file, text.join('\n'));
    const refused = await on(1, `iam import --from ${file}`);
    expect([refused.code, refused.stderr]).toEqual([
      2,
      expect.stringContaining(`${file}${why.startsWith(':') ? '' : ' '}${why}`),
    ]);
  }
  expect((await on(1, 'accounts get eve')).code).toBe(1);
  await writeFile(file, lines.join('\n'));
  expect((await on(1, `iam import --from ${file}`)).code).toBe(0);
});

test('an export leaves out an account that cannot be read and ends with 1; one without any record leaves no file', async () => {
  const unreadable = new Set(['ann']);
  const gateway = createServer(({ url = '' }, response) => {
    const [, account = ''] = /accounts\/(\w+)\/export/.exec(url) ?? [];
    if (url.startsWith('/admin/v1/buckets')) {
      response.writeHead(200, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ rows: [] }));
      return;
    }
    const isUnreadable = unreadable.has(account);
    const refusal = { code: 'InternalError', message: 'its row is damaged' };
    const rows =
      account === ''
        ? ['ann', 'ben'].map((name) => ({ account: name }))
        : [{ kind: 'account', name: account }];
    response.writeHead(isUnreadable ? 500 : 200, { 'content-type': 'application/json' });
    response.end(JSON.stringify(isUnreadable ? refusal : { rows }));
  });
  onTestFinished(() => void gateway.close());
  await once(gateway.listen(0, '127.0.0.1'), 'listening');
  const { port } = gateway.address() as AddressInfo;
  const env = { ...servers[0]?.env, SLUICE_ENDPOINT: `http://127.0.0.1:${port}` };
  const file = join(home, 'partly.jsonl');
  const exported = () => finished(['admin', 'iam', 'export', '--to', file], env);
  expect(await exported()).toMatchObject({
    code: 1,
    stdout: `1 record is in ${file}\n`,
    stderr: 'sluice: the account ann is left out: its row is damaged\n',
  });
  const lines = (await readFile(file, 'utf8')).trim().split('\n');
  expect(lines.slice(1).map((line) => JSON.parse(line))).toEqual([
    { account: 'ben', record: { kind: 'account', name: 'ben' } },
    { end: true, records: 1, leftOut: ['ann'] },
  ]);
  expect((await on(1, `iam import --from ${file} --dry-run`)).stderr).toContain(
    `sluice: ${file} has no records of the account ann`,
  );
  await rm(file);
  unreadable.add('ben');
  expect(await exported()).toMatchObject({ code: 1, stderr: expect.stringContaining('InternalError') });
  await expect(stat(file)).rejects.toThrow('ENOENT');
});

test('an export of all accounts names each owner of buckets that neither the settings nor an operator has made an account, and ends with 1', async () => {
  const credential = (owner: string) => ({
    accessKey: `${owner}-access-key`,
    secretKey: `${owner}-secret-key`,
    owner,
    root: true,
    operator: owner === 'ops',
  });
  const dataDir = join(home, 'left');
  const credentials = join(home, 'credentials.json');
  const serveWith = async (...owners: readonly string[]) => {
    await writeFile(credentials, JSON.stringify(owners.map(credential)));
    return startServer({ dataDir, env: { SVC_CREDENTIALS_FILE: credentials } });
  };
  const { accessKey, secretKey } = credential('dave');
  const first = await serveWith('ops', 'dave');
  for (const bucket of ['one', 'two'])
    await sender({ url: first.url, accessKey, secretKey })('PUT', `/${bucket}`);
  await first.stop();
  const server = await serveWith('ops');
  onTestFinished(async () => void (await server.stop()));
  const env = {
    HOME: home,
    SLUICE_ENDPOINT: server.url,
    SLUICE_ACCESS_KEY: credential('ops').accessKey,
    SLUICE_SECRET_KEY: credential('ops').secretKey,
  };
  const exported = async (name: string) => {
    const file = join(home, name);
    const { code, stderr } = await finished(['admin', 'iam', 'export', '--to', file], env);
    return { code, stderr, end: JSON.parse((await readFile(file, 'utf8')).trim().split('\n').at(-1) ?? '') };
  };
  expect(await exported('left.jsonl')).toEqual({
    code: 1,
    stderr:
      'sluice: the account dave is left out: it owns buckets, and neither the settings nor an operator has made it an account: run sluice admin accounts create --account dave --adopt first\n',
    end: { end: true, records: 1, leftOut: ['dave'] },
  });
  expect((await finished(['admin', 'accounts', 'create', '--account', 'dave', '--adopt'], env)).code).toBe(0);
  expect(await exported('adopted.jsonl')).toEqual({ code: 0, stderr: '', end: { end: true, records: 2 } });
});
