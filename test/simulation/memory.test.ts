/** Slow clients and large uploads cost a bounded amount of memory, whatever stores the bytes (issue 3). */
import { expect, test } from 'vitest';
import { memoryUnderLoad } from '../support/load.ts';
import { startServer } from '../support/server.ts';

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
