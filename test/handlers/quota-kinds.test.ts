/** Every request that stores bytes is judged by each of the four quotas, before its body is read and before anything is stored. */
import { Readable } from 'node:stream';
import { describe, expect, test } from 'vitest';
import { encodeReplica } from '../../src/metadata/objects/properties.ts';
import { faulty } from '../support/faulty.ts';
import { alice } from '../support/gateway.ts';
import {
  complete,
  createUpload,
  md5,
  type PartOf,
  putPart,
  setVersioning,
} from '../support/gateway-bodies.ts';
import type { Answer, Ask } from '../support/gateway-client.ts';
import { holdingUploads } from '../support/holding-uploads.ts';
import { encodeForm, fieldsOf, fileOf, multipart, signForm } from '../support/post-form.ts';
import { openQuotas, type QuotaWorld, refusedFor, ten } from '../support/quota-world.ts';
import { joined, sendObject, written } from '../support/replicas.ts';

type Arriving = NonNullable<Ask['arriving']>;

interface Kind {
  /** What is done before the quotas are set; `write` gets its result. */
  readonly prepare?: (world: QuotaWorld) => Promise<unknown>;
  /** Stores ten bytes under a new key of `/bucket`. */
  readonly write: (world: QuotaWorld, prepared: never, arriving: Arriving) => Promise<Answer>;
  /** The length is not known before the body arrives. */
  readonly isOpenEnded?: true;
}

interface Upload {
  readonly uploadId: string;
  readonly parts: readonly PartOf[];
}

const openUpload = async ({ client }: QuotaWorld, ask: Ask = {}): Promise<Upload> => {
  const uploadId = await createUpload(client, '/bucket/new', ask);
  return { uploadId, parts: [await putPart(client, '/bucket/new', { uploadId, number: 1, body: ten })] };
};

const replicaOf = (etag = md5(ten)) =>
  written(ten, { version: `${'0'.repeat(11)}10000${'0'.repeat(16)}`, etag });
const etagOfParts = `${md5(Buffer.from(md5(ten), 'hex'))}-1`;

const withoutLength: NonNullable<Ask['tamper']> = {
  headers: (all) => [...all.filter(([name]) => name !== 'content-length'), ['transfer-encoding', 'chunked']],
};

/** Whole objects. */
const kinds: Readonly<Record<string, Kind>> = {
  PutObject: { write: ({ client }, _, arriving) => client.put('/bucket/new', { body: ten, arriving }) },
  // Each chunk of ten bytes needs a hundred on the wire: the content counts, and not its framing.
  'PutObject in signed chunks': {
    write: ({ client }, _, arriving) =>
      client.put('/bucket/new', { body: ten, payload: 'streaming', chunkSize: 3, arriving }),
  },
  'PutObject of unknown length': {
    isOpenEnded: true,
    write: ({ client }, _, arriving) =>
      client.put('/bucket/new', {
        body: ten,
        tamper: withoutLength,
        arriving,
      }),
  },
  CopyObject: {
    write: ({ client }) => client.put('/bucket/new', { headers: { '*-copy-source': '/other/source' } }),
  },
  PostObject: {
    isOpenEnded: true,
    write: ({ anonymous }) => {
      const signed = signForm(alice, { conditions: [{ bucket: 'bucket' }, ['starts-with', '$key', '']] });
      return anonymous.post('/bucket', {
        body: encodeForm([...fieldsOf({ key: 'new', ...signed }), fileOf(ten)]),
        headers: multipart(),
      });
    },
  },
  CompleteMultipartUpload: {
    prepare: openUpload,
    write: ({ client }, upload: Upload) => complete(client, '/bucket/new', upload),
  },
  ReplicateObject: {
    prepare: ({ client }) => setVersioning(client, 'bucket', 'Enabled'),
    write: ({ client }, _, arriving) => {
      const document = replicaOf();
      const size = encodeReplica(document).length;
      return client.put(`/bucket/new?replica=${document.version}`, {
        body: joined(document, ten),
        headers: { '*-replica-document-length': String(size) },
        async *arriving(body) {
          yield body.subarray(0, size);
          yield* arriving(body.subarray(size));
        },
      });
    },
  },
  'CompleteMultipartUpload of a replica': {
    async prepare(world) {
      await setVersioning(world.client, 'bucket', 'Enabled');
      const document = replicaOf(etagOfParts);
      return openUpload(world, { query: { replica: document.version }, body: encodeReplica(document) });
    },
    write: ({ client }, upload: Upload) => complete(client, '/bucket/new', upload),
  },
};

