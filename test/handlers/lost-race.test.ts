/** A write that loses its compare-and-set to a writer that commits at the worst moment. @storage */
import { createHash } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import type { Context } from '../../src/context.ts';
import { settleUpload } from '../../src/domain/uploads/complete-upload.ts';
import { findSessionPart, uploadAt } from '../../src/metadata/objects/uploads.ts';
import { manifests } from '../../src/metadata/tables.ts';
import { type MetadataStore, StoreUnavailable } from '../../src/ports/metadata-store.ts';
import { policyOf } from '../support/access.ts';
import { ambush } from '../support/ambush.ts';
import { encryptingSettings, provider } from '../support/encryption.ts';
import { faulty } from '../support/faulty.ts';
import { backends, openGateway } from '../support/gateway.ts';
import { complete, createUpload, MiB, md5, putPart, setVersioning } from '../support/gateway-bodies.ts';

describe.each(backends)('on %s', (backend) => {
  test('of two unconditional PUTs the one that commits second is answered with the ETag of the first', async () => {
    const { rightBefore, wrap } = ambush();
    await using world = await openGateway({ backend, wrap });
    const { client } = world;
    await client.put('/bucket');
    for (const former of [undefined, 'former']) {
      if (former !== undefined) await client.put('/bucket/key', { body: former });
      rightBefore('objects', () => client.put('/bucket/key', { body: 'winner' }));
      const loser = await client.put('/bucket/key', { body: 'loser' });
      expect([loser.status, loser.header('etag')]).toEqual([200, `"${md5('winner')}"`]);
      expect((await client.get('/bucket/key')).text).toBe('winner');
      expect(await world.usage('bucket')).toEqual({ bytes: 'winner'.length, objects: 1 });
      await world.gc();
      expect(await world.stored()).toEqual(await world.owned('bucket'));
      expect(await world.stored()).toHaveLength(1);
      await client.delete('/bucket/key');
    }
  });

  test('the loser of two unconditional writes learns the ETag of the winner, and nothing else of it', async () => {
    const { rightBefore, wrap } = ambush();
    await using world = await openGateway({ backend, wrap, settings: await encryptingSettings() });
    const { client } = world;
    await client.put('/bucket');
    await client.put('/bucket/source', { body: 'loser' });
    const checksum = createHash('sha256').update('winner').digest('base64');
    const secret = provider('first', { '*-checksum-sha256': checksum });
    const uploadId = await createUpload(client, '/bucket/key');
    const parts = [await putPart(client, '/bucket/key', { uploadId, number: 1, body: 'loser' })];
    const losers = [
      () => client.put('/bucket/key', { body: 'loser' }),
      () => client.put('/bucket/key', { headers: { '*-copy-source': '/bucket/source' } }),
      () => complete(client, '/bucket/key', { uploadId, parts }),
    ];
    for (const lose of losers) {
      rightBefore('objects', () => client.put('/bucket/key', { body: 'winner', headers: secret }));
      const loser = await lose();
      const etag = (await client.head('/bucket/key')).header('etag');
      expect([loser.status, loser.header('etag') ?? loser.one('ETag')]).toEqual([200, etag]);
      const shown = `${JSON.stringify(loser.headers)}${loser.text}`;
      expect(shown).not.toContain('server-side-encryption');
      expect(shown.toLowerCase()).not.toContain('sha256');
    }
  });

  test('a bucket policy whose commit was not answered and is applied later is complete', async () => {
    let applyLate: (() => Promise<{ readonly applied: boolean }>) | undefined;
    let isAway = false;
    const wrap = (context: Context): Context => ({
      ...context,
      metadata: faulty(context.metadata, {
        async commit(at, changes, options) {
          if (!isAway || at.table.name !== 'buckets') return context.metadata.commit(at, changes, options);
          isAway = false;
          applyLate = () => context.metadata.commit(at, changes, options);
          throw new StoreUnavailable('no answer: the commit may still be applied');
        },
      }),
    });
    await using world = await openGateway({ backend, wrap });
    const { client, anonymous } = world;
    await client.put('/bucket');
    await client.put('/bucket/key', { body: 'text' });
    const body = policyOf({ Action: 's3:GetObject', Resource: 'arn:aws:s3:::bucket/*' });
    isAway = true;
    expect((await client.put('/bucket?policy', { body })).status).toBe(503);
    expect((await client.get('/bucket?policy')).code).toBe('NoSuchBucketPolicy');
    expect(await applyLate?.()).toMatchObject({ applied: true });
    const policy = await client.get('/bucket?policy');
    expect([policy.status, JSON.parse(policy.text)]).toEqual([200, JSON.parse(body)]);
    expect((await anonymous.get('/bucket/key')).text).toBe('text');
  });

  test('the loser of two conditional PUTs gets 412', async () => {
    const { rightBefore, wrap } = ambush();
    await using world = await openGateway({ backend, wrap });
    const { client } = world;
    await client.put('/bucket');
    rightBefore('objects', () => client.put('/bucket/key', { body: 'winner' }));
    expect(
      (await client.put('/bucket/key', { body: 'loser', headers: { 'if-none-match': '*' } })).status,
    ).toBe(412);
    const etag = `"${md5('winner')}"`;
    rightBefore('objects', () => client.put('/bucket/key', { body: 'other' }));
    expect((await client.put('/bucket/key', { body: 'loser', headers: { 'if-match': etag } })).status).toBe(
      412,
    );
    rightBefore('objects', () => client.put('/bucket/key', { body: 'third' }));
    expect(
      (await client.delete('/bucket/key', { headers: { 'if-match': `"${md5('other')}"` } })).status,
    ).toBe(412);
    rightBefore('objects', () => client.delete('/bucket/key'));
    expect((await client.put('/bucket/key', { body: 'loser', headers: { 'if-match': '*' } })).status).toBe(
      404,
    );
    await world.gc();
    expect(await world.stored()).toEqual([]);
  });

  test('in a versioned bucket both PUTs keep their versions', async () => {
    const { rightBefore, wrap } = ambush();
    await using world = await openGateway({ backend, wrap });
    const { client } = world;
    await client.put('/bucket');
    await setVersioning(client, 'bucket', 'Enabled');
    rightBefore('objects', () => client.put('/bucket/key', { body: 'first' }));
    const second = await client.put('/bucket/key', { body: 'second' });
    expect(second.header('etag')).toBe(`"${md5('second')}"`);
    expect((await client.get('/bucket/key')).text).toBe('second');
    expect((await client.get('/bucket?versions')).all('VersionId')).toHaveLength(2);
  });

  test('a PUT that lost to an object that was deleted meanwhile commits', async () => {
    const { rightBefore, wrap } = ambush();
    await using world = await openGateway({ backend, wrap });
    const { client } = world;
    await client.put('/bucket');
    await client.put('/bucket/key', { body: 'former' });
    rightBefore('objects', () => client.delete('/bucket/key'));
    const put = await client.put('/bucket/key', { body: 'mine' });
    expect([put.status, put.header('etag')]).toEqual([200, `"${md5('mine')}"`]);
    expect((await client.get('/bucket/key')).text).toBe('mine');
    await world.gc();
    expect(await world.stored()).toHaveLength(1);
  });

  test('a PUT during a change of versioning obeys it, and returns the version id', async () => {
    const { rightBefore, wrap } = ambush();
    await using world = await openGateway({ backend, wrap });
    const { client } = world;
    await client.put('/bucket');
    await client.put('/bucket/key', { body: 'former' });
    rightBefore('objects', () => setVersioning(client, 'bucket', 'Enabled'));
    const put = await client.put('/bucket/key', { body: 'mine' });
    const versions = (await client.get('/bucket?versions')).all('VersionId');
    expect(versions).toEqual([put.header('*-version-id'), 'null']);
    expect((await client.get('/bucket/key?versionId=null')).text).toBe('former');
    await client.put('/flipped');
    await client.put('/flipped/key', { body: 'former' });
    rightBefore('objects', () => setVersioning(client, 'flipped', 'Enabled'));
    const deleted = await client.delete('/flipped/key');
    const listed = (await client.get('/flipped?versions')).all('VersionId');
    expect([deleted.header('*-delete-marker'), deleted.header('*-version-id')]).toEqual(['true', listed[0]]);
    expect(listed[1]).toBe('null');
  });
});

