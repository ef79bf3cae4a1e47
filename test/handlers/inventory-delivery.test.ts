/** The inventory worker writes complete inventories in CSV and Parquet, and resumes after a kill. @storage */
import { createHash } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { openBucket } from '../../src/domain/common/buckets.ts';
import { drawVersion } from '../../src/domain/common/ids.ts';
import { readDocument } from '../../src/domain/configurations/documents.ts';
import { bucketInventories, type Inventory } from '../../src/domain/configurations/inventory.ts';
import { everyRun, findRun, requestInventory } from '../../src/domain/inventory/runs.ts';
import { LeaseLost } from '../../src/metadata/background/leases.ts';
import { objectsAt } from '../../src/metadata/objects/objects.ts';
import { headSlot, liveSpace } from '../../src/metadata/tables.ts';
import { writeInventories } from '../../src/workers/inventory.ts';
import { operatorOf } from '../support/clusters.ts';
import { countRows } from '../support/counted-rows.ts';
import { dyingProcess, stepFor } from '../support/dying-process.ts';
import { alice, backends, bob, type GatewayWorld } from '../support/gateway.ts';
import { allFields, type Manifest, must, openLists } from '../support/inventory-lists.ts';
import { pausedProcess } from '../support/paused-process.ts';
import { tightQuotas } from '../support/quota-world.ts';
import { auditRows } from '../support/recorded.ts';

const never = new AbortController().signal;
const hourMs = 3_600_000;
const dayMs = 24 * hourMs;

/** A row of an object, without its name. */
const seeded = {
  space: liveSpace,
  slot: headSlot,
  isNull: true,
  marker: false,
  modified: 0,
  size: 0,
  etag: 'd41d8cd98f00b204e9800998ecf8427e',
  storageClass: 'STANDARD',
  manifest: { extents: [] },
  headers: {},
  owner: alice.owner,
  requestId: 'seed',
};

const awkward = ['a key', 'b/ü/ß', 'c"quoted",', 'd%20e', 'emoji-\u{1f600}'];
const put = (world: GatewayWorld, key: string, body = key, headers: Record<string, string> = {}) =>
  must(world.client.put(`/bucket/${encodeURIComponent(key).replaceAll('%2F', '/')}`, { body, headers }));

test('a field that a configuration names twice is one column of its files', async () => {
  await using lists = await openLists('memory');
  await put(lists.world, 'key');
  await lists.configure({ fields: ['Size', 'ETag', 'Size'] });
  await lists.run();
  expect((await lists.manifest()).fileSchema).toBe('Bucket, Key, Size, ETag');
});

