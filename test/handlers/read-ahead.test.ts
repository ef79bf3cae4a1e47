/** On a remote store the head of a key is read in parallel with the row of its bucket (docs/gaps.md, M1). */
import { describe, expect, test } from 'vitest';
import { buckets, objects } from '../../src/metadata/tables.ts';
import type { AnyTable, MetadataStore } from '../../src/ports/metadata-store.ts';
import { policyOf } from '../support/access.ts';
import { faulty } from '../support/faulty.ts';
import { type GatewayWorld, type GatewayWorldOptions, openGateway } from '../support/gateway.ts';
import { configuration, dayMs, heldUntil } from '../support/locks.ts';
import { type VirtualClock, virtualClock } from '../support/virtual-clock.ts';

type Around = (table: AnyTable, read: () => Promise<unknown>) => Promise<unknown>;

/** A gateway with distant metadata; each read goes through `around`. */
function openDistant(around: { read: Around }, clock?: VirtualClock) {
  const wrap: GatewayWorldOptions['wrap'] = (context) => {
    const { metadata } = context;
    // The cast is safe, because `around` returns the row that the store returned.
    const get = ((at, key) => around.read(at.table, () => metadata.get(at, key))) as MetadataStore['get'];
    return { ...context, metadata: faulty(metadata, { isDistant: true, get }) };
  };
  return openGateway({ wrap, ...(clock && { clock }) });
}

const plainly: Around = (_table, read) => read();

/** Holds back rows of buckets until a head is requested; counts the reads of heads. */
function bucketsBehindHeads(): { readonly read: Around; readonly heads: () => number } {
  const { promise: wasAsked, resolve: asked } = Promise.withResolvers<void>();
  let heads = 0;
  const read: Around = async (table, proceed) => {
    if (table === objects) {
      heads += 1;
      asked();
    }
    if (table === buckets) await wasAsked;
    return proceed();
  };
  return { read, heads: () => heads };
}

describe('reading ahead', () => {
  test('a GET and a HEAD request the head in parallel with the bucket’s row', async () => {
    const around = { read: plainly };
    await using world = await openDistant(around);
    await world.client.put('/bucket');
    await world.client.put('/bucket/key', { body: 'content' });
    for (const method of ['get', 'head'] as const) {
      const { read, heads } = bucketsBehindHeads();
      around.read = read;
      expect((await world.client[method]('/bucket/key')).status).toBe(200);
      expect(heads()).toBe(1);
      around.read = plainly;
    }
  });

  test.each([
    ['PUT', 'a new key'],
    ['PUT', 'what is there'],
    ['DELETE', 'what is there'],
  ])(
    'a %s of %s requests its head in parallel with the bucket’s row, and only once',
    async (method, what) => {
      const around = { read: plainly };
      await using world = await openDistant(around);
      await world.client.put('/bucket');
      await world.client.get('/bucket');
      if (what === 'what is there') await world.client.put('/bucket/key', { body: 'old' });
      const { read, heads } = bucketsBehindHeads();
      around.read = read;
      const done = await (method === 'PUT'
        ? world.client.put('/bucket/key', { body: 'new' })
        : world.client.delete('/bucket/key'));
      expect([done.status, heads()]).toEqual([method === 'PUT' ? 200 : 204, 1]);
      around.read = plainly;
      const found = await world.client.get('/bucket/key');
      expect([found.status, found.text.includes('new')]).toEqual(
        method === 'PUT' ? [200, true] : [404, false],
      );
    },
  );

  test('a PUT that another one overtakes right after its head was read ahead is answered with that one', async () => {
    const around = { read: plainly };
    await using world = await openDistant(around);
    await world.client.put('/bucket');
    await world.client.get('/bucket');
    const { promise: wasOvertaken, resolve: overtaken } = Promise.withResolvers<void>();
    around.read = async (table, read) => {
      const row = await read();
      if (table !== objects) return row;
      around.read = plainly;
      await world.client.put('/bucket/key', { body: 'overtook' });
      overtaken();
      return row;
    };
    const put = await world.client.put('/bucket/key', { body: 'last' });
    await wasOvertaken;
    const found = await world.client.get('/bucket/key');
    expect([put.status, put.header('etag')]).toEqual([200, found.header('etag')]);
    expect(found.text).toBe('overtook');
  });

  test('a condition is checked with the head that was read ahead, and by the commit', async () => {
    const around = { read: plainly };
    await using world = await openDistant(around);
    await world.client.put('/bucket');
    await world.client.put('/bucket/key', { body: 'old' });
    const headers = { 'if-none-match': '*' };
    let counted = bucketsBehindHeads();
    around.read = counted.read;
    expect((await world.client.put('/bucket/key', { body: 'new', headers })).status).toBe(412);
    expect(counted.heads()).toBe(1);
    counted = bucketsBehindHeads();
    around.read = counted.read;
    expect((await world.client.put('/bucket/other', { body: 'new', headers })).status).toBe(200);
    expect(counted.heads()).toBe(1);
    // The key has no object when it is read ahead, and has one when the body has arrived.
    around.read = async (table, read) => {
      const row = await read();
      if (table !== objects) return row;
      around.read = plainly;
      await world.client.put('/bucket/third', { body: 'first' });
      return row;
    };
    expect((await world.client.put('/bucket/third', { body: 'second', headers })).status).toBe(412);
    expect((await world.client.get('/bucket/third')).text).toBe('first');
  });

  test('a bucket that took the name of another shows its own objects', async () => {
    const around = { read: plainly };
    await using world = await openDistant(around);
    await world.client.put('/bucket');
    await world.client.put('/bucket/key', { body: 'old' });
    await world.client.delete('/bucket/key');
    await world.client.delete('/bucket');
    await world.client.put('/bucket');
    expect((await world.client.get('/bucket/key')).status).toBe(404);
    await world.client.put('/bucket/key', { body: 'new' });
    expect((await world.client.get('/bucket/key')).text).toBe('new');
  });

  test('what was written a moment ago is what is read, markers and versions included', async () => {
    const around = { read: plainly };
    await using world = await openDistant(around);
    await world.client.put('/bucket');
    await world.client.put('/bucket?versioning', {
      body: '<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>',
    });
    const first = await world.client.put('/bucket/key', { body: '1' });
    expect((await world.client.get('/bucket/key')).text).toBe('1');
    await world.client.put('/bucket/key', { body: '2' });
    expect((await world.client.get('/bucket/key')).text).toBe('2');
    await world.client.delete('/bucket/key');
    const gone = await world.client.get('/bucket/key');
    expect([gone.status, gone.header('x-amz-delete-marker')]).toEqual([404, 'true']);
    const versionId = first.header('x-amz-version-id');
    expect((await world.client.get(`/bucket/key?versionId=${versionId}`)).text).toBe('1');
  });

  test('a wrong guess does not fail the request, and grants nothing', async () => {
    const around = { read: plainly };
    await using world = await openDistant(around);
    await world.client.put('/bucket');
    await world.client.put('/bucket/key', { body: 'content' });
    let failures = 0;
    around.read = (table, read) => {
      if (table !== objects || failures > 0) return read();
      failures += 1;
      return Promise.reject(new Error('away'));
    };
    expect((await world.client.get('/bucket/key')).text).toBe('content');
    expect(failures).toBe(1);
    expect((await world.bob.get('/bucket/key')).code).toBe('AccessDenied');
  });
});

