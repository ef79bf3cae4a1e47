/** A page of a listing costs as much as it shows, whatever lies around it (issue, item 6; design §5). */
import { beforeAll, describe, expect, test } from 'vitest';
import type { Context } from '../../src/context.ts';
import { openBucket } from '../../src/domain/buckets.ts';
import { objectsOf } from '../../src/metadata/objects.ts';
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

/** Counts the pages and rows that are read. */
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
  return { ...context, metadata: faulty(metadata, { scan }) };
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
  for (const row of rows) {
    const put = { ...common, space: liveSpace, slot: headSlot, version: versionAt(1), ...row } as ObjectRow;
    await world.context.metadata.commit(objectsOf(bucket), [{ put, expect: 'absent' }]);
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

describe('100,000 rows', () => {
  let world: GatewayWorld;
  beforeAll(async () => {
    world = await openGateway({ wrap: counting });
    const { client, context } = world;
    for (const name of ['versions', 'markers', 'prefixes', 'uploads']) await client.put(`/${name}`);
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
    // 100,000 keys under one prefix, keys around it.
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
    void objects;
  });

  test.each([
    ['versions of the first key', '/versions', ['a', 'b', 'c']],
    ['versions of the first key, by v2', '/versions?list-type=2', ['a', 'b', 'c']],
    ['delete markers in front', '/markers', ['b', 'c']],
    ['delete markers in front, by v2', '/markers?list-type=2&max-keys=2', ['b', 'c']],
    ['delete markers in front, grouped', '/markers?delimiter=/', ['b', 'c']],
  ] as const)('%s cost a listing of objects nothing', async (_, path, keys) => {
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
    ['/prefixes?list-type=2&max-keys=10&start-after=m/050000', 10],
    ['/prefixes?prefix=m/09&max-keys=10', 10],
    ['/prefixes?versions&key-marker=m/050000&max-keys=10', 10],
    ['/uploads?uploads&max-uploads=10&key-marker=m/050000', 10],
  ])('%s reads about as much as it shows', async (path, shown) => {
    const { page, rows } = await cost(world, path);
    expect(page.all('Key')).toHaveLength(shown);
    expect(rows).toBeLessThanOrEqual(2 * shown + 20);
  });
});
