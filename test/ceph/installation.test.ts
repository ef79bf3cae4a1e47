/** A pool of Ceph, and a namespace in it, belong to one installation: the gateways of another one refuse to start. */
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { memoryStore } from '../../src/backends/metadata/memory-store.ts';
import { configWith } from '../../src/config/read-config.ts';
import type { InstallationMode } from '../../src/metadata/installation.ts';
import { systemClock } from '../../src/ports/clock.ts';
import type { MetadataStore } from '../../src/ports/metadata-store.ts';
import { systemRandom } from '../../src/ports/random.ts';
import { checkInstallation } from '../../src/runtime/installation.ts';
import { fsck } from '../simulation/kill-rounds.ts';
import { type CephCluster, noCeph, settingsOf, startCeph } from '../support/engines/ceph.ts';
import { loadClient, pathOf } from '../support/load-client.ts';
import { poolStores } from '../support/pool-stores.ts';
import { startServer } from '../support/server.ts';

const repository = join(import.meta.dirname, '../..');
const patience = { timeout: 180_000, interval: 100 };
const foreign =
  /pool chunks, namespace \S+ of cluster a at installation\.json belong to installation [0-9a-f]{32}/;

/** The commands in docs/ceph.md that mark a pool, unchanged. */
function markCommands(): string {
  const page = readFileSync(join(repository, 'docs/ceph.md'), 'utf8');
  const blocks = [...page.matchAll(/^```sh\n([\s\S]*?)^```$/gm)].map(([, body = '']) => body);
  const [found, ...others] = blocks.filter((body) => body.includes('setxattr installation.json'));
  expect(found).toBeDefined();
  expect(others).toEqual([]);
  return found ?? '';
}

interface Ended {
  readonly code: number;
  readonly text: string;
}

function run(
  command: string,
  args: readonly string[],
  env: Readonly<Record<string, string>>,
): Promise<Ended> {
  return new Promise((resolve) => {
    const options = { cwd: repository, env: { ...process.env, ...env } };
    execFile(command, args, options, (error, stdout, stderr) => {
      const code = error === null ? 0 : typeof error.code === 'number' ? error.code : -1;
      resolve({ code, text: `${stdout}${stderr}` });
    });
  });
}

