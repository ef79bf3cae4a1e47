/**
 * The container image, the compose file of the default mode and the Debian package: made as `deploy/` says, started,
 * used, stopped and removed.
 */
import { type ChildProcess, execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { sender } from '../runtimes/client.ts';
import { type Built, buildImage } from '../support/dockerfile.ts';
import { freePorts } from '../support/engines/ports.ts';
import { noOverlayMachine, OverlayMachine } from '../support/overlay-machine.ts';

const root = join(import.meta.dirname, '../..');
const deploy = join(root, 'deploy');
const { version, peerDependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
/** The clients of engines and event targets, which an installation by npm does not bring. */
const listClients = Object.keys(peerDependencies)
  .map((name) => `ls -d node_modules/${name}/package.json`)
  .join(' && ');
const reason = noOverlayMachine();
const top = mkdtempSync(join(tmpdir(), 'sluice-packages-'));
afterAll(() => rmSync(top, { recursive: true, force: true }));

/** Runs a shell command as root; throws with its output where it fails. */
function shell(machine: OverlayMachine, command: string): string {
  const { status, stdout, stderr } = machine.run(['/bin/sh', '-ec', command]);
  if (status !== 0) throw new Error(`${command}: exit code ${status}\n${stdout}${stderr}`);
  return stdout.trim();
}

async function stop(child: ChildProcess): Promise<number | null> {
  const exit = once(child, 'exit');
  child.kill('SIGTERM');
  const [code] = await exit;
  return code as number | null;
}

describe.skipIf(reason !== undefined)(`packages${reason === undefined ? '' : `: ${reason}`}`, () => {
  let image: Built;
  const running: ChildProcess[] = [];
  beforeAll(() => {
    const modules = { at: 'node_modules', from: realpathSync(join(root, 'node_modules')) };
    image = buildImage(join(deploy, 'Dockerfile'), {
      context: root,
      cached: { 'npm ci --ignore-scripts': modules },
    });
  }, 900_000);
  afterAll(() => {
    for (const child of running) child.kill('SIGKILL');
    image?.remove();
  });

  describe('the image', () => {
    test('has the command, the console and librados for its user, and no development dependency', () => {
      const { machine, user, env } = image;
      const run = (...command: readonly string[]) => machine.run(command, { user: `${user}:${user}`, env });
      expect(run('sluice', '--version')).toMatchObject({ status: 0, stdout: `${version}\n` });
      const files = shell(machine, 'cd /usr/lib/sluice && ls . dist node_modules dist/console');
      for (const name of ['LICENSE', 'docs', 'console', 'lmdb']) expect(files.split('\n')).toContain(name);
      for (const name of ['typescript', 'vitest', 'rolldown']) expect(files.split('\n')).not.toContain(name);
      expect(
        run('node', '-e', "require('/usr/lib/sluice/node_modules/koffi').load('librados.so.2')"),
      ).toMatchObject({
        status: 0,
        stderr: '',
      });
      shell(machine, `cd /usr/lib/sluice && ${listClients}`);
      expect(shell(machine, 'find /usr/lib/sluice ! -user root -o -perm /022 ! -type l')).toBe('');
    });

    test('serves with the environment of the compose file, becomes healthy, ends on SIGTERM and finds its objects again', async () => {
      const { machine, user, entrypoint, cmd, healthcheck } = image;
      const secrets = join(top, 'compose');
      mkdirSync(secrets);
      cpSync(join(deploy, 'secrets.sh'), join(secrets, 'secrets.sh'));
      execFileSync(join(secrets, 'secrets.sh'), { stdio: 'ignore' });
      for (const [from, to] of [
        ['credentials.json', 'credentials'],
        ['master.key', 'master_key'],
      ])
        shell(machine, `install -D -m 640 -g node '${secrets}/secrets/${from}' /run/secrets/${to}`);
      const { services } = parse(readFileSync(join(deploy, 'embedded.yaml'), 'utf8'));
      const [port] = await freePorts(1);
      const env = { ...image.env, ...services.gateway.environment, SVC_LISTEN: `0.0.0.0:${port}` };
      const serve = async (): Promise<ChildProcess> => {
        const child = await machine.start([...entrypoint, ...cmd], {
          user: `${user}:${user}`,
          env,
          cwd: image.workdir,
        });
        running.push(child);
        return child;
      };
      const check = (child: ChildProcess) =>
        machine.inside(child, healthcheck, { user: `${user}:${user}`, env });
      const [{ accessKey, secretKey }] = JSON.parse(
        readFileSync(join(secrets, 'secrets/credentials.json'), 'utf8'),
      );
      const send = sender({ url: `http://127.0.0.1:${port}`, accessKey, secretKey });

      const first = await serve();
      await expect
        .poll(() => check(first))
        .toMatchObject({ status: 0, stdout: expect.stringContaining('/healthz: 200') });
      expect((await send('PUT', '/photos')).status).toBe(200);
      expect((await send('PUT', '/photos/a', { body: 'bytes' })).status).toBe(200);
      expect(await stop(first)).toBe(0);

      const second = await serve();
      await expect.poll(() => check(second).status).toBe(0);
      expect(await send('GET', '/photos/a')).toMatchObject({ status: 200, text: 'bytes' });
      expect(await stop(second)).toBe(0);
      expect(machine.run([...healthcheck], { user: `${user}:${user}`, env }).status).toBe(1);
    });
  });

  describe('the Debian package', () => {
    let installed: OverlayMachine;
    const unit = readFileSync(join(deploy, 'systemd/sluice.service'), 'utf8');
    const inUnit = (name: string): string => new RegExp(`^${name}=(.*)$`, 'm').exec(unit)?.[1] ?? '';
    let deb = '';
    beforeAll(() => {
      const tarball = join(image.stage('package').changes, `srv/sluice-${version}.tgz`);
      deb = execFileSync(join(deploy, 'debian/build.sh'), [tarball, top], {
        encoding: 'utf8',
        stdio: ['ignore', 'pipe', 'pipe'],
      }).trim();
      installed = new OverlayMachine();
      // Stands for the package of Node, which Debian 12 has in an older version.
      const stub = join(top, 'nodejs');
      mkdirSync(join(stub, 'DEBIAN'), { recursive: true });
      mkdirSync(join(stub, 'usr/bin'), { recursive: true });
      cpSync(process.execPath, join(stub, 'usr/bin/node'));
      const control = {
        Package: 'nodejs',
        Version: process.versions.node,
        Architecture: 'amd64',
        Maintainer: 'test',
      };
      const lines = Object.entries({ ...control, Description: 'the Node of the test' });
      writeFileSync(join(stub, 'DEBIAN/control'), lines.map((pair) => `${pair.join(': ')}\n`).join(''));
      execFileSync('dpkg-deb', ['-Znone', '--root-owner-group', '--build', stub], { stdio: 'ignore' });
      shell(installed, `DEBIAN_FRONTEND=noninteractive dpkg --force-unsafe-io -i '${stub}.deb' '${deb}'`);
    }, 900_000);
    afterAll(() => installed?.remove());

    test('makes the user, its directory, and a directory of settings that other users cannot read', () => {
      const modes = shell(
        installed,
        "stat -c '%a %U:%G %n' /var/lib/sluice /etc/sluice /etc/sluice/sluice.env",
      );
      expect(modes.split('\n')).toEqual([
        '750 sluice:sluice /var/lib/sluice',
        '750 root:sluice /etc/sluice',
        '644 root:root /etc/sluice/sluice.env',
      ]);
      expect(shell(installed, 'getent passwd sluice')).toMatch(/:\/var\/lib\/sluice:\/usr\/sbin\/nologin$/);
      expect(shell(installed, "dpkg-query -W -f '$'{Conffiles} sluice")).toMatch(
        /^\/etc\/sluice\/sluice.env \w+$/,
      );
      expect(shell(installed, 'dpkg --verify sluice')).toBe('');
      shell(installed, `cd /usr/lib/sluice && ${listClients}`);
      expect(
        shell(installed, 'test -L /etc/systemd/system/multi-user.target.wants/sluice.service; echo $?'),
      ).toBe('0');
    });

    test('the commands of its unit serve as its user with its settings', async () => {
      const [port] = await freePorts(1);
      const settings = shell(installed, `cat ${inUnit('EnvironmentFile').slice(1)}`);
      const pairs = [...settings.matchAll(/^(SVC_\w+)=(.*)$/gm)].map(([, name = '', value = '']) => [
        name,
        value,
      ]);
      const env = { ...Object.fromEntries(pairs), SVC_LISTEN: `127.0.0.1:${port}`, SVC_PROCESSES: '1' };
      const user = `${inUnit('User')}:${inUnit('Group')}`;
      const options = { env, user, cwd: inUnit('WorkingDirectory') };
      const child = await installed.start(inUnit('ExecStart').split(' '), options);
      running.push(child);
      const post = installed.inside(child, inUnit('ExecStartPost').split(' '), options);
      expect(post).toMatchObject({ status: 0, stdout: expect.stringContaining('200 ok') });
      const [{ accessKey, secretKey }] = JSON.parse(
        shell(installed, 'cat /var/lib/sluice/root-credentials.json'),
      );
      const send = sender({ url: `http://127.0.0.1:${port}`, accessKey, secretKey });
      expect((await send('PUT', '/photos')).status).toBe(200);
      expect(await stop(child)).toBe(0);
      expect(shell(installed, 'find /var/lib/sluice ! -user sluice')).toBe('');
    });

    test('an upgrade keeps changed settings; removal and purge keep the data', () => {
      const machine = new OverlayMachine(installed);
      try {
        shell(machine, 'echo SVC_REGION=here >>/etc/sluice/sluice.env');
        shell(machine, `DEBIAN_FRONTEND=noninteractive dpkg --force-unsafe-io -i '${deb}'`);
        expect(shell(machine, 'tail -1 /etc/sluice/sluice.env')).toBe('SVC_REGION=here');
        shell(machine, 'dpkg --force-unsafe-io --remove sluice');
        expect(shell(machine, 'ls /etc/sluice/sluice.env; ls -d /usr/lib/sluice 2>/dev/null || true')).toBe(
          '/etc/sluice/sluice.env',
        );
        shell(machine, 'DEBIAN_FRONTEND=noninteractive dpkg --force-unsafe-io --purge sluice');
        expect(
          shell(machine, 'ls -d /etc/sluice 2>/dev/null || true; ls -d /var/lib/sluice; id -un sluice'),
        ).toBe('/var/lib/sluice\nsluice');
      } finally {
        machine.remove();
      }
    });

    test('purge removes the data and the user where the administrator has said so', () => {
      const machine = new OverlayMachine(installed);
      try {
        shell(machine, 'echo sluice sluice/remove-data boolean true | debconf-set-selections');
        shell(machine, 'DEBIAN_FRONTEND=noninteractive dpkg --force-unsafe-io --purge sluice');
        expect(
          shell(machine, 'ls -d /var/lib/sluice 2>/dev/null || true; id -un sluice 2>/dev/null || true'),
        ).toBe('');
      } finally {
        machine.remove();
      }
    });
  });
});
