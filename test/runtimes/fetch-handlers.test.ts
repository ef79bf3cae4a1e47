/** The handlers of `Bun.serve` and `Deno.serve`: clients that leave. */
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { request } from 'node:http';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { freePorts } from '../support/engines/ports.ts';
import { signer } from '../support/sign.ts';
import { type Send, sender } from './client.ts';
import { install, runtimes } from './installed.ts';

install();

const patience = { timeout: 180_000, interval: 100 };
const key = { accessKey: 'app', secretKey: 'secret-of-the-app' };
/** What the log says of a client that left; Bun aborts the signal first. */
const left = {
  Bun: { level: 'DEBUG', message: 'client went away', status: 400 },
  Deno: { level: 'INFO', code: 'IncompleteBody', status: 400 },
};

describe.each(['Bun', 'Deno'] as const)('the handler of %s', (name) => {
  let url = '';
  let log = '';
  let send: Send;
  let stop = async (): Promise<void> => {};
  beforeAll(async () => {
    const [port = 0] = await freePorts(1);
    const [program, ...args] = runtimes[name];
    const file = `${import.meta.dirname}/fetch-server.ts`;
    const child = spawn(program, [...args, file, String(port)]);
    stop = async () => {
      const exited = once(child, 'exit');
      child.kill('SIGKILL');
      await exited;
    };
    child.stderr.on('data', (text) => {
      log += String(text);
    });
    url = `http://127.0.0.1:${port}`;
    send = sender({ url, ...key, connectsAnew: true });
    await vi.waitFor(async () => expect((await send('PUT', '/photos')).status, log).toBe(200), patience);
  });
  afterAll(() => stop());

  test('a client that leaves during an upload is refused, and nothing is logged as a fault of the service', async () => {
    const { host } = new URL(url);
    const body = randomBytes(100_000);
    const signed = signer({ ...key, host }).request({
      method: 'PUT',
      path: '/photos/left',
      body,
      payload: 'unsigned',
    });
    const upload = request(`${url}${signed.target}`, { method: 'PUT', headers: signed.headers.flat() });
    upload.on('error', () => {});
    upload.write(body.subarray(0, 50_000), () => setImmediate(() => upload.destroy()));
    await vi.waitFor(() => expect(log).toMatch(/"operation":"PutObject".*"path":"\/photos\/left"/), patience);
    const line = log.split('\n').find((each) => each.includes('/photos/left'));
    expect(JSON.parse(line ?? '')).toMatchObject(left[name]);
    expect((await send('GET', '/photos/left')).status).toBe(404);
  });
});
