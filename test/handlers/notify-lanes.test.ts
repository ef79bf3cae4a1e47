/**
 * No event that its receiver refuses, and no backlog of a bucket, delays the events of others; and the events of an object arrive in their
 * order, whatever fails in between. The receiver records what it saw, and answers by what a test chooses.
 */
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { Caches } from '../../src/base/bounded-cache.ts';
import { inParallel } from '../../src/base/concurrency.ts';
import type { Context } from '../../src/context.ts';
import { LeaseLost } from '../../src/metadata/background/leases.ts';
import { queueSlot } from '../../src/metadata/background/queues.ts';
import { hourlyQueues } from '../../src/metadata/records/queues.ts';
import type { CommitOptions, MetadataStore, SideChange } from '../../src/ports/metadata-store.ts';
import { deliverNotifications } from '../../src/workers/deliveries.ts';
import { openDice } from '../support/dice.ts';
import { backends, bob, operator } from '../support/gateway.ts';
import { drained, keysIn, openNotifyWorld, rule, targetsAt, until } from '../support/notify-world.ts';
import { pausing } from '../support/pausing-store.ts';
import { type Answer, openWebhookSink, type Received, status } from '../support/webhook-sink.ts';

interface Seen {
  readonly bucket: string;
  readonly key: string;
  readonly sequencer: string;
}
const seenIn = ({ body }: Received): Seen | undefined => {
  const s3 = JSON.parse(body).Records?.[0]?.s3;
  return s3 && { bucket: s3.bucket.name, key: s3.object.key, sequencer: s3.object.sequencer };
};

type World = Awaited<ReturnType<typeof openNotifyWorld>>;

async function addBucket({ client }: Pick<World, 'client'>, name: string): Promise<void> {
  await client.put(`/${name}`);
  const body = `<NotificationConfiguration>${rule('hook')}</NotificationConfiguration>`;
  expect((await client.put(`/${name}?notification`, { body })).status).toBe(200);
}

const shown = async ({ world }: World) =>
  JSON.parse((await world.as({ credential: operator }).get('/admin/v1/notify/targets')).text).targets[0];

const ok = status(204);
/** Answers by the key of the event; test events are taken. */
const byKey =
  (isBad: (seen: Seen) => boolean, bad: Answer): Answer =>
  (reply, request) => {
    const seen = seenIn(request);
    (seen !== undefined && isBad(seen) ? bad : ok)(reply, request);
  };

describe.each(backends)('on %s', (backend) => {
  test.each<[how: string, bad: Answer]>([
    ['answers with 500', status(500)],
    ['answers with 403', status(403)],
    ['never answers', () => {}],
    ['drops the connection of', (reply) => reply.socket?.destroy()],
  ])('an event that its receiver %s delays no event of another object, in any bucket', async (_, bad) => {
    await using sink = await openWebhookSink();
    sink.answer = byKey(({ key }) => key.startsWith('poison'), bad);
    await using world = await openNotifyWorld({
      backend,
      targets: targetsAt({ hook: sink }),
      settings: { SVC_NOTIFY_TIMEOUT: '2s' },
    });
    await addBucket(world, 'other');
    await world.client.put('/bucket/poison', { body: 'x' });
    const keys = Array.from({ length: 50 }, (_unused, n) => `k${n}`);
    for (const key of keys) {
      await world.client.put(`/bucket/${key}`, { body: 'x' });
      await world.client.put(`/other/${key}`, { body: 'x' });
    }
    await world.client.put('/bucket/poison', { body: 'later' });
    world.worker.start();
    // Without the clock of the test moving on, so that no rest of the target ends.
    await vi.waitFor(
      () => expect(new Set(keysIn(sink.received).filter((key) => key !== 'poison')).size).toBe(keys.length),
      until,
    );
    await vi.waitFor(async () => expect(await world.queued()).toHaveLength(2), until);
    await vi.waitFor(
      async () =>
        expect(await shown(world)).toMatchObject({
          queued: 2,
          refused: { objects: 1, reasons: [{ error: expect.stringMatching(/./), objects: 1 }] },
        }),
      until,
    );
    // The later event of the object was never tried.
    const poison = new Set(
      sink.received.map(seenIn).flatMap((seen) => (seen?.key === 'poison' ? [seen.sequencer] : [])),
    );
    expect(poison.size).toBe(1);
    sink.answer = ok;
    await vi.waitFor(async () => {
      world.clock.hurry(1_000);
      expect(await world.queued()).toEqual([]);
    }, until);
    await vi.waitFor(async () => {
      world.clock.hurry(1_000);
      expect(await shown(world)).toMatchObject({
        state: 'ok',
        queued: 0,
        refused: { objects: 0, reasons: [] },
      });
    }, until);
  });
});

