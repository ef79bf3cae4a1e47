/** The metadata directory is moved away, or replaced, under a running gateway. */
import { cp, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { startServer } from '../support/server.ts';

const patience = { timeout: 180_000, interval: 250 };

test.each(['moved away', 'replaced by a copy'])('/readyz is 503 while metadata/ is %s', async (what) => {
  const server = await startServer();
  const ready = () => fetch(`${server.url}/readyz`).then(({ status }) => status);
  const [here, there] = ['metadata', 'elsewhere'].map((name) => join(server.dataDir, name)) as [
    string,
    string,
  ];
  try {
    expect(await ready()).toBe(200);
    await rename(here, there);
    if (what !== 'moved away') await cp(there, here, { recursive: true });
    await expect.poll(ready, patience).toBe(503);
    await rm(here, { recursive: true, force: true });
    await rename(there, here);
    await expect.poll(ready, patience).toBe(200);
  } finally {
    await server.stop();
  }
});
