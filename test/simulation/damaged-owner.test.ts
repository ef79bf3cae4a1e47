/** A damaged back-reference never causes a deletion: the sweep after a death deletes only bytes whose back-reference it can read. */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test, vi } from 'vitest';
import { filesIn } from '../contract/file-fixture.ts';
import { loadClient, pathOf } from '../support/load-client.ts';
import { bytesOf } from '../support/load-model.ts';
import { startServer } from '../support/server.ts';
import { fsck } from './kill-rounds.ts';

const MiB = 1024 * 1024;
const settings = { SVC_INTENT_TTL: '1s', SVC_GC_INTERVAL: '50ms', SVC_GC_GRACE: '0s', SVC_LOG_LEVEL: 'WARN' };

/** The names of the chunk files. */
const chunkFiles = async (dataDir: string): Promise<string[]> =>
  (await filesIn(join(dataDir, 'chunks'))).filter((path) => /large\/.*\.\d+$/.test(path)).sort();

test('chunks with a damaged header are kept when their gateway dies, and so are those in the same segment', async () => {
  const dataDir = await mkdtemp(join(tmpdir(), 'sluice-damaged-'));
  try {
    const first = await startServer({ dataDir, env: settings });
    const client = loadClient(first.url, first.credentials.root);
    await client.expect({ method: 'PUT', path: pathOf('bucket') });
    for (const [key, size] of [
      ['one', MiB],
      ['two', 6 * MiB],
      ['gone', MiB],
    ] as const)
      await client.expect({ method: 'PUT', path: pathOf('bucket', key), body: bytesOf({ seed: 1, size }) });
    client.close();
    await first.kill9();
    const files = await chunkFiles(dataDir);
    expect(files).toHaveLength(4);
    for (const path of files.slice(0, 2)) {
      const bytes = await readFile(path);
      bytes[bytes.length - 20] = (bytes.at(-20) ?? 0) ^ 1;
      await writeFile(path, bytes);
    }

    const second = await startServer({ dataDir, env: settings });
    const other = loadClient(second.url, second.credentials.root);
    await other.expect({ method: 'DELETE', path: pathOf('bucket', 'gone') });
    // The sweep finishes the dead process's ops in one pass over their ranges, and gc deletes the orphans.
    await vi.waitFor(async () => expect(await chunkFiles(dataDir)).toHaveLength(3), { timeout: 60_000 });
    // fsck confirms that an interrupted write has left nothing.
    await vi.waitFor(
      async () => {
        const { summary } = await fsck(dataDir, settings);
        expect([summary.leaving, summary.underway]).toEqual([0, 0]);
      },
      { timeout: 60_000, interval: 500 },
    );
    expect(await chunkFiles(dataDir)).toEqual(files.slice(0, 3));
    other.close();
    await second.stop();
  } finally {
    await rm(dataDir, { recursive: true, force: true });
  }
});
