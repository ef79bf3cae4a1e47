/** `sluice backup` beside a gateway under load, and `sluice restore` of what it copied; `sluice meta export` and `sluice meta import`. */
import { execFile } from 'node:child_process';
import { existsSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { cp, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { loadClient } from '../support/load-client.ts';
import { replicateTo, replicatingSettings, startSite } from '../support/replicating-servers.ts';
import { startServer, type TestServer } from '../support/server.ts';
import { type Send, sender } from './client.ts';
import { finished, started } from './command.ts';

const root = join(import.meta.dirname, '../..');
let directory: string;
const at = (...names: string[]): string => join(directory, ...names);
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'sluice-backup-'));
});
afterEach(() => rm(directory, { recursive: true, force: true }));

interface Run {
  readonly code: number;
  readonly stderr: string;
  readonly report: Readonly<Record<string, unknown>>;
}

function sluice(
  command: 'backup' | 'restore' | 'fsck' | 'meta export' | 'meta import',
  ...flags: readonly string[]
): Promise<Run> {
  const args = [join(root, 'src/runtime/cli.ts'), ...command.split(' '), '--json', ...flags];
  return new Promise((resolve) => {
    execFile(process.execPath, args, { cwd: root }, (error, stdout, stderr) => {
      const code = error === null ? 0 : typeof error.code === 'number' ? error.code : -1;
      resolve({ code, stderr, report: stdout === '' ? {} : JSON.parse(stdout) });
    });
  });
}
const backup = (...flags: readonly string[]): Promise<Run> =>
  sluice('backup', '--data-dir', at('data'), `--to=${at('backup')}`, ...flags);
const restore = (...flags: readonly string[]): Promise<Run> =>
  sluice('restore', '--data-dir', at('restored'), `--from=${at('backup')}`, ...flags);

async function served(
  name: string,
  use: (send: Send, server: TestServer) => Promise<void>,
  env: Readonly<Record<string, string>> = {},
): Promise<void> {
  const server = await startServer({ dataDir: at(name), env });
  try {
    await use(sender({ url: server.url, ...server.credentials.root }), server);
  } finally {
    await server.stop();
  }
}

/** Small ones share a segment, large ones have files. A body tells which write it is of, in each of its parts. */
const sizes = [100, 3_000, 40_000, 700_000, 5_000_000];
const bodyOf = (key: string, write: number, size: number): string =>
  `${key}:${write};`.repeat(Math.ceil(size / (key.length + 8))).slice(0, size);

const large = (): string[] =>
  readdirSync(at('data/chunks/default/large'), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));

interface Written {
  readonly size: number;
  acknowledged: number;
  begun: number;
}

/** Overwrites keys until it is told to stop; the old contents are deleted as soon as possible. */
async function overwrite(send: Send, keys: ReadonlyMap<string, Written>, until: AbortSignal): Promise<void> {
  const loop = async ([key, written]: readonly [string, Written]): Promise<void> => {
    while (!until.aborted) {
      const write = ++written.begun;
      const { status } = await send('PUT', `/bucket/${key}`, { body: bodyOf(key, write, written.size) });
      expect(status).toBe(200);
      written.acknowledged = write;
    }
  };
  await Promise.all([...keys].map(loop));
}

const eager = { SVC_GC_GRACE: '1s', SVC_GC_INTERVAL: '1s' };

