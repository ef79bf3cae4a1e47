/** Slow clients and parallel uploads take bounded memory where bytes are stored in Ceph. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type CephCluster, noCeph, startCeph } from '../support/engines/ceph.ts';
import { memoryUnderLoad } from '../support/load.ts';
import { startServer } from '../support/server.ts';

const mebibyte = 1024 * 1024;
/** SVC_MEMORY_MAX plus an eighth for garbage that is not collected yet (docs/gaps.md, C10). */
const ceiling = (512 + 64) * mebibyte;

describe.skipIf(noCeph !== undefined)(`on Ceph${noCeph === undefined ? '' : `: ${noCeph}`}`, () => {
  let ceph: CephCluster;
  beforeAll(async () => {
    ceph = await startCeph(['chunks']);
  });
  afterAll(() => ceph?.[Symbol.asyncDispose]());

  test('120 slow uploads, 120 slow readers and 16 uploads of 16 MiB stay under 576 MiB', async () => {
    const server = await startServer({
      dataDir: 'memory',
      env: {
        SVC_META_BACKEND: 'memory',
        SVC_DATA_BACKEND: 'cluster-pool',
        SVC_POOL_CLUSTERS: JSON.stringify([{ id: 'a', conf: ceph.conf, pool: 'chunks' }]),
      },
    });
    try {
      const taken = await memoryUnderLoad({
        url: server.url,
        keys: server.credentials.root,
        pid: server.process.pid ?? 0,
        slowUploads: 120,
        slowReaders: 120,
        uploads: 16,
        uploadBytes: 16 * mebibyte,
      });
      const shown = `${Math.round(taken.peakBytes / mebibyte)} MiB at most, in ${taken.seconds.toFixed(1)} s`;
      console.log(`ceph: ${shown}`);
      expect(taken.peakBytes, shown).toBeLessThan(ceiling);
    } finally {
      await server.stop();
    }
  });
});
