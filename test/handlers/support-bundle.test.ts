/** GET /admin/v1/support-bundle: an archive for those who help, for operators alone. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { RecentLines } from '../../src/base/recent-entries.ts';
import { tarEnd, tarEntry } from '../../src/handlers/admin/support-bundle.ts';
import { metricTable } from '../../src/metrics/metrics.ts';
import { systemClock } from '../../src/ports/clock.ts';
import { systemRandom } from '../../src/ports/random.ts';
import { createTracer } from '../../src/telemetry/tracer.ts';
import { faulty } from '../support/faulty.ts';
import { alice, bob, openGateway, operator } from '../support/gateway.ts';
import { openUser } from '../support/iam-users.ts';
import { auditRows } from '../support/recorded.ts';

const path = '/admin/v1/support-bundle';

/** The files of an archive, as `tar` reads it. */
function unpack(bytes: Uint8Array): ReadonlyMap<string, string> {
  const directory = mkdtempSync(join(tmpdir(), 'sluice-bundle-'));
  try {
    execFileSync('tar', ['-x', '-C', directory], { input: bytes });
    const files = readdirSync(directory, { recursive: true, encoding: 'utf8' });
    return new Map(
      files
        .filter((name) => /\.\w+$/.test(name))
        .map((name) => [name, readFileSync(join(directory, name), 'utf8')]),
    );
  } finally {
    rmSync(directory, { recursive: true });
  }
}

test('an operator gets an archive with settings, health, workers, metrics and traces, and the audit log says so', async () => {
  await using world = await openGateway({ settings: { SVC_METRICS_TOKEN: 'a-token-of-this-test' } });
  await world.client.put('/photos');
  const reply = await world.as({ credential: operator }).get(path);
  expect([reply.status, reply.header('content-type')]).toEqual([200, 'application/x-tar']);
  const files = unpack(reply.bytes);
  const read = (name: string) => JSON.parse(files.get(`sluice-support/${name}`) ?? 'null') as never;
  expect(read('ready.json')).toMatchObject({ status: 'ok' });
  expect(read('settings.json')).toMatchObject({
    SVC_META_BACKEND: 'memory',
    SVC_METRICS_TOKEN: '********',
  });
  expect((read('workers.json') as { workers: readonly object[] }).workers.length).toBeGreaterThan(10);
  expect(read('storage-data.json')).toMatchObject({ clusters: [{ cluster: 'default', status: 'ok' }] });
  expect(files.has('sluice-support/metrics.txt')).toBe(true);
  expect([...files.keys()].length).toBeGreaterThan(15);
  const secrets = [alice, bob, operator].map(({ secretKey }) => secretKey);
  for (const [name, text] of files)
    for (const secret of [...secrets, 'a-token-of-this-test']) expect(text, name).not.toContain(secret);
  expect((await auditRows(world.context)).map(({ action }) => action)).toContain('admin:GetSupportBundle');
});