test('a backup beside clients that overwrite everything holds each object as it was at one moment, and a restore serves it', async () => {
  const keys = new Map(
    sizes.flatMap((size) =>
      [0, 1].map((i): [string, Written] => [`key-${size}-${i}`, { size, acknowledged: 0, begun: 0 }]),
    ),
  );
  const before = new Map<string, number>();
  const after = new Map<string, number>();
  await served(
    'data',
    async (send) => {
      await send('PUT', '/bucket');
      for (const [key, written] of keys) {
        await send('PUT', `/bucket/${key}`, { body: bodyOf(key, 0, written.size) });
      }
      const stop = new AbortController();
      const load = overwrite(send, keys, stop.signal);
      for (let run = 0; run < 3; run += 1) {
        for (const [key, { acknowledged }] of keys) before.set(key, acknowledged);
        const { code, report, stderr } = await backup();
        for (const [key, { begun }] of keys) after.set(key, begun);
        expect([code, report['findings']], stderr).toEqual([0, []]);
      }
      stop.abort();
      await load;
    },
    eager,
  );
  const restored = await restore();
  expect([restored.code, restored.report['findings']], restored.stderr).toEqual([0, []]);
  await served('restored', async (send) => {
    for (const [key, { size }] of keys) {
      const { status, text } = await send('GET', `/bucket/${key}`);
      expect(status).toBe(200);
      const write = Number(/:(\d+);/.exec(text)?.[1]);
      expect(text === bodyOf(key, write, size)).toBe(true);
      expect(write).toBeGreaterThanOrEqual(before.get(key) ?? 0);
      expect(write).toBeLessThanOrEqual(after.get(key) ?? 0);
    }
    expect((await send('PUT', '/bucket/new', { body: 'new' })).status).toBe(200);
  });
});

test('a second backup copies what is new and removes what is gone; encrypted objects can be read after a restore', async () => {
  const encrypted = { 'x-amz-server-side-encryption': 'AES256' };
  await served(
    'data',
    async (send) => {
      await send('PUT', '/bucket');
      for (const key of ['a', 'b', 'c'])
        await send('PUT', `/bucket/${key}`, { body: key.repeat(1_000_000), headers: encrypted });
      expect((await backup()).report).toMatchObject({ files: 4, kept: 0, removed: 0 });
      await send('DELETE', '/bucket/a');
      await send('PUT', '/bucket/d', { body: 'd'.repeat(1_000_000), headers: encrypted });
      await expect.poll(() => large().length, { timeout: 60_000 }).toBe(3);
      expect((await backup()).report).toMatchObject({ files: 1, kept: 3, removed: 1 });
      const { tasks } = JSON.parse((await send('GET', '/admin/v1/tasks?kind=backup')).text);
      expect(tasks).toEqual([
        expect.objectContaining({
          state: 'done',
          done: { count: 4, bytes: expect.any(Number) },
          left: { count: 0, bytes: 0 },
        }),
      ]);
      expect(tasks[0].done.bytes).toBeGreaterThan(3_000_000);
      expect(statSync(at('backup')).mode & 0o077).toBe(0);
    },
    eager,
  );
  expect((await restore()).code).toBe(0);
  await served('restored', async (send) => {
    expect((await send('GET', '/bucket/a')).status).toBe(404);
    for (const key of ['b', 'c', 'd'])
      expect((await send('GET', `/bucket/${key}`)).text).toBe(key.repeat(1_000_000));
  });
});

test('a first backup that was cut short in its copy of the metadata is begun again in the same directory', async () => {
  await served('data', async (send) => void (await send('PUT', '/bucket')));
  await mkdir(at('backup/metadata.new'), { recursive: true });
  await writeFile(at('backup/metadata.new/data.mdb'), 'the first pages');
  await writeFile(at('backup/backup.json.new'), '{');
  const { code, stderr } = await backup();
  expect([code, stderr]).toEqual([0, '']);
  expect((await readdir(at('backup'))).filter((name) => name.endsWith('.new'))).toEqual([]);
  expect((await restore()).code).toBe(0);
});

test('a backup says what is missing, and exits with 1', async () => {
  await served('data', async (send) => {
    await send('PUT', '/bucket');
    await send('PUT', '/bucket/key', { body: 'x'.repeat(2_000_000) });
  });
  const [file = ''] = large();
  rmSync(file);
  const { code, report } = await backup();
  expect(code).toBe(1);
  expect(report['findings']).toEqual([
    expect.objectContaining({ kind: 'missing', bucket: 'bucket', key: 'key' }),
  ]);
});

