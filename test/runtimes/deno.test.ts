/** Deno as users of it work: deno.json beside package.json, narrow permissions, and its tasks. */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { startServer, testCredentials } from '../support/server.ts';
import { install, runtimes } from './installed.ts';
import { smoke } from './smoke.ts';

install();

const root = join(import.meta.dirname, '../..');
const [program] = runtimes.Deno;
const folder = mkdtempSync(join(tmpdir(), 'sluice-deno-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const read = (name: string): Record<string, unknown> => JSON.parse(readFileSync(join(root, name), 'utf8'));
const [deno, npm] = [read('deno.json'), read('package.json')];

test('the import map of Deno holds every dependency at its version', () => {
  const of = (kind: string) => npm[kind] as Readonly<Record<string, string>>;
  // Of an optional peer dependency, the version that the tests run with.
  const peers = Object.keys(of('peerDependencies')).map(
    (name) => [name, of('devDependencies')[name]] as const,
  );
  const versions = [...Object.entries(of('dependencies')), ...peers];
  expect(deno['imports']).toEqual(
    Object.fromEntries(versions.map(([name, version]) => [name, `npm:${name}@${version}`])),
  );
});

test('Deno publishes the same version', () => {
  expect(deno['version']).toBe(npm['version']);
});

/** Those of deploy/README.md: the code, the data, one address, and the native parts of lmdb and of the checksums. */
const dataDir = join(folder, 'data');
const nodeModules = realpathSync(join(root, 'node_modules'));
const permissions = [
  '--allow-net=127.0.0.1',
  `--allow-read=${root},${nodeModules},${dataDir}`,
  `--allow-write=${dataDir}`,
  '--allow-env',
  '--allow-sys',
  `--allow-ffi=${nodeModules}`,
];

smoke({
  name: 'narrow permissions',
  start: async () => {
    const server = await startServer({
      runtime: [program, 'run', '--no-prompt', ...permissions],
      dataDir,
      // The file of the keys is outside of what the process may read.
      env: { SVC_CREDENTIALS_FILE: '', SVC_CREDENTIALS: JSON.stringify(Object.values(testCredentials)) },
    });
    return { ...server.credentials.root, url: server.url, stop: server.stop };
  },
});

test('deno publish --dry-run accepts the package', () => {
  // Types of most exports are inferred, so that JSR infers them too.
  const args = ['publish', '--dry-run', '--allow-dirty', '--allow-slow-types'];
  const { status, stderr } = spawnSync(program, args, { cwd: root, encoding: 'utf8' });
  expect(status, stderr).toBe(0);
  const files = [...stderr.matchAll(/file:\/\/\S+/g)].map(([url]) => url.replace(`file://${root}/`, ''));
  expect(files).toContain('src/mod.ts');
  expect(files.filter((file) => !/^src\/|^[^/]+$/.test(file))).toEqual([]);
});

test('deno task test runs tests on Deno', () => {
  const file = 'test/unit/open-gateway.test.ts';
  const { VITEST: _vitest, ...env } = process.env;
  const { status, stdout, stderr } = spawnSync(program, ['task', 'test', file], {
    cwd: root,
    env,
    encoding: 'utf8',
  });
  expect(status, stdout + stderr).toBe(0);
  expect(stdout).toContain(file);
});
