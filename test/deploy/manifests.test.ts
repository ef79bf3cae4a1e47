/**
 * The files of `deploy/`, read by the programs that they are for: Docker Compose's loader, Kubernetes' schemas, a
 * linter of Dockerfiles, systemd.
 */
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { cliPath, finished } from '../runtimes/command.ts';
import { freePorts } from '../support/engines/ports.ts';
import { missingEngine } from '../support/engines/wanted.ts';
import { one } from '../support/server-tls.ts';

const root = join(import.meta.dirname, '../..');
const deploy = join(root, 'deploy');
const tools = join(root, '.cache/deploy');
const isOnPath = (name: string): boolean =>
  (process.env['PATH'] ?? '').split(delimiter).some((directory) => existsSync(join(directory, name)));
const noTools = missingEngine(existsSync(join(tools, '.linter')), 'needs test/deploy/install.sh');
const noSystemd = missingEngine(
  isOnPath('systemd-analyze') && isOnPath('strace'),
  'needs systemd and strace',
);
const named = (name: string, missing: string | undefined): string =>
  missing === undefined ? name : `${name}: ${missing}`;

const top = mkdtempSync(join(tmpdir(), 'sluice-manifests-'));
afterAll(() => rmSync(top, { recursive: true, force: true }));
const yamlIn = (directory: string): string[] =>
  readdirSync(directory).filter((name) => name.endsWith('.yaml'));

describe.skipIf(noTools !== undefined)(named('tools', noTools), () => {
  const compose = (...files: readonly string[]) =>
    spawnSync(join(tools, 'compose-spec'), ['-no-interpolation', ...files], {
      cwd: deploy,
      encoding: 'utf8',
    });
  const kubernetes = (file: string) =>
    spawnSync(join(tools, 'python/bin/kubernetes-validate'), ['--strict', file], { encoding: 'utf8' });

  test.each(yamlIn(deploy))('Docker Compose loads %s, alone and with the files of observability', (name) => {
    for (const others of [[], ['observability/compose.yaml']]) {
      const { status, stderr } = compose(...[name, ...others].map((file) => join(deploy, file)));
      expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    }
  });

  test('Docker Compose refuses a field that it does not know', () => {
    const file = join(top, 'wrong.yaml');
    const text = readFileSync(join(deploy, 'embedded.yaml'), 'utf8');
    writeFileSync(file, text.replace('stop_grace_period', 'stop_grace_time'));
    expect(compose(file).stderr).toContain('stop_grace_time');
  });

  test.each(yamlIn(join(deploy, 'kubernetes')))('the schemas of Kubernetes accept %s', (name) => {
    const { status, stdout, stderr } = kubernetes(join(deploy, 'kubernetes', name));
    expect(status, `${stdout}${stderr}`).toBe(0);
    const kinds = [...readFileSync(join(deploy, 'kubernetes', name), 'utf8').matchAll(/^kind: (\w+)$/gm)];
    expect(`${stdout}${stderr}`.match(/ passed for resource /g)).toHaveLength(kinds.length);
  });

  test('they refuse a field that they do not know', () => {
    const file = join(top, 'wrong-set.yaml');
    const text = readFileSync(join(deploy, 'kubernetes/embedded.yaml'), 'utf8');
    writeFileSync(file, text.replace('readinessProbe', 'readynessProbe'));
    expect(kubernetes(file)).toMatchObject({ status: 1 });
  });

  test('they accept the Secret that secrets.sh prints, which has the credentials and the master key', async () => {
    const directory = join(top, 'kubernetes');
    mkdirSync(directory);
    cpSync(join(deploy, 'secrets.sh'), join(directory, 'secrets.sh'));
    const secret = execFileSync(join(directory, 'secrets.sh'), ['--kubernetes'], { encoding: 'utf8' });
    const file = join(directory, 'secret.yaml');
    writeFileSync(file, secret);
    expect(kubernetes(file).status).toBe(0);
    const decoded = (name: string): string =>
      Buffer.from(new RegExp(`^  ${name}: (.*)$`, 'm').exec(secret)?.[1] ?? '', 'base64').toString();
    writeFileSync(join(directory, 'credentials.json'), decoded('credentials.json'), { mode: 0o600 });
    writeFileSync(join(directory, 'master.key'), decoded('master.key'), { mode: 0o600 });
    const { code, stderr } = await finished(['config'], {
      SVC_CREDENTIALS_FILE: join(directory, 'credentials.json'),
      SVC_MASTER_KEY_FILE: join(directory, 'master.key'),
    });
    expect([code, stderr]).toEqual([0, '']);
  });

  const lint = (text: string): readonly string[] => {
    const linter = createRequire(join(tools, 'package.json'))('dockerfile-utils') as {
      validate(text: string): readonly { readonly message: string }[];
    };
    return linter.validate(text).map(({ message }) => message);
  };

  test.each(['Dockerfile', 'ceph.Dockerfile'])('the linter finds nothing in %s', (name) => {
    expect(lint(readFileSync(join(deploy, name), 'utf8'))).toEqual([]);
  });

  test('the linter finds an instruction that does not exist', () => {
    const text = readFileSync(join(deploy, 'Dockerfile'), 'utf8').replace('HEALTHCHECK', 'HEALTHCHEK');
    expect(lint(text)).toEqual(['Unknown instruction: HEALTHCHEK']);
  });
});

