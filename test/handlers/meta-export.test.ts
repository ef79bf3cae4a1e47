/** An export of all metadata, and its import by another backend. @storage */
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { openBucket } from '../../src/domain/common/buckets.ts';
import { beginInventories } from '../../src/domain/inventory/runs.ts';
import {
  acquireLease,
  findLease,
  leaderLease,
  raiseLease,
  releaseLease,
} from '../../src/metadata/background/leases.ts';
import { tables } from '../../src/metadata/tables.ts';
import type { AnyTable } from '../../src/ports/metadata-store.ts';
import {
  exportedTables,
  exportMetadata,
  ImportConflict,
  importMetadata,
  partPath,
} from '../../src/runtime/backup/cli-meta.ts';
import { openActions } from '../support/actions.ts';
import { operatorOf } from '../support/clusters.ts';
import { type Backend, backends, type GatewayWorld, openGateway, operator } from '../support/gateway.ts';
import { allow, openUser } from '../support/iam-users.ts';

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'sluice-export-'));
});
afterEach(() => rm(directory, { recursive: true, force: true }));

const { signal } = new AbortController();
const exportOf = ({ context }: GatewayWorld) => exportMetadata(context.metadata, { to: directory, signal });

async function fill(world: GatewayWorld): Promise<void> {
  const { client } = world;
  for (const bucket of ['plain', 'versioned']) await client.put(`/${bucket}`);
  await client.put('/versioned?versioning', {
    body: '<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>',
  });
  for (let i = 0; i < 40; i += 1)
    await client.put(`/plain/key-${i}`, {
      body: `body ${i}`,
      headers: { 'x-amz-meta-i': `${i}`, 'x-amz-tagging': 'a=b' },
    });
  for (let i = 0; i < 5; i += 1) await client.put('/versioned/é%2F🦭', { body: 'x'.repeat(i) });
  await client.delete('/versioned/é%2F🦭');
  // An object that came and went in one slot leaves a counter whose columns are all 0. Requests draw their slots.
  const { id } = await openBucket(world.context, 'plain');
  const at = { table: tables.usage, in: { bucketId: id } };
  for (const objects of [1, -1])
    await world.context.metadata.apply([
      { at, add: { storageClass: 'STANDARD_IA', slot: 0 }, by: { bytes: 4 * objects, objects } },
    ]);
  await client.post('/plain/upload?uploads');
  await openUser(world, 'carol', { policy: allow('s3:ListBucket') });
  await client.put('/plain?policy', {
    body: JSON.stringify({
      Version: '2012-10-17',
      Statement: [
        { Effect: 'Allow', Principal: '*', Action: 's3:GetObject', Resource: 'arn:aws:s3:::plain/*' },
      ],
    }),
  });
}

/** What clients see without reading contents, which are not part of the metadata. */
async function shown(world: GatewayWorld): Promise<readonly string[]> {
  const paths = ['/', '/plain', '/plain?versions', '/versioned?versions', '/plain?uploads', '/plain?policy'];
  const texts = await Promise.all(paths.map(async (path) => (await world.client.get(path)).text));
  const heads = await Promise.all(Array.from({ length: 40 }, (_, i) => world.client.head(`/plain/key-${i}`)));
  const users = await openActions(world)('ListUsers', {});
  const usage = await world.as({ credential: operator }).get('/admin/v1/storage/classes');
  const buckets = ['plain', 'versioned'].map(async (name) => {
    const { updatedAt } = await operatorOf(world).must('GET', `/buckets/${name}`);
    expect(updatedAt).toEqual(expect.any(String));
    return `${name} ${updatedAt}`;
  });
  return [
    ...texts,
    ...heads.map(
      ({ status, header }) =>
        `${status} ${header('*-meta-i')} ${header('etag')} ${header('*-tagging-count')}`,
    ),
    users.all('UserName').join(),
    usage.text,
    ...(await Promise.all(buckets)),
  ].map((text) => text.replace(/<RequestId>.*?<\/RequestId>/g, ''));
}

type Columns = Readonly<Record<string, unknown>>;

/** A world over a store without any row, as `sluice meta import` finds it: its start has written some. */
async function openEmpty(backend: Backend): Promise<GatewayWorld> {
  const world = await openGateway({ backend });
  const { metadata } = world.context;
  for (const table of exportedTables)
    for await (const { rows } of metadata.everyRow?.(table) ?? [])
      for (const { row } of rows) {
        const columnsOf = (names: readonly string[]): Columns =>
          Object.fromEntries(names.map((name) => [name, (row as Columns)[name]]));
        const at = { table, in: columnsOf(table.partition) };
        const key = columnsOf(table.sort.map((name: string) => name.replace(/^-/, '')));
        const found = await metadata.get(at, key);
        if (table.kind === 'plain') await metadata.apply([{ at, remove: key }]);
        else if (found !== undefined) await metadata.commit(at, [{ remove: key, expect: found.revision }]);
      }
  return world;
}

const stored = backends.filter((backend): backend is Backend => backend !== 'memory');

