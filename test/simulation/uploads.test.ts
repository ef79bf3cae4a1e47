/** Multipart sessions that are cut short, retried late or raced by DeleteBucket leak nothing and report no false result. */
import { describe, expect, test } from 'vitest';
import { deleteBucket } from '../../src/domain/buckets/bucket.ts';
import { runFsck } from '../../src/domain/fsck/fsck.ts';
import { readObject } from '../../src/domain/objects/read-object.ts';
import { completeUpload, settleUpload } from '../../src/domain/uploads/complete-upload.ts';
import type { ListedPart } from '../../src/domain/uploads/part-list.ts';
import { createUpload, openUploading, writePart } from '../../src/domain/uploads/upload-session.ts';
import { findLiveHead } from '../../src/metadata/objects/objects.ts';
import { findSession, uploadsIn } from '../../src/metadata/objects/uploads.ts';
import { manifests, uploads } from '../../src/metadata/tables.ts';
import { collectGarbage } from '../../src/workers/gc.ts';
import {
  anyCaller,
  type DomainWorld,
  domainWorld,
  intentTtlMs,
  ownedExtents,
  partStores,
  storedExtents,
} from '../support/domain-world.ts';
import { faulty } from '../support/faulty.ts';
import { untilDeath } from './death.ts';

const signal = new AbortController().signal;
const dayMs = 24 * 60 * 60_000;
type Process = ReturnType<DomainWorld['process']>;

async function openUpload(client: Process, parts = 1) {
  const uploadId = await client.createUpload('key');
  const etags: string[] = [];
  for (let part = 1; part <= parts; part += 1) {
    etags.push((await client.putPart('key', uploadId, { part, text: `part ${part}` })).etag);
  }
  return { uploadId, listed: [{ number: parts, etag: etags.at(-1) ?? '' }] };
}

const rowsOf = (world: DomainWorld, uploadId: string) =>
  world.metadata.scan({ table: uploads, in: { uploadId } }).next(1000);

async function findings(world: DomainWorld): Promise<unknown[]> {
  const found: unknown[] = [];
  await runFsck(world, (finding) => void found.push(finding));
  return found;
}

async function contentOf(world: DomainWorld, key: string): Promise<string | undefined> {
  const head = await findLiveHead(world.metadata, await world.bucket(), key);
  if (head === undefined) return undefined;
  let text = '';
  const slice = { start: 0, end: head.row.size - 1 };
  for await (const piece of readObject(world, head.row, slice)) text += new TextDecoder().decode(piece);
  return text;
}

