/** Sends commands to the stores that serve their keys, and again when a region has moved, split or is busy. */
import { setTimeout as sleep } from 'node:timers/promises';
import { type Backoff, Unreachable } from './backoff.ts';
import {
  type Answered,
  type Asked,
  type CommandName,
  fromWide,
  type RegionError,
  type Wide,
} from './messages.ts';
import type { Region, Regions, Side } from './regions.ts';
import type { Stores } from './stores.ts';

/** The timeout of one attempt; a live store answers sooner, or reports that it is busy. */
const callMs = 5_000;
const busyMs = { least: 20, most: 2_000 } as const;
/** Keys of a region that go in one command: its store works on them as one write. */
const keysMax = 256;

interface Part<C extends CommandName> {
  readonly keys: readonly Uint8Array[];
  readonly answer: Answered<C>;
}

interface Many<C extends CommandName> {
  readonly keys: readonly Uint8Array[];
  readonly request: (keys: readonly Uint8Array[]) => Asked<C>;
  readonly backoff: Backoff;
  /** One region after the other, in key order; all concurrently when absent. */
  readonly inTurn?: boolean;
}

interface Sent<C extends CommandName> {
  readonly request: Asked<C>;
  readonly backoff: Backoff;
  /** Starts of transactions whose locks a read passes. */
  readonly passing?: readonly Wide[] | undefined;
  /** For a prewrite: see `is_retry_request`. */
  readonly checksAll?: boolean;
}

interface Group {
  readonly region: Region;
  readonly keys: Uint8Array[];
}

export class Sender {
  readonly #regions: Regions;
  readonly #stores: Stores;

  constructor(regions: Regions, stores: Stores) {
    this.#regions = regions;
    this.#stores = stores;
  }

  locate(key: Uint8Array, backoff: Backoff, side: Side): Promise<Region> {
    return this.#regions.locate(key, backoff, side);
  }

  /** Sends a command about one key. */
  async one<C extends CommandName>(name: C, key: Uint8Array, sent: Sent<C>): Promise<Answered<C>> {
    for (;;) {
      const region = await this.#regions.locate(key, sent.backoff);
      const answer = await this.inRegion(name, region, sent);
      if (answer !== undefined) return answer;
      await sent.backoff.wait(`no store serves ${name}`);
    }
  }

  /** Sends a command to a region that was located before; undefined when it is no longer there: locate again. */
  async inRegion<C extends CommandName>(
    name: C,
    region: Region,
    sent: Sent<C>,
  ): Promise<Answered<C> | undefined> {
    const answer = await this.ask(name, region, sent);
    return answer === 'moved' || answer === 'lost' ? undefined : answer;
  }

  /** The same, for commands of which one has to know: `moved` was not done, `lost` may have been. */
  async ask<C extends CommandName>(
    name: C,
    region: Region,
    { request, backoff, passing, checksAll }: Sent<C>,
  ): Promise<Answered<C> | 'moved' | 'lost'> {
    const context = {
      ...region.context,
      ...(passing && { resolved_locks: passing }),
      ...(checksAll && { is_retry_request: true }),
    };
    try {
      const store = await this.#stores.of(context.peer, backoff);
      const answer = await store.call(name, { ...request, context }, Math.min(callMs, backoff.leftMs));
      if (!answer.region_error) return answer;
      await this.#learn(region, answer.region_error, backoff);
      return wasRefused(answer.region_error) ? 'moved' : 'lost';
    } catch (cause) {
      if (!(cause instanceof Unreachable)) throw cause;
      this.#regions.forget(region);
      void this.#stores.doubt(context.peer, backoff).catch(() => undefined);
      return 'lost';
    }
  }

  /** The region of all keys, if they are in one and fit into one command. */
  async regionOfAll(keys: readonly Uint8Array[], backoff: Backoff): Promise<Region | undefined> {
    const [first, ...others] = await this.#group(keys, backoff);
    return others.length === 0 ? first?.region : undefined;
  }

  /** Sends a command about many keys, to each of their regions what concerns it. */
  async many<C extends CommandName>(
    name: C,
    { keys, request, backoff, inTurn = false }: Many<C>,
  ): Promise<readonly Part<C>[]> {
    const parts: Part<C>[] = [];
    let pending = keys;
    while (pending.length > 0) {
      const again: Uint8Array[] = [];
      const send = async ({ region, keys: some }: Group): Promise<void> => {
        const answer = await this.inRegion(name, region, { request: request(some), backoff });
        if (answer === undefined) again.push(...some);
        else parts.push({ keys: some, answer });
      };
      const groups = await this.#group(pending, backoff);
      if (inTurn) for (const group of groups) await send(group);
      else await Promise.all(groups.map(send));
      pending = again;
      if (pending.length > 0) await backoff.wait(`no store serves ${name}`);
    }
    return parts;
  }

  async #group(keys: readonly Uint8Array[], backoff: Backoff): Promise<readonly Group[]> {
    const groups: Group[] = [];
    const open = new Map<bigint, Group>();
    for (const key of keys.toSorted(Buffer.compare)) {
      const region = await this.#regions.locate(key, backoff);
      const group = open.get(region.id);
      if (group !== undefined && group.keys.length < keysMax) group.keys.push(key);
      else {
        const fresh = { region, keys: [key] };
        open.set(region.id, fresh);
        groups.push(fresh);
      }
    }
    return groups;
  }

  async #learn(region: Region, error: RegionError, backoff: Backoff): Promise<void> {
    // Ask the new leader soon: by the end of a long wait it may have moved again.
    if (error.not_leader?.leader ?? error.epoch_not_match?.current_regions?.length) backoff.restart();
    if (error.not_leader?.leader) this.#regions.lead(region, error.not_leader.leader);
    else if (error.server_is_busy) {
      const ms = Number(fromWide(error.server_is_busy.backoff_ms));
      await sleep(Math.min(Math.max(ms, busyMs.least), busyMs.most, backoff.leftMs));
    } else if (error.epoch_not_match?.current_regions?.length)
      this.#regions.replace(region, error.epoch_not_match.current_regions);
    else if (!isPassing(error)) this.#regions.forget(region);
  }
}

/** Errors of a region that has not moved and will serve soon. */
const isPassing = (error: RegionError): boolean =>
  Boolean(
    error.stale_command ??
      error.max_timestamp_not_synced ??
      error.read_index_not_ready ??
      error.proposal_in_merging_mode,
  );

/** Errors that stores return for commands that they have not begun. With any other error the command may still be executed. */
const refusals = [
  'not_leader',
  'region_not_found',
  'key_not_in_region',
  'epoch_not_match',
  'server_is_busy',
  'store_not_match',
  'max_timestamp_not_synced',
  'read_index_not_ready',
  'proposal_in_merging_mode',
] as const satisfies readonly (keyof RegionError)[];
const wasRefused = (error: RegionError): boolean => refusals.some((name) => Boolean(error[name]));
