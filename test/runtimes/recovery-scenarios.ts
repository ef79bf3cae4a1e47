/** The damage of each section of docs/recovery.md, applied to a real directory, and the state that the page promises afterwards. */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, existsSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import { flipText } from '../support/damage-metadata.ts';
import { filesUnder } from '../support/flip-bits.ts';
import { pathOf } from '../support/load-client.ts';
import { bodyOf, cli, mount, patience, Site } from './recovery-site.ts';

export interface Scenario {
  /** Damages the directory and shows the symptom in `seen`. */
  damage(site: Site): Promise<void>;
  /** Checks the objects that the page promises. */
  check(site: Site): Promise<void>;
  readonly needsMount?: boolean;
}

const keys = ['key-0', 'key-1', 'large-0', 'large-1'];
const smallKeys = ['small-0', 'small-1', 'small-2', 'small-3'];
const sealed = { 'x-amz-server-side-encryption': 'AES256' };

/** A bucket with four objects, and an encrypted one. */
async function fill(site: Site): Promise<void> {
  await site.start();
  await site.client.expect({ method: 'PUT', path: '/bucket' });
  await site.put(...keys);
  const sealedObject = { path: pathOf('bucket', 'sealed'), body: bodyOf('sealed'), headers: sealed };
  await site.client.expect({ method: 'PUT', ...sealedObject });
  await site.stop();
}

/** A site that is filled once and copied by the scenarios. */
const base = new Site();
export const makeBase = (): Promise<void> => fill(base);
export const removeBase = (): Promise<void> => base[Symbol.asyncDispose]();

/** A stopped site with a backup. */
async function stored(site: Site): Promise<void> {
  cpSync(base.dataDir, site.dataDir, { recursive: true });
  cpSync(base.dataDir, site.backup, { recursive: true });
}

const metadataFile = (site: Site): string => join(site.dataDir, 'metadata/data.mdb');
const segments = (site: Site, cluster: string): readonly string[] => {
  const directory = join(site.dataDir, 'chunks', cluster, 'segments');
  return readdirSync(directory).map((name) => join(directory, name));
};
const started = async (site: Site): Promise<void> => {
  await site.start();
  await site.expectContent(...keys, 'sealed');
};

