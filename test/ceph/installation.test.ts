/** A pool of Ceph, and a namespace in it, belong to one installation: the gateways of another one refuse to start. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { memoryStore } from '../../src/backends/metadata/memory/store.ts';
import { configWith } from '../../src/config/read/read-config.ts';
import type { InstallationMode } from '../../src/metadata/installation.ts';
import { systemClock } from '../../src/ports/clock.ts';
import type { MetadataStore } from '../../src/ports/metadata-store.ts';
import { systemRandom } from '../../src/ports/random.ts';
import { checkInstallation } from '../../src/runtime/installation/check-installation.ts';
import { fsck } from '../simulation/kill-rounds.ts';
import { type CephCluster, noCeph, settingsOf, startCeph } from '../support/engines/ceph.ts';
import { loadClient, pathOf } from '../support/load-client.ts';
import { poolStores } from '../support/pool-stores.ts';
import { startServer } from '../support/server.ts';

const caseMs = 240_000;
const patience = { timeout: 90_000, interval: 100 };
const foreign =
  /pool chunks, namespace \S+ of cluster a at installation\.json belong to installation [0-9a-f]{32}/;

describe.skipIf(noCeph !== undefined)(`on Ceph${noCeph === undefined ? '' : `: ${noCeph}`}`, () => {
  let ceph: CephCluster;
  let root: string;
  beforeAll(async () => {
    root = await mkdtemp(join(tmpdir(), 'sluice-ceph-installation-'));
    ceph = await startCeph(['chunks', 'cold']);
  }, 180_000);
  afterAll(async () => {
    await ceph?.[Symbol.asyncDispose]();
    await rm(root, { recursive: true, force: true });
  });

  const settingsIn = (namespace: string) => ({
    ...settingsOf(ceph, 'chunks', namespace),
    SVC_STORAGE_CLASSES: `standard-ia=cold/${namespace}`,
    SVC_FSYNC: 'never',
    SVC_WORKERS: '',
    SVC_PROCESSES: '1',
  });
  const start = (name: string, { namespace, args = [] }: { namespace: string; args?: string[] }) =>
    startServer({ dataDir: join(root, name), env: settingsIn(namespace), args });

  async function serve(name: string, options: { namespace: string; args?: string[] }): Promise<string> {
    const server = await start(name, options);
    const client = loadClient(server.url, server.credentials.root, 1);
    try {
      await client.send({ method: 'PUT', path: pathOf('bucket') });
      await client.expect({ method: 'PUT', path: pathOf('bucket', 'key'), body: Buffer.from('content') });
      return (await client.expect({ path: pathOf('bucket', 'key') })).text;
    } finally {
      client.close();
      await server.stop();
    }
  }

  const refused = (name: string, namespace: string): Promise<string> =>
    serve(name, { namespace }).catch((error: Error) => {
      expect(error.message).toContain('ended with 2');
      return error.message;
    });

  test(
    'a gateway refuses the pool of another installation, and --init alone takes it over',
    async () => {
      const namespace = 'taken';
      expect(await serve('first', { namespace })).toBe('content');
      expect(await serve('first', { namespace })).toBe('content');
      expect(await refused('second', namespace)).toMatch(foreign);
      expect(await serve('first', { namespace })).toBe('content');
      // fsck skips the mark: neither the pool nor the one of the other class holds anything that is not owned.
      const { code, text } = await fsck(join(root, 'first'), settingsIn(namespace));
      expect(code, text).toBe(0);
      for (const pool of ['chunks', 'cold'])
        expect(await ceph.rados('-p', pool, '-N', namespace, 'ls')).toContain('installation.json');
      expect(await serve('second', { namespace, args: ['--init'] })).toBe('content');
      expect(await refused('first', namespace)).toMatch(foreign);
    },
    caseMs,
  );

  test(
    'a gateway whose OSD does not answer at the start serves, and ends when the pool proves to be of another installation',
    async () => {
      const namespace = 'hanging';
      expect(await serve('own', { namespace })).toBe('content');
      ceph.signal('osd.0', 'SIGSTOP');
      const opened = await Promise.allSettled([start('own', { namespace }), start('other', { namespace })]);
      ceph.signal('osd.0', 'SIGCONT');
      const [own, other] = opened.map((each) => {
        if (each.status === 'rejected') throw each.reason;
        return each.value;
      });
      try {
        for (const server of [own, other]) expect(server?.log()).toContain('a store does not answer yet');
        await vi.waitFor(
          () => expect(other?.log()).toContain('a store belongs to another installation; the process ends'),
          patience,
        );
        expect(other?.log()).toMatch(foreign);
      } finally {
        await other?.kill9();
        await own?.stop();
      }
      expect(own?.log()).not.toContain('belongs to another installation');
      expect(await serve('own', { namespace })).toBe('content');
      expect(await refused('other', namespace)).toMatch(foreign);
    },
    caseMs,
  );

  test.each<InstallationMode>(['start', 'init'])(
    'of eight installations that begin in the same pool (%s) the one that it names is let in, and alone after a restart',
    async (mode) => {
      const stores = await poolStores(ceph);
      const { store, dispose } = stores.open('chunks');
      const [place] = store.marks ?? [];
      const random = systemRandom();
      const check = async (metadata: MetadataStore, asked: InstallationMode): Promise<string> => {
        const options = { config: configWith({}), random, mode: asked, keys: [], stored: store };
        return (await checkInstallation(metadata, options)).id ?? '';
      };
      const marked = async (): Promise<string> => JSON.parse((await place?.read())?.text ?? '{}').id;
      if (mode === 'init') await place?.write(JSON.stringify({ id: '0'.repeat(32), format: 1 }), undefined);
      const kept = Array.from({ length: 8 }, () => memoryStore({ clock: systemClock, random }));
      for (const asked of [mode, 'start'] as const) {
        const settled = await Promise.allSettled(kept.map((metadata) => check(metadata, asked)));
        const accepted = settled.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []));
        // A gateway whose first look comes after the winner's write takes the pool over from it.
        expect(accepted).toContain(await marked());
        if (asked === 'start') expect(accepted).toHaveLength(1);
        for (const each of settled)
          if (each.status === 'rejected')
            expect(String(each.reason)).toMatch(/belong to installation|names installation/);
      }
      await dispose();
    },
    caseMs,
  );
});
