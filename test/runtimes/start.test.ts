/**
 * How the `sluice` command starts: from the joined modules of `npm ci` where they are of the same sources, and with
 * what the settings need.
 */
import { execFileSync } from 'node:child_process';
import {
  appendFileSync,
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startServer } from '../support/server.ts';

const root = join(import.meta.dirname, '../..');
const top = mkdtempSync(join(tmpdir(), 'sluice-start-'));
afterAll(() => rmSync(top, { recursive: true, force: true }));

/** A checkout of its own. */
const checkout = join(top, 'checkout');
const bundle = join(checkout, '.cache/server');
const node = (...args: string[]): string =>
  execFileSync(process.execPath, args, { cwd: checkout, encoding: 'utf8', env: {} });
const build = (): string => node('deploy/package/bundle-server.ts');
const version = (): string => node('src/runtime/cli.ts', '--version');

beforeAll(() => {
  mkdirSync(checkout);
  for (const name of ['src', 'deploy/package'])
    cpSync(join(root, name), join(checkout, name), { recursive: true });
  copyFileSync(join(root, 'package.json'), join(checkout, 'package.json'));
  symlinkSync(join(root, 'node_modules'), join(checkout, 'node_modules'));
});

describe('the joined modules', () => {
  it('run where they are of these sources, and not once a source has changed or is gone', () => {
    const plain = version();
    build();
    expect(version()).toBe(plain);
    writeFileSync(join(bundle, 'cli.js'), `export const runCommand = () => console.log('joined') ?? 0;`);
    expect(version()).toBe('joined\n');
    appendFileSync(join(checkout, 'src/handlers/console.ts'), '\n');
    expect(version()).toBe(plain);
    build();
    writeFileSync(join(bundle, 'cli.js'), `export const runCommand = () => console.log('joined') ?? 0;`);
    expect(version()).toBe('joined\n');
    const unused = 'src/backends/sinks/amqp.ts';
    rmSync(join(checkout, unused));
    expect(version()).toBe(plain);
    copyFileSync(join(root, unused), join(checkout, unused));
  });

  it('are left alone where their build was interrupted', () => {
    const plain = version();
    build();
    truncateSync(join(bundle, 'cli.js'), 10);
    rmSync(join(bundle, 'sources.json'));
    expect(version()).toBe(plain);
  });

  it('serve with one process and with two, and stop', async () => {
    build();
    for (const processes of ['1', '2']) {
      const server = await startServer({
        command: join(checkout, 'src/runtime/cli.ts'),
        env: { SVC_PROCESSES: processes },
      });
      expect((await fetch(`${server.url}/healthz`)).status).toBe(200);
      expect(await server.stop()).toBe(0);
    }
  });
});

/** The modules of each process of a server with the default backends, and what Node calls the process. */
async function modulesOf(processes: string): Promise<Readonly<Record<string, string>>> {
  const lists = mkdtempSync(join(top, 'lists-'));
  const hooks = `
    import { appendFileSync } from 'node:fs';
    import { registerHooks } from 'node:module';
    const list = ${JSON.stringify(`${lists}/`)} + (process.send === undefined ? 'first' : 'forked');
    registerHooks({ resolve(name, context, next) {
      const found = next(name, context);
      appendFileSync(list, found.url + '\\n');
      return found;
    } });`;
  const server = await startServer({
    runtime: [process.execPath, '--import', `data:text/javascript,${encodeURIComponent(hooks)}`],
    env: { SVC_PROCESSES: processes },
  });
  await server.stop();
  const read = (name: string): string =>
    existsSync(join(lists, name)) ? readFileSync(join(lists, name), 'utf8') : '';
  return { first: read('first'), forked: read('forked') };
}

describe('a start', () => {
  it('loads no HTTP client, no XML parser and no client of an engine with the default backends', async () => {
    const { first } = await modulesOf('1');
    expect(first).toContain('/lmdb/');
    expect(first).not.toMatch(
      /\/node_modules\/(?:undici|fast-xml-parser|hyparquet-writer|koffi|cassandra-driver|@grpc)\//,
    );
  });

  it('evaluates no table of the operator API before an operator asks', async () => {
    const { first } = await modulesOf('1');
    expect(first).toMatch(/\/src\/gateway\.ts|\/server\/serving\.js/);
    expect(first).not.toMatch(
      /\/src\/(?:handlers\/admin\/(?:router|table)|protocol\/admin\/operations)\.ts|\/server\/router\.js/,
    );
  });

  it('has a primary process without metadata, metrics, the exporter of traces and the gateway', async () => {
    const { first, forked } = await modulesOf('2');
    expect(forked).toContain('/lmdb/');
    expect(first).not.toMatch(
      /\/node_modules\/lmdb\/|\/src\/(?:gateway|handlers|domain|metadata|workers|telemetry\/(?:metric-registry|otlp))|\/server\/serving/,
    );
  });
});
