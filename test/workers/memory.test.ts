/** The memory of an isolate does not grow with a body: docs/benchmarks.md has the figures that this prints. */
import { request as httpRequest } from 'node:http';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Miniflare } from 'miniflare';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Send, sender } from '../runtimes/client.ts';
import { durableBindings, workerdFlags } from '../runtimes/workerd.ts';
import { testCredentials } from '../support/server.ts';
import { signer } from '../support/sign.ts';
import { bundleWorker } from './bundle.ts';
import { type IsolateMemory, openIsolateMemory, type Peak } from './isolate-memory.ts';

const megabyte = 1_000_000;
/** Half of what an isolate has. */
const bytesMax = 64 * megabyte;
/** A reader pauses so long after so many bytes. */
const readerMs = 100;
const pauseBytes = 2 * megabyte;
const { accessKey, secretKey } = testCredentials.root;
let worker: Miniflare;
let memory: IsolateMemory;
let url: URL;
let send: Send;

beforeAll(async () => {
  const contents = await bundleWorker(join(import.meta.dirname, 'slow-bucket.ts'), { minify: true });
  worker = new Miniflare({
    name: 'sluice',
    modules: [{ type: 'ESModule', path: 'sluice.js', contents }],
    ...workerdFlags,
    ...durableBindings,
    inspectorPort: 0,
    handleStructuredLogs: () => {},
  });
  url = await worker.ready;
  memory = await openIsolateMemory(worker, 'sluice');
  send = sender({ url: url.origin, accessKey, secretKey, connectsAnew: true });
  expect((await send('PUT', '/memory')).status).toBe(200);
});
afterAll(async () => {
  memory?.[Symbol.dispose]();
  await worker?.dispose();
});

/** Reads an object as a client does whose network is slower than R2. @returns its length */
function readSlowly(path: string): Promise<number> {
  const { target, headers } = signer({ accessKey, secretKey, host: url.host }).request({
    method: 'GET',
    path,
  });
  return new Promise((resolve, reject) => {
    const request = httpRequest(
      { hostname: url.hostname, port: url.port, path: target, headers: headers.flat(), agent: false },
      async (response) => {
        let [bytes, pausesAt] = [0, pauseBytes];
        for await (const piece of response) {
          bytes += (piece as Buffer).length;
          if (bytes < pausesAt) continue;
          pausesAt += pauseBytes;
          await sleep(readerMs);
        }
        resolve(bytes);
      },
    );
    request.on('error', reject);
    request.end();
  });
}

const report = (what: string, { bytes, samples }: Peak): void =>
  console.log(`${what}: ${(bytes / megabyte).toFixed(0)} MB at its peak, ${samples} samples`);

test.each([1, 64, 96])('PUT and GET of %i MB take less than 64 MB of the isolate', async (megabytes) => {
  const body = Buffer.alloc(megabytes * megabyte, 'x');
  const put = await memory.peakDuring(async () => {
    expect((await send('PUT', '/memory/k', { body, payload: 'unsigned' })).status).toBe(200);
  });
  report(`PUT of ${megabytes} MB`, put);
  const get = await memory.peakDuring(async () => {
    expect(await readSlowly('/memory/k')).toBe(body.length);
  });
  report(`GET of ${megabytes} MB`, get);
  for (const { bytes, samples } of [put, get]) {
    expect(samples).toBeGreaterThanOrEqual(megabytes / 32);
    expect(bytes).toBeLessThan(bytesMax);
  }
});

test('four clients that PUT 16 MB each, and then GET them, take less than the 128 MB of an isolate', async () => {
  const body = Buffer.alloc(16 * megabyte, 'x');
  const keys = ['a', 'b', 'c', 'd'].map((key) => `/memory/${key}`);
  const put = await memory.peakDuring(async () => {
    const replies = await Promise.all(keys.map((key) => send('PUT', key, { body, payload: 'unsigned' })));
    expect(replies.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
  });
  report('four PUTs of 16 MB', put);
  const get = await memory.peakDuring(async () => {
    await Promise.all(keys.map((key) => readSlowly(key)));
  });
  report('four GETs of 16 MB', get);
  for (const { bytes } of [put, get]) expect(bytes).toBeLessThan(2 * bytesMax);
});
