/** The `sluice` command: a child process, its output and its exit code. */
import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { loadClient, pathOf } from '../support/load-client.ts';
import { endAll, finished, keysOf, listening, logOf, type Run, serving, stopped } from './command.ts';

let directory = '';
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'sluice-cli-'));
});
afterEach(async () => {
  await endAll();
  await rm(directory, { recursive: true, force: true });
});

describe('sluice', () => {
  it('explains its commands and every flag', async () => {
    const { code, stdout } = await finished(['--help']);
    expect(code).toBe(0);
    for (const word of ['serve', 'config', '--data-dir', '--workers', '--listen'])
      expect(stdout).toContain(word);
  });

  it('prints its version', async () => {
    const { version } = JSON.parse(await readFile(new URL('../../package.json', import.meta.url), 'utf8'));
    expect(await finished(['--version'])).toMatchObject({ code: 0, stdout: `${version}\n` });
  });

  it.each([
    [[], 'a command is missing'],
    [['serv'], 'serv is not a command; serve is'],
    [['serve', '--lisen', ':1'], '--lisen is not a flag; --listen is'],
    [['serve', '--json'], '--json is not a flag'],
    [['serve', '--region'], '--region needs a value'],
  ])('refuses %j with code 2', async (args, told) => {
    const { code, stderr, stdout } = await finished(args);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toContain(told);
  });

  it('prints every fault of the configuration and of its files, with code 2', async () => {
    const file = join(directory, 'credentials.json');
    await writeFile(file, '[{"accessKey":"AKIDEXAMPLE","secretKey":"hidden-secret","owner":""}]');
    const env = { SVC_CREDENTIALS_FILE: file, SVC_LOG_LEVEL: 'LOUD', SVC_WORKERS: 'gc,sweeper' };
    const { code, stderr, stdout } = await finished(['serve', '--gc-interval', '1ms'], env);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toContain('SVC_LOG_LEVEL=LOUD is not one of');
    expect(stderr).toContain('unknown worker "sweeper"');
    expect(stderr).toContain('SVC_GC_INTERVAL=1ms is outside [10ms, 24h]');
    expect(stderr).toContain(`SVC_CREDENTIALS_FILE=${file} entry 1: owner must be`);
    expect(stderr).not.toContain('hidden-secret');
  });

  it('prints unknown flags and invalid values together, with code 2, and creates nothing', async () => {
    const args = [
      '--lisen',
      '1',
      '--memory-max',
      '1',
      '--listen',
      'foo',
      '--data-dir',
      join(directory, 'new'),
    ];
    const { code, stderr, stdout } = await finished(['serve', ...args]);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toContain('sluice: --lisen is not a flag; --listen is\n');
    expect(stderr).toContain('sluice: SVC_MEMORY_MAX=1 is outside');
    expect(stderr).toContain('sluice: SVC_LISTEN=foo is not an address');
    expect(stderr.trim().split('\n')).toHaveLength(3);
    expect(await readdir(directory)).toEqual([]);
  });

  it('refuses files that are not there, with code 2', async () => {
    const file = join(directory, 'file');
    await writeFile(file, '');
    const args = [
      '--credentials-file',
      '/nowhere/c.json',
      '--tls-cert-file',
      '/nowhere/c.pem',
      '--tls-key-file',
      '/nowhere/k',
    ];
    const { code, stderr } = await finished(['serve', ...args, '--data-dir', join(file, 'data')]);
    expect(code).toBe(2);
    expect(stderr.match(/ENOENT/g)).toHaveLength(3);
    expect(stderr).toContain(`SVC_DATA_DIR=${join(file, 'data')} cannot be used as a directory: ENOTDIR`);
  });
});

