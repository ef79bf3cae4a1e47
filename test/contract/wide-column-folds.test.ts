/** Folding the additions of counters on a real Cassandra: the sum stays correct when any process dies at any step. */
import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Commits } from '../../src/backends/metadata/wide-column/commits.ts';
import { countersIn, type FoldPorts, Folds } from '../../src/backends/metadata/wide-column/counters.ts';
import { Intents } from '../../src/backends/metadata/wide-column/intents.ts';
import { Session, UnknownOutcome } from '../../src/backends/metadata/wide-column/session.ts';
import { Tables } from '../../src/backends/metadata/wide-column/statements.ts';
import { type WideColumnStore, wideColumnStore } from '../../src/backends/metadata/wide-column/store.ts';
import type { Clock } from '../../src/ports/clock.ts';
import { systemRandom } from '../../src/ports/random.ts';
import { Died, type DiesAt, dyingCommits } from '../support/dying-commits.ts';
import { type Engine, noCassandra, replicatedOver, startCassandra } from '../support/engines/cassandra.ts';
import {
  contractTables,
  fresh,
  head,
  headsOf,
  ranks,
  ranksOf,
  tallies,
  talliesOf,
  visitsOf,
} from './metadata-store/tables.ts';

const random = systemRandom();
const keyspace = `folds_${randomBytes(4).toString('hex')}`;
const ttlMs = 60_000;

