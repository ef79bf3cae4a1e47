/** The rows of the hourly queues are carried out at least once, on the stores that need no engine. */
import { describe, expect, test } from 'vitest';
import { Caches } from '../../src/base/bounded-cache.ts';
import {
  dueRowsOfHour,
  finishHourlyRows,
  listDueHours,
} from '../../src/metadata/background/hourly-consumer.ts';
import { hourMs, queuedByHour } from '../../src/metadata/background/hourly-queues.ts';
import type { HourlyRow } from '../../src/metadata/records/queues.ts';
import type { MetadataStore } from '../../src/ports/metadata-store.ts';
import { openGateway } from '../support/gateway.ts';

const start = Date.UTC(2026, 0, 1, 12);

async function openQueue(backend: 'memory' | 'embedded+file') {
  const world = await openGateway({ backend });
  let elapsed = 0;
  const ctx = {
    caches: new Caches(),
    metadata: world.context.metadata,
    clock: { elapsed: () => elapsed },
  };
  const add = async (id: string, due: number) =>
    ctx.metadata.apply([
      await queuedByHour(ctx, { queue: 'notify', slotKey: 'key' }, { task: id, id, due, requestId: 'r' }),
    ]);
  const due = async (now: number): Promise<readonly HourlyRow[]> => {
    const rows: HourlyRow[] = [];
    for (const place of await listDueHours(ctx, 'notify', now))
      for await (const row of dueRowsOfHour(ctx, place, { now })) rows.push(row);
    return rows;
  };
  const ids = async (now: number) => (await due(now)).map(({ id }) => id);
  const pass = (ms: number) => {
    elapsed += ms;
  };
  return { ctx, add, due, ids, pass, [Symbol.asyncDispose]: () => world[Symbol.asyncDispose]() };
}

describe.each(['memory', 'embedded+file'] as const)('on %s', (backend) => {
  test('rows are read the oldest first over all hours, and none before it is due', async () => {
    await using queue = await openQueue(backend);
    await queue.add('late', start + hourMs + 5);
    await queue.add('c', start + 7);
    await queue.add('a', start - 3 * hourMs);
    await queue.add('b', start + 7);
    expect(await queue.ids(start + 6)).toEqual(['a']);
    expect(await queue.ids(start + 7)).toEqual(['a', 'b', 'c']);
    expect(await queue.ids(start + 2 * hourMs)).toEqual(['a', 'b', 'c', 'late']);
  });

  test('a finished row does not return, and a row that a slow commit adds before it is read', async () => {
    await using queue = await openQueue(backend);
    for (let n = 0; n < 450; n += 1) await queue.add(`row ${n}`, start + n);
    await finishHourlyRows(queue.ctx.metadata, await queue.due(start + 500));
    expect(await queue.ids(start + 500)).toEqual([]);
    await queue.add('slow', start + 1);
    expect(await queue.ids(start + 500)).toEqual(['slow']);
  });

  test('an old hour that is empty is read again only after a while, and then its new row is found', async () => {
    await using queue = await openQueue(backend);
    const { ctx } = queue;
    const now = start + 2 * hourMs;
    await queue.add('a', start);
    await finishHourlyRows(ctx.metadata, await queue.due(now));
    expect(await queue.ids(now)).toEqual([]);
    expect(await listDueHours(ctx, 'notify', now)).toEqual([]);
    await queue.add('slow', start);
    queue.pass(10 * 60_000);
    expect(await queue.ids(now)).toEqual(['slow']);
  });

  test('a pass that finds nothing reads no announcement of an old hour', async () => {
    await using queue = await openQueue(backend);
    const { ctx } = queue;
    const now = start + 32 * hourMs;
    for (let n = 0; n < 30; n += 1) await queue.add(`${n}`, start + n * hourMs);
    await finishHourlyRows(ctx.metadata, await queue.due(now));
    await queue.ids(now);
    let read = 0;
    const { metadata } = ctx;
    const counting: Pick<MetadataStore, 'scan'> = {
      scan: (at, range) => {
        const cursor = metadata.scan(at, range);
        const next = cursor.next.bind(cursor);
        cursor.next = async (count) => {
          const rows = await next(count);
          read += rows.length;
          return rows;
        };
        return cursor;
      },
    };
    expect(await listDueHours({ ...ctx, metadata: counting }, 'notify', now)).toEqual([]);
    expect(read).toBe(0);
    // An hour that is announced late is found within a minute.
    await queue.add('late', start - hourMs);
    expect(await queue.ids(now)).toEqual([]);
    queue.pass(60_000);
    expect(await queue.ids(now)).toEqual(['late']);
  });
});