describe.each(backends)('on %s', (backend) => {
  test.each(['CSV', 'Parquet'] as const)('a %s inventory lists every current object once', async (format) => {
    await using lists = await openLists(backend);
    for (const key of awkward) await put(lists.world, key);
    await lists.configure({ format, fields: ['Size', 'ETag'] });
    await lists.run();
    const manifest = await lists.manifest();
    const [file] = manifest.files;
    const suffix = format === 'CSV' ? '\\.csv\\.gz' : '\\.parquet';
    expect(manifest).toEqual({
      sourceBucket: 'bucket',
      destinationBucket: 'arn:aws:s3:::lists',
      version: '2016-11-30',
      creationTimestamp: expect.stringMatching(/^\d{13}$/),
      fileFormat: format,
      fileSchema:
        format === 'CSV'
          ? 'Bucket, Key, Size, ETag'
          : 'message s3.inventory { required binary bucket (UTF8); required binary key (UTF8); optional int64 size; optional binary e_tag (UTF8); }',
      files: [
        {
          key: expect.stringMatching(new RegExp(`^inv/bucket/all/data/[0-9a-f]{32}-00000${suffix}$`)),
          size: expect.any(Number),
          MD5checksum: expect.any(String),
        },
      ],
    });
    const minute = new Date(Number(manifest.creationTimestamp)).toISOString().slice(0, 16).replace(':', '-');
    expect(await lists.keys()).toEqual([
      `inv/bucket/all/${minute}Z/manifest.checksum`,
      `inv/bucket/all/${minute}Z/manifest.json`,
      file?.key,
      `inv/bucket/all/hive/dt=${minute.replace('T', '-')}/symlink.txt`,
    ]);
    const { client } = lists.world;
    const [checksumKey, manifestKey, , symlinkKey] = await lists.keys();
    const text = await client.get(`/lists/${manifestKey}`);
    const md5 = createHash('md5').update(text.bytes).digest('hex');
    expect((await client.get(`/lists/${checksumKey}`)).text).toBe(md5);
    expect((await client.get(`/lists/${symlinkKey?.replace('=', '%3D')}`)).text).toBe(
      `s3://lists/${file?.key}\n`,
    );
    const rows = await lists.rows(manifest);
    expect(rows).toEqual(
      awkward.map((key) => ({
        Bucket: 'bucket',
        Key: key,
        Size: String(Buffer.byteLength(key)),
        ETag: createHash('md5').update(key).digest('hex'),
      })),
    );
  });

  test('a worker that is killed at any write completes the inventory, each object once', async () => {
    let isOver = false;
    let rounds = 0;
    await using lists = await openLists(backend, { SVC_INVENTORY_FILE_ROWS: '3' });
    const { context } = lists.world;
    const keys = Array.from({ length: 7 }, (_, n) => `key-${n}`);
    for (const key of keys) await put(lists.world, key);
    const written = new Set<string | undefined>();
    for (let at = 0; !isOver; at += stepFor(backend)) {
      expect(at).toBeLessThan(200);
      for (const when of ['before', 'after'] as const) {
        const first = dyingProcess(context, at, when);
        // Due at once, because it is new. The manifest of the last id is the last one of a list.
        const id = `${100 + at}-${when === 'before' ? 0 : 1}`;
        await lists.configure({ id });
        await lists.run(first.context).catch(() => {});
        isOver = !first.hasDied();
        await lists.run();
        const manifest = await lists.manifest();
        expect(manifest.files).toHaveLength(3);
        written.add(manifest.files[0]?.key);
        expect((await lists.rows(manifest)).map(({ Key }) => Key)).toEqual(keys);
        await lists.world.client.delete(`/bucket?inventory&id=${id}`);
      }
      rounds += 2;
    }
    // Each round wrote an inventory of its own.
    expect(written.size).toBe(rounds);
  });
});

test('an inventory of all versions has every field, the same in both formats', async () => {
  await using lists = await openLists();
  const { client } = lists.world;
  await must(
    client.put('/bucket?versioning', {
      body: '<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>',
    }),
  );
  await must(
    client.put('/bucket?object-lock', {
      body: '<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled></ObjectLockConfiguration>',
    }),
  );
  await must(
    client.put('/bucket?lifecycle', {
      body: '<LifecycleConfiguration><Rule><ID>r</ID><Filter><Prefix>locked</Prefix></Filter><Status>Enabled</Status><Expiration><Days>3</Days></Expiration></Rule></LifecycleConfiguration>',
    }),
  );
  await put(lists.world, 'gone', 'one');
  await put(lists.world, 'gone', 'two', { '*-server-side-encryption': 'AES256', '*-acl': 'public-read' });
  await must(client.delete('/bucket/gone'));
  const until = new Date(Date.UTC(2026, 5, 1)).toISOString();
  await put(lists.world, 'locked', 'three', {
    '*-object-lock-mode': 'GOVERNANCE',
    '*-object-lock-retain-until-date': until,
    '*-object-lock-legal-hold': 'ON',
    '*-checksum-sha256': createHash('sha256').update('three').digest('base64'),
    '*-storage-class': 'STANDARD_IA',
  });
  await lists.configure({ id: 'csv', versions: 'All', fields: allFields });
  await lists.configure({ id: 'parquet', versions: 'All', fields: allFields, format: 'Parquet' });
  await lists.run();
  const read = async (id: string) => {
    const [key] = await lists.keys(`${id}/2026-02-05T12-34Z/manifest.json`);
    return lists.rows(JSON.parse((await client.get(`/lists/${key}`)).text) as Manifest);
  };
  const rows = await read('csv');
  expect(await read('parquet')).toEqual(rows);
  const versions = await client.get('/bucket?versions');
  const ids = versions.all('VersionId');
  expect(rows.map(({ Key, IsLatest, IsDeleteMarker }) => [Key, IsLatest, IsDeleteMarker])).toEqual([
    ['gone', 'true', 'true'],
    ['gone', 'false', 'false'],
    ['gone', 'false', 'false'],
    ['locked', 'true', 'false'],
  ]);
  expect(rows.map(({ VersionId }) => VersionId).toSorted()).toEqual(ids.toSorted());
  const [marker, second, first, locked] = rows;
  expect(marker).toMatchObject({ Size: '', ETag: '', EncryptionStatus: '', ObjectAccessControlList: '' });
  expect(first).toMatchObject({
    Size: '3',
    EncryptionStatus: 'NOT-SSE',
    ObjectLockMode: '',
    LifecycleExpirationDate: '',
  });
  expect(second).toMatchObject({ EncryptionStatus: 'SSE-S3', ObjectOwner: alice.owner });
  expect(JSON.parse(atob(second?.['ObjectAccessControlList'] ?? ''))).toEqual({
    version: '2022-11-10',
    status: 'AVAILABLE',
    grants: [
      { canonicalId: alice.owner, type: 'CanonicalUser', permission: 'FULL_CONTROL' },
      { uri: 'http://acs.amazonaws.com/groups/global/AllUsers', type: 'Group', permission: 'READ' },
    ],
  });
  expect(locked).toMatchObject({
    Size: '5',
    StorageClass: 'STANDARD_IA',
    IsMultipartUploaded: 'false',
    ReplicationStatus: '',
    ObjectLockRetainUntilDate: until,
    ObjectLockMode: 'GOVERNANCE',
    ObjectLockLegalHoldStatus: 'On',
    ObjectLockEventHoldStatus: '',
    ObjectLockEventHoldDuration: '',
    IntelligentTieringReferenceDate: '',
    ChecksumAlgorithm: 'SHA256',
    BucketKeyStatus: '',
    LastModifiedDate: '2026-02-05T12:34:00.000Z',
    LifecycleExpirationDate: '2026-02-09T00:00:00.000Z',
  });
});