/** Parts: the two quotas of bytes. A part is no object, and may be larger than an object may be. */
const partKinds: Readonly<Record<string, Kind>> = {
  UploadPart: {
    prepare: ({ client }) => createUpload(client, '/bucket/new'),
    write: ({ client }, uploadId: string, arriving) =>
      client.put('/bucket/new', { query: { uploadId, partNumber: '1' }, body: ten, arriving }),
  },
  UploadPartCopy: {
    prepare: ({ client }) => createUpload(client, '/bucket/new'),
    write: ({ client }, uploadId: string) =>
      client.put('/bucket/new', {
        query: { uploadId, partNumber: '1' },
        headers: { '*-copy-source': '/other/source' },
      }),
  },
};

interface Quota {
  readonly of: 'bucket' | 'user';
  readonly limit: (world: QuotaWorld, more: number) => Promise<void>;
  readonly counts: 'bytes' | 'objects' | 'size';
}
/** The account holds ten bytes and one object in `/other`; `/bucket` holds an empty object. */
const quotas: Readonly<Record<string, Quota>> = {
  maxBytes: { of: 'bucket', counts: 'bytes', limit: (world, n) => world.limit({ maxBytes: 9 + n }) },
  maxObjects: { of: 'bucket', counts: 'objects', limit: (world, n) => world.limit({ maxObjects: 1 + n }) },
  maxBytesPerObject: {
    of: 'bucket',
    counts: 'size',
    limit: (world, n) => world.limit({ maxBytesPerObject: 9 + n }),
  },
  totalMaxBytes: {
    of: 'user',
    counts: 'bytes',
    limit: (world, n) => world.limitUser({ totalMaxBytes: 19 + n }),
  },
};

async function openWorld(): Promise<QuotaWorld> {
  const world = await openQuotas();
  await world.client.put('/other');
  await world.client.put('/other/source', { body: ten });
  await world.client.put('/bucket/empty', { body: '' });
  return world;
}

async function* unchanged(body: Uint8Array): AsyncGenerator<Uint8Array> {
  yield body;
}

describe.each(Object.entries(kinds))('%s', (_, { prepare, write, isOpenEnded = false }) => {
  test.each(Object.entries(quotas))('is judged by %s', async (_, { of, limit }) => {
    await using world = await openWorld();
    const prepared = (await prepare?.(world)) as never;
    await limit(world, 0);
    const before = await world.stored();
    const refused = await write(world, prepared, unchanged);
    expect(refused, refused.text).toMatchObject(refusedFor(of));
    expect(await world.usage('bucket')).toEqual({ bytes: 0, objects: 1 });
    if (isOpenEnded) await world.gc();
    expect(await world.stored()).toEqual(before);
    await limit(world, 1);
    const stored = await write(world, prepared, unchanged);
    expect(stored.status, stored.text).toBeLessThan(300);
    expect(await world.usage('bucket')).toEqual({ bytes: 10, objects: 2 });
  });
});

const ofKnownLength = Object.entries(kinds).filter(([, { isOpenEnded = false }]) => !isOpenEnded);

