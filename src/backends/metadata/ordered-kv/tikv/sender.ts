/** Sends commands to the stores that serve their keys, and again when a region has moved, split or is busy. */
import { setTimeout as sleep } from 'node:timers/promises';
import { Backoff } from './backoff.ts';
import { Unreachable } from './errors.ts';
import { type Answered, type Asked, type CommandName, fromWide, type RegionError } from './messages.ts';
import type { Region, Regions } from './regions.ts';

const callMs = 10_000;
/** How long a command is tried before its caller is told that nobody answers. */
const budgetMs = 20_000;
const busyMsMax = 2_000;

export interface Part<C extends CommandName> {
  readonly keys: readonly Uint8Array[];
  readonly answer: Answered<C>;
}

export class Sender {
  readonly #regions: Regions;

  constructor(regions: Regions) {
    this.#regions = regions;
  }

  /** Sends a command about one key. */
  async one<C extends CommandName>(name: C, key: Uint8Array, request: Asked<C>): Promise<Answered<C>> {
    const [part] = await this.many(name, [key], () => request);
    return (part as Part<C>).answer;
  }

  /** Sends a command to a region that was located before; undefined when it is no longer there: locate again. */
  async inRegion<C extends CommandName>(
    name: C,
    region: Region,
    request: Asked<C>,
  ): Promise<Answered<C> | undefined> {
    try {
      const store = await this.#regions.storeOf(region);
      const answer = await store.call(name, { ...request, context: region.context }, callMs);
      if (!answer.region_error) return answer;
      await this.#learn(region, answer.region_error);
    } catch (cause) {
      if (!(cause instanceof Unreachable)) throw cause;
      this.#regions.forget(region);
    }
    return undefined;
  }

  /** Sends a command about many keys, to each of their regions what concerns it. */
  async many<C extends CommandName>(
    name: C,
    keys: readonly Uint8Array[],
    request: (keys: readonly Uint8Array[]) => Asked<C>,
  ): Promise<readonly Part<C>[]> {
    const backoff = new Backoff(budgetMs);
    const parts: Part<C>[] = [];
    let pending = keys;
    while (pending.length > 0) {
      const groups = await this.#group(pending);
      const answers = await Promise.all(
        groups.map(({ region, keys: some }) => this.inRegion(name, region, request(some))),
      );
      const again: Uint8Array[] = [];
      groups.forEach(({ keys: some }, i) => {
        const answer = answers[i];
        if (answer === undefined) again.push(...some);
        else parts.push({ keys: some, answer });
      });
      pending = again;
      if (pending.length > 0) await backoff.wait(`no store serves ${name}`);
    }
    return parts;
  }

  async #group(
    keys: readonly Uint8Array[],
  ): Promise<{ readonly region: Region; readonly keys: Uint8Array[] }[]> {
    const groups = new Map<Region, Uint8Array[]>();
    for (const key of keys) {
      const region = await this.#regions.locate(key);
      const group = groups.get(region);
      if (group === undefined) groups.set(region, [key]);
      else group.push(key);
    }
    return [...groups].map(([region, some]) => ({ region, keys: some }));
  }

  async #learn(region: Region, error: RegionError): Promise<void> {
    if (error.not_leader?.leader) this.#regions.lead(region, error.not_leader.leader);
    else if (error.server_is_busy) {
      const ms = Number(fromWide(error.server_is_busy.backoff_ms));
      await sleep(Math.min(ms || 50, busyMsMax));
    } else this.#regions.forget(region);
  }
}