test('a bucket all of whose events are refused delays no other bucket, and its target is asked about few of them', async () => {
  await using sink = await openWebhookSink();
  sink.answer = byKey(({ bucket }) => bucket === 'bucket', status(500));
  await using world = await openNotifyWorld({ targets: targetsAt({ hook: sink }) });
  await addBucket(world, 'other');
  for (let n = 0; n < 200; n += 1) await world.client.put(`/bucket/bad-${n}`, { body: 'x' });
  for (let n = 0; n < 50; n += 1) await world.client.put(`/other/good-${n}`, { body: 'x' });
  world.worker.start();
  const arrived = (): number => new Set(keysIn(sink.received).filter((key) => key.startsWith('good'))).size;
  await vi.waitFor(() => expect(arrived()).toBe(50), until);
  // The bucket rests after some refusals in a row; those that were on their way are more.
  expect(keysIn(sink.received).filter((key) => key.startsWith('bad')).length).toBeLessThan(100);
  await world.client.put('/other/later', { body: 'x' });
  await vi.waitFor(() => expect(keysIn(sink.received)).toContain('later'), until);
  sink.answer = ok;
  await vi.waitFor(async () => {
    world.clock.hurry(1_000);
    expect(await world.queued()).toEqual([]);
  }, until);
  expect(await world.letters()).toEqual([]);
});

test('a target that refuses events of several buckets rests as a whole, and the first event that it takes ends the rest', async () => {
  await using sink = await openWebhookSink();
  sink.answer = status(500);
  await using world = await openNotifyWorld({ targets: targetsAt({ hook: sink }) });
  for (const bucket of ['other', 'third']) await addBucket(world, bucket);
  for (let n = 0; n < 60; n += 1)
    for (const bucket of ['bucket', 'other', 'third'])
      await world.client.put(`/${bucket}/k${n}`, { body: 'x' });
  world.worker.start();
  await vi.waitFor(async () => expect(await shown(world)).toMatchObject({ state: 'failing' }), until);
  await new Promise((resolve) => setTimeout(resolve, 300));
  expect(sink.received.length).toBeLessThan(150);
  sink.answer = ok;
  await vi.waitFor(async () => {
    world.clock.hurry(1_000);
    expect(await world.queued()).toEqual([]);
  }, until);
  await vi.waitFor(async () => {
    world.clock.hurry(1_000);
    expect(await shown(world)).toMatchObject({ state: 'ok' });
  }, until);
});

