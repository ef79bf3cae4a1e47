/** Intents: the ops of a dead process are found and can no longer commit, wherever it stopped. */
import { expect } from 'vitest';
import type { Op } from '../../../src/ports/metadata-store.ts';
import type { Laws, Opened } from '../metadata-store.ts';
import { all, fresh, head, headsOf } from './tables.ts';

const put = ({ store }: Opened, bucket: string, key: string, op?: Op) =>
  store.commit(headsOf(bucket), [{ put: head(bucket, key), expect: 'absent' }], op ? { op } : {});

const refused = { applied: false, because: 'abandoned' };

/** The process stops for longer than its intents live. */
async function lapse({ pause, pass, intentTtlMs }: Opened): Promise<void> {
  pause();
  await pass(intentTtlMs + 1);
}

const covers = (swept: readonly { readonly prefix: string }[], op: Op): boolean =>
  swept.some(({ prefix }) => `${op.id}.0`.startsWith(prefix));

export function intentLaws({ law }: Laws): void {
  law('names ops apart: none twice, none the beginning of another, later ones later', async ({ store }) => {
    const ops: Op[] = [];
    for (let count = 0; count < 300; count++) ops.push(await store.begin({ cluster: 'c' }));
    const ids = ops.map((op) => op.id);
    expect(new Set(ids).size).toBe(ids.length);
    expect(new Set(ids.map((id) => id.length)).size).toBe(1);
    for (const id of ids) expect(id).toMatch(/^[0-9a-z.-]+$/);
    for (const op of ops) await store.end(op);
  });

  law('sorts ops that began apart by time', async ({ store, pass }) => {
    const ids: string[] = [];
    for (let count = 0; count < 5; count++) {
      ids.push((await store.begin({ cluster: 'c' })).id);
      await pass(40);
    }
    expect([...ids].sort()).toEqual(ids);
  });

  law('begins any number at once', async ({ store }) => {
    const ops = await Promise.all(Array.from({ length: 5000 }, () => store.begin({ cluster: 'c' })));
    expect(new Set(ops.map((op) => op.id)).size).toBe(5000);
    await Promise.all(ops.map((op) => store.end(op)));
  });

  law('commits under an open op, more than once', async (opened) => {
    const bucket = fresh();
    const op = await opened.store.begin({ cluster: 'c' });
    expect(await put(opened, bucket, 'a', op)).toMatchObject({ applied: true });
    expect(await put(opened, bucket, 'b', op)).toMatchObject({ applied: true });
    expect(await put(opened, bucket, 'b', op)).toMatchObject({ because: 'conflict' });
    await opened.store.end(op);
    await opened.store.end(op);
  });

  law('knows which ops can still commit, and that no others can', async (opened) => {
    const { store } = opened;
    const op = await store.begin({ cluster: 'c' });
    const barred = await store.begin({ cluster: 'c' });
    expect(await store.isOpen(op.id)).toBe(true);
    await store.abort(barred.id);
    expect([await store.isOpen(op.id), await store.isOpen(barred.id)]).toEqual([true, false]);
    const ended = await store.begin({ cluster: 'c' });
    await store.end(ended);
    expect(await store.isOpen(ended.id)).toBe(false);
    expect(await store.isOpen('of-no-process')).toBe(false);
    expect(await store.isOpen(`${'0'.repeat(17)}.000`)).toBe(false);
    await lapse(opened);
    for (const intent of await store.abandoned()) await store.settle(intent);
    expect(await store.isOpen(op.id)).toBe(false);
    opened.resume();
  });

  law('does not abandon an op whose process lives, however long it takes', async (opened) => {
    const op = await opened.store.begin({ cluster: 'c' });
    await opened.pass(opened.intentTtlMs * 3);
    expect(covers(await opened.store.abandoned(), op)).toBe(false);
    expect(await put(opened, fresh(), 'k', op)).toMatchObject({ applied: true });
    await opened.store.end(op);
  });

  law('begin, stop, sweep, commit: refused, and nothing is there', async (opened) => {
    const bucket = fresh();
    const op = await opened.store.begin({ cluster: 'c' });
    await lapse(opened);
    expect(covers(await opened.store.abandoned(), op)).toBe(true);
    expect(await put(opened, bucket, 'k', op)).toEqual(refused);
    expect(await all(opened.store.scan(headsOf(bucket)))).toEqual([]);
    opened.resume();
    expect(await put(opened, bucket, 'k', op)).toEqual(refused);
  });

  law('begin, stop, commit, sweep: what applied stands, what follows is refused', async (opened) => {
    const bucket = fresh();
    const op = await opened.store.begin({ cluster: 'c' });
    await lapse(opened);
    expect(await put(opened, bucket, 'before', op)).toMatchObject({ applied: true });
    const swept = await opened.store.abandoned();
    expect(covers(swept, op)).toBe(true);
    expect(await put(opened, bucket, 'after', op)).toEqual(refused);
    for (const intent of swept) await opened.store.settle(intent);
    expect((await all(opened.store.scan(headsOf(bucket)))).map((row) => row.key)).toEqual(['before']);
  });

  law('begin, commit, end, stop, sweep: the row stands', async (opened) => {
    const bucket = fresh();
    const op = await opened.store.begin({ cluster: 'c' });
    await put(opened, bucket, 'k', op);
    await opened.store.end(op);
    await lapse(opened);
    for (const intent of await opened.store.abandoned()) await opened.store.settle(intent);
    expect(await all(opened.store.scan(headsOf(bucket)))).toHaveLength(1);
  });

  law('stop and come back in time: nothing is abandoned', async (opened) => {
    const op = await opened.store.begin({ cluster: 'c' });
    opened.pause();
    await opened.pass(opened.intentTtlMs / 2);
    opened.resume();
    await opened.pass(opened.intentTtlMs);
    expect(covers(await opened.store.abandoned(), op)).toBe(false);
    expect(await put(opened, fresh(), 'k', op)).toMatchObject({ applied: true });
  });

  law('finds an abandoned intent again until it is settled, and refuses beyond that', async (opened) => {
    const bucket = fresh();
    const op = await opened.store.begin({ cluster: 'c' });
    await lapse(opened);
    const first = await opened.store.abandoned();
    expect(covers(await opened.store.abandoned(), op)).toBe(true);
    for (const intent of [...first, ...first]) await opened.store.settle(intent);
    expect(covers(await opened.store.abandoned(), op)).toBe(false);
    expect(await put(opened, bucket, 'k', op)).toEqual(refused);
    expect(await all(opened.store.scan(headsOf(bucket)))).toEqual([]);
  });

  law('finds a settled intent once more a day later: its process may have stored on', async (opened) => {
    const { store } = opened;
    const dayMs = 24 * 60 * 60_000;
    const op = await store.begin({ cluster: 'c' });
    await lapse(opened);
    for (const intent of await store.abandoned()) await store.settle(intent);
    opened.resume();
    await opened.pass(opened.intentTtlMs);
    opened.pause();
    await opened.pass(dayMs / 2);
    expect(covers(await store.abandoned(), op)).toBe(false);
    // The process resumes, its commit is refused, and it ends its op.
    expect(await put(opened, fresh(), 'k', op)).toEqual(refused);
    await store.abort(op.id);
    await store.end(op);
    await opened.pass(dayMs / 2);
    expect(covers(await store.abandoned(), op)).toBe(true);
    const again = await store.abandoned();
    expect(covers(again, op)).toBe(true);
    expect(await put(opened, fresh(), 'k', op)).toEqual(refused);
    for (const intent of again) await store.settle(intent);
    await opened.pass(2 * dayMs);
    expect(covers(await store.abandoned(), op)).toBe(false);
    expect(await put(opened, fresh(), 'k', op)).toEqual(refused);
  });

  law('begins anew after its intents were swept', async (opened) => {
    const old = await opened.store.begin({ cluster: 'c' });
    await lapse(opened);
    const swept = await opened.store.abandoned();
    opened.resume();
    const op = await opened.store.begin({ cluster: 'c' });
    for (const intent of swept) await opened.store.settle(intent);
    expect(op.id).not.toBe(old.id);
    expect(covers(swept, op)).toBe(false);
    expect(await put(opened, fresh(), 'k', op)).toMatchObject({ applied: true });
  });

  law('bars an aborted op and no other', async (opened) => {
    const bucket = fresh();
    const [aborted, other] = [
      await opened.store.begin({ cluster: 'c' }),
      await opened.store.begin({ cluster: 'c' }),
    ];
    await put(opened, bucket, 'before', aborted);
    await opened.store.abort(aborted.id);
    await opened.store.abort(aborted.id);
    expect(await put(opened, bucket, 'after', aborted)).toEqual(refused);
    expect(await put(opened, bucket, 'other', other)).toMatchObject({ applied: true });
    const keys = (await all(opened.store.scan(headsOf(bucket)))).map((row) => row.key);
    expect(keys).toEqual(['before', 'other']);
    await opened.store.end(aborted);
    await opened.store.end(other);
  });

  law('abort, stop, sweep: an aborted op that was never ended is found', async (opened) => {
    const { store } = opened;
    const op = await store.begin({ cluster: 'c' });
    await store.abort(op.id);
    expect(covers(await store.abandoned(), op)).toBe(false);
    await lapse(opened);
    const swept = await store.abandoned();
    expect(covers(swept, op)).toBe(true);
    await store.end(op);
    for (const intent of swept) await store.settle(intent);
    expect(covers(await store.abandoned(), op)).toBe(false);
    expect(await put(opened, fresh(), 'k', op)).toEqual(refused);
  });

  law('bars an op that it never heard of', async (opened) => {
    const op = await opened.store.begin({ cluster: 'c' });
    const unknown = { id: op.id.replaceAll(/[0-9a-z]/g, '0') };
    await opened.store.abort(unknown.id);
    expect(await put(opened, fresh(), 'k', unknown)).toEqual(refused);
    expect(await put(opened, fresh(), 'k', op)).toMatchObject({ applied: true });
  });

  law('tells that an op is abandoned before a fence and before a conflict', async (opened) => {
    const bucket = fresh();
    const op = await opened.store.begin({ cluster: 'c' });
    await put(opened, bucket, 'k');
    await opened.store.raiseFence(headsOf(bucket), 2);
    await opened.store.abort(op.id);
    const changes = [{ put: head(bucket, 'k'), expect: 'absent' as const }];
    expect(await opened.store.commit(headsOf(bucket, 1), changes, { op })).toEqual(refused);
  });

  for (const [name, bar] of [
    ['an abort', async ({ store }: Opened, op: Op) => store.abort(op.id)],
    [
      'a sweep',
      async (opened: Opened) => {
        await opened.store.abandoned();
      },
    ],
  ] as const) {
    law(`once ${name} returns, what a racing commit will have done is settled`, async (opened) => {
      const bucket = fresh();
      const { store, intentTtlMs } = opened;
      for (let race = 0; race < 12; race++) {
        const op = await store.begin({ cluster: 'c' });
        if (name === 'a sweep') {
          opened.pause();
          await opened.pass(intentTtlMs + 1);
        }
        const keys = Array.from({ length: 6 }, (_, index) => `${race}-${index}`);
        const early = keys.slice(0, 3).map((key) => put(opened, bucket, key, op));
        const barred = bar(opened, op);
        const late = keys.slice(3).map((key) => put(opened, bucket, key, op));
        await barred;
        const settled = (await all(store.scan(headsOf(bucket)))).map((row) => row.key);
        const outcomes = await Promise.all([...early, ...late]);
        const applied = keys.filter((_, index) => outcomes[index]?.applied);
        for (const outcome of outcomes) if (!outcome.applied) expect(outcome).toEqual(refused);
        expect(keys.filter((key) => settled.includes(key))).toEqual(applied);
        const finally_ = (await all(store.scan(headsOf(bucket)))).map((row) => row.key);
        expect(keys.filter((key) => finally_.includes(key))).toEqual(applied);
        for (const intent of await store.abandoned()) await store.settle(intent);
        opened.resume();
        await store.end(op);
      }
    });
  }
}
