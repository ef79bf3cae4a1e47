/**
 * A partition that splits under its clients (docs/adr/0010-a-shard-splits-under-its-clients.md): movers die, hang and resume beside others
 * at any of their calls.
 */
import { setImmediate as turn } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { memoryStore } from '../../src/backends/metadata/memory-store.ts';
import type { Clock } from '../../src/ports/clock.ts';
import type { MetadataStore } from '../../src/ports/metadata-store.ts';
import { systemRandom } from '../../src/ports/random.ts';
import { shardedMemory } from '../support/sharded-memory.ts';
import { random, SplitRace } from '../support/split-race.ts';

const leaseMs = 200;
const forever = new Promise<never>(() => {});

/** A clock on which one turn of the event loop is a millisecond. */
function turns(): Clock & { pass(count: number): Promise<void> } {
  let now = 0;
  let next: Promise<void> | undefined;
  const tick = (): Promise<void> => {
    next ??= turn().then(() => {
      now += 1;
      next = undefined;
    });
    return next;
  };
  const pass = async (count: number): Promise<void> => {
    for (let each = 0; each < count; each += 1) await tick();
  };
  return { now: () => now, elapsed: () => now, sleep: pass, pass };
}

/** Calls wait for a few turns, some of them for many; `mood` may also make a call never return. */
function moody<Port extends object>(port: Port, mood: (name: string) => Promise<void>): Port {
  return new Proxy(port, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target);
      if (typeof value !== 'function' || name === 'seek') return value;
      if (name === 'scan') return (...given: unknown[]) => moody(value.apply(target, given) as object, mood);
      return async (...given: unknown[]) => {
        await mood(String(name));
        const answer: unknown = await value.apply(target, given);
        await mood(String(name));
        return answer;
      };
    },
  });
}

describe.each(Array.from({ length: 3 }, (_, seed) => seed + 1))('seed %i', (seed) => {
  test('clients never notice', async () => {
    const clock = turns();
    const chance = random(seed);
    const inner = memoryStore({ clock, random: systemRandom() });
    const race = new SplitRace('bucket', 2);
    const storeOf: Splitting['storeOf'] = (mood, lease = leaseMs) =>
      shardedMemory(moody(inner, mood), { clock, leaseMs: lease });
    // Some calls are delayed so long that a whole batch has moved meanwhile.
    const client = (): MetadataStore =>
      storeOf(() => clock.pass(chance() < 0.05 ? 40 : Math.floor(chance() * 3)));
    const keys = Array.from({ length: 75 }, (_, each) => `${each % 2 === 0 ? 'a' : 'é'}${each}`);
    const setUp = shardedMemory(inner, { clock, leaseMs });
    for (const key of keys) for (let each = 0; each < 3; each += 1) await race.put(setUp, key);
    const end = { isOver: false };
    const writers = [0, 1, 2].map(async (writer) => {
      const store = client();
      while (!end.isOver) {
        const key = keys.filter((_, each) => each % 3 === writer)[Math.floor(chance() * 25)] as string;
        await clock.pass(Math.floor(chance() * 10));
        const what = chance();
        await race.read(store, key, race.layouts[Math.floor(chance() * race.layouts.length)] ?? race.layout);
        await race.read(store, `none ${key}`, race.layout);
        if (what < 0.5) await race.put(store, key);
        else await race.remove(store, key, what < 0.85);
      }
    });
    const listers = [true, false].map(async (reverse) => {
      const store = client();
      while (!end.isOver) await race.list(store, { page: 1 + Math.floor(chance() * 40), reverse });
    });
    const working = Promise.all([...writers, ...listers]);
    const splitting = splitTo(8, { race, clock, chance, storeOf }).finally(() => {
      end.isOver = true;
    });
    await Promise.race([splitting, working]);
    await splitting;
    await working;
    await race.check(setUp);
    expect(race.layout.ways).toBe(8);
  });
});

interface Splitting {
  readonly race: SplitRace;
  readonly clock: ReturnType<typeof turns>;
  readonly chance: () => number;
  storeOf(mood: () => Promise<void>, lease?: number): MetadataStore;
}

async function splitTo(target: number, splitting: Splitting): Promise<void> {
  const { race, storeOf, clock } = splitting;
  const store = storeOf(() => clock.pass(1));
  while (race.layout.ways < target) {
    const { ways, fence } = race.layout;
    race.layouts.push({ ways, splittingTo: ways * 2, fence: fence + 1 });
    await store.raiseFence(race.at(), fence + 1);
    const done = new Set<number>();
    // Two movers work concurrently, and each that dies is replaced.
    await Promise.all([movers(splitting, done), movers(splitting, done)]);
    race.layouts.push({ ways: ways * 2, fence: fence + 1 });
  }
}

async function movers({ race, clock, chance, storeOf }: Splitting, done: Set<number>): Promise<void> {
  const { ways } = race.layout;
  const at = race.at();
  const begun = clock.now();
  while (done.size < ways) {
    let die: () => void = () => {};
    const death = new Promise<void>((resolve) => {
      die = resolve;
    });
    const store = storeOf(
      async () => {
        const mood = chance();
        if (mood < 0.01) {
          die();
          // The mover may only have been paused.
          if (mood < 0.005) await forever;
          await clock.pass(500);
        }
        await clock.pass(Math.floor(chance() * 3));
        // A mover that starts after all caches have expired does not wait for them again.
      },
      clock.now() > begun + 3 * leaseMs ? 1 : leaseMs,
    );
    const moving = async (): Promise<void> => {
      while (done.size < ways) {
        const shard = Math.floor(chance() * ways);
        const step = await store.split?.(at, shard);
        if (step?.is === 'waiting') await clock.pass(Math.min(step.ms, 20));
        if (step?.is === 'done') done.add(shard);
      }
    };
    await Promise.race([moving(), death]);
  }
}