describe('sluice config', () => {
  const secrets = {
    SVC_CREDENTIALS: '[{"accessKey":"AKIDEXAMPLE","secretKey":"hidden-secret","owner":"alice"}]',
    SVC_METRICS_TOKEN: 'hidden-token',
  };

  it('shows value, source and default, and never a secret', async () => {
    const { code, stdout } = await finished(['config', '--region', 'here'], {
      ...secrets,
      SVC_GC_INTERVAL: '5s',
    });
    expect(code).toBe(0);
    expect(stdout).toMatch(/^SVC_REGION +here +flag +default$/m);
    expect(stdout).toMatch(/^SVC_GC_INTERVAL +5s +env +1m$/m);
    expect(stdout).toMatch(/^SVC_CREDENTIALS +\*{8} +env +\(unset\)$/m);
    expect(stdout).toMatch(/^SVC_DATA_DIR +\(unset\) +default +\(unset\)$/m);
    expect(stdout).not.toContain('hidden');
  });

  it('masks the password of an address, also in the fault that refuses it', async () => {
    const address = 'https://user:pass:w@rd@host.example:1/';
    const names = ['SVC_OTLP_ENDPOINT', 'SVC_KMS_ENDPOINT', 'SVC_UPSTREAM_ENDPOINT', 'SVC_KV_PD_ENDPOINTS'];
    const env = Object.fromEntries(names.map((name) => [name, address]));
    for (const args of [['config'], ['config', '--json'], ['serve']]) {
      const { code, stdout, stderr } = await finished(args, env);
      expect(code).toBe(2);
      expect(stdout + stderr).toContain('https://user:********@host.example:1/');
      expect(stdout + stderr).not.toMatch(/pass:|rd@/);
    }
  });

  it('prints JSON for programs', async () => {
    const { stdout } = await finished(['config', '--json', '--workers='], secrets);
    const rows = JSON.parse(stdout) as { name: string }[];
    expect(rows.find(({ name }) => name === 'SVC_WORKERS')).toMatchObject({
      flag: '--workers',
      value: '',
      source: 'flag',
      default: 'all',
    });
    expect(stdout).not.toContain('hidden');
  });

  it('shows what it can and exits with code 2 when there are faults', async () => {
    const { code, stdout, stderr } = await finished(['config', '--region', 'No Region']);
    expect(code).toBe(2);
    expect(stdout).toContain('SVC_LISTEN');
    expect(stderr).toContain('SVC_REGION=No Region is not a region name');
  });

  it('makes no data directory', async () => {
    await finished(['config', '--data-dir', join(directory, 'new')]);
    expect(await readdir(directory)).toEqual([]);
  });
});