test('a version whose commit lost its answer, and that is deleted meanwhile, stays readable for SVC_GC_GRACE', async () => {
  let act: (() => Promise<unknown>) | undefined;
  const wrap = (context: Context): Context => {
    const commit: MetadataStore['commit'] = async (at, changes, options) => {
      const outcome = await context.metadata.commit(at, changes, options);
      const now = (at.table as { name: string }).name === 'objects' ? act : undefined;
      if (now === undefined) return outcome;
      act = undefined;
      await now();
      throw new StoreUnavailable('the answer is lost');
    };
    return { ...context, metadata: faulty(context.metadata, { commit }) };
  };
  await using world = await openGateway({ wrap, settings: { SVC_GC_GRACE: '1h' } });
  const { client } = world;
  await client.put('/bucket');
  // A read that began here goes on.
  act = async () => {
    expect((await client.get('/bucket/key')).text).toBe('content');
    expect((await client.delete('/bucket/key')).status).toBe(204);
  };
  expect((await client.put('/bucket/key', { body: 'content' })).status).toBe(503);
  await world.gc();
  expect(await world.stored()).toHaveLength(1);
  // One whose commit never applied is seen by no request.
  act = undefined;
  await client.put('/bucket/other', { body: 'x', headers: { 'content-md5': 'AAAAAAAAAAAAAAAAAAAAAA==' } });
  await world.gc();
  expect(await world.stored()).toHaveLength(1);
});

