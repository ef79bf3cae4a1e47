import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { isOwned, openOwnership } from '../../../src/domain/common/ownership.ts';
import { runFsck } from '../../../src/domain/fsck/fsck.ts';
import { sweep } from '../../../src/domain/storage/sweep.ts';
import { backlog } from '../../../src/metadata/background/queues.ts';
import { findSession, uploadsIn } from '../../../src/metadata/objects/uploads.ts';
import type { ObjectBytes } from '../../../src/ports/object-bytes.ts';
import { collectGarbage } from '../../../src/workers/gc.ts';
import {
  type DomainWorld,
  domainWorld,
  graceMs,
  intentTtlMs,
  ownedExtents,
  partStores,
  storedExtents,
} from '../../support/domain-world.ts';
import { faulty } from '../../support/faulty.ts';

const never = new AbortController().signal;
type Process = ReturnType<DomainWorld['process']>;

/** Runs the work until its process is killed; a killed process hangs forever, so its promise is not awaited further. */
async function untilDeath(process: Process, work: Promise<unknown>): Promise<void> {
  let isOver = false;
  const settled = work.then(
    () => {
      isOver = true;
    },
    () => {
      isOver = true;
    },
  );
  for (let turn = 0; turn < 10_000 && !isOver && !process.hasDied(); turn += 1) {
    await new Promise((resolve) => setImmediate(resolve));
  }
  if (isOver) await settled;
  // A killed call that takes effect does so now.
  else await new Promise((resolve) => setTimeout(resolve, 2));
}

interface Scenario {
  readonly versioning: '' | 'Enabled' | 'Suspended';
  /** Runs in a process that lives; its result is passed to `act`. */
  readonly before: (client: Process) => Promise<{ uploadId: string; etags: readonly string[] }>;
  readonly act: (client: Process, given: { uploadId: string; etags: readonly string[] }) => Promise<unknown>;
}

const nothing = { uploadId: '', etags: [] };
async function upload(client: Process, parts: number) {
  const uploadId = await client.createUpload('key');
  const etags: string[] = [];
  for (let part = 1; part <= parts; part += 1) {
    // All but the last part of an upload have at least 5 MiB; one part is enough where only the last is listed.
    etags.push((await client.putPart('key', uploadId, { part, text: `part ${part}` })).etag);
  }
  return { uploadId, etags };
}

const scenarios: Record<string, Scenario> = {
  'a first PUT': { versioning: '', before: async () => nothing, act: (client) => client.put('key', 'one') },
  'an overwrite': {
    versioning: '',
    before: async (client) => {
      await client.put('key', 'zero');
      return nothing;
    },
    act: (client) => client.put('key', 'one'),
  },
  'a versioned PUT': {
    versioning: 'Enabled',
    before: async (client) => {
      await client.put('key', 'zero');
      return nothing;
    },
    act: (client) => client.put('key', 'one'),
  },
  'a PUT over a null version': {
    versioning: 'Suspended',
    before: async (client) => {
      await client.put('key', 'zero');
      return nothing;
    },
    act: (client) => client.put('key', 'one'),
  },
  'a DELETE': {
    versioning: '',
    before: async (client) => {
      await client.put('key', 'zero');
      return nothing;
    },
    act: (client) => client.remove('key'),
  },
  'a CreateMultipartUpload': {
    versioning: '',
    before: async () => nothing,
    act: (client) => client.createUpload('key'),
  },
  'an UploadPart': {
    versioning: '',
    before: (client) => upload(client, 0),
    act: (client, { uploadId }) => client.putPart('key', uploadId, { part: 1, text: 'one' }),
  },
  'an UploadPart that replaces one': {
    versioning: '',
    before: (client) => upload(client, 1),
    act: (client, { uploadId }) => client.putPart('key', uploadId, { part: 1, text: 'again' }),
  },
  'a CompleteMultipartUpload over an object, with parts that are not listed': {
    versioning: '',
    before: async (client) => {
      await client.put('key', 'zero');
      return upload(client, 3);
    },
    act: (client, { uploadId, etags }) =>
      client.complete('key', uploadId, [{ number: 2, etag: etags[1] ?? '' }]),
  },
  'a CompleteMultipartUpload that is asked for again': {
    versioning: 'Enabled',
    before: (client) => upload(client, 1),
    act: async (client, { uploadId, etags }) => {
      const parts = [{ number: 1, etag: etags[0] ?? '' }];
      await client.complete('key', uploadId, parts);
      await client.complete('key', uploadId, parts);
    },
  },
  'an AbortMultipartUpload': {
    versioning: '',
    before: (client) => upload(client, 3),
    act: (client, { uploadId }) => client.abort('key', uploadId),
  },
};

