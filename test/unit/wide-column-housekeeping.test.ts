/** The background work of the wide-column backend: a partition without a quorum stops only what needs it. */
import { expect, test } from 'vitest';
import { Commits } from '../../src/backends/metadata/wide-column/commits.ts';
import { Folds } from '../../src/backends/metadata/wide-column/counters.ts';
import { Intents } from '../../src/backends/metadata/wide-column/intents.ts';
import {
  type Session,
  type Statement,
  UnknownOutcome,
} from '../../src/backends/metadata/wide-column/session.ts';
import { Tables } from '../../src/backends/metadata/wide-column/statements.ts';
import { StoreUnavailable } from '../../src/ports/metadata-store.ts';
import { systemRandom } from '../../src/ports/random.ts';
import { heads, ranksOf, tallies } from '../contract/metadata-store/tables.ts';

const tables = new Tables('ks');
const random = systemRandom();
const now = async (): Promise<number> => 1_000_000;
const unavailable = async (): Promise<never> => {
  throw new StoreUnavailable('no quorum');
};

test('a counter that cannot be read stops the folding of no other, and the failure is reported', async () => {
  const read: string[] = [];
  const session = {
    readAll: async (_query: string, [bucket]: unknown[]) => {
      read.push(String(bucket));
      return bucket === 'away' ? unavailable() : [];
    },
    clock: { stamp: async () => 1n },
  } as unknown as Session;
  const folds = new Folds({
    session,
    tables,
    intents: { done: async () => ({ below: 'z', except: [] }) },
    additionsMax: 1,
  });
  for (const bucket of ['away', 'first', 'second', 'third'])
    folds.note({ table: tallies, in: { bucket, part: 0 } }, { shard: 0, additions: 1 });
  await expect(folds.run()).rejects.toThrow('no quorum');
  expect(read).toEqual(['away', 'first', 'second', 'third']);
  // Those that were folded are not due any more; the other is tried again.
  await expect(folds.run()).rejects.toThrow('no quorum');
  expect(read.slice(4)).toEqual(['away']);
});

test('counters that cannot be read take turns with the others, however many they are', async () => {
  const read: string[] = [];
  const session = {
    readAll: async (_query: string, [bucket]: unknown[]) => {
      read.push(String(bucket));
      return String(bucket).startsWith('away') ? unavailable() : [];
    },
    clock: { stamp: async () => 1n },
  } as unknown as Session;
  const intents = { done: async () => ({ below: 'z', except: [] }) };
  const folds = new Folds({ session, tables, intents, additionsMax: 1 });
  const buckets = [...Array.from({ length: 100 }, (_, i) => `away ${i}`), 'served'];
  for (const bucket of buckets)
    folds.note({ table: tallies, in: { bucket, part: 0 } }, { shard: 0, additions: 1 });
  for (let round = 0; round < 2; round += 1) await folds.run().catch(() => undefined);
  expect(read).toContain('served');
});

test('a failed commit that cannot be settled stops the settling of no other, and the failure is reported', async () => {
  const ended: string[] = [];
  let tried: string[] = [];
  let begun = 0;
  const intents = {
    own: { begin: async () => ({ id: `e.00${begun++}` }), end: (id: string) => void ended.push(id) },
    enter: async () => true,
    abort: async (id: string) => {
      tried.push(id);
      if (id === 'e.000') await unavailable();
    },
  } as unknown as Intents;
  const session = {
    clock: { stamp: async () => 1n, passed: async () => {} },
    decide: async () => {
      throw new UnknownOutcome('no answer');
    },
    read: unavailable,
  } as unknown as Session;
  const folds = new Folds({ session, tables, intents });
  const placed = async (): Promise<never> => {
    throw new Error('nothing is split');
  };
  const commits = new Commits({ session, tables, intents, folds, random, now, placed });
  for (let key = 0; key < 4; key += 1) {
    const put = { bucket: 'b', key: String(key), slot: '', etag: '' };
    const then = [{ at: ranksOf('board'), put: { board: 'board', score: key, name: 'n' } }];
    const at = { table: heads, in: { bucket: 'b' } };
    await expect(commits.commit(at, [{ put, expect: 'absent' }], { then })).rejects.toThrow('no quorum');
  }
  await expect(commits.settleOwn()).rejects.toThrow('no quorum');
  expect(tried).toEqual(['e.000', 'e.001', 'e.002', 'e.003']);
  expect(ended).toEqual(['e.001', 'e.002', 'e.003']);
  tried = [];
  await expect(commits.settleOwn()).rejects.toThrow('no quorum');
  expect(tried).toEqual(['e.000']);
});

/** A cluster with leases of dead processes; conditional statements about `away` find no quorum. */
const clusterWith = (leases: readonly string[], away: string) =>
  ({
    read: async (query: string) =>
      query.includes('.epochs ') ? leases.map((id) => ({ id, until: 0n, state: 0 })) : [],
    decide: async ([first]: readonly Statement[]) => (first?.params.includes(away) ? unavailable() : true),
  }) as unknown as Session;

test('a dead process whose op cannot be barred delays the sweep of no other, and the failure is reported', async () => {
  const failures: unknown[] = [];
  const clock = { now: () => 1_000_000, elapsed: () => 0, sleep: async () => {} };
  const ports = { keyspace: 'ks', clock, now, random, ttlMs: 60_000 };
  const onFailure = (cause: unknown): void => void failures.push(cause);
  const one = new Intents({ ...ports, session: clusterWith(['away', 'dead', 'gone'], 'away'), onFailure });
  expect(await one.abandoned()).toEqual([{ prefix: 'dead.' }, { prefix: 'gone.' }]);
  expect(failures.map(String)).toEqual([expect.stringContaining('no quorum')]);
  const none = new Intents({ ...ports, session: clusterWith(['away'], 'away'), onFailure });
  await expect(none.abandoned()).rejects.toThrow('no quorum');
});

test('Cassandra removes a row of a conditional table within a day after its expiry, and keeps one that does not expire', async () => {
  const sent: Statement[] = [];
  const session = {
    clock: { stamp: async () => 1n, passed: async () => {} },
    decide: async (statements: readonly Statement[]) => sent.push(...statements) > 0,
  } as unknown as Session;
  const intents = {} as Intents;
  const folds = new Folds({ session, tables, intents });
  const placed = async (): Promise<never> => {
    throw new Error('nothing is split');
  };
  const commits = new Commits({ session, tables, intents, folds, random, now, placed });
  const at = { table: heads, in: { bucket: 'b' } };
  const row = (key: string) => ({ bucket: 'b', key, slot: '', etag: '' });
  const secondsUntilRemoval = async (expiresAt?: number) => {
    sent.length = 0;
    const expiry = expiresAt === undefined ? {} : { expiresAt };
    await commits.commit(at, [{ put: row('a'), expect: 'absent', ...expiry }], {});
    const put = sent.find(({ query }) => query === tables.of(heads).statements.putIf);
    return put?.params[0];
  };
  const daySeconds = 24 * 60 * 60;
  expect(await secondsUntilRemoval((await now()) + 60_000)).toBe(60 + daySeconds);
  expect(await secondsUntilRemoval()).toBe(0);
  // After January 2038 Cassandra removes nothing.
  expect(await secondsUntilRemoval(Date.UTC(2038, 0, 20))).toBe(0);
});
