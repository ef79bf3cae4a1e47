/**
 * Metrics of what a healthy gateway does not show: a scrape of a real one whose counters drifted and whose queue has a
 * task that panics.
 */
import { renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test, vi } from 'vitest';
import { configWith } from '../../src/config/read-config.ts';
import { queued, queueSlot } from '../../src/metadata/background/queues.ts';
import { findBucket } from '../../src/metadata/buckets/buckets.ts';
import { usageChanges } from '../../src/metadata/buckets/usage.ts';
import { compose } from '../../src/runtime/compose/compose.ts';
import { startServer, testCredentials } from '../support/server.ts';
import { sender } from './client.ts';

const token = 'a-token-of-the-metrics';
/** More than the threshold below which a drift is not corrected. */
const missingBytes = 5_000_000;
const slotKey = 'a-task-that-panics';

/** What no gateway writes: a counter that lacks bytes, and a task of gc that is none. */
async function spoil(dataDir: string): Promise<void> {
  const config = configWith({ SVC_DATA_DIR: dataDir });
  const { context, close } = await compose(config, { credentials: [], installation: 'inspect' });
  try {
    const { metadata } = context;
    const id = (await findBucket(metadata, 'bucket'))?.row.id ?? '';
    const drift = { storageClass: 'STANDARD', bytes: -missingBytes, objects: 0 };
    await metadata.apply(usageChanges({ id }, 'op', [drift]));
    await metadata.apply([queued('gc', slotKey, null, { id: slotKey, due: 0, requestId: '' })]);
  } finally {
    await close();
  }
}

test('a scrape has the metrics of the specification, by their names, types and labels, where workers panic and counters drift', async () => {
  const first = await startServer({ env: { SVC_WORKERS: '', SVC_PROCESSES: '1' } });
  const { dataDir } = first;
  try {
    const send = sender({ url: first.url, ...testCredentials.root });
    for (const path of ['/bucket', '/bucket/key']) expect((await send('PUT', path)).status).toBe(200);
    await first.kill9();
    await spoil(dataDir);
    const server = await startServer({
      dataDir,
      env: {
        SVC_WORKERS: 'gc,quota-reconcile,bucket-stats',
        SVC_GC_INTERVAL: '10ms',
        SVC_METRICS_TOKEN: token,
        SVC_PROCESSES: '2',
      },
    });
    try {
      const scrape = async (): Promise<string> => {
        const reply = await fetch(`${server.url}/metrics`, { headers: { authorization: `Bearer ${token}` } });
        return reply.text();
      };
      // A scrape is no request of a client.
      expect((await sender({ url: server.url, ...testCredentials.root })('GET', '/bucket/key')).status).toBe(
        200,
      );
      await vi.waitFor(
        async () => {
          const text = await scrape();
          expect(text).toMatch(
            new RegExp(`^svc_worker_panic_total\\{worker="gc",shard="${queueSlot(slotKey)}"\\} [1-9]`, 'm'),
          );
          // Positive: the counter has less than there is.
          expect(text).toContain(`\nsvc_quota_reconcile_drift_bytes{bucket="bucket"} ${missingBytes}\n`);
          expect(text).toMatch(/^svc_storage_class_objects\{bucket="bucket",class="STANDARD"\} 1$/m);
          expect(text).toMatch(/^svc_storage_class_bytes\{bucket="bucket",class="STANDARD"\} -?\d+$/m);
          expect(text).toMatch(/^svc_http_requests_total\{code="200"\} [1-9]/m);
        },
        { timeout: 60_000, interval: 200 },
      );
      const types = [...(await scrape()).matchAll(/^# TYPE (svc_\S+) (\w+)$/gm)].map(([, name, type]) => [
        name,
        type,
      ]);
      expect(types).toEqual(
        expect.arrayContaining([
          ['svc_kms_decrypt_total', 'counter'],
          ['svc_worker_panic_total', 'counter'],
          ['svc_quota_reconcile_drift_bytes', 'gauge'],
          ['svc_storage_class_bytes', 'gauge'],
          ['svc_storage_class_objects', 'gauge'],
          ['svc_http_requests_total', 'counter'],
        ]),
      );
    } finally {
      // The panic is a defect on purpose, and its line is in the log.
      await expect(server.stop()).rejects.toThrow('the log shows a defect of the gateway');
    }
  } finally {
    rmSync(dataDir, { recursive: true, force: true });
  }
});

test('the disk of a cluster whose directory is gone is shown as down, and not as full', async () => {
  const server = await startServer({
    env: { SVC_POOL_CLUSTERS: 'a,b', SVC_METRICS_TOKEN: token, SVC_WORKERS: '', SVC_PROCESSES: '1' },
  });
  const scrape = async (): Promise<string> =>
    (await fetch(`${server.url}/metrics`, { headers: { authorization: `Bearer ${token}` } })).text();
  /** The clusters whose disks are shown, each with its free bytes and its size. */
  const disks = async (): Promise<readonly string[]> =>
    [...(await scrape()).matchAll(/^svc_disk_(?:free|size)_bytes\{component="data:(\w)"\} [1-9]/gm)].map(
      ([, cluster = '']) => cluster,
    );
  try {
    await expect.poll(disks, { timeout: 60_000 }).toEqual(['a', 'b', 'a', 'b']);
    const directory = join(server.dataDir, 'chunks/b');
    renameSync(directory, `${directory}-away`);
    await expect
      .poll(async () => (await scrape()).match(/^svc_disk_(?:free|size)_bytes\{component="data:b"\}.*/gm), {
        timeout: 60_000,
      })
      .toBeNull();
    renameSync(`${directory}-away`, directory);
    await expect.poll(disks, { timeout: 60_000 }).toEqual(expect.arrayContaining(['b']));
  } finally {
    await server.stop();
    rmSync(server.dataDir, { recursive: true, force: true });
  }
});
