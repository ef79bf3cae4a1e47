/** The packed tarball, installed in an empty project as the README says. */
import { execFileSync, spawnSync } from 'node:child_process';
import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { startServer, type TestServer } from '../support/server.ts';
import { frameworkPackage, installFrameworks } from './frameworks.ts';
import { install, runtimes, unsupportedNode } from './installed.ts';
import { smoke } from './smoke.ts';

install();
installFrameworks();

const root = join(import.meta.dirname, '../..');
const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
const entries = Object.keys(manifest.exports).map((path) => path.replace(/^\./, manifest.name));
/** An installation from a registry. */
const installMs = 400_000;
const runMs = 60_000;

const top = mkdtempSync(join(tmpdir(), 'sluice-packed-'));
const project = join(top, 'project');

/** The examples of tests, and what they test. */
const examples = ['avatars.ts', 'testing-node.test.ts', 'testing-vitest.test.ts'] as const;

/** Folders that a framework builds, and the packages that their types come from. */
const frameworkExamples = ['nextjs', 'sveltekit'] as const;
const frameworks = ['next', 'vite', 'svelte', '@sveltejs'] as const;

/** A program of TypeScript: every entry, the types of a few exports, and a gateway that answers. */
const program = [
  ...entries.map((entry, index) => `import * as entry${index} from '${entry}';`),
  `import { createGateway, type Gateway, parseConfig } from '${manifest.name}';`,
  `import type { AdminClient } from '${manifest.name}/admin-client';`,
  `import { type Composed, compose } from '${manifest.name}/node';`,
  `import { startTestServer, type TestServer } from '${manifest.name}/testing';`,
  // An export without types would be `any`, and assignable to a number.
  '// @ts-expect-error',
  'export const typed: number = createGateway;',
  'export type Client = AdminClient;',
  `const config = parseConfig({ SVC_REGION: 'here' });`,
  `if ('faults' in config) throw new Error(config.faults.join());`,
  'const composed: Composed = await compose(config, { credentials: [] });',
  'const gateway: Gateway = createGateway(composed.context);',
  `const { status }: Response = await gateway.fetch(new Request('http://127.0.0.1/healthz'));`,
  'await composed.close();',
  `const s3: TestServer = await startTestServer({ seed: { photos: { cat: 'meow' } } });`,
  `s3.fail({ next: 'SlowDown' });`,
  `const slow = (await fetch(s3.endpoint + '/photos/cat')).status;`,
  'const tested = [slow, s3.requests[0]?.operation];',
  'await s3.close();',
  `const count = [${entries.map((_, index) => `entry${index}`).join(', ')}].filter((entry) => Object.keys(entry).length > 0).length;`,
  'console.log(JSON.stringify({ status, count, tested }));',
  'process.exit(0);',
].join('\n');

/** What an application exports of the library without naming a type: the declarations of these need every type of the signatures. */
const declared = [
  `import { bunHandler, denoHandler, directory, honoHandler, memory, openGateway, s3, workerHandler } from '${manifest.name}';`,
  `import type { Authorize, OpenOptions, SettingOptions } from '${manifest.name}';`,
  `import { routeHandler, toNodeHandler } from '${manifest.name}/node';`,
  `const credentials = [{ accessKey: 'KEY', secretKey: 'a-long-secret', owner: 'me' }];`,
  `export const open = () => openGateway({ credentials, storage: memory(), onEvent: ({ key }) => console.log(key) });`,
  'export const storage = await open();',
  'export const { fetch, handle, mount, presign, presignPost, close } = storage;',
  `export const mounted = mount('/s3');`,
  `const { BASE, NAME } = process.env;`,
  `export const fromVariables = () => openGateway({ credentials: [{ ...credentials[0]!, displayName: NAME }], storage: memory(), basePath: BASE, region: NAME, workers: BASE === NAME ? undefined : false });`,
  `export const form = presignPost({ origin: 'http://a', bucket: 'b', key: 'k', expiresSeconds: 1 });`,
  'export const kinds = { directory, memory, s3, onDisk: directory("./data") };',
  'export const handlers = [toNodeHandler(storage), routeHandler(open), denoHandler(storage), bunHandler(storage), workerHandler(storage), honoHandler(storage)] as const;',
  'export const authorize: Authorize = (_, { key, remote }) => (remote === key ? "anonymous" : undefined);',
  `import { cloudflare, openGateway as openInWorker } from '${manifest.name}/cloudflare';`,
  `import type { OpenGateway as InWorker, Storage as WorkerStorage } from '${manifest.name}/cloudflare';`,
  'export const inWorker = (durable: WorkerStorage): Promise<InWorker> => openInWorker({ credentials, storage: durable });',
  'export const durable = (...options: Parameters<typeof cloudflare>) => inWorker(cloudflare(...options));',
  'export type Names = keyof SettingOptions | keyof OpenOptions;',
].join('\n');

