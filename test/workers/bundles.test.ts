/** What the bundles of a Worker contain: their sizes, and the two scripts of a deployment that answers requests with the smallest one. */
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { Miniflare, type MiniflareOptions } from 'miniflare';
import { expect, test } from 'vitest';
import { durableBindings, workerdEntry, workerdFlags } from '../runtimes/workerd.ts';
import { bundleWorker } from './bundle.ts';
import { clientOf } from './gateways.ts';

const smallWorker = join(import.meta.dirname, 'small-worker.ts');
const metadataWorker = join(import.meta.dirname, 'metadata-worker.ts');

/** Bytes. docs/workers.md has them. */
const bounds = {
  'a Worker that answers requests': { entry: smallWorker, plain: 724_500, compressed: 248_400 },
  'the script of the Durable Object': { entry: metadataWorker, plain: 559_500, compressed: 194_200 },
  'everything in one script': { entry: workerdEntry, plain: 1_318_500, compressed: 447_200 },
};

test.each(Object.entries(bounds))('the bundle with %s has a bounded size', async (name, bound) => {
  const contents = await bundleWorker(bound.entry, { minify: true });
  const [plain, compressed] = [Buffer.byteLength(contents), gzipSync(contents, { level: 9 }).length];
  const kilobytes = (bytes: number): string => `${(bytes / 1000).toFixed(0)} kB`;
  console.log(`${name}: ${kilobytes(plain)}, ${kilobytes(compressed)} gzip`);
  expect(plain).toBeLessThan(bound.plain);
  expect(compressed).toBeLessThan(bound.compressed);
});

test('a Worker without the operator API serves storage over the object of another script, and refuses /admin and /console', async () => {
  const [small, metadata] = await Promise.all(
    [smallWorker, metadataWorker].map((entry) => bundleWorker(entry)),
  );
  const { bindings, r2Buckets, durableObjects } = durableBindings;
  const script = (name: string, contents: string | undefined) => ({
    name,
    modules: [{ type: 'ESModule' as const, path: `${name}.js`, contents }],
    ...workerdFlags,
    bindings,
    r2Buckets,
  });
  const SLUICE = { ...durableObjects.SLUICE, scriptName: 'metadata' };
  const worker = new Miniflare({
    workers: [
      { ...script('front', small), durableObjects: { SLUICE } },
      { ...script('metadata', metadata), durableObjects },
    ],
    handleStructuredLogs: () => {},
  } as MiniflareOptions);
  try {
    const send = await clientOf(worker);
    expect((await send('PUT', '/small')).status).toBe(200);
    const body = Buffer.alloc(300_000, 'x');
    for (const payload of ['signed', 'streaming'] as const)
      expect((await send('PUT', '/small/k', { body, payload })).status).toBe(200);
    const got = await send('GET', '/small/k');
    expect([got.status, got.bytes.equals(body), got.headers['content-length']]).toEqual([
      200,
      true,
      '300000',
    ]);
    const users = await send('POST', '/?Action=ListUsers&Version=2010-05-08');
    expect(users.status, users.text).toBe(200);
    for (const path of ['/admin/v1/status', '/console/']) {
      const refused = await send('GET', path);
      expect([refused.status, refused.text]).toEqual([
        404,
        expect.stringContaining('without the operator API'),
      ]);
    }
  } finally {
    await worker.dispose();
  }
});
