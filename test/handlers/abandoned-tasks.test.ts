/** Dead letters and failed replications: what one tenant asks reads no rows of others, and what nobody retries expires. @storage */
import { describe, expect, test } from 'vitest';
import { beginBounds, boundQueues } from '../../src/domain/event-deliveries/queue-retention.ts';
import { dueRowsOfHour } from '../../src/metadata/background/hourly-consumer.ts';
import { laneSlot, queuedByHour, scanHours } from '../../src/metadata/background/hourly-queues.ts';
import { deadLetter, everyDeadLetter } from '../../src/metadata/background/queues.ts';
import { everyFailedReplication, failedReplication } from '../../src/metadata/background/replication.ts';
import type { QueueRow } from '../../src/metadata/records/queues.ts';
import type { MetadataStore } from '../../src/ports/metadata-store.ts';
import { countRows, type SeenRows } from '../support/counted-rows.ts';
import { faulty } from '../support/faulty.ts';
import { backends, type GatewayWorld, openGateway, operator } from '../support/gateway.ts';
import { hurriedClock } from '../support/notify-world.ts';

const dayMs = 86_400_000;
const targets = JSON.stringify(
  ['hook', 'hooks'].map((id) => ({ id, type: 'webhook', url: 'http://127.0.0.1:9/', accounts: ['*'] })),
);

/** Counts the rows that are read of the queues of tasks that were given up. */
function countReads() {
  const reads: SeenRows = { rows: 0, onPage: () => {} };
  const wrap = (metadata: MetadataStore): MetadataStore =>
    faulty(countRows(metadata, 'queues', reads).metadata, {
      get: async (at, key) => {
        if (at.table.name === 'queues') reads.rows += 1;
        return metadata.get(at, key);
      },
    });
  return { reads, wrap };
}

const rowOf = (id: string, task: object): QueueRow => ({
  ...{ queue: 'any', slot: 0, id, requestId: 'R', attempts: 5, due: 1_000, task },
});

interface Seeded {
  readonly bucket: string;
  readonly count: number;
  readonly lifeMs?: number;
  readonly peer?: string;
}

async function seedFailures(world: GatewayWorld, { bucket, count, lifeMs = dayMs, peer = '' }: Seeded) {
  const { metadata } = world.context;
  const now = await metadata.now();
  const to = peer === '' ? 'arn:aws:s3:::far' : `arn:sluice:replication::${peer}:far`;
  const version = { version: '0'.repeat(32), isNull: false, destination: { Bucket: to } };
  for (let n = 0; n < count; n += 1) {
    const row = rowOf(`${bucket}-${n}`, { bucket, bucketId: bucket, key: `key ${n}`, ...version });
    await metadata.apply(failedReplication(row, { error: 'gone', now, expiresAt: now + lifeMs }));
  }
}

async function seedLetters(world: GatewayWorld, { target, bucket, count }: Seeded & { target: string }) {
  const { metadata } = world.context;
  const now = await metadata.now();
  for (let n = 0; n < count; n += 1) {
    const row = rowOf(`${target}-${bucket}-${n}`, { sink: target, message: { Bucket: bucket } });
    const given = { error: 'gone', now: now + n, expiresAt: now + dayMs, bucket };
    await metadata.apply(deadLetter(row, given));
  }
}

async function openSeeded(
  backend: (typeof backends)[number],
  around = (metadata: MetadataStore): MetadataStore => metadata,
) {
  const { reads, wrap } = countReads();
  const clock = hurriedClock();
  const world = await openGateway({
    backend,
    clock,
    settings: { SVC_NOTIFY_TARGETS: targets, SVC_EGRESS_ALLOW: '127.0.0.1' },
    wrap: (context) => ({ ...context, metadata: wrap(around(context.metadata)) }),
  });
  const admin = world.as({ credential: operator });
  const ask = async (method: 'get' | 'post', path: string, body?: object) => {
    const options = body === undefined ? {} : { body: JSON.stringify(body) };
    const answer = await admin[method](`/admin/v1/${path}`, options);
    expect([answer.status, answer.text]).toEqual([200, expect.any(String)]);
    return JSON.parse(answer.text);
  };
  return Object.assign(world, { reads, clock, ask, [Symbol.asyncDispose]: () => world.close() });
}

