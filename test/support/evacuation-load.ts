/** Clients that write, read, delete and upload during an evacuation, and the checks of their answers. */
import { expect } from 'vitest';
import type { Context } from '../../src/context.ts';
import { collectGarbage } from '../../src/workers/gc.ts';
import { rebalance } from '../../src/workers/rebalance.ts';
import { extentsOn, fsckOf, operatorOf } from './clusters.ts';
import type { GatewayWorld } from './gateway.ts';
import { complete, createUpload, md5, putPart } from './gateway-bodies.ts';
import type { Client } from './gateway-client.ts';
import { bytesOf, seeded } from './load-model.ts';

const never = new AbortController().signal;
const clients = 4;
const stepsEach = 80;
const sizes = [1, 100, 4096, 4096, 100_000, 5_000_000];

/** One client with its own keys; a wrong answer ends the test. */
async function act(client: Client, who: number, onStep: () => Promise<void>): Promise<Map<string, string>> {
  const random = seeded(who + 1);
  const draw = (count: number): number => Math.floor(random() * count);
  const held = new Map<string, string>();
  for (let step = 0; step < stepsEach; step += 1) {
    const key = `/bucket/${who}-${draw(8)}`;
    const body = bytesOf({ seed: who * 1000 + step, size: sizes[draw(sizes.length)] ?? 1 });
    const kind = draw(10);
    if (kind < 4) {
      const put = await client.put(key, { body });
      expect([put.status, put.code], `put ${key}`).toEqual([200, '']);
      held.set(key, md5(body));
    } else if (kind < 5) {
      expect((await client.delete(key)).status, `delete ${key}`).toBe(204);
      held.delete(key);
    } else if (kind < 6) {
      const uploadId = await createUpload(client, key);
      const parts = [await putPart(client, key, { uploadId, number: 1, body })];
      expect((await complete(client, key, { uploadId, parts })).status, `complete ${key}`).toBe(200);
      held.set(key, md5(body));
    } else {
      const got = await client.get(key);
      expect(got.status === 200 ? md5(got.bytes) : undefined, `get ${key}`).toBe(held.get(key));
    }
    await onStep();
  }
  return held;
}

/** The settings of such a world. */
export const loadSettings = {
  SVC_REBALANCE_RATE: '1TiB',
  SVC_REBALANCE_INTERVAL: '10ms',
  SVC_GC_GRACE: '3s',
};

/** Drains `a` while clients work: nothing is lost, nothing is refused, and in the end no extent is left on `a`. */
export async function evacuateUnderLoad(world: GatewayWorld): Promise<void> {
  const { client, context } = world;
  await client.put('/bucket');
  let steps = 0;
  const onStep = async (): Promise<void> => {
    steps += 1;
    if (steps === (clients * stepsEach) / 4)
      await operatorOf(world).must('POST', '/clusters/a/drain', { mode: 'evacuate' });
  };
  const stop = new AbortController();
  const working = workUntil(context, stop.signal);
  const held = await Promise.all(Array.from({ length: clients }, (_, who) => act(client, who, onStep)));
  stop.abort();
  await working;
  const expectAll = async (): Promise<void> => {
    for (const [key, sum] of held.flatMap((each) => [...each]))
      expect(md5((await client.get(key)).bytes), key).toBe(sum);
  };
  await expectAll();
  await empty(world);
  await expectAll();
  expect(await fsckOf(world)).toEqual([]);
}

async function workUntil(context: Context, signal: AbortSignal): Promise<void> {
  const unit = rebalance(context);
  while (!signal.aborted) {
    await unit(never);
    await context.clock.sleep(5);
  }
}

/** Runs the workers until `a` is empty: replaced and moved extents stay until their grace period is over. */
async function empty(world: GatewayWorld): Promise<void> {
  const { context } = world;
  const units = [rebalance(context), collectGarbage(context)];
  const left = async (): Promise<number> => {
    for (const unit of units) await unit(never);
    return extentsOn(world, 'a');
  };
  await expect.poll(left, { timeout: 120_000, interval: 200 }).toBe(0);
}
