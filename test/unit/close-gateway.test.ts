/** What an application's gateway still does after `close()` was called. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';
import { openAdminClient } from '../../src/admin-client.ts';
import {
  chunked,
  directory,
  memory,
  memoryChunks,
  memoryStore,
  type OpenGateway,
  type OpenOptions,
  openGateway,
  s3,
  systemClock,
  systemRandom,
} from '../../src/mod.ts';
import { signer, toRequest } from '../support/sign.ts';

const me = { accessKey: 'ACCESSKEY', secretKey: 'secret-of-me', owner: 'me', root: true };
const sign = signer({ ...me, host: 'app.example.com' });
const send = (gateway: OpenGateway, spec: Parameters<typeof sign.request>[0]) =>
  gateway.fetch(toRequest(sign.request(spec)));

test('close() waits for an upload that is under way, and the next gateway has its bytes', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-close-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const storage = directory(folder);
  const options = { credentials: [me], storage, workers: false };
  const first = await openGateway(options);
  await send(first, { method: 'PUT', path: '/photos' });
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  const { promise: asked, resolve: ask } = Promise.withResolvers<void>();
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      ask();
      await released;
      controller.enqueue(new TextEncoder().encode('meow'));
      controller.close();
    },
  });
  const { url, headers } = toRequest(
    sign.request({ method: 'PUT', path: '/photos/cat', body: 'meow', headers: { 'content-length': '4' } }),
  );
  const put = first.fetch(new Request(url, { method: 'PUT', headers, body, duplex: 'half' } as RequestInit));
  await asked;
  const closing = first.close();
  release();
  expect((await put).status).toBe(200);
  await closing;
  await using second = await openGateway(options);
  expect(await (await send(second, { path: '/photos/cat' })).text()).toBe('meow');
});

test('close() that is called again waits for the first call, and a later request gets 503', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-close-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  for (const storage of [memory(), directory(folder)]) {
    await using gateway = await openGateway({ credentials: [me], storage });
    await send(gateway, { method: 'PUT', path: '/photos' });
    const first = gateway.close();
    expect(gateway.close()).toBe(first);
    await first;
    const late = await send(gateway, { path: '/photos' });
    expect([late.status, await late.text()]).toEqual([
      503,
      expect.stringContaining('The gateway is closed.'),
    ]);
  }
});

test('close() writes the refusals that were counted, also into stores of the application', async () => {
  const metadata = memoryStore({ clock: systemClock, random: systemRandom() });
  const storage = { metadata, bytes: chunked({ default: memoryChunks() }) };
  const operator = { ...me, operator: true };
  const options = { credentials: [operator], storage, workers: false, auditUnknownCallers: 1 };
  const first = await openGateway(options);
  await send(first, { method: 'PUT', path: '/photos' });
  for (let n = 0; n < 5; n += 1) {
    const refused = await first.fetch(new Request('http://app.example.com/photos', { method: 'DELETE' }));
    expect(refused.status).toBe(403);
  }
  await first.close();
  await using second = await openGateway(options);
  const { accessKey, secretKey } = me;
  const client = openAdminClient({
    endpoint: 'http://app.example.com',
    accessKey,
    secretKey,
    fetch: (url, init) => second.fetch(new Request(url, init)),
  });
  const { json } = await client.call('ListAudit');
  expect(json.rows).toContainEqual(expect.objectContaining({ count: 4 }));
});

test('a directory that cannot be used is refused by name, and nothing of the failed opening runs on', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-close-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const file = join(folder, 'file');
  await writeFile(file, '');
  const open = (storage: OpenOptions['storage']) =>
    openGateway({ credentials: [me], storage, workers: false });
  const right = 'Name one that this process may write to, or a new one';
  await expect(open(directory(file))).rejects.toThrow(
    `openGateway: path of directory()=${file} cannot be used as a directory: it is a file. ${right}`,
  );
  await expect(open(directory(join(file, 'below')))).rejects.toThrow(
    `openGateway: path of directory()=${file}/below cannot be used as a directory: ENOTDIR. ${right}`,
  );
  const upstream = { endpoint: 'http://127.0.0.1:1', bucket: 'store', accessKey: 'KEY', secretKey: 'secret' };
  await expect(open(s3({ ...upstream, metadata: file }))).rejects.toThrow(
    `openGateway: metadata of s3()=${file} cannot be used as a directory: it is a file. ${right}`,
  );
  expect(() => s3(undefined as never)).not.toThrow();
  await expect(open(s3(undefined as never))).rejects.toThrow('endpoint of s3() must be the address');

  const [set, cleared] = [vi.spyOn(globalThis, 'setInterval'), vi.spyOn(globalThis, 'clearInterval')];
  onTestFinished(() => void vi.restoreAllMocks());
  await writeFile(join(folder, 'metadata'), '');
  await expect(open(directory(folder))).rejects.toThrow(join(folder, 'metadata'));
  expect(set).toHaveBeenCalled();
  expect(cleared.mock.calls.flat()).toEqual(
    expect.arrayContaining(set.mock.results.map(({ value }) => value)),
  );
});