/** The number of port calls of the scenario. */
async function callsOf(scenario: Scenario, makeBytes: () => ObjectBytes): Promise<number> {
  const world = await domainWorld(scenario.versioning, makeBytes);
  const given = await scenario.before(world.process());
  for (let calls = 1; ; calls += 1) {
    const fresh = await domainWorld(scenario.versioning, makeBytes);
    const again = await scenario.before(fresh.process());
    const process = fresh.process({ call: calls, when: 'before' });
    await untilDeath(process, scenario.act(process, again));
    if (!process.hasDied()) return calls - 1;
    void given;
  }
}

describe.each(Object.entries(partStores))(
  'after the sweep and gc, what is stored is what is owned, parts being %s',
  (_, makeBytes) => {
    for (const [name, scenario] of Object.entries(scenarios)) {
      test(`when ${name} was killed at any call`, async () => {
        const calls = await callsOf(scenario, makeBytes);
        expect(calls).toBeGreaterThan(1);
        for (let call = 1; call <= calls; call += 1) {
          for (const when of ['before', 'after'] as const) {
            const world = await domainWorld(scenario.versioning, makeBytes);
            const given = await scenario.before(world.process());
            const process = world.process({ call, when });
            await untilDeath(process, scenario.act(process, given));
            await world.cleanUp();
            const at = `${when} call ${call} of ${calls}`;
            const { id } = await world.bucket();
            const open = (await world.metadata.scan(uploadsIn(id)).next(10)).map(({ row }) => row.uploadId);
            const owned = await ownedExtents(world, open);
            expect(await storedExtents(world), at).toEqual(owned);
            expect(await world.metadata.abandoned(), at).toEqual([]);
            const session = await findSession(world.metadata, given.uploadId);
            expect(session?.row.session.state, at).not.toBe('completing');
          }
        }
      });
    }
  },
);

/** A write that was killed after its bytes were stored, before they were committed. */
async function orphan(world: DomainWorld, key = 'key'): Promise<void> {
  for (let call = 1; ; call += 1) {
    const process = world.process({ call, when: 'before' });
    const before = (await storedExtents(world)).length;
    await untilDeath(process, process.put(key, 'orphan'));
    if ((await storedExtents(world)).length > before) return;
    if (!process.hasDied()) throw new Error('the write was never killed in between');
  }
}