test('an inventory has the expiry that the length of a day of the settings gives, as the header of a GET does', async () => {
  await using lists = await openLists('memory', { SVC_LIFECYCLE_DAY: '1h' });
  const { client } = lists.world;
  await must(
    client.put('/bucket?lifecycle', {
      body: '<LifecycleConfiguration><Rule><ID>r</ID><Filter/><Status>Enabled</Status><Expiration><Days>3</Days></Expiration></Rule></LifecycleConfiguration>',
    }),
  );
  await put(lists.world, 'key', 'one');
  const said = /expiry-date="([^"]*)"/.exec(
    (await client.get('/bucket/key')).header('*-expiration') ?? '',
  )?.[1];
  await lists.configure({ id: 'csv', versions: 'All', fields: allFields });
  await lists.run();
  const [path] = await lists.keys('csv/2026-02-05T12-34Z/manifest.json');
  const [row] = await lists.rows(JSON.parse((await client.get(`/lists/${path}`)).text) as Manifest);
  expect(row?.['LifecycleExpirationDate']).toBe(new Date(said ?? '').toISOString());
});

test('an inventory lists the prefix of its filter only, and resumes between versions of one key', async () => {
  await using lists = await openLists('memory', { SVC_INVENTORY_FILE_ROWS: '2' });
  await must(
    lists.world.client.put('/bucket?versioning', {
      body: '<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>',
    }),
  );
  for (let n = 0; n < 5; n += 1) await put(lists.world, 'p/key', String(n));
  await put(lists.world, 'q/key');
  await lists.configure({ prefix: 'p/', versions: 'All' });
  await lists.run();
  const manifest = await lists.manifest();
  expect(manifest.files).toHaveLength(3);
  const rows = await lists.rows(manifest);
  expect(rows.map(({ Key, IsLatest }) => `${Key} ${IsLatest}`)).toEqual([
    'p/key true',
    ...Array.from({ length: 4 }, () => 'p/key false'),
  ]);
});

test.each(['Current', 'All'] as const)(
  'an inventory of %s versions lists more objects than are read at once, each once',
  async (versions) => {
    await using lists = await openLists('memory', { SVC_INVENTORY_FILE_ROWS: '11000' });
    const { context } = lists.world;
    const bucket = await openBucket(context, 'bucket');
    const keys = Array.from({ length: 12_345 }, (_, n) => `key-${String(n).padStart(6, '0')}`);
    for (const key of keys) {
      const version = drawVersion(context);
      const row = { ...seeded, bucketId: bucket.id, key, version };
      await context.metadata.commit(objectsAt(bucket), [{ put: row, expect: 'absent' }]);
    }
    await lists.configure({ versions, format: 'Parquet' });
    await lists.run();
    const manifest = await lists.manifest();
    expect(manifest.files).toHaveLength(2);
    expect((await lists.rows(manifest)).map(({ Key }) => Key)).toEqual(keys);
  },
);