export const scenarios: Readonly<Record<string, Scenario>> = {
  'The master key is missing': {
    damage: async (site) => {
      await stored(site);
      rmSync(join(site.dataDir, 'master.key'));
      await site.refusedStart();
    },
    check: started,
  },
  'The master key is another one': {
    damage: async (site) => {
      await stored(site);
      writeFileSync(join(site.dataDir, 'master.key'), `${Buffer.alloc(32, 7).toString('base64')}\n`);
      await site.refusedStart();
    },
    check: started,
  },
  'The master key is lost for good': {
    damage: async (site) => {
      await stored(site);
      rmSync(join(site.dataDir, 'master.key'));
      await site.refusedStart();
    },
    check: async (site) => {
      await site.expectContent(...keys);
      expect(await site.statusOf('sealed')).toBe(404);
      await site.put('key-4');
    },
  },
  'The row of the installation is damaged': {
    damage: async (site) => {
      await stored(site);
      // In both rows and their former versions: the id of the installation.
      const { id } = JSON.parse(readFileSync(join(site.dataDir, 'chunks/default/installation.json'), 'utf8'));
      await flipText(metadataFile(site), id);
      await site.refusedStart();
    },
    check: started,
  },
  'The disk is full': {
    needsMount: true,
    damage: async (site) => {
      mount(site, 48);
      site.settings = { SVC_DISK_RESERVE: '8MiB' };
      await stored(site);
      await site.start();
      const filler = Buffer.alloc(1_000_000, 1);
      // Write smaller and smaller files, until less than the reserve is free.
      for (const bytes of [1_000_000, 100_000, 10_000, 100]) {
        let status = 200;
        for (let n = 0; n < 1_000 && status === 200; n += 1)
          ({ status } = await site.send('PUT', `filler-${bytes}-${n}`, filler.subarray(0, bytes)));
        expect(status).toBe(507);
      }
      const ready = async (): Promise<string> => (await site.client.send({ path: '/readyz' })).text;
      // Each of two processes detects the failure of each of two components separately.
      const seen = async (): Promise<string> => (site.seen += await ready());
      await expect.poll(seen, patience).toMatch(/"component":"metadata","status":"full"/);
    },
    check: async (site) => {
      const put = () => site.send('PUT', 'again', bodyOf('again')).then(({ status }) => status);
      await expect.poll(put, patience).toBe(200);
    },
  },
  'Chunks are lost': {
    damage: async (site) => {
      await stored(site);
      const before = new Set(segments(site, 'default'));
      await site.start();
      await site.put('lost-0', 'lost-1');
      await site.stop();
      for (const path of segments(site, 'default')) if (!before.has(path)) rmSync(path);
      await site.start();
      expect((await site.send('GET', 'lost-0').catch(() => ({ status: 500 }))).status).toBe(500);
      await site.run(['sluice fsck --deep --data-dir /srv/objects']);
    },
    check: async (site) => {
      await started(site);
      expect(await site.statusOf('lost-0')).toBe(404);
      await site.put('lost-0');
    },
  },
  'The directory of a cluster is lost': {
    damage: async (site) => {
      site.settings = { SVC_POOL_CLUSTERS: 'default,second' };
      await fill(site);
      await site.start();
      await site.put(...Array.from({ length: 32 }, (_, n) => `before-${n}`));
      await site.stop();
      rmSync(join(site.dataDir, 'chunks/second'), { recursive: true });
      site.placeholders = { ...site.placeholders, cluster: 'second' };
      await site.refusedStart();
    },
    check: async (site) => {
      const statuses = await Promise.all(Array.from({ length: 32 }, (_, n) => site.statusOf(`before-${n}`)));
      expect(new Set(statuses)).toEqual(new Set([200, 404]));
      await site.put(...keys);
      await site.expectContent(...keys);
    },
  },
  'Metadata restored from an older backup': {
    damage: async (site) => {
      await stored(site);
      // One process stores the objects in one segment, which is not packed while most of them exist.
      site.settings = { SVC_PROCESSES: '1' };
      await site.start();
      await site.put(...smallKeys);
      await site.stop();
      rmSync(site.backup, { recursive: true });
      cpSync(site.dataDir, site.backup, { recursive: true });
      await site.start();
      await site.put('new-0', 'new-1');
      await site.send('DELETE', 'small-0');
      const marks = () => segments(site, 'default').filter((path) => path.endsWith('.dead')).length;
      await expect.poll(marks, patience).toBe(1);
      await site.send('PUT', 'large-0', bodyOf('another'));
      await site.send('DELETE', 'large-1');
      await expect.poll(() => largeFiles(site), patience).toBe(0);
      await site.stop();
      rmSync(join(site.dataDir, 'metadata'), { recursive: true });
      cpSync(join(site.backup, 'metadata'), join(site.dataDir, 'metadata'), { recursive: true });
      await site.run(['sluice fsck --data-dir /srv/objects']);
    },
    check: async (site) => {
      await site.expectContent('key-0', 'key-1', 'sealed', 'new-0', 'new-1', ...smallKeys);
      const { text } = await site.client.expect({ path: pathOf('bucket', 'large-0') });
      expect(text).toBe(bodyOf('another').toString());
      expect(await site.statusOf('large-1')).toBe(404);
    },
  },
  'Chunks of another installation': {
    damage: async (site) => {
      await stored(site);
      await using other = new Site();
      await fill(other);
      rmSync(join(site.dataDir, 'chunks/default'), { recursive: true });
      cpSync(join(other.dataDir, 'chunks/default'), join(site.dataDir, 'chunks/default'), {
        recursive: true,
      });
      site.placeholders = { ...site.placeholders, cluster: 'default' };
      await site.refusedStart();
    },
    check: started,
  },
  'The file system is read-only': {
    needsMount: true,
    damage: async (site) => {
      mount(site, 48);
      await stored(site);
      expect(spawnSync('sync', ['-f', site.dataDir]).status).toBe(0);
      await site.start();
      const fault = `echo x > /sys/fs/ext4/$(basename $(findmnt -n -o SOURCE ${site.dataDir}))/trigger_fs_error`;
      expect(spawnSync('sh', ['-c', fault]).status).toBe(0);
      // A failed commit may end the process; the next start then reports the reason.
      const look = async (): Promise<string> =>
        site.client.send({ path: '/readyz' }).then(
          ({ text }) => text,
          async () => {
            await site.stop();
            return site.start().catch((error: Error) => `failed ${error.message}`);
          },
        ) as Promise<string>;
      await expect
        .poll(async () => {
          const text = await look();
          site.seen += text;
          return text;
        }, patience)
        .toMatch(/failed/);
    },
    check: started,
  },
  'Compact was killed': {
    damage: async (site) => {
      await stored(site);
      const compacting = join(site.dataDir, 'metadata/compacting');
      for (let tries = 0; tries < 20 && !existsSync(compacting); tries += 1) {
        const child = spawn(process.execPath, [cli, 'compact', '--data-dir', site.dataDir]);
        const ended = once(child, 'close');
        while (!existsSync(compacting) && child.exitCode === null)
          await new Promise((resolve) => setImmediate(resolve));
        child.kill('SIGKILL');
        await ended;
      }
      site.seen += readdirSync(join(site.dataDir, 'metadata')).join('\n');
    },
    check: async (site) => {
      await started(site);
      expect(readdirSync(join(site.dataDir, 'metadata'))).not.toContain('compacting');
      expect(readdirSync(join(site.dataDir, 'metadata'))).not.toContain('data.mdb.before-compact');
    },
  },
  'Leaving damaged rows out': {
    damage: async (site) => {
      await site.start();
      await site.client.expect({ method: 'PUT', path: '/bucket' });
      await site.put(...keys);
      const headers = { 'x-amz-meta-mark': 'the-mark-of-the-row' };
      await site.client.expect({
        method: 'PUT',
        path: pathOf('bucket', 'marked'),
        body: bodyOf('marked'),
        headers,
      });
      await site.stop();
      const bytes = readFileSync(metadataFile(site));
      for (let at = bytes.indexOf('the-mark-of'); at >= 0; at = bytes.indexOf('the-mark-of', at + 1))
        bytes[at + 3] = (bytes[at + 3] as number) ^ 2;
      writeFileSync(metadataFile(site), bytes);
      await site.start();
      expect((await site.send('GET', 'marked')).status).toBe(500);
      await site.run(['sluice fsck --data-dir /srv/objects']);
    },
    check: (site) => site.expectContent(...keys, 'marked'),
  },
  'Making the index again': {
    damage: async (site) => {
      await site.start();
      await site.client.expect({ method: 'PUT', path: '/bucket' });
      await site.put(...keys);
      await site.stop();
      truncateSync(metadataFile(site), 4096 * 3);
      await site.refusedStart();
    },
    check: (site) => site.expectContent(...keys),
  },
};

/** Chunks in separate files. */
const largeFiles = (site: Site): number =>
  filesUnder(join(site.dataDir, 'chunks')).filter((path) => path.includes('/large/')).length;
