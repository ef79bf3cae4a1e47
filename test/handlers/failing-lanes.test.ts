/**
 * A lane that fails by an error of the store, or by an unexpected one, goes on where it was: no object of it waits for
 * longer than the error lasts. The store fails at the calls that a test chooses.
 */
import { createHash } from 'node:crypto';
import { expect, onTestFinished, test, vi } from 'vitest';
import type { Context } from '../../src/context.ts';
import { isWaitingSlot } from '../../src/metadata/background/hourly-queues.ts';
import { queueSlot } from '../../src/metadata/background/queues.ts';
import { hourlyQueues } from '../../src/metadata/records/queues.ts';
import { StorageFull } from '../../src/ports/chunk-store.ts';
import { isStoreFailure, type SideChange } from '../../src/ports/metadata-store.ts';
import { deliverNotifications } from '../../src/workers/deliveries.ts';
import { keysIn, openNotifyWorld, recordsIn, rule, targetsAt, until } from '../support/notify-world.ts';
import { openWebhookSink, status } from '../support/webhook-sink.ts';

type Kind = 'put' | 'remove';

function isOfSlot(change: SideChange, kind: Kind, isWaiting: boolean): boolean {
  const { table, in: place } = change.at as {
    readonly table: unknown;
    readonly in: { readonly slot: number };
  };
  return table === hourlyQueues && kind in change && isWaitingSlot(place.slot) === isWaiting;
}

/** A store that refuses the next writes of this kind to rows that wait, each with the next error. */
function failingAtWaiting(kind: Kind) {
  const errors: Error[] = [];
  const state = { writes: 0 };
  const wrap = (context: Context): Context => {
    const { metadata } = context;
    const apply: typeof metadata.apply = async (changes) => {
      if (changes.some((change) => isOfSlot(change, kind, true))) {
        state.writes += 1;
        const error = errors.shift();
        if (error !== undefined) throw error;
      }
      return metadata.apply(changes);
    };
    return { ...context, metadata: Object.create(metadata, { apply: { value: apply } }) };
  };
  return { errors, state, wrap };
}

/** One leader for the whole test, which begins anew only after an error that ends the delivery. */
function lead(context: Context): void {
  const stop = new AbortController();
  const run = async (): Promise<void> => {
    while (!stop.signal.aborted)
      await deliverNotifications(context)(stop.signal).catch((cause: unknown) => {
        if (!stop.signal.aborted && !isStoreFailure(cause)) throw cause;
      });
  };
  const ended = run();
  onTestFinished(async () => {
    stop.abort();
    await ended;
  });
}

test.each<readonly [how: string, kind: Kind, errors: () => readonly Error[]]>([
  ['a full disk and then by an unexpected error', 'put', () => [new StorageFull('full'), new Error('once')]],
  ['a full disk', 'put', () => [new StorageFull('full'), new StorageFull('full')]],
  ['unexpected errors', 'put', () => [new Error('once'), new Error('twice')]],
  ['an unexpected error after its delivery', 'remove', () => [new Error('once')]],
])(
  'a refused event whose row could not be written by %s is delivered afterwards',
  async (_, kind, errors) => {
    await using sink = await openWebhookSink();
    sink.answer = (reply, request) =>
      (request.body.includes('"poison"') ? status(500) : status(204))(reply, request);
    const store = failingAtWaiting(kind);
    await using world = await openNotifyWorld({ targets: targetsAt({ hook: sink }), wrap: store.wrap });
    store.errors.push(...errors());
    await world.client.put('/bucket/poison', { body: 'x' });
    lead(world.world.context);
    await vi.waitFor(() => expect(keysIn(sink.received)).toContain('poison'), until);
    let rounds = 0;
    const settles = (isSettled: () => Promise<boolean>): Promise<void> =>
      vi.waitFor(
        async () => {
          rounds += 1;
          world.clock.hurry(1_000);
          expect(await isSettled()).toBe(true);
        },
        { timeout: 60_000, interval: 50 },
      );
    if (kind === 'put') await settles(async () => store.errors.length === 0);
    sink.answer = status(204);
    await settles(async () => (await world.queued()).length === 0);
    expect(store.errors).toEqual([]);
    // Each error is followed by a rest.
    expect(store.state.writes).toBeLessThan(rounds);
    // Later events of the object are delivered too.
    sink.received.length = 0;
    await world.client.put('/bucket/poison', { body: 'later' });
    await vi.waitFor(() => expect(keysIn(sink.received)).toEqual(['poison']), until);
  },
);