test('what policies deny an operator explicitly is not in the archive: operations, and buckets in traces, the log, metrics and failures', async () => {
  const lines = new RecentLines();
  for (const bucket of ['secret', 'open'])
    lines.add(JSON.stringify({ level: 'WARN', message: `about ${bucket}`, bucket }), 1);
  lines.add(`{"level":"WARN","message":"about secret${'.'.repeat(5_000)}"}`, 1);
  const tracer = createTracer({
    ...{ clock: systemClock, random: systemRandom(), process: 'here:1', sample: 0, browser: true },
  });
  await using world = await openGateway({
    wrap: (context) => ({
      ...context,
      ...(tracer === undefined ? {} : { tracer }),
      diagnostics: { version: 'test', name: 'process', process: () => ({}), lines },
      telemetry: faulty(context.telemetry, {
        metrics: async () =>
          ['bucket', 'cluster', 'peer', 'target']
            .flatMap((label) => [`svc_x{${label}="secret"} 1`, `svc_x{${label}="open"} 2`])
            .concat(
              'svc_x{destination="secret/far"} 1',
              'svc_disk_free_bytes{component="data:secret"} 1',
              'svc_quota_used_ratio{of="bucket",name="secret",limit="bytes"} 1',
              'svc_quota_used_ratio{of="account",name="secret",limit="bytes"} 1',
              'svc_quota_used_ratio{of="user",name="secret/alice",limit="bytes"} 1',
            )
            .join('\n'),
      }),
    }),
  });
  for (const name of ['secret', 'open']) {
    await world.client.put(`/${name}`);
    expect((await world.bob.get(`/${name}/key`)).status).toBe(403);
  }
  const open = { Effect: 'Allow', Action: 'admin:*', Resource: '*' };
  const readBy = async (name: string, ...denied: readonly object[]) => {
    const policy = JSON.stringify({ Version: '2012-10-17', Statement: [open, ...denied] });
    const { credential } = await openUser(world, name, { root: operator, policy });
    return unpack((await world.as({ credential }).get(path)).bytes);
  };
  const all = await readBy('carol');
  for (const name of ['about.json', 'traces.json', 'traces-with-spans.json', 'metrics.txt'])
    expect(all.get(`sluice-support/${name}`), name).toContain('secret');
  const some = await readBy(
    'dave',
    {
      Effect: 'Deny',
      Action: 'admin:*',
      Resource: ['accounts', 'buckets', 'clusters', 'replication/peers', 'notify/targets'].map(
        (noun) => `arn:aws:admin:::${noun}/secret*`,
      ),
    },
    { Effect: 'Deny', Action: ['admin:ListClusters', 'admin:ListSettings'], Resource: '*' },
  );
  for (const [name, text] of some) expect(text, name).not.toMatch(/\bsecret\b/);
  for (const name of ['about.json', 'traces.json', 'traces-with-spans.json', 'metrics.txt'])
    expect(some.get(`sluice-support/${name}`), name).toContain('open');
  for (const name of ['clusters.json', 'settings.json'])
    expect(some.get(`sluice-support/${name}`), name).toContain('explicit deny');
  expect(some.get('sluice-support/workers.json')).toContain('"workers"');
  const withoutLog = await readBy('eve', { Effect: 'Deny', Action: 'admin:ListLogs', Resource: '*' });
  expect(withoutLog.get('sluice-support/about.json')).not.toContain('about open');
  expect(withoutLog.get('sluice-support/metrics.txt')).toContain('explicit deny');
});

test('each label of the table of metrics is known to name what a policy can deny, or nothing of that kind', () => {
  const named = 'account bucket cluster component name of peer target';
  const others =
    'action cache call class code error kind limit major minor operation outcome patch pool provider queue runtime scope setting shard space state type version why worker';
  const labels = new Set(Object.values(metricTable).flatMap((row) => ('labels' in row ? row.labels : [])));
  expect([...labels].sort()).toEqual([...named.split(' '), ...others.split(' ')].sort());
});

test('other callers are refused', async () => {
  await using world = await openGateway();
  expect((await world.client.get(path)).status).toBe(403);
  expect((await world.anonymous.get(path)).status).toBe(403);
});

test('a part that fails says why, and the others follow', async () => {
  await using world = await openGateway({
    wrap: (context) => ({
      ...context,
      bytes: faulty(context.bytes, {
        health: async () => {
          throw new Error('the cluster is on fire');
        },
      }),
    }),
  });
  const files = unpack((await world.as({ credential: operator }).get(path)).bytes);
  expect(files.get('sluice-support/storage-data.json')).toContain('the cluster is on fire');
  expect(files.get('sluice-support/storage-metadata.json')).toContain('"nodes"');
});

test('an archive has files of any length, padded to blocks', () => {
  const lengths = [0, 1, 511, 512, 513, 100_000];
  const entries = lengths.map((length) =>
    tarEntry({ name: `f${length}.x`, bytes: new Uint8Array(length).fill(97), modifiedAt: 1_700_000_000_000 }),
  );
  const archive = Buffer.concat([...entries, tarEnd()]);
  expect(archive.length % 512).toBe(0);
  const files = unpack(archive);
  for (const length of lengths) expect(files.get(`f${length}.x`)?.length).toBe(length);
});
