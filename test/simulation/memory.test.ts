/** Slow clients and large uploads cost a bounded amount of memory, whatever stores the bytes. */
import { expect, test } from 'vitest';
import { heavyPolicies } from '../support/heavy-policies.ts';
import { type MemoryLoad, memoryUnderLoad, peakOf } from '../support/load.ts';
import { loadClient, pathOf } from '../support/load-client.ts';
import { startServer, type TestServer } from '../support/server.ts';

const mebibyte = 1024 * 1024;
const ceiling = 512 * mebibyte;

for (const { name, memory, env } of [
  { name: 'noop and memory', memory: true, env: { SVC_DATA_BACKEND: 'noop', SVC_META_BACKEND: 'memory' } },
  { name: 'file and embedded', memory: false, env: {} },
]) {
  test(`200 slow uploads, 200 slow readers and 64 parallel uploads stay under 512 MiB with ${name}`, async () => {
    const server = await startServer({ ...(memory ? { dataDir: 'memory' } : {}), env });
    try {
      const taken = await memoryUnderLoad({
        url: server.url,
        keys: server.credentials.root,
        pid: server.process.pid ?? 0,
        slowUploads: 200,
        slowReaders: 200,
        uploads: 64,
        uploadBytes: 64 * mebibyte,
      });
      const shown = `${Math.round(taken.peakBytes / mebibyte)} MiB at most, in ${taken.seconds.toFixed(1)} s`;
      console.log(`${name}: ${shown}`);
      expect(taken.peakBytes, shown).toBeLessThan(ceiling);
    } finally {
      await server.stop();
    }
  });
}

/** A smaller load of the same shape, for what each byte costs more. */
async function expectBounded(
  server: TestServer,
  name: string,
  more: Pick<MemoryLoad, 'headers' | 'signedChunkBytes'> = {},
): Promise<void> {
  const taken = await memoryUnderLoad({
    url: server.url,
    keys: server.credentials.root,
    pid: server.process.pid ?? 0,
    slowUploads: 60,
    slowReaders: 60,
    uploads: 16,
    uploadBytes: 16 * mebibyte,
    ...more,
  });
  const shown = `${Math.round(taken.peakBytes / mebibyte)} MiB at most, in ${taken.seconds.toFixed(1)} s`;
  console.log(`${name}: ${shown}`);
  expect(taken.peakBytes, shown).toBeLessThan(ceiling);
}

const inMemory = { SVC_DATA_BACKEND: 'noop', SVC_META_BACKEND: 'memory' };

test('60 slow uploads, 60 slow readers and 16 uploads in signed chunks of 4 MiB stay under 512 MiB', async () => {
  const server = await startServer({ dataDir: 'memory', env: inMemory });
  try {
    await expectBounded(server, 'signed chunks', { signedChunkBytes: 4 * mebibyte });
  } finally {
    await server.stop();
  }
});

test('60 slow uploads, 60 slow readers and 16 uploads of encrypted objects stay under 512 MiB', async () => {
  const server = await startServer();
  try {
    await expectBounded(server, 'encryption', { headers: { 'x-amz-server-side-encryption': 'AES256' } });
  } finally {
    await server.stop();
  }
});

test('60 slow uploads, 60 slow readers and 16 uploads to an upstream stay under 512 MiB', async () => {
  const upstream = await startServer({ dataDir: 'memory', env: inMemory });
  const { accessKey, secretKey } = upstream.credentials.root;
  const client = loadClient(upstream.url, upstream.credentials.root, 1);
  await client.expect({ method: 'PUT', path: pathOf('store') });
  client.close();
  const server = await startServer({
    dataDir: 'memory',
    env: {
      SVC_DATA_BACKEND: 'upstream-store',
      SVC_META_BACKEND: 'memory',
      SVC_UPSTREAMS: JSON.stringify([{ id: 'default', bucket: 'store' }]),
      SVC_UPSTREAM_ENDPOINT: upstream.url,
      SVC_UPSTREAM_REGION: 'default',
      SVC_UPSTREAM_ACCESS_KEY: accessKey,
      SVC_UPSTREAM_SECRET_KEY: secretKey,
    },
  });
  try {
    await expectBounded(server, 'upstream');
  } finally {
    await server.stop();
    await upstream.stop();
  }
});

test('the largest accepted policies, on 180 buckets with anonymous requests, stay below 512 MiB', async () => {
  const server = await startServer({ dataDir: 'memory', env: inMemory });
  const client = loadClient(server.url, server.credentials.root, 16);
  try {
    const heavy = Object.values(heavyPolicies(7 * 1024));
    let taken = 0;
    for (let n = 0; n < 180; n += 1) {
      await client.expect({ method: 'PUT', path: pathOf(`bucket-${n}`) });
      const body = (heavy[n % heavy.length] ?? '').replaceAll(':::bucket', `:::bucket-${n}`);
      const put = await client.send({
        method: 'PUT',
        path: pathOf(`bucket-${n}`),
        query: { policy: '' },
        body,
      });
      if (put.status === 204) taken += 1;
    }
    expect(taken).toBeGreaterThan(100);
    const headers = { 'user-agent': 'zq'.repeat(1_000), referer: 'r'.repeat(250) };
    for (let round = 0; round < 2; round += 1)
      for (let n = 0; n < 180; n += 1)
        await fetch(`${server.url}/bucket-${n}/${'zq'.repeat(400)}`, { headers });
    const metrics = await client.expect({ path: '/metrics' });
    const [, held = ''] = /svc_cache_bytes\{cache="documents"\} (\d+)/.exec(metrics.text) ?? [];
    const peak = peakOf(server.process.pid ?? 0);
    console.log(`policies: ${taken} taken, ${held} bytes cached, ${Math.round(peak / mebibyte)} MiB at most`);
    expect(Number(held)).toBeGreaterThan(0);
    expect(Number(held)).toBeLessThanOrEqual(24 * mebibyte);
    expect(peak).toBeLessThan(ceiling);
  } finally {
    client.close();
    await server.stop();
  }
});