describe.skipIf(noCeph !== undefined)(`on Ceph${noCeph === undefined ? '' : `: ${noCeph}`}`, () => {
  let ceph: CephCluster;
  let root: string;
  beforeAll(async () => {
    root = await mkdtemp(join(tmpdir(), 'sluice-ceph-installation-'));
    ceph = await startCeph(['chunks', 'cold', 'again']);
  });
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

  test('a gateway refuses the pool of another installation, and --init alone takes it over', async () => {
    const namespace = 'taken';
    expect(await serve('first', { namespace })).toBe('content');
    expect(await serve('first', { namespace })).toBe('content');
    expect(await refused('second', namespace)).toMatch(foreign);
    expect(await serve('first', { namespace })).toBe('content');
    // fsck skips the marks and finds nothing unowned in the two pools.
    const { code, text } = await fsck(join(root, 'first'), settingsIn(namespace));
    expect(code, text).toBe(0);
    for (const pool of ['chunks', 'cold'])
      expect(await ceph.rados('-p', pool, '-N', namespace, 'ls')).toContain('installation.json');
    expect(await serve('second', { namespace, args: ['--init'] })).toBe('content');
    expect(await refused('first', namespace)).toMatch(foreign);
  });

  test('a gateway whose OSD does not answer at the start serves, and ends when the pool proves to be of another installation', async () => {
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
  });

  test('a pool that was deleted and made again is refused until the commands of docs/ceph.md have marked it and its namespace', async () => {
    const dataDir = join(root, 'recreated');
    const settings = {
      ...settingsOf(ceph, 'again'),
      SVC_STORAGE_CLASSES: 'standard-ia=again/ice',
      SVC_FSYNC: 'never',
      SVC_WORKERS: '',
      SVC_PROCESSES: '1',
    };
    const body = Buffer.alloc(200_000, 'content');
    const classes = [
      ['plain', {}],
      ['ice', { 'x-amz-storage-class': 'STANDARD_IA' }],
    ] as const;
    const using = async (work: (client: ReturnType<typeof loadClient>) => Promise<void>): Promise<void> => {
      const server = await startServer({ dataDir, env: settings });
      const client = loadClient(server.url, server.credentials.root, 1);
      try {
        await work(client);
      } finally {
        client.close();
        await server.stop();
      }
    };
    const put = async (client: ReturnType<typeof loadClient>, prefix: string): Promise<void> => {
      for (const [key, headers] of classes)
        await client.expect({ method: 'PUT', path: pathOf('bucket', `${prefix}-${key}`), headers, body });
    };
    const refusedStart = (): Promise<string> =>
      using(async () => {}).then(
        () => 'it started',
        (error: Error) => error.message,
      );
    const sluiceFsck = (...args: string[]): Promise<Ended> =>
      run(process.execPath, ['src/runtime/cli.ts', 'fsck', '--data-dir', dataDir, ...args], settings);
    await using(async (client) => {
      await client.expect({ method: 'PUT', path: pathOf('bucket') });
      await put(client, 'lost');
    });

    await ceph.ceph('osd', 'pool', 'delete', 'again', 'again', '--yes-i-really-really-mean-it');
    await ceph.ceph('osd', 'pool', 'create', 'again', '8');
    await ceph.ceph('osd', 'pool', 'application', 'enable', 'again', 'sluice');
    // This command returns when every placement group is active, so that the starts below find the pool.
    expect(await ceph.rados('-p', 'again', '--all', 'ls')).toBe('');

    // The start names one of the two places at a time; each is then marked.
    for (const [place, options] of [
      ['pool again', '-p again'],
      ['pool again, namespace ice', '-p again -N ice'],
    ] as const) {
      const message = await refusedStart();
      expect(message).toContain('ended with 2');
      expect(message).toContain(
        `the chunks of cluster a are not in ${place} of cluster a at installation.json: there is no `,
      );
      const installation = /of installation ([0-9a-f]{32});/.exec(message)?.[1] ?? '';
      const commands = markCommands()
        .replaceAll('-p sluice', options)
        .replaceAll('<installation>', installation);
      const marked = await run('sh', ['-ec', commands], { CEPH_ARGS: `-c ${ceph.conf} -n client.admin` });
      expect(marked).toEqual({ code: 0, text: '' });
    }

    await using(async (client) => {
      for (const [key] of classes)
        expect((await client.send({ path: pathOf('bucket', `lost-${key}`) })).status).not.toBe(200);
      await put(client, 'new');
    });
    // Follow the rest of the recovery page with some new objects: only the lost objects are removed.
    const dropped = await sluiceFsck('--drop-missing');
    for (const [key] of classes)
      expect(dropped.text).toMatch(new RegExp(`missing .*key=lost-${key} .*fixed=version taken away`));
    expect(dropped.text).not.toContain('key=new-');
    const deep = await sluiceFsck('--deep');
    expect(deep.code, deep.text).toBe(0);
    await using(async (client) => {
      for (const [key] of classes) {
        expect((await client.send({ path: pathOf('bucket', `lost-${key}`) })).status).toBe(404);
        const kept = await client.expect({ path: pathOf('bucket', `new-${key}`) });
        expect(kept.text === body.toString()).toBe(true);
      }
    });
    // Another installation is refused because of the marks.
    const other = startServer({ dataDir: join(root, 'other-again'), env: settings });
    await expect(other).rejects.toThrow(
      /pool again of cluster a at installation\.json belong to installation/,
    );
  });

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
        // A gateway that first reads the mark after the winner's write takes the pool over from it.
        expect(accepted).toContain(await marked());
        if (asked === 'start') expect(accepted).toHaveLength(1);
        for (const each of settled)
          if (each.status === 'rejected')
            expect(String(each.reason)).toMatch(/belong to installation|names installation/);
      }
      await dispose();
    },
  );
});