describe('the sweep', () => {
  test('leaves the writes of the living alone', async () => {
    const world = await domainWorld();
    await orphan(world);
    await world.clock.advance(intentTtlMs / 2);
    await world.metadata.maintain();
    await world.clock.advance(intentTtlMs / 2);
    await sweep(world, never);
    expect(await backlog(world.metadata, 'gc')).toBe(0);
    await world.clock.advance(intentTtlMs);
    await sweep(world, never);
    expect(await backlog(world.metadata, 'gc')).toBe(1);
  });

  test('leaves the bytes of a version that was just removed to those who read them, also where its process has died', async () => {
    const world = await domainWorld();
    await world.process().put('key', 'one');
    await world.clock.advance(intentTtlMs + 1);
    await world.process().remove('key');
    await sweep(world, never);
    const collect = collectGarbage(world);
    await world.clock.advance(graceMs - 1_000);
    await collect(never);
    expect(await storedExtents(world)).toHaveLength(1);
    await world.clock.advance(2_000);
    await collect(never);
    expect(await storedExtents(world)).toEqual([]);
  });

  test('by two processes at once deletes once', async () => {
    const world = await domainWorld();
    await world.process().put('other', 'kept');
    await orphan(world);
    await world.clock.advance(intentTtlMs + 1);
    await Promise.all([sweep(world, never), sweep(world, never)]);
    await world.cleanUp();
    expect(await storedExtents(world)).toEqual(await ownedExtents(world));
  });

  test('killed at any call is finished by the next', async () => {
    for (let call = 1; call < 30; call += 1) {
      const world = await domainWorld();
      await world.process().put('key', 'kept');
      await orphan(world);
      await world.clock.advance(intentTtlMs + 1);
      const process = world.process({ call, when: 'after' });
      await untilDeath(process, sweep(process.ctx, never));
      if (!process.hasDied()) return;
      await world.cleanUp();
      expect(await storedExtents(world), `call ${call}`).toEqual(await ownedExtents(world));
    }
  });

  test('queues nothing and settles nothing when a read fails, and does it all later', async () => {
    const world = await domainWorld();
    await orphan(world);
    await world.clock.advance(intentTtlMs + 1);
    const get: typeof world.metadata.get = () => Promise.reject(new Error('down'));
    const blind = { ...world, metadata: faulty(world.metadata, { get }) };
    await expect(sweep(blind, never)).rejects.toThrow('down');
    expect(await backlog(world.metadata, 'gc')).toBe(0);
    expect(await world.metadata.abandoned()).not.toEqual([]);
    await world.cleanUp();
    expect(await storedExtents(world)).toEqual([]);
  });

  test('finds the bytes of a process that was paused, swept, resumed and killed', async () => {
    const world = await domainWorld();
    const { metadata } = world;
    const op = await metadata.begin({ cluster: 'default' });
    await world.cleanUp();
    expect(await metadata.abandoned()).toEqual([]);
    const late = (async function* () {
      yield new Uint8Array(10);
    })();
    const owner = { bucketId: (await world.bucket()).id, key: 'key' };
    await world.bytes.write(late, { cluster: 'default', id: op.id, owner });
    await world.cleanUp();
    expect(await storedExtents(world)).toHaveLength(1);
    await world.clock.advance(24 * 60 * 60_000);
    await world.cleanUp();
    expect(await storedExtents(world)).toEqual([]);
    expect(await metadata.abandoned()).toEqual([]);
  });

  test('walks a cluster once for any number of dead processes', async () => {
    const world = await domainWorld();
    for (const key of ['one', 'two', 'three']) await orphan(world, key);
    await world.clock.advance(intentTtlMs + 1);
    const asked: string[] = [];
    const find: ObjectBytes['find'] = (cluster, ...prefixes) => {
      asked.push(cluster);
      return world.bytes.find(cluster, ...prefixes);
    };
    await sweep({ ...world, bytes: faulty(world.bytes, { find }) }, never);
    expect(asked).toEqual(['default']);
    expect(await world.metadata.abandoned()).toEqual([]);
    await world.cleanUp();
    expect(await storedExtents(world)).toEqual([]);
  });

  test('what one walk has examined stays settled when a later one fails', async () => {
    const world = await domainWorld();
    const died = Array.from({ length: 100 }, (_, i) => ({ prefix: `${i}.`, cluster: 'default' }));
    const settled: string[] = [];
    const metadata = faulty(world.metadata, {
      abandoned: async () => died,
      settle: async ({ prefix }) => void settled.push(prefix),
    });
    const find: ObjectBytes['find'] = (cluster, ...prefixes) => {
      if (settled.length > 0) throw new Error('away');
      return world.bytes.find(cluster, ...prefixes);
    };
    await expect(sweep({ ...world, metadata, bytes: faulty(world.bytes, { find }) }, never)).rejects.toThrow(
      'away',
    );
    expect(settled).toEqual(died.slice(0, 64).map(({ prefix }) => prefix));
  });

  test('when stopped, settles nothing that it has not examined', async () => {
    const world = await domainWorld();
    await orphan(world);
    await world.clock.advance(intentTtlMs + 1);
    await sweep(world, AbortSignal.abort());
    expect(await world.metadata.abandoned()).not.toEqual([]);
  });
});

