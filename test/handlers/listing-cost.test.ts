/** A page of a listing costs in proportion to its entries, whatever is stored around them. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Context } from '../../src/context.ts';
import { openBucket } from '../../src/domain/common/buckets.ts';
import { objectsAt } from '../../src/metadata/objects/objects.ts';
import {
  type BucketRow,
  headSlot,
  historySpace,
  liveSpace,
  type ObjectRow,
  objects,
  uploadIndex,
} from '../../src/metadata/tables.ts';
import { faulty } from '../support/faulty.ts';
import { type GatewayWorld, openGateway } from '../support/gateway.ts';
import { setVersioning } from '../support/gateway-bodies.ts';

const many = 100_000;
const counts = { reads: 0, rows: 0 };

/** Counts the rows that are looked up, and the pages and rows that are scanned. */
function counting(context: Context): Context {
  const { metadata } = context;
  const scan = ((at: never, range: never) => {
    const cursor = metadata.scan(at, range);
    return {
      seek: (key: never, options: never) => cursor.seek(key, options),
      next: async (count: number) => {
        const rows = await cursor.next(count);
        counts.reads += 1;
        counts.rows += rows.length;
        return rows;
      },
    };
  }) as typeof metadata.scan;
  const get: typeof metadata.get = (at, key) => {
    counts.reads += 1;
    return metadata.get(at, key);
  };
  return { ...context, metadata: faulty(metadata, { scan, get }) };
}

const versionAt = (i: number): string => i.toString(16).padStart(32, '0');
/** Rows as the gateway would have written them; 100,000 requests would take a minute. */
async function write(
  world: GatewayWorld,
  bucket: BucketRow,
  rows: readonly Partial<ObjectRow>[],
): Promise<void> {
  const common = {
    bucketId: bucket.id,
    isNull: false,
    marker: false,
    modified: 0,
    size: 1,
    etag: 'e',
    storageClass: 'STANDARD',
    manifest: { extents: [] },
    headers: {},
    owner: 'alice-account',
    requestId: 'r',
  };
  for (let start = 0; start < rows.length; start += 1000) {
    await Promise.all(
      rows.slice(start, start + 1000).map((row) => {
        const put = {
          ...common,
          space: liveSpace,
          slot: headSlot,
          version: versionAt(1),
          ...row,
        } as ObjectRow;
        return world.context.metadata.commit(objectsAt(bucket), [{ put, expect: 'absent' }]);
      }),
    );
  }
}
const numbered = (i: number): string => String(i).padStart(6, '0');

async function cost(world: GatewayWorld, path: string) {
  counts.reads = 0;
  counts.rows = 0;
  const page = await world.client.get(path);
  expect(page.status).toBe(200);
  return { page, ...counts };
}