describe('sluice health', () => {
  test('exits with 1 and the reason where nothing listens, and with 2 where the settings do not say where', async () => {
    const [port] = await freePorts(1);
    const env = { SVC_LISTEN: `0.0.0.0:${port}` };
    expect(await finished(['health'], env)).toMatchObject({
      code: 1,
      stdout: `http://127.0.0.1:${port}/healthz: ECONNREFUSED\n`,
    });
    expect(await finished(['health', '--wait=300ms'], env)).toMatchObject({ code: 1 });
    expect(await finished(['health', '--wait=soon'], env)).toMatchObject({
      code: 2,
      stderr: 'sluice: --wait=soon is not a duration up to 1h\n',
    });
    expect(await finished(['health'], { SVC_LISTEN: '127.0.0.1:0' })).toMatchObject({ code: 2 });
  });

  test('waits for a gateway that starts, over TLS and on the address of operators', async () => {
    const [storage, admin] = await freePorts(2);
    for (const [name, text] of Object.entries(one)) writeFileSync(join(top, `tls.${name}`), text);
    const env = {
      PATH: process.env['PATH'] ?? '',
      SVC_LISTEN: `127.0.0.1:${storage}`,
      SVC_ADMIN_LISTEN: `[::1]:${admin}`,
      SVC_TLS_CERT_FILE: join(top, 'tls.cert'),
      SVC_TLS_KEY_FILE: join(top, 'tls.key'),
    };
    const waiting = finished(['health', '--ready', '--wait=10m'], env);
    const child = spawn(process.execPath, [cliPath, 'serve'], { env, stdio: 'ignore' });
    try {
      expect(await waiting).toMatchObject({
        code: 0,
        stdout: `https://[::1]:${admin}/readyz?need=reads: 200 ready\n`,
      });
    } finally {
      child.kill('SIGKILL');
    }
  });
});

describe.skipIf(noSystemd !== undefined)(named('systemd', noSystemd), () => {
  const unit = join(top, 'sluice.service');
  // The programs of the unit need not be installed here.
  const text = readFileSync(join(deploy, 'systemd/sluice.service'), 'utf8');
  writeFileSync(unit, text.replaceAll('/usr/bin/sluice', '/bin/true'));

  test('verifies the unit', () => {
    const { status, stderr } = spawnSync('systemd-analyze', ['verify', '--man=no', unit], {
      encoding: 'utf8',
    });
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
  });

  test('rates the exposure of the unit at 2.0 or less', () => {
    const { stdout } = spawnSync('systemd-analyze', ['security', '--offline=true', unit], {
      encoding: 'utf8',
    });
    expect(
      Number(/exposure level for sluice\.service: ([\d.]+)/.exec(stdout)?.[1] ?? 10),
    ).toBeLessThanOrEqual(2);
  });

  /** The system calls of a group, as systemd lists them. */
  function callsOf(group: string): readonly string[] {
    const shown = execFileSync('systemd-analyze', ['syscall-filter', group], { encoding: 'utf8' });
    const names = shown.split('\n').flatMap((line) => /^ {4}([@\w-]+)$/.exec(line)?.[1] ?? []);
    return names.flatMap((name) => (name.startsWith('@') ? callsOf(name) : [name]));
  }

  test('a gateway that starts, serves and stops makes no system call that the unit forbids', async () => {
    const [, allowed = ''] = /^SystemCallFilter=(@\S+)$/m.exec(text) ?? [];
    const [, denied = ''] = /^SystemCallFilter=~(.*)$/m.exec(text) ?? [];
    const forbidden = new Set(denied.split(' ').flatMap(callsOf));
    const permitted = new Set(callsOf(allowed).filter((name) => !forbidden.has(name)));
    expect(permitted.size).toBeGreaterThan(200);
    const [port] = await freePorts(1);
    const env = {
      PATH: process.env['PATH'] ?? '',
      SVC_LISTEN: `127.0.0.1:${port}`,
      SVC_DATA_DIR: join(top, 'data'),
      SVC_PROCESSES: '2',
    };
    const summary = join(top, 'calls');
    const args = ['-f', '-c', '-o', summary, process.execPath, cliPath, 'serve'];
    const traced = spawn('strace', args, { env, stdio: ['ignore', 'pipe', 'ignore'], detached: true });
    try {
      const exit = once(traced, 'exit');
      expect(await finished(['health', '--ready', '--wait=10m'], env)).toMatchObject({ code: 0 });
      process.kill(-(traced.pid ?? 0), 'SIGTERM');
      await exit;
    } finally {
      if (traced.exitCode === null && traced.signalCode === null) process.kill(-(traced.pid ?? 0), 'SIGKILL');
    }
    const made = readFileSync(summary, 'utf8')
      .split('\n')
      .flatMap((line) => /^ +[\d.]+ .* (\w+)$/.exec(line)?.[1] ?? [])
      .filter((name) => name !== 'total');
    expect(made).toContain('openat');
    expect(made.filter((name) => !permitted.has(name))).toEqual([]);
  });
});