test('an account all of whose buckets are refused delays no other account, however many buckets and events it has', async () => {
  await using sink = await openWebhookSink();
  sink.answer = byKey(({ bucket }) => bucket.startsWith('bad'), status(500));
  await using world = await openNotifyWorld({ targets: targetsAt({ hook: sink }), slower: 1_000 });
  const other = { ...world, client: world.world.as({ credential: bob }) };
  const buckets = Array.from({ length: 12 }, (_, n) => `bad-${n}`);
  for (const name of buckets) await addBucket(other, name);
  // Each pass over a lane begins with the first of its slots.
  const key = Array.from({ length: 1_000 }, (_, n) => `k${n}`).filter((each) => queueSlot(each) === 0);
  let added = 0;
  const add = async (): Promise<void> => {
    const name = buckets[added % buckets.length];
    added += 1;
    expect((await other.client.put(`/${name}/${key[added % key.length]}`, { body: 'x' })).status).toBe(200);
  };
  for (let n = 0; n < 240; n += 1) await add();
  world.worker.start();
  await vi.waitFor(() => expect(sink.received.length).toBeGreaterThan(30), until);
  const good = Array.from({ length: 20 }, (_, n) => `good-${n}`);
  for (const name of good) {
    await add();
    await world.client.put(`/bucket/${name}`, { body: 'x' });
    // No rest ends meanwhile, because the clock is slow.
    await vi.waitFor(() => expect(keysIn(sink.received)).toContain(name), until);
  }
  // The receiver is spared: the account rests as a whole.
  expect(keysIn(sink.received).filter((each) => !each.startsWith('good')).length).toBeLessThan(240);
  sink.answer = ok;
  await vi.waitFor(async () => {
    world.clock.hurry(1_000);
    expect(await world.queued()).toEqual([]);
  }, until);
});

// What a receiver that was away, and is back, gets first: rows that it refuses delay their own account only (ADR 33).
test.each<[how: string, owner: string, bad: Answer]>([
  ['answers with 500', 'another account', status(500)],
  ['never answers', 'another account', () => {}],
  ['answers with 500', 'the same account', status(500)],
])(
  'after an outage of a target, events that it %s of buckets of %s delay no event of others',
  async (how, owner, bad) => {
    const down = await openWebhookSink();
    await using world = await openNotifyWorld({
      targets: targetsAt({ hook: down }),
      settings: { SVC_NOTIFY_TIMEOUT: how === 'never answers' ? '2s' : '10s' },
    });
    const { client, clock } = world;
    const other = owner === 'another account' ? world.world.as({ credential: bob }) : client;
    const body = `<NotificationConfiguration>${rule('hook')}</NotificationConfiguration>`;
    const refused = ['bad-1', 'bad-2'];
    for (const name of refused) {
      await other.put(`/${name}`);
      expect((await other.put(`/${name}?notification`, { body })).status).toBe(200);
      // They are queued first, and in every slot.
      for (let n = 0; n < 150; n += 1) await other.put(`/${name}/k${n}`, { body: 'x' });
    }
    for (let n = 0; n < 50; n += 1) await client.put(`/bucket/good-${n}`, { body: 'x' });
    await down[Symbol.asyncDispose]();
    world.worker.start();
    let seconds = 0;
    const step = async (ms: number): Promise<void> => {
      await clock.pass(ms);
      seconds += ms / 1_000;
    };
    while (seconds < 200) await step(2_000);
    await using sink = await openWebhookSink(down.port);
    sink.answer = byKey(({ bucket }) => bucket.startsWith('bad'), bad);
    const recoveredAt = seconds;
    const arrived = (): number => new Set(keysIn(sink.received).filter((key) => key.startsWith('good'))).size;
    while (arrived() < 50 && seconds - recoveredAt < 200) await step(250);
    expect(arrived()).toBe(50);
    // Its last rest when it came back, of up to a minute, and the time-outs of a few events: these run by the real clock.
    expect(seconds - recoveredAt).toBeLessThan(110);
    sink.answer = ok;
    await vi.waitFor(async () => {
      clock.hurry(1_000);
      expect(await world.queued()).toEqual([]);
    }, until);
  },
);

test('a long backlog of a bucket does not delay the events of another one', async () => {
  await using sink = await openWebhookSink();
  await using world = await openNotifyWorld({ targets: targetsAt({ hook: sink }) });
  await addBucket(world, 'other');
  const backlog = 8_000;
  await Promise.all(
    Array.from({ length: 32 }, async (_, lane) => {
      for (let n = lane; n < backlog; n += 32) await world.client.put(`/bucket/b${n}`, { body: 'x' });
    }),
  );
  for (let n = 0; n < 16; n += 1) await world.client.put(`/other/o${n}`, { body: 'x' });
  world.worker.start();
  const others = (): number => new Set(keysIn(sink.received).filter((key) => key.startsWith('o'))).size;
  let before = 0;
  await vi.waitFor(() => {
    expect(others()).toBe(16);
    before ||= sink.received.length;
  }, until);
  // Each slot delivers its share of the long backlog first.
  expect(before).toBeLessThan(backlog * 0.8);
  await drained(world);
  expect(new Set(keysIn(sink.received)).size).toBe(backlog + 16);
});

