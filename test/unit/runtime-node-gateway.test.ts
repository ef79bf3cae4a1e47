/** The whole gateway behind the Node listener: what it learns of a client, and what it does when a request fails inside. */
import { hash, randomInt } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { nodeHasher } from '../../src/backends/crypto/node.ts';
import { chunked } from '../../src/backends/data/chunked/chunked.ts';
import { fileChunks } from '../../src/backends/data/file/file-chunks.ts';
import { inParallel } from '../../src/base/concurrency.ts';
import type { Context } from '../../src/context.ts';
import { systemClock } from '../../src/ports/clock.ts';
import { systemRandom } from '../../src/ports/random.ts';
import { silentTelemetry } from '../../src/ports/telemetry.ts';
import { alice, type GatewayWorldOptions, openGateway } from '../support/gateway.ts';
import { loadClient } from '../support/load-client.ts';
import { serveStub } from '../support/server-stub.ts';
import { signer } from '../support/sign.ts';

type Bytes = Context['bytes'];

async function openBehindNode(faults: Partial<Bytes>, options: GatewayWorldOptions = {}) {
  const world = await openGateway({
    ...options,
    wrap: (context) => ({ ...context, bytes: { ...context.bytes, ...faults } }),
  });
  const { port } = await serveStub((incoming) => world.gateway.handle(incoming));
  const address = `127.0.0.1:${port}`;
  return { world, port, address, client: loadClient(`http://${address}`, alice, 1) };
}

const large = 'x'.repeat(100_000);

test('a request whose body was read and that fails inside is InternalError, with its cause in the log', async () => {
  const logged = new Map<string, unknown>();
  const telemetry = {
    ...silentTelemetry,
    log: (_: string, message: string, fields: unknown) => logged.set(message, fields),
  };
  const { world, client } = await openBehindNode(
    { write: () => Promise.reject(new Error('the disk is on fire')) },
    { telemetry },
  );
  await using _ = world;
  await client.expect({ method: 'PUT', path: '/bucket' });
  const refused = await client.send({ method: 'PUT', path: '/bucket/key', body: large });
  expect([refused.status, refused.text]).toEqual([
    500,
    expect.stringContaining('<Code>InternalError</Code>'),
  ]);
  expect(logged.get('request failed')).toMatchObject({ cause: { message: 'the disk is on fire' } });
  client.close();
});

test('a write ends when its client disconnects', async () => {
  const begun = Promise.withResolvers<AbortSignal | undefined>();
  const { world, client, port, address } = await openBehindNode({
    write: async (_, { signal }) => {
      begun.resolve(signal);
      return new Promise((_, reject) => signal?.addEventListener('abort', () => reject(signal.reason)));
    },
  });
  await using _ = world;
  await client.expect({ method: 'PUT', path: '/bucket' });
  const { headers, target } = signer({ ...alice, host: address }).request({
    method: 'PUT',
    path: '/bucket/key',
    body: large,
  });
  const lines = headers.map((pair) => `${pair.join(': ')}\r\n`).join('');
  const socket = connect(port, '127.0.0.1');
  socket.write(`PUT ${target} HTTP/1.1\r\n${lines}\r\n${large}`);
  const signal = await begun.promise;
  expect(signal?.aborted).toBe(false);
  const ended = new Promise((resolve) => signal?.addEventListener('abort', resolve));
  socket.destroy();
  await ended;
  client.close();
});