test('a part that is replaced while its upload completes is not lost', async () => {
  const { rightBefore, wrap } = ambush();
  await using world = await openGateway({ wrap });
  const { client } = world;
  await client.put('/bucket');
  for (const body of ['same', 'other']) {
    const uploadId = await createUpload(client, '/bucket/key');
    const part = await putPart(client, '/bucket/key', { uploadId, number: 1, body: 'same' });
    rightBefore('uploads', () => putPart(client, '/bucket/key', { uploadId, number: 1, body }));
    const done = await complete(client, '/bucket/key', { uploadId, parts: [part] });
    expect([done.status, done.code]).toEqual(body === 'same' ? [200, ''] : [400, 'InvalidPart']);
    await world.gc();
    expect(await world.stored()).toEqual(await world.owned('bucket'));
    expect((await client.get('/bucket/key')).text).toBe('same');
    if (done.status !== 200)
      expect((await client.get('/bucket/key', { query: { uploadId } })).all('PartNumber')).toEqual(['1']);
  }
});

test('a large Complete that loses leaves no manifest', async () => {
  const { rightBefore, wrap } = ambush();
  await using world = await openGateway({ wrap, settings: { SVC_DATA_BACKEND: 'noop' } });
  const { client, context } = world;
  await client.put('/bucket');
  const uploadId = await createUpload(client, '/bucket/key');
  const first = await putPart(client, '/bucket/key', { uploadId, number: 1, body: new Uint8Array(5 * MiB) });
  const stored = (await findSessionPart(context.metadata, uploadId, 1))?.row.stored;
  if (stored === undefined) throw new Error('no part');
  const numbers = Array.from({ length: 39 }, (_, i) => i + 2);
  await context.metadata.commit(
    uploadAt(uploadId),
    numbers.map((part) => ({ put: { uploadId, part, stored, requestId: 'r' }, expect: 'absent' })),
  );
  const seen: string[] = [];
  const apply = context.metadata.apply.bind(context.metadata);
  Object.assign(context, {
    metadata: faulty(context.metadata, {
      apply: async (changes) => {
        for (const { at } of changes)
          if (at.table === manifests) seen.push(String((at.in as { id: string }).id));
        return apply(changes);
      },
    }),
  });
  rightBefore('objects', () => client.put('/bucket/key', { body: 'winner' }));
  const done = await complete(client, '/bucket/key', {
    uploadId,
    parts: [first, ...numbers.map((number) => ({ ...first, number }))],
  });
  expect([done.status, done.one('ETag')]).toEqual([200, `"${md5('winner')}"`]);
  expect(seen).toHaveLength(1);
  const left = await context.metadata.scan({ table: manifests, in: { id: seen[0] ?? '' } }).next(1);
  expect(left).toEqual([]);
});

test('a Complete answers its retries also when gc settled the upload and the object was overwritten', async () => {
  const { rightBefore, wrap } = ambush();
  await using world = await openGateway({ wrap });
  const { client, context } = world;
  await client.put('/bucket');
  const uploadId = await createUpload(client, '/bucket/key');
  const part = await putPart(client, '/bucket/key', { uploadId, number: 1, body: 'whole' });
  rightBefore('objects', async () => {
    // Between the commit of the object and the record of it in the session.
    rightBefore('uploads', async () => {
      await client.put('/bucket/key', { body: 'other' });
      await settleUpload(context, uploadId);
    });
  });
  const done = await complete(client, '/bucket/key', { uploadId, parts: [part] });
  expect(done.status).toBe(200);
  await world.gc();
  const again = await complete(client, '/bucket/key', { uploadId, parts: [part] });
  expect([again.status, again.one('ETag')]).toEqual([200, done.one('ETag')]);
  expect((await client.get('/bucket/key')).text).toBe('other');
  expect(await world.stored()).toEqual(await world.owned('bucket'));
});
