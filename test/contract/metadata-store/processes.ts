/**
 * Several processes over the same data: each sees acknowledged writes of the others at once, and none acts after its lease has expired.
 */
import { expect } from 'vitest';
import { acquireLease, releaseLease, renewLease } from '../../../src/metadata/background/leases.ts';
import type { MetadataStore, Op, Revision } from '../../../src/ports/metadata-store.ts';
import type { Laws } from '../metadata-store.ts';
import { all, fresh, head, headsOf, ranksOf, talliesOf } from './tables.ts';

const refused = { applied: false, because: 'abandoned' };
const leaseMs = 15_000;

const put = (store: MetadataStore, bucket: string, key: string, op?: Op) =>
  store.commit(headsOf(bucket), [{ put: head(bucket, key), expect: 'absent' }], op ? { op } : {});

const covers = (swept: readonly { readonly prefix: string }[], op: Op): boolean =>
  swept.some(({ prefix }) => `${op.id}.0`.startsWith(prefix));

export function processLaws({ law }: Laws): void {
  law(
    'shows a write that one process acknowledged to the next read of another',
    async ({ store, another }) => {
      const other = await another();
      const at = headsOf(fresh());
      const key = { key: 'k', slot: '~' };
      for (let turn = 0; turn < 40; turn++) {
        const [writer, reader] = turn % 2 === 0 ? [store, other] : [other, store];
        const row = head(at.in.bucket, 'k', { etag: String(turn) });
        await writer.update(at, key, () => row);
        const stored = await reader.get(at, key);
        expect(stored?.row).toEqual(row);
        expect(await all(reader.scan(at))).toEqual([row]);
        if (turn % 3 > 0) continue;
        await writer.commit(at, [{ remove: key, expect: stored?.revision as Revision }]);
        expect(await reader.get(at, key)).toBeUndefined();
      }
    },
  );

  law(
    'tells a process that watches of the commits of every process, and of nothing else',
    async ({ store, another }) => {
      if (store.watchCommits === undefined) return;
      const other = await another();
      const at = headsOf(fresh());
      const row = { board: fresh(), score: 1, name: 'n', note: '' };
      const key = { key: 'k', slot: '~' };
      const commits: readonly ((by: MetadataStore) => Promise<unknown>)[] = [
        (by) => put(by, at.in.bucket, 'k'),
        (by) => by.update(at, key, () => head(at.in.bucket, 'k', { etag: 'e' })),
        (by) => by.apply([{ at: ranksOf(row.board), put: row }]),
        (by) => by.clear(ranksOf(row.board), {}),
      ];
      for (const by of [store, other]) {
        for (const commit of commits) {
          const hasChanged = store.watchCommits();
          await commit(by);
          expect(hasChanged()).toBe(true);
        }
        const hasChanged = store.watchCommits();
        await by.get(at, key);
        await all(by.scan(at));
        expect(hasChanged()).toBe(false);
        const found = await by.get(at, key);
        await by.commit(at, [{ remove: key, expect: found?.revision as Revision }]);
        expect(hasChanged()).toBe(true);
      }
    },
  );

  law('lets the later of two plain writes win, whichever process makes it', async ({ store, another }) => {
    const other = await another();
    const board = fresh();
    const row = { board, score: 1, name: 'n' };
    for (let turn = 0; turn < 60; turn++) {
      const [first, second] = turn % 2 === 0 ? [store, other] : [other, store];
      await first.apply([{ at: ranksOf(board), put: { ...row, note: String(turn) } }]);
      expect((await second.get(ranksOf(board), row))?.row.note).toBe(String(turn));
      await second.apply([{ at: ranksOf(board), remove: row }]);
      expect(await first.get(ranksOf(board), row), `turn ${turn}`).toBeUndefined();
    }
  });

  law('gives one winner to the writers of two processes', async ({ store, another }) => {
    const stores = [store, await another()];
    for (let race = 0; race < 10; race++) {
      const at = headsOf(fresh());
      const outcomes = await Promise.all(
        Array.from({ length: 8 }, (_, writer) =>
          (stores[writer % 2] as MetadataStore).commit(at, [
            { put: head(at.in.bucket, 'k', { etag: String(writer) }), expect: 'absent' },
          ]),
        ),
      );
      const winners = outcomes.flatMap((outcome, writer) => (outcome.applied ? [String(writer)] : []));
      expect(winners).toHaveLength(1);
      for (const each of stores)
        expect((await each.get(at, { key: 'k', slot: '~' }))?.row.etag).toBe(winners[0]);
    }
  });

  law('loses no update and no addition of two processes', async ({ store, another }) => {
    const stores = [store, await another()];
    const at = headsOf(fresh());
    const tally = talliesOf(at.in.bucket);
    await Promise.all(
      Array.from({ length: 12 }, async (_, worker) => {
        const mine = stores[worker % 2] as MetadataStore;
        for (let turn = 0; turn < 4; turn++) {
          await mine.update(at, { key: 'k', slot: '~' }, (row) => ({
            ...head(at.in.bucket, 'k'),
            size: (row?.size ?? 0) + 1,
          }));
          await mine.commit(at, [{ put: head(at.in.bucket, `${worker} ${turn}`), expect: 'absent' }], {
            then: [{ at: tally, add: { className: 'c' }, by: { objects: 1, bytes: 10 } }],
          });
        }
      }),
    );
    for (const each of stores) {
      expect((await each.get(at, { key: 'k', slot: '~' }))?.row.size).toBe(48);
      expect((await each.get(tally, { className: 'c' }))?.row).toMatchObject({ objects: 48, bytes: 480 });
    }
  });

  law('fences commits of another process immediately, whatever it has cached', async ({ store, another }) => {
    const other = await another();
    const bucket = fresh();
    for (let generation = 1; generation < 8; generation++) {
      const [raising, writing] = generation % 2 === 0 ? [store, other] : [other, store];
      const change = { put: head(bucket, `k${generation}`), expect: 'absent' as const };
      await raising.raiseFence(headsOf(bucket), generation);
      expect(await writing.commit(headsOf(bucket, generation - 1), [change])).toMatchObject({
        because: 'fenced',
        fence: generation,
      });
      expect(await writing.commit(headsOf(bucket, generation), [change])).toMatchObject({ applied: true });
    }
  });

  law('abandons the ops of a process that stopped and of no other', async (opened) => {
    const { store, another, pause, pass, resume, intentTtlMs } = opened;
    const other = await another();
    const bucket = fresh();
    const [stopped, living] = [await store.begin({ cluster: 'c' }), await other.begin({ cluster: 'c' })];
    await put(store, bucket, 'before', stopped);
    pause();
    await pass(intentTtlMs + 1);
    const swept = await other.abandoned();
    expect(covers(swept, stopped)).toBe(true);
    expect(covers(swept, living)).toBe(false);
    // The process resumes and does not know yet that its lease has expired.
    expect(await put(store, bucket, 'after', stopped)).toEqual(refused);
    resume();
    await pass(intentTtlMs);
    expect(await put(store, bucket, 'after', stopped)).toEqual(refused);
    expect(await put(other, bucket, 'other', living)).toMatchObject({ applied: true });
    expect((await all(other.scan(headsOf(bucket)))).map(({ key }) => key)).toEqual(['before', 'other']);
    const anew = await store.begin({ cluster: 'c' });
    expect(covers(swept, anew)).toBe(false);
    expect(await put(store, bucket, 'anew', anew)).toMatchObject({ applied: true });
    for (const intent of swept) await other.settle(intent);
    expect(await put(store, bucket, 'after', stopped)).toEqual(refused);
    await store.end(anew);
    await other.end(living);
  });

  law('bars an op that another process aborts', async ({ store, another }) => {
    const other = await another();
    const bucket = fresh();
    const op = await store.begin({ cluster: 'c' });
    expect(await put(store, bucket, 'before', op)).toMatchObject({ applied: true });
    await other.abort(op.id);
    expect(await put(store, bucket, 'after', op)).toEqual(refused);
    expect((await all(other.scan(headsOf(bucket)))).map(({ key }) => key)).toEqual(['before']);
    await store.end(op);
  });

  law('names the ops of two processes apart', async ({ store, another }) => {
    const other = await another();
    const ops = await Promise.all(
      Array.from({ length: 400 }, (_, index) => (index % 2 === 0 ? store : other).begin({ cluster: 'c' })),
    );
    const ids = new Set(ops.map(({ id }) => id));
    expect(ids.size).toBe(ops.length);
    await Promise.all(ops.map((op, index) => (index % 2 === 0 ? store : other).end(op)));
  });

  law('takes a lease from a holder that was paused past its end, and refuses its renewal', async (opened) => {
    const { store, another, pass } = opened;
    const other = await another();
    const name = fresh();
    const wanted = (holder: string) => ({ name, holder, ttlMs: leaseMs });
    const [first, second] = await Promise.all([
      acquireLease(store, wanted('first')),
      acquireLease(other, wanted('second')),
    ]);
    const [held, holds, waits] =
      first === undefined ? ([second, other, store] as const) : ([first, store, other] as const);
    expect([first, second].filter((lease) => lease !== undefined)).toHaveLength(1);
    if (held === undefined) return;
    await pass(leaseMs - 1);
    expect(await acquireLease(waits, wanted('next'))).toBeUndefined();
    await pass(1);
    const taken = await acquireLease(waits, wanted('next'));
    expect(taken).toMatchObject({ holder: 'next', generation: held.generation + 1 });
    expect(await renewLease(holds, held, leaseMs)).toBeUndefined();
    // Its release does not free the lease of its successor.
    await releaseLease(holds, held);
    expect(await acquireLease(holds, wanted('again'))).toBeUndefined();
    if (taken !== undefined) expect(await renewLease(waits, taken, leaseMs)).toBeDefined();
  });
}
