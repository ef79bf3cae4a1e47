/** The worker `access-log` delivers the logs of all accounts in rotation, however long the queued log of one of them is. */
import { expect, test } from 'vitest';
import type { Context } from '../../src/context.ts';
import { deliverAccessLogs } from '../../src/workers/deliveries.ts';
import { firstKeys, keysIn, logging, must, openLogs, policy } from '../support/delivered-logs.ts';
import { faulty } from '../support/faulty.ts';
import { bob } from '../support/gateway.ts';

const never = new AbortController().signal;

test('a long log whose objects are written slowly delays no log of another account', async () => {
  // Objects of a few lines each.
  await using logs = await openLogs('memory', { settings: { SVC_ACCESSLOG_OBJECT_SIZE: '4KiB' } });
  const { client, context, bob: bobs } = logs.world;
  await must(bobs.put('/bobs-logs'));
  await must(bobs.put('/bobs-logs?policy', { body: policy({ Resource: 'arn:aws:s3:::bobs-logs/*' }) }));
  const asBobs = logging().replace('>logs<', '>bobs-logs<');
  // Buckets of both in each slot, the others' as often behind bob's as before.
  const buckets = Array.from({ length: 16 }, (_, n) => n);
  for (const n of buckets) {
    await must(bobs.put(`/bobs-${n}`));
    await must(bobs.put(`/bobs-${n}?logging`, { body: asBobs }));
    await must(client.put(`/alices-${n}`));
    await must(client.put(`/alices-${n}?logging`, { body: logging() }));
  }
  for (const n of buckets) {
    for (let i = 0; i < 60; i += 1) await bobs.get(`/bobs-${n}/key-${n * 60 + i}`);
    await client.get(`/alices-${n}/key-${n}`);
  }
  await context.lateWrites.flush();
  const lines = await logs.queued();
  const written: string[] = [];
  const isBobs = (account: string): boolean => account === bob.owner;
  const { write } = context.bytes;
  const slow: Context = {
    ...context,
    bytes: faulty(context.bytes, {
      async write(source, options) {
        const { account = '' } = options as { readonly account?: string };
        written.push(account);
        if (isBobs(account)) await logs.clock.advance(1_000);
        return write.call(context.bytes, source, options);
      },
    }),
  };
  const pass = deliverAccessLogs(slow, 1);
  let passes = 1;
  while ((await pass(never)) === 'busy') passes += 1;
  const last = written.findLastIndex((account) => !isBobs(account));
  const before = written.slice(0, last).filter(isBobs).length;
  expect(written.filter(isBobs).length).toBeGreaterThan(60);
  expect(before).toBeLessThan(10);
  expect(passes).toBeGreaterThan(3);
  expect(await logs.queued()).toEqual([]);
  // Each line once.
  const keys = (await bobs.get('/bobs-logs?list-type=2')).all('Key');
  const texts: string[] = [];
  for (const key of keys) texts.push((await bobs.get(`/bobs-logs/${key}`)).text);
  expect(keysIn(texts.flatMap((text) => text.trimEnd().split('\n')))).toEqual(firstKeys(16 * 60));
  expect((await logs.delivered()).length + 16 * 60).toBe(lines.length);
});

test('logs that are refused slowly keep the worker from its rest no longer than others have lines, and delay no log beside them', async () => {
  await using logs = await openLogs('memory');
  const { client, context } = logs.world;
  await must(client.put('/closed'));
  const buckets = Array.from({ length: 12 }, (_, n) => n);
  for (const n of buckets) {
    await must(client.put(`/refused-${n}`));
    await must(client.put(`/refused-${n}?logging`, { body: logging().replace('>logs<', '>closed<') }));
  }
  let asked = 0;
  const get: typeof context.metadata.get = async (at, key) => {
    if (at.table.name === 'buckets' && (at.in as { name?: string }).name === 'closed') {
      asked += 1;
      await logs.clock.advance(1_000);
    }
    return context.metadata.get(at, key);
  };
  const pass = deliverAccessLogs({ ...context, metadata: faulty(context.metadata, { get }) }, 1);
  const passesUntilIdle = async () => {
    let passes = 1;
    while (passes < 10 && (await pass(never)) === 'busy') passes += 1;
    return passes;
  };
  for (const n of buckets) await client.get(`/refused-${n}/key`);
  await context.lateWrites.flush();
  // Each pass asks for some that are new to it.
  expect(await passesUntilIdle()).toBeLessThan(5);
  const before = asked;
  expect(await passesUntilIdle()).toBe(1);
  expect(asked - before).toBeGreaterThan(0);

  await logs.ask(3);
  await logs.clock.advance(1_000);
  expect(await passesUntilIdle()).toBe(1);
  expect(keysIn(await logs.delivered())).toEqual(firstKeys(3));
  expect(await logs.queued()).toHaveLength(12);
});

test('objects that could not be written delay no log of another account when a later leader writes them', async () => {
  await using logs = await openLogs('memory');
  const { context, bob: bobs } = logs.world;
  await must(bobs.put('/bobs-logs'));
  await must(bobs.put('/bobs-logs?policy', { body: policy({ Resource: 'arn:aws:s3:::bobs-logs/*' }) }));
  const buckets = Array.from({ length: 16 }, (_, n) => n);
  for (const n of buckets) {
    await must(bobs.put(`/bobs-${n}`));
    await must(bobs.put(`/bobs-${n}?logging`, { body: logging().replace('>logs<', '>bobs-logs<') }));
  }
  for (const n of buckets) await bobs.get(`/bobs-${n}/key-${n}`);
  await context.lateWrites.flush();
  const written: string[] = [];
  const isBobs = (account: string): boolean => account === bob.owner;
  const { write } = context.bytes;
  type Write = typeof write;
  const withWrites = (writeBobs: (run: () => ReturnType<Write>) => ReturnType<Write>): Context => ({
    ...context,
    bytes: faulty(context.bytes, {
      write(source, options) {
        const { account = '' } = options as { readonly account?: string };
        written.push(account);
        const run = () => write.call(context.bytes, source, options);
        return isBobs(account) ? writeBobs(run) : run();
      },
    }),
  });
  const failing = withWrites(() => Promise.reject(new Error('the cluster does not answer')));
  await deliverAccessLogs(failing, 1)(never);
  expect(written.filter(isBobs)).toHaveLength(16);
  expect(await logs.queued()).toHaveLength(16);

  await logs.ask(3);
  await logs.clock.advance(1_000);
  written.length = 0;
  const slow = withWrites(async (run) => {
    await logs.clock.advance(1_000);
    return run();
  });
  const pass = deliverAccessLogs(slow, 2);
  let passes = 1;
  while ((await pass(never)) === 'busy') passes += 1;
  const before = written.slice(
    0,
    written.findLastIndex((account) => !isBobs(account)),
  );
  expect(before.filter(isBobs).length).toBeGreaterThan(0);
  expect(before.filter(isBobs).length).toBeLessThan(10);
  expect(passes).toBeGreaterThan(2);
  expect(written.filter(isBobs)).toHaveLength(16);
  expect(keysIn(await logs.delivered())).toEqual(firstKeys(3));
  expect((await bobs.get('/bobs-logs?list-type=2')).all('Key')).toHaveLength(16);
  expect(await logs.queued()).toEqual([]);
});