test('a backup and a restore overwrite nothing, and refuse what is no backup', async () => {
  await served('data', async (send) => {
    await send('PUT', '/bucket');
    expect((await backup()).code).toBe(0);
  });
  await served('other', async (send) => {
    await send('PUT', '/bucket');
  });
  const refusals: readonly (readonly [Promise<Run>, number, RegExp])[] = [
    [
      sluice('backup', '--data-dir', at('other'), `--to=${at('backup')}`),
      1,
      /is a backup of the installation/,
    ],
    [sluice('backup', '--data-dir', at('data'), `--to=${at('other')}`), 1, /neither empty nor a backup/],
    [
      sluice('backup', '--data-dir', at('data'), `--to=${at('data/backup')}`),
      2,
      /must not contain each other/,
    ],
    [sluice('backup', '--data-dir', at('data')), 2, /--to=DIRECTORY/],
    [sluice('backup', `--to=${at('backup')}`), 2, /embedded metadata and file chunks/],
    [sluice('restore', '--data-dir', at('other'), `--from=${at('backup')}`), 1, /is not empty/],
    [sluice('restore', '--data-dir', at('restored'), `--from=${at('other')}`), 1, /no backup.json/],
    [sluice('restore', '--data-dir', at('restored'), `--from=${at('none')}`), 2, /there is no directory/],
  ];
  for (const [run, code, text] of refusals) {
    const refused = await run;
    expect([refused.code, refused.stderr]).toEqual([code, expect.stringMatching(text)]);
  }
  expect(existsSync(at('restored'))).toBe(false);
  const text = await readFile(at('backup/backup.json'), 'utf8');
  await writeFile(at('backup/backup.json'), text.replace('"isComplete": true', '"isComplete": false'));
  expect((await restore()).stderr).toMatch(/was cut short/);
  await writeFile(at('backup/backup.json'), '{"format":2}');
  expect((await restore()).stderr).toMatch(/no backup.json/);
});

test('over the metadata of a backup that ran beside a gateway, --rebuild makes the objects again that this gateway stored since', async () => {
  const bodies = new Map([100, 700_000].map((size) => [`new-${size}`, bodyOf('new', 0, size)]));
  const env = { ...eager, SVC_GC_GRACE: '0s', SVC_INTENT_TTL: '1s' };
  await served(
    'data',
    async (send) => {
      await send('PUT', '/bucket');
      await send('PUT', '/bucket/old', { body: 'old' });
      expect((await backup()).code).toBe(0);
      for (const [key, body] of bodies) await send('PUT', `/bucket/${key}`, { body });
    },
    env,
  );
  await cp(at('backup/metadata/data.mdb'), at('data/metadata/data.mdb'));
  // The backup has the open writes of the gateway, which end with their time.
  let lines = '';
  const rebuilt = async (): Promise<string> => {
    lines += (await finished(['fsck', '--rebuild', '--data-dir', at('data')])).stdout;
    return lines;
  };
  await expect.poll(rebuilt, { timeout: 60_000 }).toMatch(/2 rebuilt, 0 left/);
  await served(
    'data',
    async (send, server) => {
      const sweeps = async (): Promise<string> => (await send('GET', '/admin/v1/workers')).text;
      await expect.poll(sweeps, { timeout: 60_000 }).toMatch(/"worker":"sweep"[^}]*"units":[1-9]/);
      expect(server.log()).not.toContain('"level":"ERROR"');
      for (const [key, body] of bodies) expect((await send('GET', `/bucket/${key}`)).text).toBe(body);
    },
    env,
  );
});