describe.each(['memory', 'embedded+file'] as const)('100,000 rows on %s', (backend) => {
  let world: GatewayWorld;
  afterAll(() => world.close());
  beforeAll(async () => {
    world = await openGateway({ backend, wrap: counting });
    const { client, context } = world;
    for (const name of ['versions', 'markers', 'stack', 'prefixes', 'uploads']) await client.put(`/${name}`);
    await setVersioning(client, 'stack', 'Enabled');
    await setVersioning(client, 'versions', 'Enabled');
    await setVersioning(client, 'markers', 'Enabled');
    const all = Array.from({ length: many }, (_, i) => i);
    const bucket = (name: string) => openBucket(context, name);
    // One key with 100,000 versions, and two keys behind it.
    const versions = await bucket('versions');
    await write(
      world,
      versions,
      all.map((i) => ({ space: historySpace, key: 'a', slot: versionAt(i + 1), version: versionAt(i + 1) })),
    );
    await write(world, versions, [{ key: 'a', version: versionAt(many + 1) }, { key: 'b' }, { key: 'c' }]);
    // 100,000 keys that are deleted, and two that are not.
    const markers = await bucket('markers');
    await write(
      world,
      markers,
      all.map((i) => ({ space: historySpace, key: `a${numbered(i)}`, marker: true })),
    );
    await write(world, markers, [{ key: 'b' }, { key: 'c' }]);
    // One key with 100,000 delete markers, and a key behind it.
    await write(world, await bucket('stack'), [
      { space: historySpace, key: 'a', marker: true, version: versionAt(0) },
      ...all.map((i) => ({
        space: historySpace,
        key: 'a',
        slot: versionAt(i + 1),
        version: versionAt(i + 1),
        marker: true,
      })),
      { key: 'b' },
    ]);
    // 100,000 keys under one prefix, and keys before and after it.
    await write(world, await bucket('prefixes'), [
      ...all.map((i) => ({ key: `m/${numbered(i)}` })),
      { key: 'a' },
      { key: 'z' },
    ]);
    const { id } = await bucket('uploads');
    for (let start = 0; start < many; start += 50) {
      await context.metadata.apply(
        Array.from({ length: 50 }, (_, i) => ({
          at: { table: uploadIndex, in: { bucketId: id } },
          put: {
            bucketId: id,
            key: `m/${numbered(start + i)}`,
            uploadId: versionAt(1),
            initiated: 0,
            storageClass: 'STANDARD',
            owner: 'o',
            initiator: 'o',
          },
        })),
      );
    }
  });

  test.each([
    ['versions of the first key', '/versions', ['a', 'b', 'c']],
    ['versions of the first key, by v2', '/versions?list-type=2', ['a', 'b', 'c']],
    ['delete markers in front', '/markers', ['b', 'c']],
    ['delete markers in front, by v2', '/markers?list-type=2&max-keys=2', ['b', 'c']],
    ['delete markers in front, grouped', '/markers?delimiter=/', ['b', 'c']],
  ] as const)('%s cost a listing of objects nothing', async (_, path, keys) => {
    // The first request of a process reads rate limits, and the state of the account.
    await world.client.get('/');
    const { page, reads, rows } = await cost(world, path);
    expect(page.all('Key')).toEqual(keys);
    expect(reads).toBeLessThanOrEqual(3);
    expect(rows).toBeLessThanOrEqual(10);
  });

  test.each(['', 'list-type=2&', 'versions&'])(
    'a common prefix over them costs a leap (%s)',
    async (list) => {
      const { page, reads, rows } = await cost(world, `/prefixes?${list}delimiter=/`);
      expect([page.all('Key'), page.all('CommonPrefixes')]).toEqual([['a', 'z'], ['m/']]);
      expect(reads).toBeLessThanOrEqual(8);
      expect(rows).toBeLessThanOrEqual(60);
      const uploads = await cost(world, '/uploads?uploads&delimiter=/');
      expect(uploads.page.all('CommonPrefixes')).toEqual(['m/']);
      expect(uploads.rows).toBeLessThanOrEqual(60);
    },
  );

  test.each([
    ['/versions?versions&max-keys=10', 10],
    ['/versions?versions', 1000],
    [`/versions?versions&key-marker=a&version-id-marker=${versionAt(50_000)}&max-keys=10`, 10],
    ['/versions?versions&key-marker=a&max-keys=10', 2],
    ['/markers?versions&max-keys=10', 10],
    ['/markers?versions', 1000],
    ['/markers?versions&delimiter=/', 1000],
    ['/markers?versions&prefix=a09', 1000],
    ['/markers?versions&key-marker=a090000', 1000],
    [`/markers?versions&key-marker=a050000&version-id-marker=${versionAt(1)}&max-keys=10`, 10],
    ['/markers?versions&key-marker=a099999', 2],
    ['/stack?versions&max-keys=10', 10],
    ['/stack?versions', 1000],
    ['/stack?versions&delimiter=/', 1000],
    [`/stack?versions&key-marker=a&version-id-marker=${versionAt(50_000)}`, 1000],
    ['/stack?versions&key-marker=a&max-keys=10', 1],
    ['/prefixes?list-type=2&max-keys=10&start-after=m/050000', 10],
    ['/prefixes?prefix=m/09&max-keys=10', 10],
    ['/prefixes?versions&key-marker=m/050000&max-keys=10', 10],
    ['/uploads?uploads&max-uploads=10&key-marker=m/050000', 10],
  ])('%s reads about as much as it shows', async (path, shown) => {
    const { page, reads, rows } = await cost(world, path);
    expect(page.all('Key')).toHaveLength(shown);
    expect(rows).toBeLessThanOrEqual(2 * shown + 20);
    expect(reads).toBeLessThanOrEqual(60);
  });
});

test('a page of delete markers reads the heads of its own keys, where a store keeps tombstones of deleted ones', async () => {
  const ends: string[] = [];
  const watching = (context: Context): Context => {
    const { metadata } = context;
    const scan: typeof metadata.scan = (at, range = {}) => {
      const { from, before } = range as { from?: Partial<ObjectRow>; before?: Partial<ObjectRow> };
      if (at.table.name === objects.name && from?.space === liveSpace)
        ends.push(before?.space === liveSpace ? (before.key ?? '') : 'the end of the bucket');
      return metadata.scan(at, range);
    };
    return { ...context, metadata: faulty(metadata, { scan, isDistant: true }) };
  };
  await using world = await openGateway({ wrap: watching });
  await world.client.put('/bucket');
  await setVersioning(world.client, 'bucket', 'Enabled');
  const keys = Array.from({ length: 60 }, (_, i) => `k${numbered(i)}`);
  for (const key of keys) await world.client.put(`/bucket/${key}`);
  for (const key of keys) await world.client.delete(`/bucket/${key}`);
  for (const first of [0, 20]) {
    ends.length = 0;
    const after = first === 0 ? '' : `&key-marker=${keys[first - 1]}`;
    const page = await world.client.get(`/bucket?versions&max-keys=20${after}`);
    // Each key has a marker and a version.
    expect(page.all('Key')).toEqual(keys.slice(first, first + 10).flatMap((key) => [key, key]));
    expect(ends.length).toBeGreaterThan(0);
    for (const end of ends) expect(end <= `${keys[first + 11]}`, end).toBe(true);
  }
});