interface Installed {
  readonly names: readonly string[];
  readonly bytes: number;
}

/** The packages below `node_modules`, and the bytes of all files. */
function measure(folder: string): Installed {
  const entries = readdirSync(folder, { recursive: true, encoding: 'utf8' });
  const names = entries
    .filter((path) => /(?:^|node_modules\/)(?:@[^/]+\/)?[^/]+\/package\.json$/.test(path))
    .map((path) => path.replace(/\/package\.json$/, ''));
  const bytes = entries.reduce((sum, path) => {
    const found = statSync(join(folder, path));
    return found.isFile() ? sum + found.size : sum;
  }, 0);
  return { names, bytes };
}

let installed: Installed;
const megabyte = 1_000_000;

beforeAll(() => {
  mkdirSync(project);
  execFileSync('npm', ['pack', '--pack-destination', top], {
    cwd: root,
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const [tarball = ''] = readdirSync(top).filter((name) => name.endsWith('.tgz'));
  writeFileSync(join(project, 'package.json'), '{"private":true,"type":"module"}');
  const tools = ['typescript', '@types/node'].map((name) => `${name}@${manifest.devDependencies[name]}`);
  const options = ['--prefer-offline', '--no-audit', '--no-fund'];
  const add = (...packages: readonly string[]) =>
    execFileSync('npm', ['install', ...options, ...packages], {
      cwd: project,
      stdio: ['ignore', 'ignore', 'pipe'],
    });
  add(join(top, tarball));
  installed = measure(join(project, 'node_modules'));
  add(...tools);
  writeFileSync(join(project, 'program.ts'), program);
  for (const name of examples) copyFileSync(join(root, 'examples', name), join(project, name));
  // What the examples use is linked, because to install it takes longer than they do.
  for (const name of ['vitest', '@aws-sdk'])
    symlinkSync(join(root, 'node_modules', name), join(project, 'node_modules', name));
  for (const name of frameworks) symlinkSync(frameworkPackage(name), join(project, 'node_modules', name));
  for (const name of frameworkExamples)
    cpSync(join(root, 'examples', name), join(project, name), { recursive: true });
  writeFileSync(join(project, 'declared.ts'), declared);
}, installMs);

afterAll(() => rmSync(top, { recursive: true, force: true }));

test('an installation has at most 60 packages and 40 MB, no client of an engine, and no install script of ours', () => {
  const { names, bytes } = installed;
  console.log(`${names.length} packages, ${(bytes / megabyte).toFixed(1)} MB`);
  expect(names.length).toBeGreaterThan(10);
  expect(names.length).toBeLessThanOrEqual(60);
  expect(bytes).toBeLessThanOrEqual(40 * megabyte);
  expect(names.filter((name) => name in manifest.peerDependencies)).toEqual([]);
  const scripts = Object.keys(manifest.scripts);
  expect(scripts.filter((name) => /^(?:pre|post)?(?:install|prepare)$/.test(name))).toEqual([]);
});

test('the package has the licences of the libraries that its console bundles', () => {
  const folder = join(project, 'node_modules', manifest.name);
  const texts = readFileSync(join(folder, 'dist/console/licenses.txt'), 'utf8').split(
    `\n${'-'.repeat(72)}\n`,
  );
  const named = texts.map((text) => text.trim().split(' ')[0]);
  for (const name of ['preact', 'uplot', '@tanstack/react-query', '@tanstack/react-router'])
    expect(named).toContain(name);
  for (const text of texts) expect(text).toMatch(/Permission is hereby granted/);
});

test('a start that needs a missing package is refused with the command that installs it, and all of them together', () => {
  const targets = [
    { id: 'log', type: 'kafka', url: 'kafka://127.0.0.1:9092', topic: 't' },
    { id: 'bus', type: 'nats', url: 'nats://127.0.0.1:4222', subject: 's' },
  ];
  const { status, stderr } = spawnSync('npx', ['sluice', 'serve'], {
    cwd: project,
    encoding: 'utf8',
    env: {
      PATH: process.env['PATH'] ?? '',
      HOME: top,
      SVC_DATA_DIR: join(top, 'data'),
      SVC_META_BACKEND: 'wide-column',
      SVC_WIDECOL_HOSTS: '127.0.0.1',
      SVC_CREDENTIALS: '[{"accessKey":"KEY","secretKey":"a-long-secret","owner":"me","root":true}]',
      SVC_NOTIFY_TARGETS: JSON.stringify(targets),
    },
  });
  expect(status).toBe(2);
  const version = (name: string): string => `${name}@${manifest.peerDependencies[name]}`;
  expect(stderr).toContain(
    `SVC_META_BACKEND=wide-column needs the package cassandra-driver: run \`npm install ${version('cassandra-driver')}\` where sluice is installed`,
  );
  expect(stderr).toContain(
    `the target log of SVC_NOTIFY_TARGETS needs the package @platformatic/kafka: run \`npm install ${version('@platformatic/kafka')}\``,
  );
  expect(stderr).toContain(
    `run \`npm install ${version('@nats-io/transport-node')} ${version('@nats-io/jetstream')}\``,
  );
  expect(existsSync(join(top, 'data', 'metadata'))).toBe(false);
});

test('openGateway refuses with the name of the option', () => {
  const script = [
    `import { directory, openGateway } from '${manifest.name}';`,
    `const credentials = [{ accessKey: 'KEY', secretKey: 'a-long-secret', owner: 'me' }];`,
    `const options = { credentials, storage: directory('./data'), metaBackend: 'ordered-kv', kvPdEndpoints: ['127.0.0.1:2379'], masterKeyFile: './key' };`,
    'await openGateway(options).catch((error) => console.log(error.message));',
  ].join('\n');
  const { stdout } = spawnSync('node', ['--input-type=module', '--eval', script], {
    cwd: project,
    encoding: 'utf8',
  });
  expect(stdout).toContain(
    'metaBackend=ordered-kv needs the packages @grpc/grpc-js and protobufjs: run `npm install',
  );
});

describe.each([
  ['nodenext', 'nodenext'],
  ['preserve', 'bundler'],
])('tsc with "module": "%s"', (module, moduleResolution) => {
  test('compiles a program that imports every entry, and checks the declarations of the package', () => {
    const exact = ['--strict', '--exactOptionalPropertyTypes'];
    const flags = [...exact, '--skipLibCheck', 'false', '--types', 'node', '--target', 'es2024'];
    const lib = ['--lib', 'es2024,dom,dom.iterable,dom.asynciterable'];
    const args = ['tsc', ...flags, ...lib, '--module', module, '--moduleResolution', moduleResolution];
    const compile = [...args, '--declaration', 'program.ts', 'declared.ts'];
    const { status, stdout } = spawnSync('npx', compile, { cwd: project, encoding: 'utf8' });
    expect([stdout, status]).toEqual(['', 0]);
  });
});

/** @returns the output of the compiler, and its exit status */
function compileStrict(module: string, files: readonly string[]): [string, number | null] {
  const flags = ['--strict', '--skipLibCheck', '--noEmit', '--allowImportingTsExtensions', '--types', 'node'];
  const args = ['tsc', ...flags, '--target', 'es2024', '--module', module, ...files];
  const { status, stdout } = spawnSync('npx', args, { cwd: project, encoding: 'utf8' });
  return [stdout, status];
}

test('the test server loads neither node:http nor node:tls, and its files are ASCII, which V8 stores in half the memory', () => {
  const folder = join(project, 'node_modules', manifest.name, 'dist/testing');
  for (const name of readdirSync(folder))
    expect(readFileSync(join(folder, name), 'latin1'), name).not.toMatch(/[^\0-\x7f]/);
  const script = [
    `import { startTestServer } from '${manifest.name}/testing';`,
    'const s3 = await startTestServer();',
    `console.log(JSON.stringify(process.moduleLoadList.filter((name) => /^NativeModule (?:http|tls)$/.test(name))));`,
    'await s3.close();',
  ].join('\n');
  const args = ['--input-type=module', '--eval', script];
  expect(execFileSync('node', args, { cwd: project, encoding: 'utf8' })).toBe('[]\n');
});

test.each(frameworkExamples)('the example %s compiles against the declarations of the package', (name) => {
  const files = readdirSync(join(project, name), { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts'))
    .map((file) => join(name, file));
  expect(compileStrict('preserve', files)).toEqual(['', 0]);
});

describe('the examples of tests', () => {
  test('compile against the declarations of the package', () => {
    expect(compileStrict('nodenext', examples)).toEqual(['', 0]);
  });

  test.each([
    ['vitest', [join(root, 'node_modules/vitest/vitest.mjs'), 'run', '--root', project, 'testing-vitest']],
    ['node --test', ['--test', 'testing-node.test.ts']],
  ])(
    'pass with %s',
    (_, args) => {
      const [node] = runtimes['Node 24'];
      // A run of tests tells the tests in it that they are inside of one.
      const { VITEST: _vitest, NODE_TEST_CONTEXT: _context, ...env } = process.env;
      const { status, stdout, stderr } = spawnSync(node, args, { cwd: project, env, encoding: 'utf8' });
      expect(status, stdout + stderr).toBe(0);
      expect(stdout).not.toMatch(/tests 0|no tests/i);
    },
    runMs * 3,
  );
});

/** What a user of the runtime types, after `npm install`. */
const commands = {
  'Node 22': ['npx', 'sluice'],
  'Node 24': ['npx', 'sluice'],
  'Node 26': ['npx', 'sluice'],
  Bun: [runtimes.Bun[0], 'x', '--bun', 'sluice'],
  Deno: [...runtimes.Deno, 'npm:sluice'],
} satisfies Record<keyof typeof runtimes, readonly string[]>;

/** The search path on which `node` is the one of the runtime. */
const pathOf = (program: string): string => [dirname(program), process.env['PATH'] ?? ''].join(delimiter);

/** Stops a server as Ctrl-C does. A signal to npx alone ends only npx. */
async function interrupt(server: TestServer): Promise<void> {
  const group = -(server.process.pid ?? 0);
  process.kill(group, 'SIGINT');
  await vi.waitFor(() => expect(() => process.kill(group, 0)).toThrow('ESRCH'), {
    timeout: 90_000,
    interval: 100,
  });
  await server.stop();
}

for (const [name, [command, ...args]] of Object.entries(runtimes)) {
  test(`${name} runs a program that imports every entry`, () => {
    const output = execFileSync(command, [...args, 'program.js'], { cwd: project, encoding: 'utf8' });
    expect(JSON.parse(output)).toEqual({
      status: 200,
      count: entries.length,
      tested: [503, 'GetObject'],
    });
  });
}

for (const [name, command] of Object.entries(commands)) {
  const [program] = runtimes[name as keyof typeof runtimes];
  smoke({
    name: `${command.slice(-2).join(' ')} serve on ${name}`,
    start: async () => {
      const server = await startServer({
        runtime: command.slice(0, -1),
        command: command.at(-1) ?? '',
        cwd: project,
        env: { PATH: pathOf(program) },
      });
      return { ...server.credentials.root, url: server.url, stop: () => interrupt(server) };
    },
  });
}

describe('Node 20', () => {
  const sentence = `sluice needs Node ${manifest.engines.node.replace('>=', '')} or later; this is Node 20.`;
  const run = (command: string, args: readonly string[]) =>
    spawnSync(command, args, {
      cwd: project,
      encoding: 'utf8',
      env: { PATH: pathOf(unsupportedNode), HOME: top },
    });

  test('npx sluice serve prints one sentence and ends with code 1', () => {
    const { status, stderr, stdout } = run('npx', ['sluice', 'serve']);
    expect({ status, stdout }).toEqual({ status: 1, stdout: '' });
    expect(stderr).toMatch(/^[^\n]+\n$/);
    expect(stderr).toContain(sentence);
  });

  test.each([manifest.name, `${manifest.name}/node`])('import %s says the same', (entry) => {
    const { stderr } = run('node', ['--input-type=module', '--eval', `import '${entry}'`]);
    expect(stderr).toContain(sentence);
    expect(stderr).not.toContain('TypeError');
  });
});