test('an inventory of an empty bucket has a manifest and one file without rows', async () => {
  await using lists = await openLists();
  await lists.configure({ id: 'a' });
  await lists.configure({ id: 'b', format: 'Parquet' });
  await lists.run();
  for (const key of await lists.keys('manifest.json')) {
    const manifest = JSON.parse((await lists.world.client.get(`/lists/${key}`)).text) as Manifest;
    expect(manifest.files).toHaveLength(1);
    expect(await lists.rows(manifest)).toEqual([]);
  }
  expect(await lists.keys('manifest.json')).toHaveLength(2);
});

test('an inventory that is deleted and stored again under its id is written from the next minute on', async () => {
  await using lists = await openLists();
  await lists.configure({ frequency: 'Weekly' });
  await lists.run();
  const manifest = await lists.manifest();
  await must(lists.world.client.delete('/bucket?inventory&id=all'));
  await lists.configure({ frequency: 'Weekly', format: 'Parquet' });
  await lists.run();
  // A manifest is named by the minute: another one would replace the first.
  expect(await lists.keys('manifest.json')).toHaveLength(1);
  expect(await lists.manifest()).toEqual(manifest);
  lists.clock.jump(60_000);
  await lists.run();
  expect(await lists.keys('manifest.json')).toHaveLength(2);
  expect(await lists.manifest()).toMatchObject({ fileFormat: 'Parquet' });
});

test('a daily inventory is written once a day, a weekly one once a week from Sunday', async () => {
  await using lists = await openLists();
  await lists.configure({ id: 'daily' });
  await lists.configure({ id: 'weekly', frequency: 'Weekly' });
  await lists.configure({ id: 'off', isEnabled: false });
  const counts: number[][] = [];
  const count = async (): Promise<void> => {
    await lists.run();
    const keys = await lists.keys('manifest.json');
    counts.push(['daily', 'weekly', 'off'].map((id) => keys.filter((key) => key.includes(`/${id}/`)).length));
  };
  await count();
  lists.clock.jump(11 * hourMs);
  await count();
  // From Thursday to Friday, Saturday, Sunday.
  for (let days = 0; days < 3; days += 1) {
    lists.clock.jump(dayMs);
    await count();
  }
  expect(counts).toEqual([
    [1, 1, 0],
    [1, 1, 0],
    [2, 1, 0],
    [3, 1, 0],
    [4, 2, 0],
  ]);
});

describe('the destination is authorized when the inventory is written', () => {
  test.each([
    ['was deleted', 'no-bucket', (world: GatewayWorld) => must(world.client.delete('/lists'))],
    [
      'belongs to another account now',
      'other-owner',
      async (world: GatewayWorld) => {
        await must(world.client.delete('/lists'));
        await must(world.bob.put('/lists'));
      },
    ],
    ['has no policy', 'denied', (world: GatewayWorld) => must(world.client.delete('/lists?policy'))],
    // A run writes three objects.
    ...tightQuotas('lists', 2).map(
      ([path, quota]) =>
        [
          `has no room: ${JSON.stringify(quota)}`,
          'quota',
          (world: GatewayWorld) => operatorOf(world).must('PUT', path, quota),
        ] as const,
    ),
  ] as const)('a destination that %s fails the run: %s', async (_, why, change) => {
    await using lists = await openLists();
    const { ask } = operatorOf(lists.world);
    await lists.configure({});
    await change(lists.world);
    await lists.run();
    await lists.run();
    expect(lists.warned.map((fields) => fields['why'])).toEqual([why]);
    expect(lists.warned[0]?.['hint']).toContain(
      { quota: 'raise its quota', denied: 'policy' }[why as string] ?? 'configuration',
    );
    const shown = await ask('GET', '/buckets/bucket/inventory/all/run');
    expect(shown.json).toMatchObject({ state: 'failed', failure: why });
    lists.clock.jump(hourMs);
    await lists.run();
    expect(lists.warned).toHaveLength(2);
  });
});

