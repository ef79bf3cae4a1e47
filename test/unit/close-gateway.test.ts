/** What an application's gateway still does after `close()` was called. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { directory, memory, type OpenGateway, openGateway } from '../../src/mod.ts';
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
