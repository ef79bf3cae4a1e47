/** The packed tarball, installed in an empty project as the README says. */
import { execFileSync, spawnSync } from 'node:child_process';
import {
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { startServer, type TestServer } from '../support/server.ts';
import { install, runtimes, unsupportedNode } from './installed.ts';
import { smoke } from './smoke.ts';

install();

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
  execFileSync('npm', ['install', ...options, join(top, tarball), ...tools], {
    cwd: project,
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  writeFileSync(join(project, 'program.ts'), program);
  for (const name of examples) copyFileSync(join(root, 'examples', name), join(project, name));
  // What the examples use is linked, because to install it takes longer than they do.
  for (const name of ['vitest', '@aws-sdk'])
    symlinkSync(join(root, 'node_modules', name), join(project, 'node_modules', name));
}, installMs);

afterAll(() => rmSync(top, { recursive: true, force: true }));

describe.each([
  ['nodenext', 'nodenext'],
  ['preserve', 'bundler'],
])('tsc with "module": "%s"', (module, moduleResolution) => {
  test('compiles a program that imports every entry, and checks the declarations of the package', () => {
    const flags = ['--strict', '--skipLibCheck', 'false', '--types', 'node', '--target', 'es2024'];
    const lib = ['--lib', 'es2024,dom,dom.iterable,dom.asynciterable'];
    const args = ['tsc', ...flags, ...lib, '--module', module, '--moduleResolution', moduleResolution];
    const { status, stdout } = spawnSync('npx', [...args, 'program.ts'], { cwd: project, encoding: 'utf8' });
    expect([stdout, status]).toEqual(['', 0]);
  }, 120_000);
});

describe('the examples of tests', () => {
  test('compile against the declarations of the package', () => {
    const flags = [
      '--strict',
      '--skipLibCheck',
      '--noEmit',
      '--allowImportingTsExtensions',
      '--types',
      'node',
    ];
    const args = ['tsc', ...flags, '--target', 'es2024', '--module', 'nodenext', ...examples];
    const { status, stdout } = spawnSync('npx', args, { cwd: project, encoding: 'utf8' });
    expect([stdout, status]).toEqual(['', 0]);
  }, 120_000);

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
    timeout: 35_000,
    interval: 100,
  });
  await server.stop();
}

for (const [name, [command, ...args]] of Object.entries(runtimes)) {
  test(
    `${name} runs a program that imports every entry`,
    () => {
      const output = execFileSync(command, [...args, 'program.js'], { cwd: project, encoding: 'utf8' });
      expect(JSON.parse(output)).toEqual({
        status: 200,
        count: entries.length,
        tested: [503, 'GetObject'],
      });
    },
    runMs,
  );
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

  test(
    'npx sluice serve prints one sentence and ends with code 1',
    () => {
      const { status, stderr, stdout } = run('npx', ['sluice', 'serve']);
      expect({ status, stdout }).toEqual({ status: 1, stdout: '' });
      expect(stderr).toMatch(/^[^\n]+\n$/);
      expect(stderr).toContain(sentence);
    },
    runMs,
  );

  test.each([manifest.name, `${manifest.name}/node`])(
    'import %s says the same',
    (entry) => {
      const { stderr } = run('node', ['--input-type=module', '--eval', `import '${entry}'`]);
      expect(stderr).toContain(sentence);
      expect(stderr).not.toContain('TypeError');
    },
    runMs,
  );
});