describe('sluice serve', () => {
  it('prints endpoint, key and a line to paste, logs JSON separately, and stops on a signal', async () => {
    const first = await serving();
    expect(first.url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
    const [accessKey, secretKey] = keysOf(first);
    expect(accessKey).toMatch(/^SL[A-Z2-7]{18}$/);
    expect(secretKey).toMatch(/^[a-z2-7]{40}$/);
    expect(first.stdout).toContain(`aws --endpoint-url ${first.url} s3 ls`);
    expect((await fetch(`${first.url}/healthz`)).status).toBe(200);
    expect(await stopped(first)).toBe(0);
    for (const line of logOf(first)) {
      expect(line).toMatchObject({
        time: expect.any(String),
        level: expect.any(String),
        message: expect.any(String),
      });
    }
    expect(first.stderr).not.toContain(secretKey);
  });

  it('forgets the key that it created for memory backends', async () => {
    const [first, second] = [await serving(), await serving()];
    expect(keysOf(first)).not.toEqual(keysOf(second));
    expect(first.stdout).toContain('in memory only');
  });

  it('shows a created key once, and keeps it for itself alone', async () => {
    const first = await serving(['--data-dir', directory]);
    const [accessKey, secretKey] = keysOf(first);
    const settings = [`aws_access_key_id ${accessKey}`, `aws_secret_access_key ${secretKey}`];
    const lines = [...settings, `endpoint_url ${first.url}`].map(
      (each) => `aws configure --profile sluice set ${each}`,
    );
    expect(first.stdout).toContain(`configure   ${lines.join(' && ')}\n`);
    const docs = /docs +(\S+)\n/.exec(first.stdout)?.[1] ?? '';
    expect(await readdir(docs)).toContain('operations.md');
    expect(await stopped(first)).toBe(0);
    const file = join(directory, 'root-credentials.json');
    expect(JSON.parse(await readFile(file, 'utf8'))).toMatchObject([
      { accessKey, secretKey, root: true, operator: true },
    ]);
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    const second = await serving(['--data-dir', directory]);
    expect(second.stdout).toContain(`access key  ${accessKey}`);
    expect(second.stdout).not.toContain(secretKey);
    const filledIn = `AWS_ACCESS_KEY_ID=${accessKey} AWS_SECRET_ACCESS_KEY='<secret key>'`;
    expect(second.stdout).toContain(`try         ${filledIn} aws --endpoint-url ${second.url} s3 ls\n`);
  });

  it('mints one key when two start together in an empty directory', async () => {
    const both = await Promise.all([serving(['--data-dir', directory]), serving(['--data-dir', directory])]);
    const [first, second] = both.map((each) => keysOf(each)[0]);
    expect(first).toBe(second);
    expect(both.filter(({ stdout }) => stdout.includes('shown only once'))).toHaveLength(1);
    expect((await readdir(directory)).filter((name) => name.startsWith('root-credentials'))).toHaveLength(1);
  });

  it.each([
    ['[{"accessKey"', 'is not valid JSON'],
    ['[{"accessKey":"SLEXAMPLE","owner":"root"}]', 'entry 1 has no secretKey'],
  ])('refuses the kept root key %s in a line, with code 2', async (text, why) => {
    const file = join(directory, 'root-credentials.json');
    await writeFile(file, text);
    const { code, stderr, stdout } = await finished(['serve', ...listening, '--data-dir', directory]);
    const cure = 'restore it, or remove it to mint a new root key';
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toBe(`sluice: ${file} ${why}; ${cure}\n`);
  });

  it('warns once of a cluster that holds chunks and is left out', async () => {
    for (const made of ['default/segments', 'empty/segments'])
      await mkdir(join(directory, 'chunks', made), { recursive: true });
    await writeFile(join(directory, 'chunks/default/segments/0.seg'), 'chunks');
    const args = ['--data-dir', directory, '--processes', '2'];
    const warningsOf = (node: Run): readonly unknown[] =>
      logOf(node).flatMap(({ level, message }) => (level === 'WARN' ? [message] : []));
    const path = join(directory, 'chunks/default');
    const other = await serving([...args, '--pool-clusters', 'other']);
    expect(await stopped(other)).toBe(0);
    expect(warningsOf(other)).toEqual([
      `SVC_POOL_CLUSTERS=other leaves out cluster "default", whose chunks lie in ${path}`,
    ]);
    const all = await serving(args);
    expect(await stopped(all)).toBe(0);
    expect(warningsOf(all)).toEqual([]);
  });

  it('creates no key where credentials are configured', async () => {
    const file = join(directory, 'credentials.json');
    await writeFile(file, '[{"accessKey":"AKIDEXAMPLE","secretKey":"correct-horse","owner":"alice"}]');
    const { stdout } = await serving(['--data-dir', join(directory, 'data'), '--credentials-file', file]);
    expect(stdout).not.toMatch(/created at this start|access key|correct-horse/);
    expect(await readdir(join(directory, 'data'))).not.toContain('root-credentials.json');
  });

  it('counts the last of repeated flags, as npm start passes them on', async () => {
    const last = join(directory, 'last');
    const args = ['--data-dir', join(directory, 'first'), '--workers', 'all', '--data-dir', last];
    expect((await serving(args)).stdout).toContain(last);
    expect(await readdir(directory)).toEqual(['last']);
  });

  it('reports in one line that the address is in use', async () => {
    const { url } = await serving();
    const taken = await finished(['serve', '--listen', new URL(url).host]);
    const { host } = new URL(url);
    const inUse = (name: string, flag: string): string =>
      `sluice: ${name}=${host} is in use by another process; choose another with ${flag}\n`;
    expect(taken).toMatchObject({ code: 1, stderr: inUse('SVC_LISTEN', '--listen') });
    const admin = await finished(['serve', ...listening, '--admin-listen', host]);
    expect(admin).toMatchObject({ code: 1, stderr: inUse('SVC_ADMIN_LISTEN', '--admin-listen') });
    const several = await finished(['serve', '--listen', host, '--data-dir', directory, '--processes', '3']);
    expect(several).toMatchObject({ code: 1, stderr: inUse('SVC_LISTEN', '--listen') });
  });

  it.each(['1', '2'])(
    'shows the key of a start that failed at the next one, with %s processes',
    async (count) => {
      const { host } = new URL((await serving()).url);
      const args = ['--data-dir', directory, '--processes', count];
      const failed = await finished(['serve', ...args, '--listen', host]);
      expect(failed).toMatchObject({ code: 1, stdout: '' });
      const next = await serving(args);
      const [kept] = JSON.parse(await readFile(join(directory, 'root-credentials.json'), 'utf8'));
      expect(keysOf(next)).toEqual([kept.accessKey, kept.secretKey]);
      expect(await stopped(next)).toBe(0);
      expect((await serving(args)).stdout).not.toContain(kept.secretKey);
    },
  );

  it('serves from several processes that answer /metrics as one, and replaces one that dies', async () => {
    const args = ['--data-dir', directory, '--processes', '3', '--metrics-token', 'let-me-read'];
    const node = await serving(args);
    const scrape = async (): Promise<string> => {
      const reply = await fetch(`${node.url}/metrics`, {
        headers: { Authorization: 'Bearer let-me-read', Connection: 'close' },
      });
      expect(reply.status).toBe(200);
      return reply.text();
    };
    const answered = async (): Promise<number> =>
      [...(await scrape()).matchAll(/^svc_http_requests_total\{.*\} (\d+)$/gm)].reduce(
        (sum, [, n]) => sum + Number(n),
        0,
      );
    for (let index = 0; index < 12; index += 1) {
      await fetch(`${node.url}/missing-bucket/key`, { headers: { Connection: 'close' } });
    }
    await expect.poll(answered, { timeout: 120_000 }).toBeGreaterThanOrEqual(12);
    for (let index = 0; index < 4; index += 1) expect(await answered()).toBeGreaterThanOrEqual(12);
    const pids = logOf(node).flatMap(({ message, pid }) => (message === 'serving' ? [pid as number] : []));
    expect(new Set(pids).size).toBe(3);
    process.kill(pids[0] as number, 'SIGKILL');
    await expect
      .poll(() => logOf(node).filter(({ message }) => message === 'serving').length, { timeout: 120_000 })
      .toBe(4);
    expect((await fetch(`${node.url}/healthz`)).status).toBe(200);
    expect(await stopped(node)).toBe(0);
  });

  it('leaves no process when the primary is killed during writes', async () => {
    const node = await serving(['--data-dir', directory, '--processes', '2', '--fsync', 'never']);
    const [accessKey = '', secretKey = ''] = keysOf(node);
    const client = loadClient(node.url, { accessKey, secretKey });
    await client.expect({ method: 'PUT', path: pathOf('bucket') });
    let written = 0;
    const writers = Array.from({ length: 16 }, async (_, writer) => {
      for (let i = 0; ; i += 1) {
        const path = pathOf('bucket', `${writer}/${i}`);
        if ((await client.send({ method: 'PUT', path, body: Buffer.from('x') })).status === 200) written += 1;
      }
    });
    const cutOff = Promise.allSettled(writers);
    await expect.poll(() => written, { timeout: 120_000 }).toBeGreaterThan(200);
    node.child.kill('SIGKILL');
    // The output ends when the last process that inherited it has ended.
    await node.ended;
    await cutOff;
    client.close();
    expect(await stopped(await serving(['--data-dir', directory]))).toBe(0);
  });
});

describe('sluice fsck', () => {
  it('finds nothing wrong with an empty directory that was served', async () => {
    expect(await stopped(await serving(['--data-dir', directory]))).toBe(0);
    const plain = await finished(['fsck', '--data-dir', directory]);
    expect(plain).toMatchObject({ code: 0, stderr: '' });
    expect(plain.stdout).toContain('0 buckets, 0 versions');
    expect(plain.stdout).toContain('all is well');
    const { stdout } = await finished(['fsck', '--json', '--data-dir', directory]);
    expect(JSON.parse(stdout)).toMatchObject({ summary: { found: 0, buckets: 0 } });
  });

  it('refuses with code 2 where there is nothing to compare, and makes nothing', async () => {
    expect(await finished(['fsck'])).toMatchObject({ code: 2, stdout: '' });
    const missing = join(directory, 'missing');
    const { code, stderr } = await finished(['fsck', '--data-dir', missing]);
    expect(code).toBe(2);
    expect(stderr).toContain(`there is no directory ${missing}`);
    expect(await readdir(directory)).toEqual([]);
  });
});