describe('ownership', () => {
  test('is found although the version moves between head and history during the search', async () => {
    const world = await domainWorld('Enabled');
    const client = world.process();
    const { row } = await client.put('key', 'one');
    const extent = 'extents' in row.manifest ? row.manifest.extents[0] : undefined;
    if (extent === undefined) throw new Error('no extent');
    const ownership = await openOwnership(world);
    let above = (await client.put('key', 'two')).row;
    let gets = 0;
    // The version is in the history when the head is read, and has become the head before the history is read.
    const get: typeof world.metadata.get = async (at, key) => {
      const found = await world.metadata.get(at, key);
      gets += 1;
      if (gets === 2) await client.remove('key', above.version);
      if (gets === 4) above = (await client.put('key', 'three')).row;
      return found;
    };
    const ctx = { metadata: faulty(world.metadata, { get }) };
    const owner = { bucketId: row.bucketId, key: 'key' };
    expect(await isOwned(ctx, ownership, { extent, owner })).toBe(true);
  });

  const step = fc.record({
    kind: fc.constantFrom(
      'put',
      'put',
      'put',
      'remove',
      'removeVersion',
      'part',
      'complete',
      'abort',
      'flip',
    ),
    key: fc.constantFrom('a', 'b', 'c'),
    nth: fc.nat(10),
    kill: fc.option(
      fc.record({
        call: fc.integer({ min: 1, max: 14 }),
        when: fc.constantFrom('before' as const, 'after' as const),
      }),
    ),
    together: fc.boolean(),
  });

  test('survives any history of writes, deletes, uploads and deaths', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 25 }), async (steps) => {
        const world = await domainWorld();
        const uploads = new Map<string, { uploadId: string; parts: Map<number, string> }>();
        const all: string[] = [];
        const versions: { key: string; version: string }[] = [];
        const living = world.process();
        let running: Promise<void>[] = [];

        for (const { kind, key, nth, kill, together } of steps) {
          const process = world.process(kill ?? undefined);
          const part = (nth % 3) + 1;
          const act = async (): Promise<unknown> => {
            if (kind === 'put') {
              const { row } = await process.put(key, `${nth}`);
              return versions.push({ key, version: row.version });
            }
            if (kind === 'remove') return process.remove(key);
            if (kind === 'flip') return world.setVersioning(nth % 2 ? 'Enabled' : 'Suspended');
            const version = versions[nth % Math.max(versions.length, 1)];
            if (kind === 'removeVersion') return version && process.remove(version.key, version.version);
            const upload = uploads.get(key);
            if (upload === undefined) return undefined;
            if (kind === 'part') {
              const stored = await process.putPart(key, upload.uploadId, { part, text: `${nth}` });
              return upload.parts.set(part, stored.etag);
            }
            if (kind === 'abort') return process.abort(key, upload.uploadId);
            const [first] = upload.parts;
            return first && process.complete(key, upload.uploadId, [{ number: first[0], etag: first[1] }]);
          };
          if (!uploads.has(key)) {
            const uploadId = await living.createUpload(key);
            uploads.set(key, { uploadId, parts: new Map() });
            all.push(uploadId);
          }
          running.push(untilDeath(process, act()));
          if (!together) {
            await Promise.all(running);
            running = [];
          }
          if (kind === 'complete' || kind === 'abort') uploads.delete(key);
        }
        await Promise.all(running);
        await world.cleanUp();
        expect(await storedExtents(world)).toEqual(await ownedExtents(world, all));
        const findings: unknown[] = [];
        await runFsck(world, (finding) => void findings.push(finding));
        expect(findings).toEqual([]);
      }),
      { numRuns: 60 },
    );
  });
});
