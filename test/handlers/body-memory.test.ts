/** Bodies that are read whole take memory from a common budget, which is a share of `SVC_MEMORY_MAX`. */

import { expect, test } from 'vitest';
import { bodyBudget } from '../../src/backends/data/write-budget.ts';
import type { Context } from '../../src/context.ts';
import { openGateway } from '../support/gateway.ts';
import { deletion } from '../support/gateway-bodies.ts';

const MiB = 1024 * 1024;
const ceiling = 8 * MiB;
const bodyBytes = 3 * MiB;

/** A deletion of a missing key, padded with blanks. */
const body = new TextEncoder().encode(deletion(['none']).padEnd(bodyBytes));

async function watchedGateway() {
  const held = { now: 0, most: 0 };
  const wrap = (context: Context): Context => ({
    ...context,
    bodyMemory: {
      take(bytes, holder) {
        if (!context.bodyMemory.take(bytes, holder)) return false;
        held.now += bytes;
        held.most = Math.max(held.most, held.now);
        return true;
      },
      give(bytes, holder) {
        held.now -= bytes;
        context.bodyMemory.give(bytes, holder);
      },
    },
  });
  const world = await openGateway({ settings: { SVC_MEMORY_MAX: '64MiB' }, wrap });
  await world.client.put('/bucket');
  return { world, held };
}

/** Sends all pieces but the last one immediately, and the last one when `last` resolves. */
const slowly = (last: Promise<void>) =>
  async function* arriving(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
    const step = 256 * 1024;
    for (let at = 0; at < bytes.length; at += step) {
      if (at + step >= bytes.length) await last;
      yield bytes.subarray(at, at + step);
    }
  };

test('many slow bodies stay within the memory limit, and further ones get SlowDown', async () => {
  const { world, held } = await watchedGateway();
  await using _ = world;
  const { client } = world;
  const gate = Promise.withResolvers<void>();
  const sent = Array.from({ length: 12 }, () =>
    client.post('/bucket?delete', { body, arriving: slowly(gate.promise) }),
  );
  // Refused requests are answered before the gate opens; at most two of the others fit.
  const early = await Promise.race(sent);
  expect([early.status, early.code]).toEqual([503, 'SlowDown']);
  expect((await client.put('/bucket/key', { body: 'objects are not held up by them' })).status).toBe(200);
  gate.resolve();
  const statuses = (await Promise.all(sent)).map(({ status }) => status);
  expect(statuses.filter((status) => status === 503).length).toBeGreaterThanOrEqual(10);
  expect(new Set(statuses)).toEqual(new Set([200, 503]));
  expect(held.most).toBeLessThanOrEqual(ceiling);
  expect(held.now).toBe(0);
});

test('a body releases its memory, whether it was accepted or refused', async () => {
  const { world, held } = await watchedGateway();
  await using _ = world;
  const { client } = world;
  // Together these bodies are larger than the ceiling.
  for (let turn = 0; turn < 2; turn++) {
    expect((await client.post('/bucket?delete', { body })).status).toBe(200);
    const torn = await client.post('/bucket?delete', { body, arriving: async function* () {} });
    expect(torn.code).toBe('IncompleteBody');
    const malformed = await client.post('/bucket?delete', { body: '<Delete>'.padEnd(bodyBytes) });
    expect(malformed.code).toBe('MalformedXML');
  }
  expect([held.now, held.most]).toEqual([0, bodyBytes]);
});

test('slow bodies of one account leave memory for those of others', async () => {
  await using world = await openGateway({ settings: { SVC_MEMORY_MAX: '64MiB' } });
  await world.client.put('/bucket');
  await world.bob.put('/of-bob');
  const gate = Promise.withResolvers<void>();
  const small = new TextEncoder().encode(deletion(['none']).padEnd(MiB));
  const send = () => world.client.post('/bucket?delete', { body: small, arriving: slowly(gate.promise) });
  const sent = Array.from({ length: 12 }, send);
  // Refused requests are answered before the gate opens.
  const early = await Promise.race(sent);
  expect([early.status, early.code]).toEqual([503, 'SlowDown']);
  const other = await world.bob.post('/of-bob?delete', { body: small });
  expect([other.status, other.code]).toEqual([200, '']);
  gate.resolve();
  const statuses = (await Promise.all(sent)).map(({ status }) => status);
  expect(new Set(statuses)).toEqual(new Set([200, 503]));
  // All of it is free again.
  const whole = await world.client.post('/bucket?delete', {
    body: new TextEncoder().encode(deletion(['none']).padEnd(5 * MiB)),
  });
  expect(whole.code).not.toBe('SlowDown');
  expect((world.context.bodyMemory as unknown as { usedBytes: number }).usedBytes).toBe(0);
});

test('the memory of parts: a bucket with one may not have the last quarter, and any other bucket may have its first one', () => {
  const memory = bodyBudget(16 * MiB);
  const take = (bucket: string) => memory.take(5 * MiB, bucket);
  expect(['a', 'a', 'a', 'b', 'c'].map(take)).toEqual([true, true, false, true, false]);
  memory.give(5 * MiB, 'a');
  expect(['a', 'c'].map(take)).toEqual([false, true]);
});