describe.each([...ofKnownLength, ...Object.entries(partKinds)])('%s', (name, { prepare, write }) => {
  const judging = Object.entries(quotas).filter(([, { counts }]) => name in kinds || counts === 'bytes');

  test('is refused before its body is read, by each quota', async () => {
    for (const [quota, { of, limit }] of judging) {
      await using world = await openWorld();
      const prepared = (await prepare?.(world)) as never;
      await limit(world, 0);
      let isRead = false;
      const refused = await write(world, prepared, async function* (body) {
        isRead = true;
        yield body;
      });
      expect([quota, refused]).toEqual([quota, expect.objectContaining(refusedFor(of))]);
      expect([quota, isRead]).toEqual([quota, false]);
    }
  });
});

describe.each(Object.entries(partKinds))('%s', (_, { prepare, write }) => {
  test.each(Object.entries(quotas))(
    'is judged by %s, if that counts bytes',
    async (_, { of, limit, counts }) => {
      await using world = await openWorld();
      const prepared = (await prepare?.(world)) as never;
      await limit(world, 0);
      const asked = await write(world, prepared, unchanged);
      if (counts === 'bytes') {
        expect(asked, asked.text).toMatchObject(refusedFor(of));
        await limit(world, 1);
      }
      const stored = await write(world, prepared, unchanged);
      expect(stored.status, stored.text).toBe(200);
      const part = { number: 1, etag: stored.header('etag') ?? stored.one('ETag') ?? '' };
      const completed = await complete(world.client, '/bucket/new', {
        uploadId: prepared as string,
        parts: [part],
      });
      if (counts === 'bytes') expect(completed.status, completed.text).toBe(200);
      else expect(completed).toMatchObject(refusedFor(of));
    },
  );
});

test.each(['CompleteMultipartUpload', 'CompleteMultipartUpload of a replica'])(
  '%s: a store that holds the parts is not asked to complete them where there is no room',
  async (name) => {
    let completions = 0;
    await using world = await openQuotas({
      wrap: (context) => {
        const bytes = holdingUploads(context.bytes);
        const { uploads } = bytes;
        if (uploads === undefined) throw new Error('no uploads');
        const complete: typeof uploads.complete = (...call) => {
          completions += 1;
          return uploads.complete(...call);
        };
        return { ...context, bytes: faulty(bytes, { uploads: faulty(uploads, { complete }) }) };
      },
    });
    const { prepare, write } = kinds[name] as Kind;
    const prepared = (await prepare?.(world)) as never;
    const ask = () => write(world, prepared, (body) => Readable.from([body]));
    await world.limit({ maxBytes: 9 });
    expect(await ask()).toMatchObject(refusedFor('bucket'));
    expect(completions).toBe(0);
    await world.limit({ maxBytes: 10 });
    const done = await ask();
    expect(done.status, done.text).toBe(200);
    expect((await world.client.get('/bucket/new')).text).toBe(ten);
  },
);

test('a replica in parts is refused before its parts are sent, where the whole has no room', async () => {
  await using world = await openQuotas();
  await setVersioning(world.client, 'bucket', 'Enabled');
  const document = replicaOf(etagOfParts);
  const begin = () =>
    world.client.post(`/bucket/new?uploads&replica=${document.version}`, { body: encodeReplica(document) });
  await world.limit({ maxBytesPerObject: 9 });
  expect(await begin()).toMatchObject(refusedFor('bucket'));
  expect((await world.client.get('/bucket?uploads')).all('UploadId')).toEqual([]);
  await world.limit({ maxBytesPerObject: 10 });
  expect((await begin()).status).toBe(200);
});

test('a newer null version makes room needless for an older one, which is not stored', async () => {
  await using world = await openQuotas();
  await world.client.put('/bucket/new', { body: '0123456' });
  await setVersioning(world.client, 'bucket', 'Enabled');
  await world.limit({ maxBytes: 8 });
  const sent = await sendObject(world.client, '/bucket/new', { ...replicaOf(), isNull: true }, ten);
  expect([sent.status, sent.header('*-replica-outcome')], sent.text).toEqual([200, 'superseded']);
  expect((await world.client.get('/bucket/new')).text).toBe('0123456');
});