const cacheTtlMs = 2_000;
const bobsObjects = { Principal: { AWS: 'bob-account' }, Resource: 'arn:aws:s3:::bucket/*' };
const forBob = { body: policyOf({ ...bobsObjects, Action: 's3:GetObject' }) };

/** Another process over the same stores. */
const openBeside = ({ context }: GatewayWorld, clock: VirtualClock): Promise<GatewayWorld> =>
  openGateway({
    clock,
    wrap: (own) => ({
      ...own,
      bytes: context.bytes,
      metadata: faulty(context.metadata, { isDistant: true }),
    }),
  });

/** Two processes over one store, in which there is an object. */
async function openBoth() {
  const clock = virtualClock();
  const world = await openDistant({ read: plainly }, clock);
  const beside = await openBeside(world, clock);
  await world.client.put('/bucket');
  await world.client.put('/bucket/key', { body: 'content' });
  return {
    clock,
    world,
    beside,
    async [Symbol.asyncDispose]() {
      await beside.close();
      await world.close();
    },
  };
}

describe('believing a bucket', () => {
  test('a GET and a HEAD of an object that is there ask for its head and for nothing else', async () => {
    const around = { read: plainly };
    await using world = await openDistant(around);
    await world.client.put('/bucket');
    await world.client.put('/bucket/key', { body: 'content' });
    await world.client.get('/bucket/key');
    const asked: AnyTable[] = [];
    around.read = (table, read) => {
      asked.push(table);
      return read();
    };
    expect((await world.client.get('/bucket/key')).text).toBe('content');
    expect((await world.client.head('/bucket/key')).status).toBe(200);
    expect(asked).toEqual([objects, objects]);
    // For missing objects and refused callers the gateway reads the present row of the bucket.
    expect((await world.client.get('/bucket/other')).code).toBe('NoSuchKey');
    expect((await world.bob.get('/bucket/key')).code).toBe('AccessDenied');
    expect(asked.filter((table) => table === buckets)).toHaveLength(2);
  });

  test('what a process changes holds for its very next request', async () => {
    await using world = await openDistant({ read: plainly });
    await world.client.put('/bucket');
    await world.client.put('/bucket/key', { body: 'content' });
    for (let round = 0; round < 2; round += 1) {
      expect((await world.bob.get('/bucket/key')).code).toBe('AccessDenied');
      await world.client.put('/bucket?policy', forBob);
      expect((await world.bob.get('/bucket/key')).status).toBe(200);
      await world.client.delete('/bucket?policy');
    }
  });

  test('a bucket row that was read during its change is not cached', async () => {
    const around = { read: plainly };
    await using world = await openDistant(around);
    await world.client.put('/bucket');
    await world.client.put('/bucket/key', { body: 'content' });
    await world.client.put('/bucket?policy', forBob);
    around.read = async (table, read) => {
      const row = await read();
      if (table !== buckets) return row;
      around.read = plainly;
      await world.client.delete('/bucket?policy');
      return row;
    };
    // This request began before the policy was removed and may still be allowed; the next one must be refused.
    await world.bob.get('/bucket/key');
    expect((await world.bob.get('/bucket/key')).code).toBe('AccessDenied');
  });

  test('a revocation by another process takes effect when the cached row expires; a grant immediately', async () => {
    await using both = await openBoth();
    const { clock, world, beside } = both;
    expect((await beside.bob.get('/bucket/key')).code).toBe('AccessDenied');
    await world.client.put('/bucket?policy', forBob);
    expect((await beside.bob.get('/bucket/key')).status).toBe(200);
    await world.client.delete('/bucket?policy');
    await clock.advance(cacheTtlMs);
    expect((await beside.bob.get('/bucket/key')).code).toBe('AccessDenied');
  });

  test('Object Lock that another process enabled is seen at once by what reads the lock of a version', async () => {
    await using both = await openBoth();
    const { clock, world, beside } = both;
    expect((await beside.client.get('/bucket/key?legal-hold')).code).toBe('InvalidRequest');
    const body = '<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>';
    expect((await world.client.put('/bucket?versioning', { body })).status).toBe(200);
    expect((await world.client.put('/bucket?object-lock', { body: configuration() })).status).toBe(200);
    const until = clock.now() + dayMs;
    const locked = { '*-object-lock-legal-hold': 'ON', ...heldUntil('GOVERNANCE', until) };
    expect((await world.client.put('/bucket/key', { body: 'held', headers: locked })).status).toBe(200);
    // The row is still cached there, so the next request uses it.
    expect((await beside.client.get('/bucket/key')).text).toBe('held');
    expect((await beside.client.get('/bucket/key?legal-hold')).one('Status')).toBe('ON');
    expect((await beside.client.get('/bucket/key?retention')).one('Mode')).toBe('GOVERNANCE');
  });

  test('a permission that another process granted counts at once, also for the second action of an operation', async () => {
    await using both = await openBoth();
    const { world, beside } = both;
    const grant = async (...actions: readonly string[]): Promise<void> => {
      const body = policyOf({ ...bobsObjects, Action: actions });
      expect((await world.client.put('/bucket?policy', { body })).status).toBe(204);
    };
    await grant('s3:GetObjectAttributes');
    const ask = () =>
      beside.bob.get('/bucket/key?attributes', { headers: { '*-object-attributes': 'ETag' } });
    expect((await ask()).code).toBe('AccessDenied');
    await grant('s3:GetObjectAttributes', 's3:GetObject');
    expect((await ask()).status).toBe(200);
  });

  test('a refusal that the bucket has no part in stays, and costs one read of its row', async () => {
    const clock = virtualClock();
    let reads = 0;
    const around: { read: Around } = { read: plainly };
    await using world = await openDistant(around, clock);
    await world.client.put('/bucket');
    await world.client.put('/bucket/key', { body: 'content' });
    await world.client.get('/bucket/key');
    around.read = (table, read) => {
      if (table === buckets) reads += 1;
      return read();
    };
    expect((await world.client.get('/bucket/key', { headers: { range: 'bytes=100-' } })).code).toBe(
      'InvalidRange',
    );
    expect(reads).toBe(1);
  });

  test('a bucket that another process deleted and created again shows its new objects immediately', async () => {
    await using both = await openBoth();
    const { world, beside } = both;
    expect((await beside.client.get('/bucket/key')).text).toBe('content');
    await world.client.delete('/bucket/key');
    await world.client.delete('/bucket');
    expect((await beside.client.get('/bucket/key')).code).toBe('NoSuchBucket');
    await world.client.put('/bucket');
    await world.client.put('/bucket/key', { body: 'new' });
    expect((await beside.client.get('/bucket/key')).text).toBe('new');
  });
});