describe.each(Object.entries(partStores))('parts that are %s', (_, makeBytes) => {
  for (const how of ['aborted', 'completed'] as const) {
    test(`the parts of an ${how} session are cleared although gc slept longer than sessions are remembered`, async () => {
      const world = await domainWorld('', makeBytes);
      const client = world.process();
      const { uploadId, listed } = await openUpload(client, 60);
      if (how === 'aborted') await client.abort('key', uploadId);
      else await client.complete('key', uploadId, listed);
      await world.clock.advance(8 * dayMs);
      await world.metadata.maintain();
      await world.cleanUp();
      expect((await rowsOf(world, uploadId)).map(({ row }) => row.part)).toEqual([0]);
      expect(await storedExtents(world)).toEqual(await ownedExtents(world));

      // The record of the finished upload starts to expire only now.
      await world.clock.advance(6 * dayMs);
      expect((await findSession(world.metadata, uploadId))?.row.session.state).toBe(how);
      await world.clock.advance(2 * dayMs);
      await world.metadata.maintain();
      expect(await rowsOf(world, uploadId)).toEqual([]);
    });
  }

  test('a session is cleared to its end although another collector clears it too and dies', async () => {
    for (let call = 1; call < 40; call += 1) {
      const world = await domainWorld('', makeBytes);
      const { uploadId } = await openUpload(world.process(), 60);
      await world.process().abort('key', uploadId);
      const mortal = world.process({ call, when: 'after' });
      const dying = untilDeath(mortal, settleUpload(mortal.ctx, uploadId));
      await settleUpload(world, uploadId);
      await dying;
      expect(
        (await rowsOf(world, uploadId)).map(({ row }) => row.part),
        `call ${call}`,
      ).toEqual([0]);
      await world.cleanUp();
      expect(await storedExtents(world), `call ${call}`).toEqual([]);
      if (!mortal.hasDied()) return;
    }
  });

  test('a session that is settled in the very millisecond in which it was due is cleared as well', async () => {
    for (let call = 1, alive = true; alive; call += 1) {
      const world = await domainWorld('', makeBytes);
      const { uploadId, listed } = await openUpload(world.process());
      const mortal = world.process({ call, when: 'after' });
      await untilDeath(mortal, mortal.complete('key', uploadId, listed));
      await world.clock.advance(intentTtlMs);
      const unit = collectGarbage(world);
      for (let run = 0; run < 3; run += 1) await unit(signal);
      const [session, ...parts] = await rowsOf(world, uploadId);
      const { state } = session?.row.session ?? {};
      expect(parts, `call ${call}`).toHaveLength(state === 'completed' ? 0 : 1);
      alive = mortal.hasDied();
    }
  });

  test('a retry never commits parts whose bytes were deleted with an overwritten object', async () => {
    for (const when of ['before', 'after'] as const) {
      for (let call = 1, alive = true; alive; call += 1) {
        const world = await domainWorld('', makeBytes);
        const living = world.process();
        const { uploadId, listed } = await openUpload(living);
        const mortal = world.process({ call, when });
        await untilDeath(mortal, mortal.complete('key', uploadId, listed));
        await living.put('key', 'later');
        await world.cleanUp();
        const at = `${when} call ${call}`;
        const retried = await living.complete('key', uploadId, listed).then(
          () => true,
          () => false,
        );
        const session = await findSession(world.metadata, uploadId);
        // If the session was completed before, the stored answer and a refusal are both correct.
        const content = await contentOf(world, 'key');
        if (session?.row.session.state === 'completed' && retried) {
          expect(['later', 'part 1'], at).toContain(content);
        } else expect(content, at).toBe('later');
        await world.cleanUp();
        expect(await findings(world), at).toEqual([]);
        expect(await storedExtents(world), at).toEqual(await ownedExtents(world, [uploadId]));
        alive = mortal.hasDied();
      }
    }
  });

  test('DeleteBucket aborts an upload whose completion was interrupted', async () => {
    for (const when of ['before', 'after'] as const) {
      for (let call = 1, alive = true; alive; call += 1) {
        const world = await domainWorld('', makeBytes);
        const { uploadId, listed } = await openUpload(world.process(), 2);
        const mortal = world.process({ call, when });
        await untilDeath(mortal, mortal.complete('key', uploadId, listed));
        const bucket = await world.bucket();
        const isDeleted = await deleteBucket(world, await world.bucket(), { requestId: 'request' }).then(
          () => true,
          () => false,
        );
        await world.cleanUp();
        const at = `${when} call ${call}`;
        expect(await findings(world), at).toEqual([]);
        if (isDeleted) {
          expect(await storedExtents(world), at).toEqual([]);
          expect((await findSession(world.metadata, uploadId))?.row.session.state, at).toBe('aborted');
          expect(await world.metadata.scan(uploadsIn(bucket.id)).next(10), at).toEqual([]);
        } else expect(await storedExtents(world), at).toEqual(await ownedExtents(world, [uploadId]));
        alive = mortal.hasDied();
      }
    }
  });

  test('a completion that DeleteBucket overtakes is refused and leaves nothing', async () => {
    const world = await domainWorld('', makeBytes);
    const { uploadId, listed } = await openUpload(world.process(), 2);
    const client = world.process();
    const commit: typeof world.metadata.commit = async (at, changes, options) => {
      if (at.table.name === 'objects')
        await deleteBucket(world, await world.bucket(), { requestId: 'request' });
      return world.metadata.commit(at, changes, options);
    };
    const overtaken = completeUpload(
      { ...client.ctx, metadata: faulty(world.metadata, { commit }) },
      {
        name: { bucket: await world.bucket(), key: 'key', uploadId },
        parts: listed.map((part) => ({ ...part, checksums: {} })),
        claims: {},
        ...anyCaller,
        conditions: undefined,
        requestId: 'request',
        signal: new AbortController().signal,
      },
    );
    await expect(overtaken).rejects.toMatchObject({ code: 'NoSuchBucket' });
    await world.cleanUp();
    expect(await storedExtents(world)).toEqual([]);
    expect((await findSession(world.metadata, uploadId))?.row.session.state).toBe('aborted');
  });

  test('an upload is never opened in a bucket that is deleted meanwhile', async () => {
    const world = await domainWorld('', makeBytes);
    const bucket = await world.bucket();
    const client = world.process();
    const commit: typeof world.metadata.commit = async (at, changes, options) => {
      if (at.table.name === 'uploads')
        await deleteBucket(world, bucket, { requestId: 'request' }).catch(() => {});
      return world.metadata.commit(at, changes, options);
    };
    const late = createUpload(
      { ...client.ctx, metadata: faulty(world.metadata, { commit }) },
      {
        bucket,
        key: 'key',
        storageClass: 'STANDARD',
        owner: 'o',
        initiator: 'o',
        headers: {},
        requestId: 'r',
      },
    );
    await expect(late).rejects.toMatchObject({ code: 'NoSuchBucket' });
    expect(await world.metadata.scan(uploadsIn(bucket.id)).next(10)).toEqual([]);
  });

  /** An upload of 40 parts whose recorded sizes are large enough for a manifest in separate rows. */
  async function openLargeUpload(world: DomainWorld) {
    const write: typeof world.bytes.write = async (source, options) => ({
      ...(await world.bytes.write(source, options)),
      size: 5 * 1024 * 1024,
    });
    const { uploads: held } = world.bytes;
    const uploads = held && {
      ...held,
      writePart: async (...given: Parameters<typeof held.writePart>) => ({
        ...(await held.writePart(...given)),
        size: 5 * 1024 * 1024,
      }),
      // Skip the store's own completion, because it would notice the false sizes.
      complete: async () => {},
    };
    const ctx = { ...world, bytes: faulty(world.bytes, { write, uploads }) };
    const uploadId = await world.process().createUpload('key');
    const name = { bucket: await world.bucket(), key: 'key', uploadId };
    const parts: ListedPart[] = [];
    for (let part = 1; part <= 40; part += 1) {
      const source = (async function* () {
        yield new Uint8Array(1);
      })();
      const content = { source, length: 1, claims: {} };
      const given = { name, part, requestId: 'r', signal };
      const stored = await writePart(ctx, await openUploading(ctx, name), given, content);
      parts.push({ number: part, etag: stored.etag, checksums: {} });
    }
    return { name, parts, claims: {}, ...anyCaller, conditions: undefined, requestId: 'r', signal };
  }

  const manifestRowsIn = async (world: DomainWorld, ids: ReadonlySet<string>): Promise<number> => {
    let rows = 0;
    for (const id of ids)
      rows += (await world.metadata.scan({ table: manifests, in: { id } }).next(10)).length;
    return rows;
  };

  interface Rival {
    readonly name: string;
    /** The table that the completion is about to write when the rival acts. */
    readonly when: 'manifests' | 'objects';
    readonly act: (world: DomainWorld, uploadId: string) => Promise<unknown>;
    readonly refusal?: object;
  }

  const rivals: readonly Rival[] = [
    {
      name: 'was given up by a collector',
      when: 'manifests',
      act: settleUpload,
      refusal: { code: 'ServiceUnavailable' },
    },
    { name: 'lost to another write', when: 'objects', act: (world) => world.process().put('key', 'winner') },
  ];

  for (const { name, when, act, refusal } of rivals) {
    test(`a completion that ${name} leaves no manifest`, async () => {
      const world = await domainWorld('', makeBytes);
      const completion = await openLargeUpload(world);
      const ids = new Set<string>();
      let acted = false;
      const meanwhile = async (table: string): Promise<void> => {
        if (table !== when || acted) return;
        acted = true;
        await act(world, completion.name.uploadId);
      };
      const apply: typeof world.metadata.apply = async (changes) => {
        for (const { at } of changes)
          if (at.table.name === manifests.name) ids.add((at.in as { id: string }).id);
        await meanwhile('manifests');
        return world.metadata.apply(changes);
      };
      const commit: typeof world.metadata.commit = async (at, changes, options) => {
        await meanwhile(at.table.name);
        return world.metadata.commit(at, changes, options);
      };
      const mine = { ...world, metadata: faulty(world.metadata, { apply, commit }) };
      const completed = completeUpload(mine, completion);
      if (refusal === undefined) await completed;
      else await expect(completed).rejects.toMatchObject(refusal);
      expect(ids.size).toBe(1);
      expect(await manifestRowsIn(world, ids)).toBe(0);
    });
  }

  test('the manifest of a completion that died goes with its bucket', async () => {
    const world = await domainWorld('', makeBytes);
    const completion = await openLargeUpload(world);
    const { uploadId } = completion.name;
    const stuck = new Promise<never>(() => {});
    const commit: typeof world.metadata.commit = async (at, changes, options) =>
      at.table.name === 'objects' ? stuck : world.metadata.commit(at, changes, options);
    void completeUpload({ ...world, metadata: faulty(world.metadata, { commit }) }, completion);
    let op: string | undefined;
    for (let turns = 0; turns < 100; turns += 1) {
      await world.clock.settle();
      op = (await findSession(world.metadata, uploadId))?.row.session.completing?.op;
    }
    const ids = new Set([op ?? '']);
    expect(await manifestRowsIn(world, ids)).toBeGreaterThan(0);
    await deleteBucket(world, await world.bucket(), { requestId: 'request' });
    await world.cleanUp();
    expect((await findSession(world.metadata, uploadId))?.row.session.state).toBe('aborted');
    expect(await manifestRowsIn(world, ids)).toBe(0);
    expect(await storedExtents(world)).toEqual([]);
  });
});