test('a copy that restore --as-new-site made and its origin replicate to each other, what both have and what is written later', async () => {
  const origin = await startSite({ dataDir: at('data') });
  const { root: credentials } = origin.server.credentials;
  const near = sender({ url: origin.server.url, ...credentials });
  await near('PUT', '/bucket/both', { body: 'before the backup' });
  expect((await backup()).code).toBe(0);
  const restored = await restore('--as-new-site');
  expect([restored.code, restored.report['findings']], restored.stderr).toEqual([0, []]);
  const copy = await startServer({ dataDir: at('restored'), env: replicatingSettings });
  const far = sender({ url: copy.url, ...credentials });
  const copyClient = loadClient(copy.url, credentials);
  // Less than the time of a lease that a gateway of the origin held at the backup.
  const patience = { timeout: 60_000 };
  const statusAt = async (send: Send, key: string) =>
    (await send('HEAD', `/bucket/${key}`)).headers['x-amz-replication-status'];
  try {
    expect((await far('GET', '/admin/v1/status')).text).not.toContain(new URL(origin.server.url).host);
    await replicateTo(origin.client, copy);
    await replicateTo(copyClient, origin.server);
    await near('PUT', '/bucket/near', { body: 'of the origin' });
    await far('PUT', '/bucket/far', { body: 'of the copy' });
    await expect.poll(async () => (await far('GET', '/bucket/near')).text, patience).toBe('of the origin');
    await expect.poll(async () => (await near('GET', '/bucket/far')).text, patience).toBe('of the copy');
    for (const client of [origin.client, copyClient])
      await client.expect(
        { method: 'POST', path: '/admin/v1/replication/resync/bucket', body: '{"status":"all"}' },
        [202],
      );
    await expect.poll(() => statusAt(near, 'both'), patience).toBe('COMPLETED');
    await expect.poll(() => statusAt(far, 'both'), patience).toBe('COMPLETED');
    const tags = '<Tagging><TagSet><Tag><Key>k</Key><Value>v</Value></Tag></TagSet></Tagging>';
    await far('PUT', '/bucket/both?tagging', { body: tags });
    await expect
      .poll(async () => (await near('GET', '/bucket/both?tagging')).text, patience)
      .toContain('<Value>v</Value>');
    for (const send of [near, far]) {
      const { text } = await send('GET', '/bucket?versions=');
      expect(text.match(/<VersionId>/g)).toHaveLength(3);
      expect((await send('GET', '/admin/v1/replication/failed')).text).toContain('"failed":[]');
    }
  } finally {
    copyClient.close();
    origin.client.close();
    await copy.stop();
    await origin.server.stop();
  }
});

test('a backup without the clusters of the gateway is refused before anything is copied, and says what to set', async () => {
  const clusters = { SVC_POOL_CLUSTERS: 'a,b' };
  await served('data', async (send) => void (await send('PUT', '/bucket')), clusters);
  const refused = await backup();
  expect([refused.code, refused.stderr]).toEqual([
    1,
    'sluice: chunks of this installation may be on the clusters a, b, and SVC_POOL_CLUSTERS names only default: set it as the gateways have it\n',
  ]);
  const partly = await backup('--pool-clusters=a');
  expect([partly.code, partly.stderr]).toEqual([1, expect.stringContaining('on the clusters b, and')]);
  expect(existsSync(at('backup'))).toBe(false);
  const more = await backup('--pool-clusters=a,b,c');
  expect([more.code, more.stderr]).toEqual([
    1,
    `sluice: the cluster c has no chunks in ${at('data/chunks/c')}: mount its disk, or set SVC_POOL_CLUSTERS as the gateways have it\n`,
  ]);
  expect(existsSync(at('backup'))).toBe(false);
});

/** Runs a command and interrupts it at its first output. */
function interrupt(command: 'restore' | 'fsck', ...flags: readonly string[]): Promise<Omit<Run, 'report'>> {
  const run = started([command, '--watch', ...flags]);
  for (const stream of [run.child.stdout, run.child.stderr])
    stream?.once('data', () => run.child.kill('SIGINT'));
  return run.ended.then((code) => ({ code: code ?? -1, stderr: run.stderr }));
}

test('an interrupted restore, fsck or rebuild says in one line how to go on', async () => {
  await served('data', async (send) => {
    await send('PUT', '/bucket');
    await send('PUT', '/bucket/key', { body: 'x'.repeat(1_000_000) });
  });
  expect((await backup()).code).toBe(0);
  const [file = ''] = large();
  const copy = join(at('backup/chunks/default/large'), relative(at('data/chunks/default/large'), file));
  // Files without owner: work that the commands have not ended when the signal arrives.
  const surplus = Array.from({ length: 3_000 }, (_, i) => i.toString(16).padStart(8, '0'));
  for (const name of surplus) writeFileSync(copy.replace(/[0-9a-f]{8}(?=[^/]*$)/, name), '');
  const restored = await interrupt('restore', `--from=${at('backup')}`, '--data-dir', at('restored'));
  expect(restored).toEqual({
    code: 1,
    stderr: expect.stringMatching(
      new RegExp(`sluice: interrupted; empty ${at('restored')}, then run the command again\\n$`),
    ),
  });
  await rm(at('restored'), { recursive: true });
  for (const [flags, advice] of [
    [[], '--resume goes on from here'],
    [['--rebuild'], 'run the command again: it creates only the rows that are missing'],
  ] as const) {
    const { code, stderr } = await interrupt('fsck', '--data-dir', at('backup'), ...flags);
    expect([code, stderr]).toEqual([1, expect.stringMatching(`sluice: interrupted; ${advice}\n$`)]);
    expect(stderr).not.toContain(' at ');
  }
});

