/**
 * The commands of docs/operations/keys.md that set up a key provider, run as they are written there, and a gateway with
 * the settings that they export.
 */
import { execFile } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { installed } from '../clients/installed.ts';
import { sender } from '../runtimes/client.ts';
import { endAll, keysOf, serving } from '../runtimes/command.ts';
import { noSinkServer, startSinkServer } from '../support/engines/sink-servers.ts';
import { missingEngine } from '../support/engines/wanted.ts';

const root = join(import.meta.dirname, '../..');
const page = readFileSync(join(root, 'docs/operations/keys.md'), 'utf8');
const run = promisify(execFile);

let directory: string;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'sluice-documented-'));
});
afterAll(async () => {
  await endAll();
  await rm(directory, { recursive: true, force: true });
});

/** The shell commands of a section, and each placeholder in them replaced; every one must occur. */
function commandsOf(section: string, replaced: Readonly<Record<string, string>>): string {
  const [, text = ''] = page.split(`\n### ${section}\n`);
  const blocks = [...(text.split('\n### ')[0] ?? '').matchAll(/```sh\n(.*?)```/gs)].map(([, block]) => block);
  expect(blocks.length).toBeGreaterThan(0);
  let commands = blocks.join('\n');
  for (const [placeholder, value] of Object.entries(replaced)) {
    expect(commands).toContain(placeholder);
    commands = commands.replaceAll(placeholder, value);
  }
  return commands;
}

/** Runs them in a directory of their own. @returns the settings that they export */
async function settingsAfter(commands: string, env: Readonly<Record<string, string>>) {
  const cwd = await mkdtemp(join(directory, 'run-'));
  const script = `set -euo pipefail\n${commands}\nenv -0 | grep -z ^SVC_ >settings`;
  await run('bash', ['-c', script], { cwd, env: { PATH: process.env['PATH'] ?? '', HOME: cwd, ...env } });
  const lines = readFileSync(join(cwd, 'settings'), 'utf8').split('\0').filter(Boolean);
  return Object.fromEntries(lines.map((line) => line.split(/=(.*)/s).slice(0, 2))) as Record<string, string>;
}

/** A gateway with these settings serves SSE-KMS and a signing key. */
async function assertServes(settings: Record<string, string>): Promise<void> {
  const gateway = await serving([], { ...settings, SVC_PROCESSES: '1' });
  const [accessKey = '', secretKey = ''] = keysOf(gateway);
  const send = sender({ url: gateway.url, accessKey, secretKey });
  expect((await send('PUT', '/bucket')).status).toBe(200);
  const headers = { 'x-amz-server-side-encryption': 'aws:kms' };
  const put = await send('PUT', '/bucket/key', { body: 'text', headers });
  expect([put.status, put.text]).toEqual([200, '']);
  expect((await send('GET', '/bucket/key')).text).toBe('text');
  const rotated = await send('POST', '/admin/v1/buckets/bucket/signing-key/rotate');
  expect([rotated.status, rotated.text]).toEqual([200, expect.any(String)]);
  const secret = JSON.parse(rotated.text).secret_access_key;
  expect((await send('GET', '/bucket/key', { secretKey: secret })).text).toBe('text');
  expect((await send('GET', '/bucket/key')).status).toBe(403);
  // A name by mistake makes no key at the provider.
  const mistaken = { ...headers, 'x-amz-server-side-encryption-aws-kms-key-id': 'no-such-key' };
  const refused = await send('PUT', '/bucket/key', { body: 'x', headers: mistaken, secretKey: secret });
  expect([refused.status, refused.text]).toEqual([400, expect.stringContaining('KMS.NotFoundException')]);
  gateway.child.kill('SIGTERM');
  expect(await gateway.ended).toBe(0);
}

const noMoto = noSinkServer('moto');
test.skipIf(noMoto !== undefined)('cloud-kms', async () => {
  await using server = await startSinkServer('moto');
  const url = `http://127.0.0.1:${server.port}`;
  const commands = commandsOf('cloud-kms', {
    'https://kms.eu-central-1.amazonaws.com': url,
    '<access key>': 'an-access-key',
    '<secret key>': 'a-secret-key',
  });
  const env = {
    PATH: `${dirname(installed('aws'))}:${process.env['PATH']}`,
    AWS_ENDPOINT_URL: url,
    AWS_DEFAULT_REGION: 'eu-central-1',
    AWS_ACCESS_KEY_ID: 'an-access-key',
    AWS_SECRET_ACCESS_KEY: 'a-secret-key',
  };
  const settings = await settingsAfter(commands, env);
  await assertServes({ ...settings, SVC_EGRESS_ALLOW: '127.0.0.1' });
});

const noTransit = noSinkServer('transit');
describe.skipIf(noTransit !== undefined)('with the frame of the transit engine', () => {
  test('transit', async () => {
    await using server = await startSinkServer('transit');
    const url = `http://127.0.0.1:${server.port}`;
    const commands = commandsOf('transit', {
      'https://bao.example.com:8200': url,
      '10.0.0.0/8': '127.0.0.1',
    });
    const bin = join(root, 'engines/keys/transit');
    const env = { PATH: `${bin}:${process.env['PATH']}`, BAO_ADDR: url, BAO_TOKEN: 'root' };
    await assertServes(await settingsAfter(commands, env));
  });
});

const softhsm = '/usr/lib/softhsm/libsofthsm2.so';
const noSofthsm = missingEngine(existsSync(softhsm), 'needs engines/keys/softhsm/install.sh to have run');
test.skipIf(noSofthsm !== undefined)('pkcs11', async () => {
  const home = join(directory, 'softhsm');
  await mkdir(join(home, 'tokens'), { recursive: true });
  const SOFTHSM2_CONF = join(home, 'softhsm2.conf');
  await writeFile(SOFTHSM2_CONF, `directories.tokendir = ${home}/tokens\nobjectstore.backend = file\n`);
  const settings = await settingsAfter(commandsOf('pkcs11', {}), { SOFTHSM2_CONF });
  await assertServes({ ...settings, SOFTHSM2_CONF });
});
