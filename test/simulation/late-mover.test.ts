/** A mover that was paused at any of its calls, while another one finished and clients deleted everything, restores nothing. */

import { setImmediate as turn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { memoryStore } from '../../src/backends/metadata/memory-store.ts';
import type { Clock } from '../../src/ports/clock.ts';
import type { MetadataStore } from '../../src/ports/metadata-store.ts';
import { systemRandom } from '../../src/ports/random.ts';
import { pausing } from '../support/pausing-store.ts';
import { shardedMemory } from '../support/sharded-memory.ts';
import { SplitRace } from '../support/split-race.ts';

const keys = Array.from({ length: 16 }, (_, each) => `key ${each}`);

async function split(store: MetadataStore, race: SplitRace, clock: { pass(ms: number): void }) {
  for (let shard = 0; shard < 2; shard += 1)
    for (;;) {
      const step = await store.split?.(race.at(), shard);
      if (step?.is === 'waiting') clock.pass(step.ms);
      if (step === undefined || step.is === 'done') break;
    }
}

test('a late mover does not restore removed rows', async () => {
  let woken = 0;
  for (let call = 1, slept = true; slept; call += 1) {
    let now = 0;
    const clock: Clock = { now: () => now, elapsed: () => now, sleep: () => turn() };
    const time = {
      pass: (ms: number): void => {
        now += ms;
      },
    };
    const inner = memoryStore({ clock, random: systemRandom() });
    const store = shardedMemory(inner, { clock });
    const race = new SplitRace('bucket', 2);
    for (const key of keys) for (let each = 0; each < 2; each += 1) await race.put(store, key);
    race.layouts.push({ ways: 2, splittingTo: 4, fence: 1 });
    await store.raiseFence(race.at(), 1);
    const late = pausing(inner, { last: call });
    const sleeper = split(shardedMemory(late.metadata, { clock }), race, time);
    for (let turns = 0; turns < 200 && !late.isAsleep(); turns += 1) await turn();
    slept = late.isAsleep();
    await split(store, race, time);
    for (const key of keys) {
      await race.remove(store, key, false);
      await race.remove(store, key, true);
    }
    late.wake();
    await sleeper;
    race.layouts.push({ ways: 4, fence: 1 });
    for (const key of keys) for (const layout of race.layouts) await race.read(store, key, layout);
    await race.check(store);
    woken += 1;
  }
  expect(woken).toBeGreaterThan(50);
});