/** Buckets of bob, each with an event. */
async function addOthers({ world }: World, buckets: number): Promise<void> {
  const client = world.as({ credential: bob });
  await inParallel(16, Array.from({ length: buckets }), async (_, n) => {
    await addBucket({ client }, `bad-${n}`);
    await client.put(`/bad-${n}/k`, { body: 'x' });
  });
}
const bucketsIn = (received: readonly Received[]): readonly string[] =>
  received.flatMap((each) => seenIn(each)?.bucket ?? []);

test('an event that waits is tried again while waiting events of another account take all of their turns, in any number of buckets', async () => {
  await using sink = await openWebhookSink();
  sink.answer = byKey(() => true, status(500));
  await using world = await openNotifyWorld({
    targets: targetsAt({ hook: sink }),
    settings: { SVC_NOTIFY_TIMEOUT: '5m' },
  });
  const { client, clock } = world;
  await addOthers(world, 20);
  world.worker.start();
  await vi.waitFor(() => expect(new Set(bucketsIn(sink.received)).size).toBe(20), until);
  // They are on their way from now on.
  const retried: Received[] = [];
  sink.answer = (_reply, request) => void retried.push(request);
  await clock.pass(2_000);
  await vi.waitFor(() => expect(new Set(bucketsIn(retried)).size).toBeGreaterThan(6), until);
  sink.answer = byKey(() => true, status(500));
  await client.put('/bucket/poison', { body: 'x' });
  await vi.waitFor(() => expect(keysIn(sink.received)).toContain('poison'), until);
  sink.received.length = 0;
  for (let round = 0; round < 10 && sink.received.length === 0; round += 1) await clock.pass(1_000);
  expect(keysIn(sink.received)).toContain('poison');
});

test('every waiting event has its turn, in however many buckets others wait', async () => {
  await using sink = await openWebhookSink();
  sink.answer = byKey(() => true, status(500));
  await using world = await openNotifyWorld({ targets: targetsAt({ hook: sink }) });
  const { clock } = world;
  const buckets = 280;
  await addOthers(world, buckets);
  world.worker.start();
  await vi.waitFor(() => expect(new Set(bucketsIn(sink.received)).size).toBe(buckets), until);
  sink.received.length = 0;
  const seen = (): number => new Set(bucketsIn(sink.received)).size;
  // Each round ends the rests of all.
  for (let round = 0; round < 40 && seen() < buckets; round += 1) await clock.pass(61_000);
  expect(seen()).toBe(buckets);
});

/** A store that answers scans late and in short pages, as one across a network may. */
function slowScans(context: Context): Context {
  const { metadata } = context;
  const scan: typeof metadata.scan = (...call) => {
    const cursor = metadata.scan(...call);
    return Object.assign(Object.create(cursor), {
      next: async (count: number) => {
        await new Promise((resolve) => setTimeout(resolve, 1));
        return cursor.next(Math.min(count, 8));
      },
    });
  };
  return { ...context, metadata: Object.create(metadata, { scan: { value: scan } }) };
}

/** The order of the events of each object as a receiver sees it, repetitions left out. */
function assertOrder(received: readonly Received[]): void {
  const last = new Map<string, string>();
  const known = new Set<string>();
  for (const each of received) {
    const seen = seenIn(each);
    if (seen === undefined) continue;
    const object = `${seen.bucket}/${seen.key}`;
    const event = `${object} ${seen.sequencer}`;
    if (known.has(event)) continue;
    known.add(event);
    expect((last.get(object) ?? '') < seen.sequencer, `${event} after ${last.get(object)}`).toBe(true);
    last.set(object, seen.sequencer);
  }
}