test('an event that follows a refused one of its object is delivered after the delivery of another in its slot has failed', async () => {
  await using sink = await openWebhookSink();
  sink.answer = (reply, request) =>
    (request.body.includes('"name":"bucket"') ? status(500) : status(204))(reply, request);
  const state = { isFailing: true, failures: 0 };
  const wrap = (context: Context): Context => {
    const { metadata } = context;
    const apply: typeof metadata.apply = async (changes) => {
      if (state.isFailing && changes.some((change) => isOfSlot(change, 'remove', false))) {
        state.failures += 1;
        throw new Error('the end of a delivery cannot be stored');
      }
      return metadata.apply(changes);
    };
    return { ...context, metadata: Object.create(metadata, { apply: { value: apply } }) };
  };
  await using world = await openNotifyWorld({ targets: targetsAt({ hook: sink }), wrap });
  await world.client.put('/other');
  const body = `<NotificationConfiguration>${rule('hook')}</NotificationConfiguration>`;
  expect((await world.client.put('/other?notification', { body })).status).toBe(200);
  // Without the test events of the configurations.
  state.isFailing = false;
  lead(world.world.context);
  await world.client.put('/bucket/k', { body: 'x' });
  await vi.waitFor(async () => expect(await world.queued()).toHaveLength(1), until);
  await vi.waitFor(() => expect(keysIn(sink.received)).toContain('k'), until);
  state.isFailing = true;
  await world.client.put('/other/k', { body: 'x' });
  await vi.waitFor(() => expect(state.failures).toBe(1), until);
  // The lane rests now. Its next pass reads both.
  await world.client.put('/bucket/k', { body: 'later' });
  await vi.waitFor(() => expect(state.failures).toBe(2), until);
  state.isFailing = false;
  sink.answer = status(204);
  await vi.waitFor(
    async () => {
      world.clock.hurry(1_000);
      expect(await world.queued()).toEqual([]);
    },
    { timeout: 60_000, interval: 50 },
  );
});

test('while the store takes no rows, events behind refused ones are delivered, and those of refused objects keep their order', async () => {
  await using sink = await openWebhookSink();
  const poison = (request: { readonly body: string }): boolean => request.body.includes('"key":"poison');
  sink.answer = (reply, request) => (poison(request) ? status(500) : status(204))(reply, request);
  const state = { isFull: false, refused: 0 };
  const wrap = (context: Context): Context => {
    const { metadata } = context;
    const apply: typeof metadata.apply = async (changes) => {
      if (state.isFull && changes.every((change) => 'put' in change)) {
        state.refused += 1;
        throw new StorageFull('full');
      }
      return metadata.apply(changes);
    };
    return { ...context, metadata: Object.create(metadata, { apply: { value: apply } }) };
  };
  await using world = await openNotifyWorld({
    targets: targetsAt({ hook: sink }),
    wrap,
  });
  const slot = queueSlot('poison-0');
  const inSlot = (name: string): readonly string[] =>
    Array.from({ length: 2_000 }, (_, n) => `${name}-${n}`).filter((key) => queueSlot(key) === slot);
  const bad = inSlot('poison').slice(0, 5);
  const good = inSlot('good').slice(0, 40);
  for (const key of bad) await world.client.put(`/bucket/${key}`, { body: 'first' });
  for (const key of good) await world.client.put(`/bucket/${key}`, { body: 'x' });
  for (const key of bad) await world.client.put(`/bucket/${key}`, { body: 'second' });
  state.isFull = true;
  const stop = new AbortController();
  const ended = deliverNotifications(world.world.context)(stop.signal);
  onTestFinished(async () => {
    stop.abort();
    await ended;
  });
  await vi.waitFor(() => expect(keysIn(sink.received)).toEqual(expect.arrayContaining([...good])), until);
  await vi.waitFor(() => {
    world.clock.hurry(1_000);
    expect(state.refused).toBeGreaterThan(3);
  }, until);
  sink.answer = status(204);
  state.isFull = false;
  sink.received.length = 0;
  await vi.waitFor(async () => {
    world.clock.hurry(1_000);
    expect(await world.queued()).toEqual([]);
  }, until);
  const [first, second] = ['first', 'second'].map((text) => createHash('md5').update(text).digest('hex'));
  for (const key of bad) {
    const tags = recordsIn(sink.received).flatMap(({ s3 }) => (s3.object.key === key ? s3.object.eTag : []));
    expect(tags).toContain(first);
    expect(tags.lastIndexOf(first), tags.join()).toBeLessThan(tags.indexOf(second));
  }
  // The delivery has not ended.
  expect(await Promise.race([ended, 'runs'])).toBe('runs');
});