test('sluice meta export and import move the metadata of a stopped gateway, and refuse one that runs', async () => {
  const exported = (): Promise<Run> =>
    sluice('meta export', '--data-dir', at('data'), `--to=${at('export')}`);
  const imported = (): Promise<Run> =>
    sluice('meta import', '--data-dir', at('moved'), `--from=${at('export')}`);
  await served('data', async (send) => {
    await send('PUT', '/bucket');
    await send('PUT', '/bucket/key', {
      body: 'secret content',
      headers: { 'x-amz-server-side-encryption': 'AES256' },
    });
    const refused = await exported();
    expect([refused.code, refused.stderr]).toEqual([
      1,
      expect.stringMatching(/holds the lease .* for \d+ seconds more: stop all gateways/),
    ]);
  });
  expect((await sluice('meta import', '--data-dir', at('moved'), `--from=${at('data')}`)).stderr).toMatch(
    /no export.json/,
  );
  expect((await exported()).code).toBe(0);
  for (const name of ['chunks', 'master.key'])
    await cp(at('data', name), at('moved', name), { recursive: true });
  expect(await imported()).toMatchObject({ code: 0, report: { differences: [] } });
  expect(await imported()).toMatchObject({ code: 0, report: { differences: [] } });
  await served('moved', async (send) => {
    expect((await send('GET', '/bucket/key')).text).toBe('secret content');
    expect((await send('PUT', '/bucket/key', { body: 'new' })).status).toBe(200);
  });
  expect(await imported()).toMatchObject({ code: 1, stderr: expect.stringMatching(/is different here/) });
});

test('sluice meta export does not wait for the leases of workers of a gateway that was killed', async () => {
  const server = await startServer({ dataDir: at('data') });
  const exported = (): Promise<Run> =>
    sluice('meta export', '--data-dir', at('data'), `--to=${at('export')}`);
  await expect.poll(async () => (await exported()).stderr, { timeout: 60_000 }).toContain('-leader');
  await server.kill9();
  // Leases that one unit of work needs end after 15 s; those of leaders would after 150 s.
  await expect.poll(async () => (await exported()).code, { timeout: 60_000, interval: 1_000 }).toBe(0);
});

test('a backup names a file that the disk cannot read, copies everything else, and is complete once the file can be read', async () => {
  const bodies = ['first', 'second'].map((key) => [key, bodyOf(key, 0, 700_000)] as const);
  await served('data', async (send) => {
    await send('PUT', '/bucket');
    for (const [key, body] of bodies) await send('PUT', `/bucket/${key}`, { body });
  });
  const [bad = ''] = large();
  const preload = at('failing-disk.mjs');
  const failing = `
    import fs from 'node:fs/promises';
    import { syncBuiltinESMExports } from 'node:module';
    for (const name of ['copyFile', 'open']) {
      const call = fs[name];
      fs[name] = async (path, ...more) => {
        if (path === ${JSON.stringify(bad)}) throw Object.assign(new Error('EIO: i/o error'), { code: 'EIO' });
        return call(path, ...more);
      };
    }
    syncBuiltinESMExports();`;
  await writeFile(preload, failing);
  vi.stubEnv('NODE_OPTIONS', `--import=${preload}`);
  const lacking = await backup();
  vi.unstubAllEnvs();
  expect(lacking).toMatchObject({ code: 1, report: { isComplete: false, unreadable: [bad] }, stderr: '' });
  expect(lacking.report['findings']).toMatchObject([{ kind: 'missing', bucket: 'bucket' }]);
  expect(await restore()).toMatchObject({ code: 1, stderr: expect.stringContaining('lacks 1 files') });
  expect(await backup()).toMatchObject({ code: 0, report: { isComplete: true, files: 1, findings: [] } });
  expect((await restore()).code).toBe(0);
  await served('restored', async (send) => {
    for (const [key, body] of bodies) expect((await send('GET', `/bucket/${key}`)).text === body).toBe(true);
  });
});

