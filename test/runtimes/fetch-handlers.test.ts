/** The handlers of `Bun.serve` and `Deno.serve`: clients that leave, replies that begin late, readers that pause. */
import { spawn } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { get, request } from 'node:http';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { freePorts } from '../support/engines/ports.ts';
import { signer } from '../support/sign.ts';
import { type Send, sender } from './client.ts';
import { install, runtimes } from './installed.ts';

install();

const patience = { timeout: 180_000, interval: 100 };
const key = { accessKey: 'app', secretKey: 'secret-of-the-app' };
/** Longer than `Bun.serve` waits by default. */
const silentMs = 14_000;
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
    const child = spawn(program, [...args, file, String(port), String(silentMs)]);
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

  test(`a reply that begins after ${silentMs / 1000} s arrives`, async () => {
    const body = '<Delete><Object><Key>none</Key></Object></Delete>';
    const headers = (sent: string) => ({
      'content-length': sent.length,
      'content-md5': createHash('md5').update(sent).digest('base64'),
    });
    const ask = async (method: string, target: string, sent: string): Promise<number> => {
      const asking = request(`${url}${target}`, { method, agent: false, headers: headers(sent) });
      asking.end(sent);
      const [response] = await once(asking, 'response');
      response.resume();
      return response.statusCode;
    };
    expect(
      await Promise.all([ask('GET', '/photos?list-type=2', ''), ask('POST', '/photos?delete', body)]),
    ).toEqual([200, 200]);
  });

  test(`a download whose reader pauses for ${silentMs / 1000} s is whole`, async () => {
    const body = randomBytes(64 * 1024 * 1024);
    expect((await send('PUT', '/photos/large', { body })).status).toBe(200);
    const signed = signer({ ...key, host: new URL(url).host }).request({ path: '/photos/large' });
    const asking = get(`${url}/photos/large`, { agent: false, headers: signed.headers.flat() });
    const [response] = await once(asking, 'response');
    const pieces: Buffer[] = [];
    for await (const piece of response) {
      if (pieces.length === 0) await new Promise((resolve) => setTimeout(resolve, silentMs));
      pieces.push(piece);
    }
    expect(Buffer.concat(pieces).equals(body)).toBe(true);
  });
});