describe.each(backends)('on %s', (backend) => {
  test('failed replications of a bucket are listed, counted and retried without reading those of others', async () => {
    await using world = await openSeeded(backend);
    await world.client.put('/quiet');
    await seedFailures(world, { bucket: 'busy', count: 300 });
    await seedFailures(world, { bucket: 'quiet', count: 3 });
    world.reads.rows = 0;
    expect((await world.client.get('/admin/v1/buckets/quiet/replication')).status).toBe(200);
    expect((await world.ask('get', 'replication/failed?bucket=quiet')).failed).toHaveLength(3);
    expect(await world.ask('post', 'replication/retry', { bucket: 'quiet' })).toMatchObject({ retried: 3 });
    expect(world.reads.rows).toBeLessThan(30);
    expect((await world.ask('get', 'replication/failed?bucket=quiet')).failed).toEqual([]);
    const left = (await world.ask('get', 'replication/failed?limit=1000')).failed;
    expect(left).toHaveLength(300);
    // A page of the list by bucket goes on where the former one ended.
    const first = await world.ask('get', 'replication/failed?bucket=busy&limit=200');
    const second = await world.ask('get', `replication/failed?bucket=busy&limit=200&after=${first.next}`);
    const ids = [...first.failed, ...second.failed].map(({ id }: { id: string }) => id);
    expect(new Set(ids).size).toBe(300);
    expect(ids).toEqual(left.map(({ id }: { id: string }) => id));
  });

  // Cassandra and TiKV let rows expire by their own clocks.
  const hasOwnTime = backend === 'ordered-kv' || backend === 'wide-column';
  test.skipIf(hasOwnTime)(
    'failed replications expire after SVC_REPLICATION_FAILED_RETENTION, with their entries',
    async () => {
      await using world = await openSeeded(backend);
      const lifeMs = world.context.config.SVC_REPLICATION_FAILED_RETENTION;
      expect(lifeMs).toBe(30 * dayMs);
      await seedFailures(world, { bucket: 'quiet', count: 3, lifeMs });
      world.clock.hurry(lifeMs - dayMs);
      expect((await world.ask('get', 'replication/failed')).failed).toHaveLength(3);
      world.clock.hurry(2 * dayMs);
      for (const query of ['', '?bucket=quiet'])
        expect((await world.ask('get', `replication/failed${query}`)).failed).toEqual([]);
      world.reads.rows = 0;
      await world.ask('get', 'replication/failed?bucket=quiet');
      expect(world.reads.rows).toBe(0);
    },
  );

  test('dead letters of a target and of a bucket are redriven and discarded without reading those of others', async () => {
    await using world = await openSeeded(backend);
    await seedLetters(world, { target: 'hook', bucket: 'busy', count: 300 });
    await seedLetters(world, { target: 'hook', bucket: 'quiet', count: 2 });
    await seedLetters(world, { target: 'hooks', bucket: 'quiet', count: 4 });
    world.reads.rows = 0;
    expect(await world.ask('post', 'notify/redrive', { target: 'hooks' })).toMatchObject({ redriven: 4 });
    expect(await world.ask('post', 'notify/discard', { bucket: 'quiet' })).toMatchObject({ discarded: 2 });
    expect(world.reads.rows).toBeLessThan(40);
    for (const filter of [{ target: 'hooks' }, { bucket: 'quiet' }])
      expect(await world.ask('post', 'notify/discard', filter)).toMatchObject({ discarded: 0 });
    expect(await world.ask('post', 'notify/discard', { target: 'hook' })).toMatchObject({ discarded: 300 });
    expect((await world.ask('get', 'notify/dead-letters')).rows).toEqual([]);
  });
});

test('beyond SVC_QUEUE_ROWS_MAX the account with the most dead letters and failures loses its oldest, and no other one', async () => {
  await using world = await openGateway({ settings: { SVC_QUEUE_ROWS_MAX: '1000' } });
  const { metadata } = world.context;
  const now = await metadata.now();
  const add = async (account: string, count: number, since: number) => {
    for (let n = 0; n < count; n += 1) {
      const given = { error: 'gone', now: since + n, expiresAt: now + dayMs, bucket: account };
      const letter = { sink: 'hook', message: { Bucket: account }, account };
      await metadata.apply(deadLetter(rowOf(`${account}-${n}`, letter), given));
      const failure = {
        bucket: account,
        key: `key ${n}`,
        account,
        destination: { Bucket: 'arn:aws:s3:::far' },
      };
      await metadata.apply(failedReplication(rowOf(`${account}-${n}`, failure), given));
    }
  };
  await add('small', 50, now - 5_000);
  await add('large', 1_300, now - 2_000);
  await boundQueues(world.context, beginBounds(), new AbortController().signal);
  for (const every of [everyDeadLetter, everyFailedReplication]) {
    const count = async (filter: { readonly bucket?: string; readonly target?: string }) => {
      const ids: string[] = [];
      for await (const { id } of every(metadata, filter)) ids.push(id);
      return ids;
    };
    expect(await count({ bucket: 'small' })).toHaveLength(50);
    const left = await count({ bucket: 'large' });
    expect(left).toContain('large-1299');
    expect(left).not.toContain('large-0');
    // Each of the 16 slots may lose one row more than its part.
    expect(left.length).toBeGreaterThan(950 - 16);
    expect(left.length).toBeLessThanOrEqual(950);
    expect(await count({})).toHaveLength(50 + left.length);
  }
});