test('sluice meta import refuses an export that was cut short, that an earlier version wrote, or that is damaged', async () => {
  await served('data', async (send) => void (await send('PUT', '/bucket')));
  const exported = (): Promise<Run> =>
    sluice('meta export', '--data-dir', at('data'), `--to=${at('export')}`);
  const imported = (): Promise<Run> =>
    sluice('meta import', '--data-dir', at('moved'), `--from=${at('export')}`);
  expect((await exported()).code).toBe(0);
  const path = at('export/export.json');
  const whole = JSON.parse(await readFile(path, 'utf8'));
  expect(whole.isComplete).toBe(true);
  const { isComplete: _, ...ofEarlierBuild } = whole;
  const { buckets } = whole.tables;
  for (const cut of [
    { ...whole, isComplete: false, tables: { buckets } },
    { ...whole, tables: { buckets } },
    ofEarlierBuild,
  ]) {
    await writeFile(path, JSON.stringify(cut));
    const refused = await imported();
    expect([refused.code, refused.stderr]).toEqual([
      1,
      expect.stringContaining(`was cut short, or an earlier version wrote it: run sluice meta export --to=`),
    ]);
    expect(existsSync(at('moved'))).toBe(false);
    expect((await exported()).code).toBe(0);
    expect(JSON.parse(await readFile(path, 'utf8'))).toEqual(whole);
  }
  await writeFile(path, JSON.stringify(whole).slice(0, -20));
  for (const torn of [await imported(), await exported()])
    expect([torn.code, torn.stderr]).toEqual([
      1,
      `sluice: ${path} is damaged: run sluice meta export again, to another directory\n`,
    ]);
  await writeFile(path, JSON.stringify(whole));
  const part = at('export/buckets.0.jsonl');
  const rows = await readFile(part, 'utf8');
  await writeFile(part, rows.slice(0, -20));
  for (const name of ['chunks', 'master.key'])
    await cp(at('data', name), at('moved', name), { recursive: true });
  expect(await imported()).toMatchObject({
    code: 1,
    stderr: `sluice: ${part}: line 1 is damaged: run sluice meta export again, to another directory\n`,
  });
  await rm(at('moved'), { recursive: true });
  const tables = { ...whole.tables, novelties: { parts: 1, rows: 1, sum: '1', isComplete: true } };
  await writeFile(path, JSON.stringify({ ...whole, tables }));
  expect(await imported()).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('the table novelties, which this version does not have'),
  });
  expect(existsSync(at('moved'))).toBe(false);
});

test('a command on a directory without an installation ends with 2 and creates nothing there', async () => {
  await served('data', async (send) => void (await send('PUT', '/bucket')));
  expect((await sluice('meta export', '--data-dir', at('data'), `--to=${at('export')}`)).code).toBe(0);
  await mkdir(at('empty'));
  for (const [command, ...flags] of [
    ['fsck'],
    ['fsck', '--fix'],
    ['fsck', '--rebuild'],
    ['backup', `--to=${at('backup')}`],
    ['meta export', `--to=${at('other')}`],
    ['meta import', `--from=${at('export')}`],
  ] as const) {
    const refused = await sluice(command, '--data-dir', at('empty'), ...flags);
    expect([command, refused.code, refused.stderr]).toEqual([
      command,
      2,
      `sluice: there is no installation in ${at('empty')}: neither metadata nor chunks; mount its disk, or correct the settings\n`,
    ]);
    expect(await readdir(at('empty'))).toEqual([]);
  }
  expect((await readdir(directory)).sort()).toEqual(['data', 'empty', 'export']);
});
