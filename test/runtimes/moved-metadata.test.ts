/** A directory of the store is moved away, or replaced, under a running gateway: no write is acknowledged that a later start does not find. */
import { cp, mkdtemp, rename, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type LoadClient, loadClient, pathOf } from '../support/load-client.ts';
import { startServer, type TestServer } from '../support/server.ts';

const patience = { timeout: 180_000, interval: 250 };

let own = '';
beforeEach(async () => {
  own = await mkdtemp(join(tmpdir(), 'sluice-moved-'));
});
afterEach(() => rm(own, { recursive: true, force: true }));

async function serving(use: (server: TestServer, client: LoadClient) => Promise<void>): Promise<void> {
  const server = await startServer({ dataDir: join(own, 'data') });
  const client = loadClient(server.url, server.credentials.root);
  try {
    await use(server, client);
  } finally {
    client.close();
    await server.stop();
  }
}

const put = (key: string) => ({ method: 'PUT', path: pathOf('bucket', key), body: Buffer.from(key) });
const moveAside = async (name: string, isReplaced: boolean): Promise<() => Promise<void>> => {
  const [here, there] = [join(own, 'data', name), join(own, 'elsewhere')];
  await rename(here, there);
  if (isReplaced) await cp(there, here, { recursive: true, preserveTimestamps: true });
  return async () => {
    await rm(here, { recursive: true, force: true });
    await rename(there, here);
  };
};

test('/readyz and PutObject answer 503 while metadata/, or data.mdb alone, is moved away or replaced by a copy', async () => {
  await serving(async (server, client) => {
    const ready = () => fetch(`${server.url}/readyz`).then(({ status }) => status);
    await client.expect({ method: 'PUT', path: '/bucket' });
    await client.expect(put('before'));
    expect(await ready()).toBe(200);
    for (const name of ['metadata', 'metadata/data.mdb'])
      for (const isReplaced of [false, true]) {
        const what = `${name}, ${isReplaced ? 'replaced' : 'moved away'}`;
        const undo = await moveAside(name, isReplaced);
        for (const key of ['first', 'second']) expect((await client.send(put(key))).status, what).toBe(503);
        await expect.poll(ready, { ...patience, message: what }).toBe(503);
        await undo();
        await client.expect(put('after'));
        await expect.poll(ready, { ...patience, message: what }).toBe(200);
      }
  });
});

test('each PutObject that is acknowledged while chunks/ is replaced by a copy can be read after the next start', async () => {
  const keys = ['first', 'second', 'third'];
  await serving(async (_, client) => {
    await client.expect({ method: 'PUT', path: '/bucket' });
    await client.expect(put('before'));
    await moveAside('chunks', true);
    for (const key of keys) await client.expect(put(key));
  });
  await serving(async (_, client) => {
    for (const key of ['before', ...keys]) {
      const { status, text } = await client.send({ path: pathOf('bucket', key) });
      expect([status, text]).toEqual([200, key]);
    }
  });
});
