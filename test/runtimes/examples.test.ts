/**
 * Every example, in its real framework or runtime: signed requests, the client's address, paths with dot segments, and
 * the application's own page.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Miniflare } from 'miniflare';
import { chromium } from 'playwright-core';
import { rolldown } from 'rolldown';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { executablePath } from '../console/world.ts';
import { freePorts } from '../support/engines/ports.ts';
import { type Send, sender } from './client.ts';
import { copyExample, frameworkCommand } from './frameworks.ts';
import { install, runtimes } from './installed.ts';

install();

const root = join(import.meta.dirname, '../..');
const examples = join(root, 'examples');
const secretKey = 'secret-of-the-examples';
const patience = { timeout: 180_000, interval: 100 };
const ownPage = 'the application’s own page';

interface Example {
  readonly url: string;
  log(): string;
  stop(): Promise<void>;
}

/** Runs an example as its first comment says. */
const start = (command: readonly string[], file: string): Promise<Example> =>
  run([...command, join(examples, file)], { cwd: root });

async function run(
  [program = '', ...args]: readonly string[],
  { cwd, env: more = {} }: { readonly cwd: string; readonly env?: NodeJS.ProcessEnv },
): Promise<Example> {
  const [port = 0] = await freePorts(1);
  const data = mkdtempSync(join(tmpdir(), 'sluice-example-'));
  const env = { ...process.env, PORT: String(port), DATA: data, SECRET: secretKey, ...more };
  const child = spawn(program, args, { env, cwd, stdio: ['ignore', 'pipe', 'pipe'] });
  let log = '';
  for (const stream of [child.stdout, child.stderr])
    stream?.on('data', (text) => {
      log += String(text);
    });
  const url = `http://127.0.0.1:${port}`;
  await vi.waitFor(async () => {
    if (child.exitCode !== null) return;
    await fetch(url);
  }, patience);
  if (child.exitCode !== null) throw new Error(`${args.join(' ')} ended: ${log}`);
  return { url, log: () => log, stop: () => end(child, data) };
}

async function end(child: ChildProcess, data: string): Promise<void> {
  const exited = new Promise((resolve) => child.once('exit', resolve));
  child.kill('SIGKILL');
  await exited;
  rmSync(data, { recursive: true, force: true });
}

/** Next.js with its compiler beside it, as `npm run dev` starts it: a build takes a minute more. */
async function startNext(): Promise<Example> {
  const { folder, remove } = copyExample('nextjs');
  // It gives its server a process of its own, which ends with it.
  const command = [process.execPath, frameworkCommand('next'), 'dev', '--hostname', '127.0.0.1'];
  const example = await run(command, {
    cwd: folder,
    // Its own mode, which a run of vitest has set for itself.
    env: { NODE_ENV: 'development', NEXT_TELEMETRY_DISABLED: '1' },
  });
  return {
    ...example,
    async stop() {
      await example.stop();
      remove();
    },
  };
}

/** SvelteKit's build on its adapter for Node, as `npm run build` and `npm start` make and start it. */
async function startSvelteKit(): Promise<Example> {
  const { folder, remove } = copyExample('sveltekit');
  const env = { NODE_ENV: 'production', BODY_SIZE_LIMIT: 'Infinity', HOST: '127.0.0.1' };
  execFileSync(process.execPath, [frameworkCommand('vite'), 'build'], {
    cwd: folder,
    env: { ...process.env, ...env },
  });
  const example = await run([process.execPath, 'build'], { cwd: folder, env });
  return {
    ...example,
    async stop() {
      await example.stop();
      remove();
    },
  };
}

/** The worker in the runtime of Cloudflare. */
async function startWorker(): Promise<Example> {
  const build = await rolldown({
    input: join(examples, 'worker.ts'),
    platform: 'neutral',
    resolve: { mainFields: ['module', 'main'], conditionNames: ['workerd', 'worker', 'browser', 'import'] },
    external: [/^node:/],
    logLevel: 'silent',
  });
  const { output } = await build.generate({ format: 'esm', codeSplitting: false });
  await build.close();
  const worker = new Miniflare({
    modules: [{ type: 'ESModule', path: 'worker.js', contents: output[0].code }],
    compatibilityDate: '2026-04-01',
    compatibilityFlags: ['nodejs_compat'],
    bindings: { SECRET: secretKey },
  });
  const { origin } = await worker.ready;
  return { url: origin, log: () => '', stop: () => worker.dispose() };
}

const deny = (address: string): string =>
  JSON.stringify({
    Version: '2012-10-17',
    Statement: [
      { Effect: 'Allow', Principal: '*', Action: 's3:GetObject', Resource: 'arn:aws:s3:::photos/*' },
      {
        Effect: 'Deny',
        Principal: '*',
        Action: 's3:GetObject',
        Resource: 'arn:aws:s3:::photos/*',
        Condition: { IpAddress: { 'aws:SourceIp': address } },
      },
    ],
  });

interface Row {
  readonly start: () => Promise<Example>;
  /** The framework passes the path on as it was sent. */
  readonly isRaw: boolean;
  /** The framework sends a longer stream in chunks, without the Content-Length that it was given. */
  readonly isChunked?: true;
  /** The runtime refuses large bodies, unless its application allows them. */
  readonly limitsBodies?: true;
}