test('the files are encrypted as the configuration asks, and audited under the service', async () => {
  await using lists = await openLists();
  await put(lists.world, 'key');
  await lists.configure({ encryption: '<Encryption><SSE-S3/></Encryption>' });
  await lists.run();
  const manifest = await lists.manifest();
  const got = await lists.world.client.get(`/lists/${manifest.files[0]?.key}`);
  expect(got.header('*-server-side-encryption')).toBe('AES256');
  expect(await lists.rows(manifest)).toHaveLength(1);
  const rows = await auditRows({ ...lists.world.context, clock: lists.clock });
  const written = rows.filter((row) => row.principal === 's3.amazonaws.com');
  expect(written.map(({ key = '' }) => key.slice(key.lastIndexOf('.'))).toSorted()).toEqual([
    '.checksum',
    '.gz',
    '.json',
    '.txt',
  ]);
});

test('a leader that was paused before its commit replaces no file of its successor', async () => {
  await using lists = await openLists();
  await put(lists.world, 'a');
  await lists.configure({});
  const paused = pausedProcess(lists.world.context);
  // It looks for its own term, the last result and the run, then for its term directly before the commit of the data file.
  paused.pauseBefore('get', 'tasks', 3);
  const former = writeInventories(paused.context, 0)(never);
  await paused.stands;
  expect(await lists.keys()).toEqual([]);
  await put(lists.world, 'b');
  await lists.run();
  paused.goOn();
  await expect(former).rejects.toThrow(LeaseLost);
  const rows = await lists.rows(await lists.manifest());
  expect(rows.map(({ Key }) => Key)).toEqual(['a', 'b']);
});

test('a leader that is paused at its commit writes no file again that a client has deleted', async () => {
  await using lists = await openLists();
  const { client, context } = lists.world;
  await put(lists.world, 'a');
  await lists.configure({});
  const paused = pausedProcess(context);
  paused.pauseBefore('commit', 'objects');
  const former = writeInventories(paused.context, 0)(never);
  await paused.stands;
  await lists.run();
  for (const { key } of (await lists.manifest()).files) await must(client.delete(`/lists/${key}`));
  const keys = await lists.keys();
  paused.goOn();
  await expect(former).rejects.toThrow(LeaseLost);
  expect(await lists.keys()).toEqual(keys);
});

test('a configuration that is deleted while its inventory is written ends the run without a manifest', async () => {
  await using lists = await openLists('memory', { SVC_INVENTORY_FILE_ROWS: '1' });
  await put(lists.world, 'a');
  await put(lists.world, 'b');
  await lists.configure({});
  const unit = writeInventories(lists.world.context, 99);
  expect(await unit(never)).toBe('busy');
  await must(lists.world.client.delete('/bucket?inventory&id=all'));
  expect(await unit(never)).toBe('busy');
  expect(await unit(never)).toBe('idle');
  expect(await lists.keys('manifest.json')).toEqual([]);
});

test('an operator writes an inventory now, also one that is not enabled', async () => {
  await using lists = await openLists();
  const { ask } = operatorOf(lists.world);
  await put(lists.world, 'key');
  await lists.configure({ isEnabled: false });
  const path = '/buckets/bucket/inventory/all/run';
  expect((await ask('GET', path)).status).toBe(404);
  const begun = await ask('POST', path);
  expect([begun.status, begun.json]).toMatchObject([202, { state: 'running', rows: 0 }]);
  await lists.run();
  expect((await ask('GET', path)).json).toMatchObject({
    state: 'done',
    rows: 1,
    files: 1,
    manifest: 'inv/bucket/all/2026-02-05T12-34Z/manifest.json',
  });
  // A second manifest of the minute would replace the first one.
  const again = await ask('POST', path);
  expect(again.status).toBe(409);
  expect(JSON.stringify(again.json)).toContain('from 2026-02-05T12:35:00.000Z on');
  lists.clock.jump(60_000);
  await operatorOf(lists.world).must('POST', path);
  await lists.run();
  expect(await lists.keys('manifest.json')).toHaveLength(2);
  expect((await ask('POST', '/buckets/bucket/inventory/none/run')).status).toBe(404);
  expect((await ask('POST', '/buckets/none/inventory/all/run')).status).toBe(404);
  const rows = await auditRows({ ...lists.world.context, clock: lists.clock });
  expect(rows.map(({ action }) => action)).toContain('admin:RunBucketInventory');
});