describe.skipIf(noCassandra !== undefined)(`folds on wide-column${noCassandra ?? ''}`, () => {
  let engine: Engine;
  let session: Session;
  let now: number;
  const clock: Clock = { now: () => now, elapsed: () => now, sleep: async () => {} };
  const storeClock = async (): Promise<number> => now;

  const openStore = (): Promise<WideColumnStore> =>
    wideColumnStore({
      hosts: engine.hosts,
      localDc: 'dc1',
      keyspace,
      replication: replicatedOver(engine.hosts),
      tables: contractTables,
      random,
      clock,
      storeClock,
      intentTtlMs: ttlMs,
    });
  const intentsOf = (): Intents => new Intents({ session, keyspace, clock, now: storeClock, random, ttlMs });

  beforeAll(async () => {
    now = Date.UTC(2026, 0, 1);
    engine = await startCassandra();
    session = new Session({ hosts: engine.hosts, localDc: 'dc1', keyspace });
    await session.connect();
    await (await openStore()).close();
  });
  afterAll(async () => {
    try {
      await session.define(`DROP KEYSPACE ${keyspace}`, session.pickNode());
      await session.close();
    } finally {
      await engine[Symbol.asyncDispose]();
    }
  });

  interface World {
    readonly store: WideColumnStore;
    readonly at: ReturnType<typeof talliesOf>;
    add(bytes: number, className?: string): Promise<void>;
    sum(): Promise<number>;
    /** The number of additions that are still stored. */
    lying(): Promise<number>;
    /** Folds once; the process may die at one of the steps. */
    fold(ports?: Partial<FoldPorts>): Promise<void>;
    close(): Promise<void>;
  }

  async function opened(): Promise<World> {
    const store = await openStore();
    const at = talliesOf(fresh());
    const tables = new Tables(keyspace);
    const { rows, counter } = tables.of(tallies);
    return {
      store,
      at,
      add: (bytes, className = 'c') => store.apply([{ at, add: { className }, by: { bytes, objects: 1 } }]),
      sum: async () => (await store.scan(at).next(10)).reduce((sum, { row }) => sum + row.bytes, 0),
      lying: async () => {
        const lying = countersIn(await session.readAll(counter.all, rows.place(at, 0)));
        return lying.reduce((count, { additions }) => count + additions.length, 0);
      },
      fold: async (ports) => {
        const folds = new Folds({ session, tables, intents: intentsOf(), additionsMax: 1, ...ports });
        folds.note(at, { shard: 0, additions: 1 });
        await folds.run();
      },
      close: () => store.close(),
    };
  }

  /** Ends the epoch of the additions, so that all additions are done but those of the ops that stay open. */
  async function endEpoch({ store }: World, goingOn = 0): Promise<void> {
    now += ttlMs + 1;
    await store.maintain();
    now += 2000;
    const left = async (): Promise<number | undefined> => {
      // If the end of an epoch was lost, its lease expires, and a sweep finds nothing to do.
      for (const intent of await store.abandoned()) await store.settle(intent);
      return (await intentsOf().done())?.except.length;
    };
    await expect.poll(left, { timeout: 120_000 }).toBe(goingOn);
  }

  it('keeps the sum, and clears what a base holds a fold later', async () => {
    const world = await opened();
    for (let i = 1; i <= 10; i += 1) await world.add(i, i % 2 === 0 ? 'even' : 'odd');
    await endEpoch(world);
    await world.fold();
    expect([await world.sum(), await world.lying()]).toEqual([55, 10]);
    await world.fold();
    expect([await world.sum(), await world.lying()]).toEqual([55, 0]);
    await world.add(100);
    expect(await world.sum()).toBe(155);
    await endEpoch(world);
    await world.fold();
    await world.fold();
    expect([await world.sum(), await world.lying()]).toEqual([155, 0]);
    await world.close();
  });

  it('keeps the largest amount of a column of maxima, also of additions without that column', async () => {
    const { store, ...world } = await opened();
    const at = visitsOf(fresh());
    const visit = (by: Record<string, number>) => store.apply([{ at, add: { className: 'c' }, by }]);
    const fold = async () => {
      await endEpoch({ store, ...world });
      const tables = new Tables(keyspace);
      const folds = new Folds({ session, tables, intents: intentsOf(), additionsMax: 1 });
      folds.note(at, { shard: 0, additions: 1 });
      await folds.run();
    };
    const read = async () => (await store.get(at, { className: 'c' }))?.row;
    for (const lastAt of [3, 9, 5]) await visit({ count: 1, lastAt });
    await visit({ count: 1 });
    for (let n = 0; n < 2; n += 1) {
      await fold();
      expect(await read()).toMatchObject({ count: 4, lastAt: 9 });
    }
    await visit({ count: 1, lastAt: 7 });
    expect(await read()).toMatchObject({ count: 5, lastAt: 9 });
    await visit({ count: 1, lastAt: 11 });
    await fold();
    expect(await read()).toMatchObject({ count: 6, lastAt: 11 });
    await world.close();
  });

  it('leaves the additions of an epoch that is open, and folds those around it', async () => {
    const world = await opened();
    await world.add(1);
    const op = await world.store.begin({ cluster: 'x' });
    await endEpoch(world, 1);
    await world.add(2);
    await endEpoch(world, 1);
    await world.fold();
    await world.fold();
    expect([await world.sum(), await world.lying()]).toEqual([3, 1]);
    const put = { put: head('b', fresh()), expect: 'absent' as const };
    const then = [{ at: world.at, add: { className: 'c' }, by: { bytes: 4, objects: 1 } }];
    expect(await world.store.commit(headsOf('b'), [put], { op, then })).toMatchObject({ applied: true });
    expect(await world.sum()).toBe(7);
    await world.store.end(op);
    await endEpoch(world);
    await world.fold();
    await world.fold();
    expect([await world.sum(), await world.lying()]).toEqual([7, 0]);
    await world.close();
  });

  it('counts the additions of a dead process once, though two sweeps repeat them', async () => {
    const world = await opened();
    const op = await world.store.begin({ cluster: 'x' });
    const put = { put: head('b', fresh()), expect: 'absent' as const };
    const then = [{ at: world.at, add: { className: 'c' }, by: { bytes: 5, objects: 1 } }];
    await world.store.commit(headsOf('b'), [put], { op, then });
    // Its lease expires, because the process no longer renews it.
    now += ttlMs + 1;
    const sweeper = await openStore();
    for (const round of ['found', 'found once more']) {
      const found = (await sweeper.abandoned()).filter(({ prefix }) => op.id.startsWith(prefix));
      expect(found, round).toHaveLength(1);
      for (const intent of found) await sweeper.settle(intent);
      now += 2000;
      await world.fold();
      await world.fold();
      expect([await world.sum(), await world.lying()], round).toEqual([5, 0]);
      now += 25 * 60 * 60_000;
    }
    await sweeper.close();
    await world.close();
  });

  it('ignores additions below the floor by a process whose lease has expired', async () => {
    const world = await opened();
    await world.add(1);
    // The process is paused in the middle of an addition, and another one sweeps and folds meanwhile.
    const late = world.store.apply.bind(world.store);
    now += ttlMs + 1;
    const sweeper = await openStore();
    for (const intent of await sweeper.abandoned()) await sweeper.settle(intent);
    now += 2000;
    await world.fold();
    await late([{ at: world.at, add: { className: 'c' }, by: { bytes: 2, objects: 1 } }]);
    expect(await world.sum()).toBe(3);
    await sweeper.close();
    await world.close();
  });

  it('opens epochs above the floor on a gateway whose clock is an hour slow', async () => {
    const world = await opened();
    await world.add(1);
    await endEpoch(world);
    await world.fold();
    const slow: Clock = { ...clock, now: () => now - 60 * 60_000 };
    const intents = new Intents({ session, keyspace, clock: slow, now: storeClock, random, ttlMs });
    const { id } = await intents.own.begin();
    const done = await intentsOf().done();
    expect(done?.except.length === 0 ? id > done.below : done?.except).toEqual(
      done?.except.length === 0 ? true : [id.split('.')[0]],
    );
    intents.own.end(id);
    await intents.own.close();
    await world.close();
  });

  function dying(at: DiesAt): { readonly commits: Commits; readonly intents: Intents } {
    const intents = intentsOf();
    return { commits: dyingCommits({ session, keyspace, intents, random, now: storeClock }, at), intents };
  }

  it('owes the addition of a process that died right after its commit, until a sweep has settled it', async () => {
    const world = await opened();
    await world.add(1);
    const { commits } = dying('side changes');
    const bucket = fresh();
    const then = [{ at: world.at, add: { className: 'c' }, by: { bytes: 5, objects: 1 } }];
    const put = { put: head(bucket, 'k'), expect: 'absent' as const };
    await expect(commits.commit(headsOf(bucket), [put], { then })).rejects.toThrow(Died);
    // The commit has applied, but the counter does not include it; every read reports the pending addition.
    expect(await world.store.get(headsOf(bucket), { key: 'k', slot: put.put.slot })).toBeDefined();
    for (let look = 0; look < 3; look += 1) {
      expect(await world.sum()).toBe(1);
      expect(await world.store.hasPendingAdditions(world.at)).toBe(true);
    }
    // Other counters have no pending additions.
    expect(await world.store.hasPendingAdditions(talliesOf(fresh()))).toBe(false);
    now += ttlMs + 1;
    for (const intent of await world.store.abandoned()) await world.store.settle(intent);
    expect(await world.sum()).toBe(6);
    expect(await world.store.hasPendingAdditions(world.at)).toBe(false);
    await world.close();
  });

  it('owes the row of a process that died right after its commit, until a sweep has settled it', async () => {
    const world = await opened();
    const { commits } = dying('side changes');
    const [bucket, other] = [fresh(), fresh()];
    const row = { board: fresh(), score: 1, name: 'n' };
    const then = [{ at: ranksOf(row.board), put: row }];
    expect(await world.store.hasPendingPuts?.(ranks)).toBe(false);
    const put = { put: head(bucket, 'k'), expect: 'absent' as const };
    await expect(commits.commit(headsOf(bucket), [put], { then })).rejects.toThrow(Died);
    expect(await world.store.hasPendingPuts?.(ranks)).toBe(true);
    now += ttlMs + 1;
    for (const intent of await world.store.abandoned()) await world.store.settle(intent);
    expect(await world.store.hasPendingPuts?.(ranks)).toBe(false);
    // For a process that lives, the row exists when its commit returns.
    const alive = { put: head(other, 'k'), expect: 'absent' as const };
    await world.store.commit(headsOf(other), [alive], {
      then: [{ at: ranksOf(row.board), put: { ...row, score: 2 } }],
    });
    expect(await world.store.hasPendingPuts?.(ranks)).toBe(false);
    await world.close();
  });

  it('owes nothing for a commit that was entered and did not apply', async () => {
    const world = await opened();
    const { commits } = dying('commit');
    const bucket = fresh();
    const then = [{ at: world.at, add: { className: 'c' }, by: { bytes: 5, objects: 1 } }];
    const put = { put: head(bucket, 'k'), expect: 'absent' as const };
    await expect(commits.commit(headsOf(bucket), [put], { then })).rejects.toThrow(Died);
    expect(await world.store.hasPendingAdditions(world.at)).toBe(false);
    await world.close();
  });

  it('counts an op as open that is barred, as long as an attempt under it may still apply', async () => {
    const world = await opened();
    const { commits, intents } = dying('commit');
    const op = await intents.own.begin();
    const bucket = fresh();
    const put = { put: head(bucket, 'k'), expect: 'absent' as const };
    await expect(commits.commit(headsOf(bucket), [put], { op })).rejects.toThrow(Died);
    expect(await world.store.isOpen(op.id)).toBe(true);
    // Another process sweeps the epoch, and has so far only barred it.
    const barring = new Intents({
      session: new Proxy(session, {
        get: (target, name) => {
          const value = Reflect.get(target, name) as unknown;
          if (name === 'read') return () => Promise.reject(new Died());
          return typeof value === 'function' ? value.bind(target) : value;
        },
      }),
      ...{ keyspace, clock, now: storeClock, random, ttlMs },
    });
    await expect(barring.abort(op.id)).rejects.toThrow(Died);
    expect(await world.store.isOpen(op.id)).toBe(true);
    await world.store.abort(op.id);
    expect(await world.store.isOpen(op.id)).toBe(false);
    await world.close();
  });

  const kinds = ['dies before', 'dies after', 'does not hear of'] as const;
  it.each(kinds)('keeps the sum where a fold %s any of its steps', async (kind) => {
    const world = await opened();
    let expected = 0;
    for (let step = 1, isOver = false; !isOver; step += 1) {
      expect(step).toBeLessThan(20);
      for (let i = 0; i < 3; i += 1) {
        await world.add(step);
        expected += step;
      }
      await endEpoch(world);
      let steps = 0;
      // Each statement that changes the cluster is a step, those of the intents included.
      const stepping = <Input, Result>(work: (input: Input) => Promise<Result>) => {
        return async (input: Input): Promise<Result> => {
          steps += 1;
          if (steps !== step) return work(input);
          if (kind === 'dies before') throw new Died();
          const result = await work(input);
          if (kind === 'dies after') throw new Died();
          throw new UnknownOutcome(`${result}`);
        };
      };
      const decide = stepping((statements: Parameters<Session['decide']>[0]) => session.decide(statements));
      const write = stepping((statements: Parameters<Session['write']>[0]) => session.write(statements));
      const faulty = new Proxy(session, {
        get: (target, name) => {
          if (name === 'decide') return decide;
          if (name === 'write') return write;
          const value = Reflect.get(target, name) as unknown;
          return typeof value === 'function' ? value.bind(target) : value;
        },
      });
      const intents = new Intents({ session: faulty, keyspace, clock, now: storeClock, random, ttlMs });
      await world.fold({ session: faulty, intents }).catch((error: unknown) => {
        if (!(error instanceof Died || error instanceof UnknownOutcome)) throw error;
      });
      isOver = steps < step;
      expect(await world.sum(), `step ${step}`).toBe(expected);
    }
    await endEpoch(world);
    await world.fold();
    await world.fold();
    expect([await world.sum(), await world.lying()]).toEqual([expected, 0]);
    await world.close();
  });

  it('loses and doubles nothing while many add, and several fold at once', async () => {
    const world = await opened();
    let expected = 0;
    const adding = Array.from({ length: 8 }, async (_, worker) => {
      for (let i = 1; i <= 12; i += 1) {
        await world.add(i, `class ${worker % 3}`);
        expected += i;
      }
    });
    let isOver = false;
    const over = Promise.all(adding).finally(() => {
      isOver = true;
    });
    const folding = [1, 2].map(async () => {
      while (!isOver) {
        now += 4000;
        await world.store.maintain();
        await world.fold();
        const sum = await world.sum();
        expect(sum).toBeLessThanOrEqual(8 * 78);
      }
    });
    await Promise.all([over, ...folding]);
    await endEpoch(world);
    await world.fold();
    await world.fold();
    expect([await world.sum(), await world.lying()]).toEqual([expected, 0]);
    await world.close();
  });

  it('is done by the store itself, once enough was added or read', async () => {
    const world = await opened();
    for (let i = 0; i < 20; i += 1) await Promise.all(Array.from({ length: 16 }, () => world.add(1)));
    await endEpoch(world);
    await world.store.maintain();
    now += 2000;
    expect(await world.sum()).toBe(320);
    await world.store.maintain();
    expect([await world.sum(), await world.lying()]).toEqual([320, 0]);
    await world.close();
  });

  it('reads more additions than one answer of the cluster holds', async () => {
    const world = await opened();
    for (let i = 0; i < 60; i += 1) {
      const changes = Array.from({ length: 100 }, () => ({
        at: world.at,
        add: { className: 'c' },
        by: { bytes: 1, objects: 1 },
      }));
      await world.store.apply(changes);
    }
    expect(await world.sum()).toBe(6000);
    expect((await world.store.get(world.at, { className: 'c' }))?.row.bytes).toBe(6000);
    await world.close();
  });
});