const node = [process.execPath];
const ofBun = { isRaw: false, isChunked: true, limitsBodies: true } as const;
const rows: Readonly<Record<string, Row>> = {
  'express.ts': { start: () => start(node, 'express.ts'), isRaw: true },
  'fastify.ts': { start: () => start(node, 'fastify.ts'), isRaw: true },
  'koa.ts': { start: () => start(node, 'koa.ts'), isRaw: true },
  'deno.ts': { start: () => start(runtimes.Deno, 'deno.ts'), isRaw: true },
  'bun.ts': { start: () => start(runtimes.Bun, 'bun.ts'), ...ofBun },
  'itty-router.ts': { start: () => start(runtimes.Bun, 'itty-router.ts'), ...ofBun },
  'worker.ts': { start: startWorker, isRaw: false },
  nextjs: { start: startNext, isRaw: true },
  sveltekit: { start: startSvelteKit, isRaw: true },
};

describe.each(Object.entries(rows))('%s', (_, row) => {
  let example: Example;
  let send: Send;
  beforeAll(async () => {
    example = await row.start();
    send = sender({ url: example.url, accessKey: 'app', secretKey });
    expect((await send('PUT', '/s3/photos')).status).toBe(200);
  });
  afterAll(() => example?.stop());

  test('serves the S3 protocol below its path, beside the application’s own page', async () => {
    expect(await (await fetch(example.url)).text()).toBe(ownPage);
    const body = Buffer.alloc(300_000, 'x');
    for (const payload of ['signed', 'streaming'] as const)
      expect((await send('PUT', '/s3/photos/large', { body, payload })).status).toBe(200);
    const got = await send('GET', '/s3/photos/large');
    const length = row.isChunked ? undefined : '300000';
    expect([got.status, got.bytes.length, got.headers['content-length']]).toEqual([200, 300_000, length]);
    const json = await send('PUT', '/s3/photos/a.json', {
      body: '{"a":1}',
      headers: { 'content-type': 'application/json' },
    });
    expect(json.status).toBe(200);
    expect((await send('GET', '/s3/photos/a.json')).text).toBe('{"a":1}');
    const text = await send('PUT', '/s3/photos/directory/', {
      body: 'not packed',
      headers: { 'content-type': 'text/plain', 'content-encoding': 'x-own' },
    });
    expect(text.status).toBe(200);
    const { headers } = await send('HEAD', '/s3/photos/directory/');
    expect([headers['content-length'], headers['content-encoding']]).toEqual(['10', 'x-own']);
    expect((await send('GET', '/s3/photos/?list-type=2')).text).toContain('<Key>directory/</Key>');
    expect((await send('GET', '/s3')).text).toContain('<ListAllMyBucketsResult');
    expect((await send('DELETE', '/s3/photos/a.json')).status).toBe(204);
  });

  test.skipIf(row.limitsBodies !== true)(
    'takes a body of 129 MiB, which its runtime alone refuses',
    async () => {
      const body = Buffer.alloc(129 * 1024 * 1024);
      expect((await send('PUT', '/s3/photos/huge', { body, payload: 'unsigned' })).status).toBe(200);
      expect((await send('HEAD', '/s3/photos/huge')).headers['content-length']).toBe(String(body.length));
    },
  );

  test('a policy knows the client’s address', async () => {
    expect((await send('PUT', '/s3/photos/cat', { body: 'meow' })).status).toBe(200);
    for (const [address, status] of [
      ['127.0.0.0/8', 403],
      ['192.0.2.0/24', 200],
    ] as const) {
      expect((await send('PUT', '/s3/photos?policy', { body: deny(address) })).status).toBe(204);
      expect((await fetch(`${example.url}/s3/photos/cat`)).status).toBe(status);
    }
  });

  test(`a key with dot segments is ${row.isRaw ? 'stored under its name' : 'refused with the reason'}`, async () => {
    const put = await send('PUT', '/s3/photos/a/../b', { body: 'dots' });
    if (!row.isRaw) {
      expect([put.status, put.text]).toEqual([
        403,
        expect.stringContaining('rewrites the segments . and ..'),
      ]);
      return;
    }
    expect(put.status).toBe(200);
    expect((await send('GET', '/s3/photos?list-type=2')).text).toContain('<Key>a/../b</Key>');
  });
});

test('desktop.ts reads what it has stored', async () => {
  const data = mkdtempSync(join(tmpdir(), 'sluice-example-'));
  const child = spawn(process.execPath, [join(examples, 'desktop.ts')], {
    env: { ...process.env, DATA: data },
  });
  let said = '';
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (text) => {
      said += String(text);
    });
  const code = await new Promise((resolve) => child.once('close', resolve));
  rmSync(data, { recursive: true, force: true });
  expect([code, said]).toEqual([0, 'kept on this machine\n']);
});

test('upload.ts: a browser uploads a file with the form, and the application is told', async () => {
  const example = await start(node, 'upload.ts');
  const browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] });
  try {
    const page = await browser.newPage();
    await page.goto(example.url);
    await page.setInputFiles('input[type=file]', {
      name: 'my cat.txt',
      mimeType: 'text/plain',
      buffer: Buffer.from('meow'),
    });
    await page.click('button');
    await page.waitForURL(/\/thanks/);
    await vi.waitFor(
      () => expect(example.log()).toMatch(/stored [0-9a-f-]{36}\/my cat\.txt, 4 bytes/),
      patience,
    );
    await page.goto(example.url);
    await page.setInputFiles('input[type=file]', {
      name: 'big',
      mimeType: 'text/plain',
      buffer: Buffer.alloc(10_000_001),
    });
    await page.click('button');
    await page.waitForURL(/\/s3\/uploads/);
    expect(await page.content()).toContain('EntityTooLarge');
  } finally {
    await browser.close();
    await example.stop();
  }
});

test('no example is longer than 30 lines', () => {
  const long = readdirSync(examples, { recursive: true, encoding: 'utf8' })
    .filter((name) => /\.ts$/.test(name) && !name.endsWith('.test.ts'))
    .filter((name) => readFileSync(join(examples, name), 'utf8').trimEnd().split('\n').length > 30);
  expect(long).toEqual([]);
});