test('an account with many inventories delays no other account, and its own take turns', async () => {
  await using lists = await openLists('memory', { SVC_INVENTORY_FILE_ROWS: '10' });
  const { world } = lists;
  const other = world.as({ credential: bob });
  const allow = (name: string, account: string) =>
    JSON.stringify({
      Version: '2012-10-17',
      Statement: [
        {
          Effect: 'Allow',
          Principal: { Service: 's3.amazonaws.com' },
          Action: 's3:PutObject',
          Resource: `arn:aws:s3:::${name}/*`,
          Condition: { StringEquals: { 'aws:SourceAccount': account } },
        },
      ],
    });
  for (const name of ['bobs', 'bob-lists']) await must(other.put(`/${name}`));
  await must(other.put('/bob-lists?policy', { body: allow('bob-lists', bob.owner) }));
  for (let n = 0; n < 50; n += 1) {
    await must(other.put(`/bobs/k${n}`, { body: 'x' }));
    if (n < 30) await put(world, `k${n}`);
  }
  for (let n = 0; n < 10; n += 1) {
    const body = `<InventoryConfiguration><Id>i${n}</Id><IsEnabled>true</IsEnabled><Destination><S3BucketDestination><Bucket>arn:aws:s3:::bob-lists</Bucket><Format>CSV</Format></S3BucketDestination></Destination><Schedule><Frequency>Daily</Frequency></Schedule><IncludedObjectVersions>Current</IncludedObjectVersions></InventoryConfiguration>`;
    await must(other.put(`/bobs?inventory&id=i${n}`, { body }));
  }
  await lists.configure({});
  const unit = writeInventories(world.context, 1);
  const ofBob = async (end: string) =>
    (await other.get('/bob-lists?list-type=2')).all('Key').filter((key) => key.endsWith(end));
  while ((await lists.keys('manifest.json')).length === 0) expect(await unit(never)).toBe('busy');
  // As many steps as the other account needed: three files, and the end.
  expect((await ofBob('.csv.gz')).length).toBeLessThanOrEqual(5);
  expect(new Set((await ofBob('.csv.gz')).map((key) => key.split('/')[1])).size).toBeLessThanOrEqual(5);
  while ((await unit(never)) === 'busy');
  expect(await ofBob('manifest.json')).toHaveLength(10);
});

test('a step reads the runs that it works on, not all runs of all accounts, and finds those that others have begun', async () => {
  await using lists = await openLists();
  const { context } = lists.world;
  await put(lists.world, 'key');
  await lists.configure({});
  const bucket = await openBucket(context, 'bucket');
  const [inventory] = (await readDocument(context, bucket, bucketInventories)) ?? [];
  const begin = (owned: typeof bucket, id: string) =>
    requestInventory(context, owned, {
      inventory: { ...(inventory as Inventory), Id: id },
      record: undefined,
    });
  for (let n = 0; n < 300; n += 1) await begin(bucket, `i${n}`);
  const { metadata, seen } = countRows(context.metadata, 'tasks');
  const unit = writeInventories({ ...context, metadata }, 1);
  const rowsOfSteps: number[] = [];
  for (let step = 0; step < 10; step += 1) {
    seen.rows = 0;
    expect(await unit(never)).toBe('busy');
    rowsOfSteps.push(seen.rows);
  }
  expect(rowsOfSteps[0]).toBeGreaterThanOrEqual(300);
  expect(rowsOfSteps.slice(1)).toEqual(Array.from({ length: 9 }, () => 0));
  await must(lists.world.bob.put('/bobs'));
  await begin(await openBucket(context, 'bobs'), 'i');
  const isOver = async () =>
    (await findRun(metadata, {
      bucketId: (await openBucket(context, 'bobs')).id,
      inventory: { ...(inventory as Inventory), Id: 'i' },
    })) === undefined;
  expect([await unit(never), await isOver()]).toEqual(['busy', false]);
  await lists.clock.advance(10_000);
  expect([await unit(never), await isOver()]).toEqual(['busy', true]);
  while ((await unit(never)) === 'busy');
  for await (const run of everyRun(metadata)) expect(run).toBeUndefined();
});