test('objects whose rests end while their rows are read keep their order', async () => {
  const seed = Number(process.env['SEED'] ?? Math.floor(Math.random() * 2 ** 31));
  onTestFinished(({ task }) => void (task.result?.state === 'fail' && console.error(`SEED=${seed}`)));
  const dice = openDice(seed);
  await using sink = await openWebhookSink();
  const taken: Received[] = [];
  sink.answer = (reply, request) => {
    const isBad = seenIn(request) !== undefined && dice.chance(2);
    if (!isBad) taken.push(request);
    (isBad ? status(500) : ok)(reply, request);
  };
  await using world = await openNotifyWorld({ targets: targetsAt({ hook: sink }) });
  // Objects of one slot: a pass that one of them is due for reads the rows of those that still rest.
  const slot = queueSlot('k0');
  const keys = Array.from({ length: 2_000 }, (_, n) => `k${n}`)
    .filter((key) => queueSlot(key) === slot)
    .slice(0, 8);
  const rounds = 6;
  for (let n = 0; n < rounds; n += 1)
    for (const key of keys) await world.client.put(`/bucket/${key}`, { body: `${n}` });
  // Time passes between two rows.
  const { metadata } = world.world.context;
  const scan: typeof metadata.scan = (...call) => {
    const cursor = metadata.scan(...call);
    const next: typeof cursor.next = async () => {
      world.clock.hurry(dice.roll(40));
      return cursor.next(1);
    };
    return Object.assign(Object.create(cursor), { next });
  };
  const stop = new AbortController();
  const slow = { ...world.world.context, metadata: Object.create(metadata, { scan: { value: scan } }) };
  const ended = deliverNotifications(slow)(stop.signal);
  await vi.waitFor(async () => {
    world.clock.hurry(500);
    expect(await world.queued()).toEqual([]);
  }, until);
  stop.abort();
  await ended;
  assertOrder(taken);
  expect(taken.filter((each) => seenIn(each) !== undefined).length).toBe(rounds * keys.length);
});

test.each(Array.from({ length: 4 }, (_, n) => n))(
  'the events of an object arrive in their order through random refusals, and losses of the leader: run %i',
  async () => {
    const seed = Number(process.env['SEED'] ?? Math.floor(Math.random() * 2 ** 31));
    onTestFinished(({ task }) => void (task.result?.state === 'fail' && console.error(`SEED=${seed}`)));
    const dice = openDice(seed);
    await using sink = await openWebhookSink();
    const taken: Received[] = [];
    let mood = 0;
    const bad: readonly Answer[] = [
      status(503),
      status(500),
      (reply) => reply.socket?.destroy(),
      status(429),
    ];
    sink.answer = (reply, request) => {
      const isBad = dice.roll(100) < mood;
      // A lost answer: the receiver has the event, and gets it again.
      if (!isBad || dice.chance(10)) taken.push(request);
      ((isBad ? dice.pick(bad) : undefined) ?? ok)(reply, request);
    };
    await using world = await openNotifyWorld({ targets: targetsAt({ hook: sink }) });
    const buckets = ['bucket', 'other', 'third'];
    for (const bucket of buckets.slice(1)) await addBucket(world, bucket);
    let written = 0;
    const write = async (events: number): Promise<void> => {
      for (let n = 0; n < events; n += 1) {
        await world.client.put(`/${dice.pick(buckets)}/k${dice.roll(6)}`, { body: `${n}` });
        written += 1;
      }
    };
    /** A leader of its own process: it knows nothing of what others have in memory. */
    const lead = () => {
      const stop = new AbortController();
      const context = slowScans({ ...world.world.context, caches: new Caches() });
      const ended = deliverNotifications(context)(stop.signal).catch((cause: unknown) => {
        if (!stop.signal.aborted) throw cause;
      });
      return async () => {
        stop.abort();
        await ended;
      };
    };
    // More than a slot holds in memory.
    await write(1_500);
    for (let round = 0; round < 8; round += 1) {
      mood = dice.pick([1, 3, 30, 100]);
      const stop = lead();
      await write(40);
      for (let step = 0; step < 6; step += 1) {
        await new Promise((resolve) => setTimeout(resolve, dice.roll(40)));
        world.clock.hurry(dice.roll(3_000));
      }
      await stop();
    }
    mood = 0;
    const stop = lead();
    await drained(world, { hurryMs: 1_000 });
    await stop();
    assertOrder(taken);
    const events = new Set(
      taken.map(seenIn).flatMap((seen) => (seen ? [`${seen.bucket}/${seen.key} ${seen.sequencer}`] : [])),
    );
    expect(events.size).toBe(written);
  },
);

