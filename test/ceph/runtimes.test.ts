/** librados works on Bun and Deno as on Node, and a start without librados or koffi reports that. */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { loadLibrados } from '../../src/backends/data/cluster-pool/librados.ts';
import { install, runtimes } from '../runtimes/installed.ts';
import { smoke } from '../runtimes/smoke.ts';
import { type CephCluster, noCeph, settingsOf, startCeph } from '../support/engines/ceph.ts';
import { startServer } from '../support/server.ts';

const cli = join(import.meta.dirname, '../../src/runtime/cli.ts');

/** Runs `sluice` without the package koffi. */
function withoutKoffi(env: Readonly<Record<string, string>>) {
  const hooks = `import { registerHooks } from 'node:module';
    registerHooks({ resolve(name, context, next) { if (name === 'koffi') throw new Error('gone'); return next(name, context); } });`;
  const args = ['--import', `data:text/javascript,${encodeURIComponent(hooks)}`];
  return {
    args,
    refused: () =>
      new Promise<{ readonly code: unknown; readonly said: string }>((resolve) => {
        const options = {
          env: { PATH: process.env['PATH'] ?? '', SVC_LISTEN: '127.0.0.1:0', ...env },
          timeout: 30_000,
        };
        execFile(process.execPath, [...args, cli, 'serve'], options, (error, _, said) =>
          resolve({ code: error?.code ?? 0, said }),
        );
      }),
  };
}

test('without koffi other backends start, and cluster-pool refuses to', async () => {
  const { args, refused } = withoutKoffi({ SVC_DATA_BACKEND: 'cluster-pool' });
  const { code, said } = await refused();
  expect(code).toBe(2);
  expect(said).toContain('SVC_DATA_BACKEND=cluster-pool cannot be used: the package koffi is not installed');
  const server = await startServer({ runtime: [process.execPath, ...args], dataDir: 'memory' });
  expect(await server.stop()).toBe(0);
});

test('a librados that is not there is named', async () => {
  await expect(loadLibrados('librados.so.0')).rejects.toThrow(
    'librados.so.0 cannot be loaded; install librados2',
  );
});

describe.skipIf(noCeph !== undefined)(`on Ceph${noCeph === undefined ? '' : `: ${noCeph}`}`, () => {
  let ceph: CephCluster;
  beforeAll(async () => {
    install();
    ceph = await startCeph();
  });
  afterAll(() => ceph?.[Symbol.asyncDispose]());

  test('a start names what is set wrongly: the file, the user, the pool', async () => {
    const start = (cluster: object) =>
      startServer({
        dataDir: 'memory',
        env: {
          SVC_DATA_BACKEND: 'cluster-pool',
          SVC_POOL_CLUSTERS: JSON.stringify([{ id: 'a', ...cluster }]),
          SVC_POOL_MON_TIMEOUT: '2s',
        },
      });
    const { conf } = ceph;
    await expect(start({ conf: '/nowhere/ceph.conf' })).rejects.toThrow(
      'reading /nowhere/ceph.conf: not there',
    );
    await expect(start({ conf, user: 'client.nobody' })).rejects.toThrow('hold the key of client.nobody');
    await expect(start({ conf, pool: 'none' })).rejects.toThrow('cluster a has no pool none');
  });

  for (const name of ['Bun', 'Deno'] as const) {
    smoke({
      name,
      start: async () => {
        // Each installation has a separate namespace.
        const env = settingsOf(ceph, 'chunks', name);
        const server = await startServer({ runtime: runtimes[name], env });
        return { ...server.credentials.root, url: server.url, stop: server.stop };
      },
    });
  }
});
