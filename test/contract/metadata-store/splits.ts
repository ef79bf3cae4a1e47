/** Splits: a partition gets twice as many shards while it is read and written. On backends without shards, `ways` has no effect. */
import { setImmediate as turn } from 'node:timers/promises';
import { expect } from 'vitest';
import type { MetadataStore } from '../../../src/ports/metadata-store.ts';
import { random, SplitRace } from '../../support/split-race.ts';
import type { Laws, Opened } from '../metadata-store.ts';
import { fresh } from './tables.ts';

export function splitLaws({ law }: Laws): void {
  law('finds rows as long as `ways` doubles by splitting, or whatever it says', async ({ store, pass }) => {
    const race = new SplitRace(fresh(), 2);
    const keys = Array.from({ length: 20 }, (_, each) => `key ${each}`);
    for (const key of keys) for (let each = 0; each < 3; each += 1) await race.put(store, key);
    for (const ways of [2, 4]) {
      await beginSplit(store, race, ways);
      for (let shard = 0; shard < ways; shard += 1) await splitShard(store, { race, shard, pass });
      race.layouts.push({ ways: ways * 2, fence: race.layout.fence });
      // A reader that read the bucket's row before the split continues.
      for (const layout of race.layouts) {
        for (const key of keys) await race.read(store, key, layout);
        await race.list(store, { page: 7, layout });
        await race.list(store, { page: 100, reverse: true, layout });
      }
      for (const key of keys) await race.put(store, key);
      await race.remove(store, keys[ways] as string, true);
      await race.remove(store, keys[ways] as string, false);
    }
    await race.check(store, { isSharded: store.split !== undefined });
  });

  law('splits under clients that write, remove, read and list, by two movers at a time', async (opened) => {
    const { store } = opened;
    const race = new SplitRace(fresh(), 2);
    const keys = Array.from({ length: 30 }, (_, each) => `key ${each}`);
    for (const key of keys) for (let each = 0; each < 2; each += 1) await race.put(store, key);
    const chance = random(7);
    const end = { isOver: false };
    const writers = [0, 1, 2].map(async (writer) => {
      for (; !end.isOver; await turn()) {
        const key = keys[writer + 3 * Math.floor(chance() * 10)] as string;
        const what = chance();
        await race.read(store, key, race.layouts[Math.floor(chance() * race.layouts.length)] ?? race.layout);
        if (what < 0.6) await race.put(store, key);
        else await race.remove(store, key, what < 0.8);
      }
    });
    const lister = async (): Promise<void> => {
      for (; !end.isOver; await turn())
        await race.list(store, { page: 1 + Math.floor(chance() * 20), reverse: chance() < 0.5 });
    };
    const work = Promise.all([...writers, lister()]);
    const splitting = splitUnder(opened, race).finally(() => {
      end.isOver = true;
    });
    await Promise.all([splitting, work]);
    await race.check(store, { isSharded: store.split !== undefined });
  });

  law('refuses to split a shard that there is not, or into anything but twice as many', async ({ store }) => {
    if (store.split === undefined) return;
    const race = new SplitRace(fresh(), 4);
    for (const [splittingTo, shard] of [
      [16, 0],
      [4, 0],
      [8, 4],
    ] as const) {
      const at = race.at({ ways: 4, splittingTo, fence: 0 });
      await expect(store.split(at, shard)).rejects.toThrow(/cannot split/);
    }
  });
}

/** Laws for a store that several processes share. */
export function cutSplitLaws({ law }: Laws): void {
  law('continues after a mover was killed at any step', async ({ store, another, pass }) => {
    if (store.split === undefined) return;
    const race = new SplitRace(fresh(), 2);
    const keys = Array.from({ length: 20 }, (_, each) => `key ${each}`);
    await Promise.all(keys.map((key) => race.put(store, key)));
    await beginSplit(store, race, 2);
    for (let cut = 0; cut < 8; cut += 1) {
      const mover = await another();
      const moving = splitShard(mover, { race, shard: cut % 2, pass }).catch(() => undefined);
      await new Promise((resolve) => setTimeout(resolve, cut * 4));
      await mover.close();
      await moving;
      // Clients finish the unfinished changes that they find.
      for (const key of keys.slice(0, 5)) await race.put(store, key);
      await race.list(store, { page: 7 });
    }
    for (const shard of [0, 1]) await splitShard(store, { race, shard, pass });
    race.layouts.push({ ways: 4, fence: race.layout.fence });
    await race.check(store);
  });
}

async function splitUnder({ store, pass }: Opened, race: SplitRace): Promise<void> {
  for (const ways of [2, 4]) {
    await beginSplit(store, race, ways);
    for (let shard = 0; shard < ways; shard += 1)
      await Promise.all([splitShard(store, { race, shard, pass }), splitShard(store, { race, shard, pass })]);
    race.layouts.push({ ways: ways * 2, fence: race.layout.fence });
  }
}

async function beginSplit(store: MetadataStore, race: SplitRace, ways: number): Promise<void> {
  race.layouts.push({ ways, splittingTo: ways * 2, fence: race.layout.fence + 1 });
  await store.raiseFence(race.at(), race.layout.fence);
}

async function splitShard(
  store: MetadataStore,
  { race, shard, pass }: { readonly race: SplitRace; readonly shard: number; readonly pass: Opened['pass'] },
): Promise<void> {
  for (let steps = 0; steps < 1_000; steps += 1) {
    const step = await store.split?.(race.at(), shard);
    if (step === undefined || step.is === 'done') return;
    if (step.is === 'waiting') await pass(step.ms);
  }
  throw new Error(`shard ${shard} is never done`);
}