test('the events of an object arrive in their order where a leader that lost its lease goes on moving rows', async () => {
  await using sink = await openWebhookSink();
  const taken: Received[] = [];
  /** Whether a call puts a row into another lane, or removes it from its own by the leader's term. */
  const isMove = (name: string, call: readonly unknown[]): boolean => {
    const [first, , options] = call as [readonly SideChange[], unknown, CommitOptions | undefined];
    const changes =
      name === 'apply'
        ? first.filter((change) => 'put' in change)
        : name === 'commit'
          ? (options?.then ?? [])
          : [];
    return changes.some(({ at }) => at.table === hourlyQueues);
  };
  const isAny = (): boolean => true;
  const lead = (
    context: Context,
    { metadata, generation }: { readonly metadata: MetadataStore; readonly generation: number },
  ) => {
    const stop = new AbortController();
    const unit = deliverNotifications({ ...context, caches: new Caches(), metadata }, generation);
    const ended = unit(stop.signal).catch((cause: unknown) => {
      if (!stop.signal.aborted && !(cause instanceof LeaseLost)) throw cause;
    });
    return { stop: () => stop.abort(), ended };
  };
  /** One object, of which the first event is refused once. @returns whether the later leader made so many calls */
  const run = async (lastMove: number, lastCall: number) => {
    await using world = await openNotifyWorld({ targets: targetsAt({ hook: sink }) });
    const { context } = world.world;
    const key = `/bucket/k${lastMove}-${lastCall}`;
    // Only its event, and not the test event of the configuration.
    sink.answer = byKey((seen) => seen.key !== undefined, status(500));
    const early = pausing(context.metadata, { isCounted: isMove, last: lastMove });
    await world.client.put(key, { body: '1' });
    const former = lead(context, { metadata: early.metadata, generation: 1 });
    await vi.waitFor(() => expect(early.isAsleep()).toBe(true), until);
    await world.client.put(key, { body: '2' });
    sink.answer = (reply, request) => {
      taken.push(request);
      ok(reply, request);
    };
    const late = pausing(context.metadata, { isCounted: isAny, last: lastCall });
    const leader = lead(context, { metadata: late.metadata, generation: 2 });
    await vi.waitFor(async () => {
      world.clock.hurry(100);
      expect(late.isAsleep() || (await world.queued()).length === 0).toBe(true);
    }, until);
    const isAsleep = late.isAsleep() && (await world.queued()).length > 0;
    // It learns that it has lost its lease, and finishes what it has begun.
    former.stop();
    early.wake();
    await former.ended;
    late.wake();
    await vi.waitFor(async () => {
      world.clock.hurry(1_000);
      expect(await world.queued()).toEqual([]);
    }, until);
    leader.stop();
    await leader.ended;
    return isAsleep;
  };
  /**
   * The former leader stops before it puts the row into the other lane, or before it removes it from its own; the later
   * one at every call.
   */
  let races = 0;
  for (const lastMove of [1, 2])
    for (let lastCall = 1; await run(lastMove, lastCall); lastCall += 1) races += 1;
  assertOrder(taken);
  expect(races).toBeGreaterThan(15);
});
