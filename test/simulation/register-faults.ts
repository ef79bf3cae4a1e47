/** The faults of gateways and engines in one round of the register test. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Ring } from '../support/engines/cassandra.ts';
import type { Fleet } from './fleet.ts';
import type { RegisterRounds } from './register-rounds.ts';
import type { SharedStore } from './shared-store.ts';

const stretchMs = 1500;

export const pick = (fleet: Pick<Fleet, 'size'>, random: () => number): number =>
  Math.floor(random() * fleet.size);

/** Pauses the engine, if there is one, then pauses one gateway and kills one. */
export const hurtStore =
  ({ engine }: Pick<SharedStore, 'engine'>): RegisterRounds['hurt'] =>
  async (fleet, random) => {
    await sleep(stretchMs);
    if (engine !== undefined) {
      engine.pause();
      await sleep(stretchMs);
      engine.resume();
      await sleep(stretchMs);
    }
    await fleet.pause(pick(fleet, random), stretchMs);
    await fleet.replace(pick(fleet, random));
    await sleep(stretchMs);
  };

/** Kills one node and restarts it, pauses one node, pauses one gateway and kills one. */
export const hurtRing =
  ({ nodes }: Pick<Ring, 'nodes'>): RegisterRounds['hurt'] =>
  async (fleet, random) => {
    const nodeAt = () => nodes[Math.floor(random() * nodes.length)];
    const [dying, paused] = [nodeAt(), nodeAt()];
    await sleep(2_000);
    await dying?.kill9();
    await sleep(2_000);
    await fleet.pause(pick(fleet, random), 1_000);
    await dying?.restart();
    paused?.pause();
    await sleep(6_000);
    paused?.resume();
    await fleet.replace(pick(fleet, random));
  };
