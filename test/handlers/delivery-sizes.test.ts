/** How many events a delivery has: a target gets few at a time only where it needs long for each of them. */
import { expect, test, vi } from 'vitest';
import { openSinks } from '../../src/backends/sinks/open-sinks.ts';
import type { Context } from '../../src/context.ts';
import { systemClock } from '../../src/ports/clock.ts';
import type { EventSink, EventSinks, SinkMessage } from '../../src/ports/event-sink.ts';
import { openNotifyWorld, targetsAt, until } from '../support/notify-world.ts';
import { openWebhookSink, status } from '../support/webhook-sink.ts';

/**
 * The sizes of the deliveries of an event and of 100 others that are queued meanwhile.
 * @param callMs what a delivery takes, however many events it has
 * @param waitedMs how long it waits before for deliveries of others
 */
async function deliverBacklog({ callMs, waitedMs }: { readonly callMs: number; readonly waitedMs: number }) {
  await using receiver = await openWebhookSink();
  const sizes: number[] = [];
  let queued = Promise.resolve();
  const slow = (sink: EventSink): EventSink => ({
    async deliver(messages, signal) {
      sizes.push(messages.length);
      await queued;
      world.clock.hurry(waitedMs + callMs);
      return { ...(await sink.deliver(messages, signal)), waitedMs };
    },
    close: () => sink.close(),
  });
  const slowly = (sinks: EventSinks | undefined): EventSinks => ({
    async open(id) {
      const sink = (await sinks?.open(id)) ?? 'no sinks';
      return typeof sink === 'string' ? sink : slow(sink);
    },
    close: async () => sinks?.close(),
  });
  const wrap = (context: Context): Context => ({ ...context, sinks: slowly(context.sinks) });
  // The machine may need long for a delivery too; by this clock that is nothing.
  await using world = await openNotifyWorld({ targets: targetsAt({ hook: receiver }), wrap, slower: 1_000 });
  // Events of one object are delivered one after the other.
  const put = () => world.client.put('/bucket/key', { body: 'x' });
  const arrive = () => vi.waitFor(async () => expect(await world.queued()).toEqual([]), until);
  world.worker.start();
  // The test event of the configuration comes first.
  await arrive();
  const { promise, resolve } = Promise.withResolvers<void>();
  queued = promise;
  for (let n = 0; n < 100; n += 1) await put();
  resolve();
  await arrive();
  return sizes;
}

test('a target that needs as long for one event as for many gets many at a time, also after a single one', async () => {
  const sizes = await deliverBacklog({ callMs: 300, waitedMs: 0 });
  expect(Math.max(...sizes)).toBeGreaterThan(16);
  expect(sizes.length).toBeLessThan(30);
});

test('deliveries that wait for those of others are as large as ones that do not wait', async () => {
  const sizes = await deliverBacklog({ callMs: 300, waitedMs: 2_000 });
  expect(Math.max(...sizes)).toBeGreaterThan(16);
  expect(sizes.length).toBeLessThan(30);
});

test('a target that needs long gets one event at a time', async () => {
  const sizes = await deliverBacklog({ callMs: 16_000, waitedMs: 0 });
  expect(sizes.slice(-90)).toEqual(Array.from({ length: 90 }, () => 1));
});

test('a delivery says how long it waited for a connection that others used', async () => {
  await using receiver = await openWebhookSink();
  const answerMs = 300;
  receiver.answer = (reply, request) => void setTimeout(() => status(204)(reply, request), answerMs);
  const target = { id: 'hook', type: 'webhook' as const, accounts: ['*'], url: receiver.url };
  await using world = await openNotifyWorld({ targets: [] });
  const { hasher } = world.world.context;
  const sinks = openSinks([target], { mayReach: () => true, hasher, clock: systemClock, timeoutMs: 60_000 });
  const sink = await sinks.open('hook');
  if (typeof sink === 'string') throw new Error(sink);
  const message = (n: number): SinkMessage => ({
    id: `${n}`,
    subject: `bucket/${n}`,
    owner: 'alice',
    body: '{}',
    contentType: 'application/json',
  });
  const deliver = (n: number) => sink.deliver([message(n)], AbortSignal.timeout(60_000));
  const deliveries = await Promise.all(Array.from({ length: 20 }, (_, n) => deliver(n)));
  await sinks.close();
  expect(deliveries.map(({ delivered }) => delivered)).toEqual(deliveries.map(() => 1));
  const waits = deliveries.map(({ waitedMs = 0 }) => waitedMs);
  // One owner has 16 connections. The others wait for the first answer at least.
  expect(Math.max(...waits.slice(0, 16))).toBeLessThan(Math.min(...waits.slice(16)));
  expect(Math.min(...waits.slice(16))).toBeGreaterThan(answerMs / 2);
});