describe.each(stored)('an export on %s', (backend) => {
  test.each([
    ['from', { source: backend, target: 'embedded+file' as Backend }],
    ['to', { source: 'embedded+file' as Backend, target: backend }],
  ])(
    '%s it is imported with everything that clients see, compared, and again without effect',
    async (_, { source, target }) => {
      let before: readonly string[];
      {
        await using world = await openGateway({ backend: source });
        await fill(world);
        before = await shown(world);
        await exportOf(world);
      }
      const exported = JSON.parse(await readFile(join(directory, 'export.json'), 'utf8'));
      await using world = await openEmpty(target);
      const run = () => importMetadata(world.context.metadata, exported, { from: directory, signal });
      expect(await run()).toEqual([]);
      expect(await shown(world)).toEqual(before);
      expect(await run()).toEqual([]);
      expect(await shown(world)).toEqual(before);
      expect((await world.client.put('/versioned/new', { body: 'new' })).status).toBe(200);
      expect((await world.client.put('/plain/key-1', { body: 'again' })).status).toBe(200);
      expect((await world.client.delete('/plain')).code).toBe('BucketNotEmpty');
    },
  );
});

describe('an export', () => {
  test('is imported with the generations of the leases, so that each worker begins its work at once', async () => {
    const name = leaderLease('inventory');
    {
      await using world = await openGateway({ backend: 'embedded+file' });
      await fill(world);
      const { metadata } = world.context;
      for (let i = 0; i < 3; i += 1) {
        const lease = await acquireLease(metadata, { name, holder: `h${i}`, ttlMs: 60_000 });
        await beginInventories(metadata, lease?.generation ?? 0);
        if (lease !== undefined) await releaseLease(metadata, lease);
      }
      await exportOf(world);
    }
    const exported = JSON.parse(await readFile(join(directory, 'export.json'), 'utf8'));
    await using world = await openEmpty('embedded+file');
    const { metadata } = world.context;
    const run = () => importMetadata(metadata, exported, { from: directory, signal });
    expect(await run()).toEqual([]);
    expect(await findLease(metadata, name)).toMatchObject({ generation: 3, expires: 0 });
    expect(await run()).toEqual([]);
    const lease = await acquireLease(metadata, { name, holder: 'successor', ttlMs: 60_000 });
    expect(lease?.generation).toBe(4);
    await beginInventories(metadata, lease?.generation ?? 0);
    await raiseLease(metadata, { name, generation: 3 });
    expect(await findLease(metadata, name)).toMatchObject({ generation: 4, holder: 'successor' });
  });

  test('leaves out who works and who is logged in', () => {
    const names = exportedTables.map(({ name }) => name);
    for (const name of ['leases', 'worker_heartbeats', 'gateways', 'node_messages', 'logins'])
      expect(names).not.toContain(name);
    expect(names).toHaveLength(Object.keys(tables).length - 5);
    expect(names[0]).toBe('buckets');
  });

  test('continues where it was cut short, and is the same as a whole one', async () => {
    await using world = await openGateway({ backend: 'embedded+file' });
    await fill(world);
    const whole = await exportOf(world);
    const path = join(directory, 'export.json');
    const { objects: _, ...rest } = whole.tables;
    await writeFile(path, JSON.stringify({ ...whole, tables: rest }));
    await rm(partPath(directory, 'objects', 0));
    expect(await exportOf(world)).toEqual(whole);
    expect(await readdir(directory)).toContain('objects.0.jsonl');
  });

  test('is not imported over other rows, and a changed part is found by the comparison', async () => {
    await using world = await openGateway({ backend: 'embedded+file' });
    await fill(world);
    const exported = await exportOf(world);
    const path = partPath(directory, 'objects', 0);
    await writeFile(path, (await readFile(path, 'utf8')).replace('key-7', 'key-x'));
    await using other = await openEmpty('embedded+file');
    const run = () => importMetadata(other.context.metadata, exported, { from: directory, signal });
    expect((await run()).map(({ table }) => table)).toContain('objects');
    const lines = (await readFile(path, 'utf8')).split('\n');
    const changed = lines.map((line) =>
      line.includes('"key-3"') ? line.replace(/"size":\d+/, '"size":99') : line,
    );
    await writeFile(path, changed.join('\n'));
    await expect(run()).rejects.toThrow(ImportConflict);
  });

  test('is refused, before anything is written, by a store of another installation or with another bucket', async () => {
    await using world = await openGateway({ backend: 'embedded+file' });
    await fill(world);
    const exported = await exportOf(world);
    const rowsOf = async ({ context }: GatewayWorld, table: AnyTable): Promise<number> => {
      let count = 0;
      for await (const { rows } of context.metadata.everyRow?.(table) ?? []) count += rows.length;
      return count;
    };
    await using used = await openGateway({ backend: 'embedded+file' });
    const into = ({ context }: GatewayWorld) =>
      importMetadata(context.metadata, exported, { from: directory, signal });
    await expect(into(used)).rejects.toThrow(/belongs to the installation/);
    expect(await rowsOf(used, tables.buckets)).toBe(0);
    await using other = await openEmpty('embedded+file');
    await other.client.put('/another');
    await expect(into(other)).rejects.toThrow(/has a bucket another that is not in the export/);
    expect(await rowsOf(other, tables.objects)).toBe(0);
  });
});
