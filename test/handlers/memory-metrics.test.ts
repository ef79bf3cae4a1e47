/** `/metrics` shows the heap, the buffers and the mapped files of a process separately. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { open } from 'lmdb';
import { expect, test } from 'vitest';
import { processMemory } from '../../src/runtime/processes/memory-faults.ts';
import { loadClient } from '../support/load-client.ts';
import { startServer } from '../support/server.ts';

const mebibyte = 1024 * 1024;

test.runIf(process.platform === 'linux')(
  'svc_memory_bytes shows heap, external buffers, and resident memory by kind, as the kernel counts it',
  async () => {
    const server = await startServer();
    const client = loadClient(server.url, server.credentials.root, 1);
    try {
      const { text } = await client.expect({ path: '/metrics' });
      const bytesOf = (kind: string): number =>
        Number(new RegExp(`^svc_memory_bytes\\{kind="${kind}"\\} (\\d+)$`, 'm').exec(text)?.[1]);
      for (const kind of ['heap', 'external', 'anonymous', 'mapped_files'])
        expect(bytesOf(kind), kind).toBeGreaterThan(mebibyte / 4);
      const resident = bytesOf('anonymous') + bytesOf('mapped_files') + bytesOf('shared');
      const status = readFileSync(`/proc/${server.process.pid}/status`, 'latin1');
      const seen = Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1]) * 1024;
      // The two values were read at different times, so they may differ.
      expect(resident / seen).toBeGreaterThan(0.5);
      expect(resident / seen).toBeLessThan(2);
    } finally {
      client.close();
      await server.stop();
    }
  },
);

test.runIf(process.platform === 'linux')(
  'pages of an lmdb map count as mapped files, not as anonymous memory or heap',
  async () => {
    const directory = mkdtempSync(join(tmpdir(), 'sluice-map-'));
    const database = open({ path: directory, noSubdir: false, encoding: 'binary' });
    try {
      const value = Buffer.alloc(mebibyte, 7);
      for (let n = 0; n < 64; n += 1) void database.put(n, value);
      await database.flushed;
      const bytesOf = (kind: string): number => processMemory().find(([name]) => name === kind)?.[1] ?? 0;
      const [files, anonymous, heap] = [bytesOf('mapped_files'), bytesOf('anonymous'), bytesOf('heap')];
      let read = 0;
      for (let n = 0; n < 64; n += 1) {
        const found = database.getBinaryFast(n);
        for (let at = 0; at < (found?.length ?? 0); at += 4096) read += found?.[at] === 7 ? 1 : 0;
      }
      expect(read).toBe(64 * 256);
      const grown = bytesOf('mapped_files') - files;
      console.log(`mapped files +${grown >> 20}, anonymous +${(bytesOf('anonymous') - anonymous) >> 20} MiB`);
      expect(grown).toBeGreaterThan(32 * mebibyte);
      expect(bytesOf('anonymous') - anonymous).toBeLessThan(32 * mebibyte);
      expect(bytesOf('heap') - heap).toBeLessThan(32 * mebibyte);
    } finally {
      await database.close();
      rmSync(directory, { recursive: true });
    }
  },
);