test('a retry by peer or id reads a bounded number of failures of others, and a further call goes on behind them', async () => {
  await using world = await openSeeded('memory');
  await seedFailures(world, { bucket: 'busy', count: 6_000, peer: 'near' });
  await seedFailures(world, { bucket: 'quiet', count: 32, peer: 'remote' });
  const [one] = (await world.ask('get', 'replication/failed?bucket=quiet')).failed;
  const retry = async (filter: object) => {
    let retried = 0;
    let calls = 0;
    for (let after: string | undefined; ; calls += 1) {
      world.reads.rows = 0;
      const answer = await world.ask('post', 'replication/retry', { ...filter, after });
      expect(world.reads.rows).toBeLessThan(5_500);
      expect(answer.isTruncated).toBe(answer.last !== undefined);
      retried += answer.retried;
      after = answer.last;
      if (after === undefined) return { retried, calls };
    }
  };
  expect(await retry({ id: one.id })).toEqual({ retried: 1, calls: 1 });
  expect(await retry({ peer: 'remote' })).toEqual({ retried: 31, calls: 1 });
  expect((await world.ask('get', 'replication/failed?bucket=quiet')).failed).toEqual([]);
  // What is left after a page of failures that were changed is behind its last one.
  expect(await retry({ bucket: 'busy' })).toEqual({ retried: 6_000, calls: 5 });
  for (const after of ['1', 'x:1:id', '1:2:'])
    expect(
      (
        await world
          .as({ credential: operator })
          .post('/admin/v1/replication/retry', { body: JSON.stringify({ peer: 'remote', after }) })
      ).status,
    ).toBe(400);
});

test('a version whose replication fails again during a retry is not queued twice by it', async () => {
  const again = { left: 20 };
  await using world = await openSeeded('memory', (metadata) => ({
    ...metadata,
    apply: async (changes) => {
      await metadata.apply(changes);
      const failure = changes.find(
        (change) => 'remove' in change && change.at.table.name === 'queues' && 'queue' in change.at.in,
      );
      if (failure === undefined || again.left === 0) return;
      again.left -= 1;
      await new Promise((resolve) => setTimeout(resolve, 3));
      await seedFailures(world, { bucket: 'quiet', count: 1 });
    },
  }));
  await seedFailures(world, { bucket: 'quiet', count: 1 });
  for (const filter of [{ bucket: 'quiet' }, { id: 'quiet-0' }])
    expect(await world.ask('post', 'replication/retry', filter)).toEqual({ retried: 1, isTruncated: false });
  expect((await world.ask('get', 'replication/failed')).failed).toHaveLength(1);
  expect(again.left).toBe(18);
});

test('the dead letters of each target are counted alone, whatever another one has', async () => {
  await using world = await openSeeded('memory');
  await seedLetters(world, { target: 'hook', bucket: 'busy', count: 10_050 });
  await seedLetters(world, { target: 'hooks', bucket: 'quiet', count: 1 });
  const { targets: shown } = await world.ask('get', 'notify/targets');
  const counts = shown.map(({ id, deadLetters }: { id: string; deadLetters: number }) => [id, deadLetters]);
  expect(Object.fromEntries(counts)).toEqual({ hook: 10_000, hooks: 1 });
});

test.each([['target'], ['bucket']] as const)(
  'a redrive by %s puts an event before a later one of its object, whatever waits for another target',
  async (by) => {
    await using world = await openSeeded('memory');
    const { context } = world;
    const now = await context.metadata.now();
    const put = async (target: string, { key, due }: { key: string; due: number }, n: number) => {
      const message = { Records: [{ s3: { bucket: { name: target }, object: { key } } }] };
      const at = { queue: 'notify', slot: laneSlot(target, key) } as const;
      const options = { task: { sink: target, message }, id: `${target}-${n}`, due, requestId: 'R' };
      await context.metadata.apply([await queuedByHour(context, at, options)]);
      return message;
    };
    for (let n = 0; n < 20_100; n += 1) await put('hook', { key: `k${n}`, due: now - 10_000 }, n);
    const message = await put('hooks', { key: 'key', due: now - 5_000 }, 2);
    const letter = rowOf('hooks-1', { sink: 'hooks', message });
    const given = { error: 'gone', now, expiresAt: now + dayMs, bucket: 'hooks' };
    await context.metadata.apply(deadLetter(letter, given));
    expect(await world.ask('post', 'notify/redrive', { [by]: 'hooks' })).toMatchObject({ redriven: 1 });
    const slot = laneSlot('hooks', 'key');
    const rows: [string, number][] = [];
    for await (const place of scanHours(context.metadata, 'notify')) {
      if (place.slot !== slot) continue;
      for await (const { id, due } of dueRowsOfHour(context, place, { now: now + dayMs }))
        rows.push([id, due]);
    }
    // Right ahead of it: at the same time it could take the place of its own row, which the consumer is about to remove.
    expect(rows).toEqual([
      ['hooks-1', now - 5_001],
      ['hooks-2', now - 5_000],
    ]);
  },
);
