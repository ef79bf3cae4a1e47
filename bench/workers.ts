/**
 * What a request costs in workerd: the resident memory and the CPU time of its process while a large body is written
 * and read, in one request and in parts.
 * `node bench/workers.ts [MB]`; metadata in a Durable Object and bytes in R2, whose simulators run in the same process.
 */
import { readFileSync } from 'node:fs';
import { globalAgent } from 'node:http';
import { Miniflare } from 'miniflare';
import { type Send, sender } from '../test/runtimes/client.ts';
import { durableBindings, workerdEntry, workerdFlags } from '../test/runtimes/workerd.ts';
import { testCredentials } from '../test/support/server.ts';
import { bundleWorker } from '../test/workers/bundle.ts';
import { cpuSeconds, findChild } from './lib/process-cost.ts';

const megabytes = Number(process.argv[2] ?? 64);
const partBytes = 16_000_000;
const worker = new Miniflare({
  modules: [
    { type: 'ESModule', path: 'sluice.js', contents: await bundleWorker(workerdEntry, { minify: true }) },
  ],
  ...workerdFlags,
  ...durableBindings,
  handleStructuredLogs: () => {},
});
const { origin: url } = await worker.ready;
const sendAsIs = sender({ url, ...testCredentials.root });
const send: Send = (...request) => {
  // workerd closes connections that were idle, also while a request is sent on one.
  globalAgent.destroy();
  return sendAsIs(...request);
};

/** miniflare's child. */
const pid = findChild();
const field = (file: string, name: string): number =>
  Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(readFileSync(`/proc/${pid}/${file}`, 'utf8'))?.[1]);
async function measure(name: string, act: () => Promise<void>): Promise<void> {
  const [before, cpuBefore] = [field('status', 'VmRSS'), cpuSeconds(pid)];
  let peak = before;
  const timer = setInterval(() => {
    peak = Math.max(peak, field('status', 'VmRSS'));
  }, 20);
  await act();
  clearInterval(timer);
  const toMegabytes = (kibibytes: number): string => (kibibytes / 1000).toFixed(0);
  console.log(
    `${name}: ${toMegabytes(before)} MB before, ${toMegabytes(peak)} MB at its peak, ${(cpuSeconds(pid) - cpuBefore).toFixed(1)} s of CPU`,
  );
}

const expectOk = ({ status, text }: { readonly status: number; readonly text: string }): void => {
  if (status !== 200) throw new Error(`${status}: ${text}`);
};

expectOk(await send('PUT', '/bench'));
const body = Buffer.alloc(megabytes * 1_000_000, 'x');
await measure('warm-up, PUT and GET of 4 MB', async () => {
  expectOk(await send('PUT', '/bench/small', { body: body.subarray(0, 4_000_000) }));
  expectOk(await send('GET', '/bench/small'));
});
await measure(`PUT of ${megabytes} MB`, async () =>
  expectOk(await send('PUT', '/bench/large', { body, payload: 'unsigned' })),
);
await measure(`GET of ${megabytes} MB`, async () => {
  const reply = await send('GET', '/bench/large');
  if (reply.bytes.length !== body.length) throw new Error(`${reply.bytes.length} bytes`);
});
await measure(`multipart upload of ${megabytes} MB`, async () => {
  const created = await send('POST', '/bench/parts?uploads=');
  const uploadId = /<UploadId>(.*?)<\/UploadId>/.exec(created.text)?.[1];
  const etags: string[] = [];
  for (let at = 0; at < body.length; at += partBytes) {
    const part = body.subarray(at, at + partBytes);
    const target = `/bench/parts?partNumber=${etags.length + 1}&uploadId=${uploadId}`;
    const reply = await send('PUT', target, { body: part, payload: 'unsigned' });
    expectOk(reply);
    etags.push(String(reply.headers.etag));
  }
  const parts = etags.map(
    (etag, index) => `<Part><PartNumber>${index + 1}</PartNumber><ETag>${etag}</ETag></Part>`,
  );
  const complete = `<CompleteMultipartUpload>${parts.join('')}</CompleteMultipartUpload>`;
  expectOk(await send('POST', `/bench/parts?uploadId=${uploadId}`, { body: complete }));
});
await worker.dispose();