test('a body of unknown length is read no further than the room reaches, and leaves nothing', async () => {
  for (const [limit, of] of [
    [(world: QuotaWorld) => world.limit({ maxBytes: 1_000_000 }), 'bucket'],
    [(world: QuotaWorld) => world.limit({ maxBytesPerObject: 1_000_000 }), 'bucket'],
    [(world: QuotaWorld) => world.limitUser({ totalMaxBytes: 1_000_000 }), 'user'],
  ] as const) {
    await using world = await openQuotas();
    await limit(world);
    let pieces = 0;
    const refused = await world.client.put('/bucket/new', {
      body: ten,
      payload: 'unsigned',
      tamper: withoutLength,
      async *arriving() {
        for (; pieces < 1_000; pieces += 1) yield new Uint8Array(100_000);
      },
    });
    expect(refused, refused.text).toMatchObject(refusedFor(of));
    // Ten pieces fit; some are read ahead.
    expect(pieces).toBeGreaterThanOrEqual(10);
    expect(pieces).toBeLessThan(20);
    await world.gc();
    expect(await world.stored()).toEqual([]);
    expect(await world.usage('bucket')).toEqual({ bytes: 0, objects: 0 });
  }
});

test('a version that a full bucket has already is delivered again without room', async () => {
  await using world = await openQuotas();
  await setVersioning(world.client, 'bucket', 'Enabled');
  const document = replicaOf();
  expect((await sendObject(world.client, '/bucket/new', document, ten)).status).toBe(200);
  const removed = written(ten);
  expect((await sendObject(world.client, '/bucket/gone', removed, ten)).status).toBe(200);
  expect((await world.client.delete(`/bucket/gone?versionId=${removed.version}`)).status).toBe(204);
  await world.limit({ maxBytes: 10, maxObjects: 1 });
  for (const [key, sent, outcome] of [
    ['new', document, 'present'],
    ['gone', removed, 'removed'],
  ] as const) {
    const again = await sendObject(world.client, `/bucket/${key}`, sent, ten);
    expect([again.status, again.header('*-replica-outcome')], again.text).toEqual([200, outcome]);
  }
});

test('RestoreObject stores no bytes, so it needs no room', async () => {
  await using world = await openQuotas();
  const { client } = world;
  await client.put('/bucket/old', { body: ten, headers: { '*-storage-class': 'GLACIER' } });
  await world.limit({ maxBytes: 10, maxObjects: 1 });
  await world.limitUser({ totalMaxBytes: 10 });
  const body = '<RestoreRequest><Days>1</Days></RestoreRequest>';
  expect((await client.post('/bucket/old?restore', { body })).status).toBe(202);
  expect((await client.get('/bucket/old')).text).toBe(ten);
  expect(await world.usage('bucket')).toEqual({ bytes: 10, objects: 1 });
});

test('where versioning is suspended, a write subtracts the null version that it replaces, wherever that is', async () => {
  await using world = await openQuotas();
  const { client } = world;
  await client.put('/bucket/behind', { body: ten });
  await client.put('/bucket/hidden', { body: ten });
  await setVersioning(client, 'bucket', 'Enabled');
  await client.put('/bucket/behind', { body: 'newer' });
  await client.delete('/bucket/hidden');
  await setVersioning(client, 'bucket', 'Suspended');
  await world.limit({ maxBytes: 25, maxObjects: 3 });
  for (const key of ['behind', 'hidden'])
    expect((await client.put(`/bucket/${key}`, { body: ten })).status).toBe(200);
  expect(await world.usage('bucket')).toEqual({ bytes: 25, objects: 3 });
  expect(await client.put('/bucket/behind', { body: `${ten}!` })).toMatchObject(refusedFor('bucket'));
});