test('concurrent uploads in pieces of pooled memory are stored as they were sent, also beside uploads that are cut off', async () => {
  const seed = randomInt(2 ** 31);
  const directory = mkdtempSync(join(tmpdir(), 'pieces-'));
  const store = fileChunks({ directory, clock: systemClock, random: systemRandom(), durable: false });
  const world = await openGateway({
    wrap: (context) => ({ ...context, bytes: chunked({ default: store }) }),
  });
  await using _ = world;
  const { port } = await serveStub((incoming) => world.gateway.handle(incoming));
  const client = loadClient(`http://127.0.0.1:${port}`, alice, 12);
  await client.expect({ method: 'PUT', path: '/bucket' });
  const modes = ['signed', 'unsigned', 'streaming-trailer', 'unsigned-trailer'] as const;
  const bodyOf = (n: number): Buffer => {
    // Some are longer than two chunks of the store.
    const more = n % 8 === 0 ? 2 * 4 * 1024 * 1024 : 0;
    const body = Buffer.alloc(60_000 + more + ((seed + n * 7_919_777) % 1_500_000));
    for (let at = 0; at < body.length; at += 4)
      body.writeUInt32LE((seed + n * 1_000_003 + at) >>> 0, Math.min(at, body.length - 4));
    return body;
  };
  const upload = async (n: number): Promise<void> => {
    const payload = modes[n % modes.length] as (typeof modes)[number];
    const trailers = payload.endsWith('trailer') ? { '*-checksum-crc32': checksumOf(bodyOf(n)) } : undefined;
    const spec = { method: 'PUT', path: `/bucket/k${n}`, body: bodyOf(n), chunkSize: 50_000 + n, payload };
    await client.expect({ ...spec, ...(trailers === undefined ? {} : { trailers }) });
  };
  const cutOff = (n: number): Promise<void> =>
    new Promise((resolve) => {
      const { target, headers } = signer({ ...alice, host: `127.0.0.1:${port}` }).request({
        method: 'PUT',
        path: `/bucket/cut${n}`,
        body: bodyOf(n),
        payload: 'unsigned',
      });
      const socket = connect(port, '127.0.0.1');
      socket.on('close', () => resolve());
      socket.write(
        `PUT ${target} HTTP/1.1\r\n${headers.map((pair) => `${pair.join(': ')}\r\n`).join('')}\r\n`,
      );
      socket.write(bodyOf(n).subarray(0, 300_000), () => socket.destroy());
    });
  const numbers = Array.from({ length: 48 }, (__, n) => n);
  await inParallel(12, numbers, (n) => (n % 6 === 5 ? cutOff(n) : upload(n)));
  for (const n of numbers.filter((each) => each % 6 !== 5)) {
    const { body, headers } = await client.expect({ method: 'GET', path: `/bucket/k${n}` });
    expect(body.equals(bodyOf(n)), `k${n}, seed ${seed}`).toBe(true);
    // Their MD5 was computed together.
    expect(headers.etag, `k${n}, seed ${seed}`).toBe(`"${hash('md5', bodyOf(n))}"`);
  }
  client.close();
  rmSync(directory, { recursive: true });
});

test('an object of several parts is sent as it is stored, while its reader is slow', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'parts-'));
  const store = fileChunks({ directory, clock: systemClock, random: systemRandom(), durable: false });
  const world = await openGateway({
    wrap: (context) => ({ ...context, bytes: chunked({ default: store }) }),
  });
  await using _ = world;
  const { port } = await serveStub((incoming) => world.gateway.handle(incoming));
  const client = loadClient(`http://127.0.0.1:${port}`, alice, 2);
  await client.expect({ method: 'PUT', path: '/bucket' });
  const begun = await client.expect({ method: 'POST', path: '/bucket/key', query: [['uploads', '']] });
  const uploadId = /<UploadId>(.*)<\/UploadId>/.exec(begun.body.toString())?.[1] ?? '';
  // No length is a multiple of what one read gets, so that each part ends with a shorter array.
  const parts = [5_400_001, 5_300_003, 6_990_506, 1].map((size, n) => {
    const part = Buffer.alloc(size, n + 1);
    for (let at = 0; at + 4 <= size; at += 4096) part.writeUInt32LE(n * 1_000_003 + at, at);
    return part;
  });
  const etags: string[] = [];
  for (const [n, body] of parts.entries()) {
    const query = [
      ['partNumber', String(n + 1)],
      ['uploadId', uploadId],
    ] as const;
    const { headers } = await client.expect({ method: 'PUT', path: '/bucket/key', query, body });
    etags.push(String(headers['etag']));
  }
  const listed = etags.map((etag, n) => `<Part><PartNumber>${n + 1}</PartNumber><ETag>${etag}</ETag></Part>`);
  await client.expect({
    method: 'POST',
    path: '/bucket/key',
    query: [['uploadId', uploadId]],
    body: Buffer.from(`<CompleteMultipartUpload>${listed.join('')}</CompleteMultipartUpload>`),
  });
  const { body } = await client.expect({ method: 'GET', path: '/bucket/key' });
  expect(body.equals(Buffer.concat(parts))).toBe(true);
  client.close();
  rmSync(directory, { recursive: true });
});

const checksumOf = (body: Uint8Array): string =>
  Buffer.from(nodeHasher().once('crc32', body)).toString('base64');
