/**
 * Coarse intents (design §5), as the embedded backend has them: a process takes an epoch and names up to 4096 ops under
 * it, so that beginning a write costs no round trip.
 *
 * A commit must not apply under an epoch that a sweep has marked, so it locks what it looks at. Were that one row, all
 * commits of a process would take turns at it: an epoch has a lease row, which the process renews, and `lanes` rows
 * beside it, of which a commit locks the one of its op. Marking an epoch locks and writes all of them.
 */
import type { Clock } from '../../../ports/clock.ts';
import type { Abandoned, Op } from '../../../ports/metadata-store.ts';
import type { Random } from '../../../ports/random.ts';
import { digits, stamp } from '../op-id.ts';
import { secondLookMs } from '../second-look.ts';
import type { Cluster } from './cluster.ts';
import { type Keys, lanes } from './keys.ts';
import type { Transaction } from './tikv/transaction.ts';
import { pack, unpack } from './values.ts';

const opsPerEpoch = 4096;
const opDigits = 3;
/** An epoch is followed by the next after so long, to keep what a sweep examines small. */
const epochMs = 60_000;
const epochsMax = 10_000;

/** `[until, state]` of a lease; `[state, ...numbers of the ops that were aborted]` of a lane. */
type Row = readonly number[];
const open = 0;
const marked = 1;
/** Until the second look. */
const settled = 2;
const markedAgain = 3;

interface Epoch {
  readonly id: string;
  readonly rollAt: number;
  readonly unended: Set<string>;
  used: number;
  leaseUntil: number;
}

export interface IntentPorts {
  readonly client: Cluster;
  readonly keys: Keys;
  readonly clock: Clock;
  /** The store's clock: leases are judged by it. */
  readonly now: () => Promise<number>;
  readonly random: Random;
  readonly ttlMs: number;
}

const epochOf = (opId: string): string => opId.slice(0, opId.indexOf('.'));
const numberOf = (opId: string): number => Number.parseInt(opId.slice(opId.indexOf('.') + 1), 32);
const rowOf = (value: Uint8Array | undefined): Row | undefined =>
  value === undefined ? undefined : (unpack(value) as Row);

/** The row that a commit under an op locks, and whether what it finds there bars the op. */
export const laneKeyOf = (keys: Keys, opId: string): Uint8Array =>
  keys.epochLane(epochOf(opId), numberOf(opId) % lanes);
export function isBarred(value: Uint8Array | undefined, opId: string): boolean {
  const row = rowOf(value);
  return row === undefined || row[0] !== open || row.indexOf(numberOf(opId), 1) >= 0;
}

export class Intents {
  readonly #ports: IntentPorts;
  readonly #epochs = new Map<string, Epoch>();
  #current: Epoch | undefined;
  #opening: Promise<Epoch> | undefined;

  constructor(ports: IntentPorts) {
    this.#ports = ports;
  }

  async begin(): Promise<Op> {
    const now = this.#ports.clock.now();
    let epoch = this.#current;
    if (epoch === undefined || !this.#handsOut(epoch, now)) epoch = await this.#next();
    else if (epoch.used > opsPerEpoch * 0.75 || now > epoch.rollAt - epochMs / 4)
      void this.#next().catch(() => undefined);
    // Everyone who waited for one epoch takes from it; beyond 4096 of them some wait again.
    if (epoch.used >= opsPerEpoch) return this.begin();
    const id = `${epoch.id}.${digits(epoch.used++, opDigits)}`;
    epoch.unended.add(id);
    return { id };
  }

  #handsOut(epoch: Epoch, now: number): boolean {
    return epoch.used < opsPerEpoch && now < epoch.rollAt && now < epoch.leaseUntil;
  }

  #next(): Promise<Epoch> {
    this.#opening ??= this.#open().finally(() => {
      this.#opening = undefined;
    });
    return this.#opening;
  }

  async #open(): Promise<Epoch> {
    const { client, keys, clock, ttlMs } = this.#ports;
    const now = clock.now();
    const until = (await this.#ports.now()) + ttlMs;
    const id = stamp(this.#ports);
    await client.transact(async (transaction) => {
      transaction.put(keys.epoch(id), pack([until, open]));
      for (let lane = 0; lane < lanes; lane += 1) transaction.put(keys.epochLane(id, lane), pack([open]));
    });
    const epoch = { id, rollAt: now + epochMs, unended: new Set<string>(), used: 0, leaseUntil: now + ttlMs };
    this.#epochs.set(id, epoch);
    const former = this.#current;
    this.#current = epoch;
    if (former !== undefined) this.#removeIfDone(former);
    return epoch;
  }

  end(opId: string): void {
    const epoch = this.#epochs.get(epochOf(opId));
    if (epoch === undefined || !epoch.unended.delete(opId)) return;
    this.#removeIfDone(epoch);
  }

  #removeIfDone(epoch: Epoch): void {
    if (epoch === this.#current || epoch.unended.size > 0) return;
    // Should this fail, the lease runs out and a sweep finds nothing to do.
    void this.#remove(epoch).catch(() => undefined);
  }

  async #remove(epoch: Epoch): Promise<void> {
    if (!this.#epochs.delete(epoch.id)) return;
    await this.#ports.client.transact(async (transaction) => this.#forget(transaction, epoch.id));
  }

  #forget(transaction: Transaction, epoch: string): void {
    const { keys } = this.#ports;
    transaction.remove(keys.epoch(epoch));
    for (let lane = 0; lane < lanes; lane += 1) transaction.remove(keys.epochLane(epoch, lane));
  }

  /** Renews the leases of this process, and lets go of an epoch that nobody asked anything of any more. */
  async renew(): Promise<void> {
    const { client, keys, clock, ttlMs } = this.#ports;
    const now = clock.now();
    const current = this.#current;
    if (current !== undefined && now >= current.rollAt) {
      this.#current = undefined;
      this.#removeIfDone(current);
    }
    const until = (await this.#ports.now()) + ttlMs;
    for (const epoch of [...this.#epochs.values()]) {
      const key = keys.epoch(epoch.id);
      const isOurs = await client.transact(async (transaction) => {
        const [value] = await transaction.lock([key]);
        if (rowOf(value)?.[1] !== open) return false;
        transaction.put(key, pack([until, open]));
        return true;
      });
      if (isOurs) epoch.leaseUntil = now + ttlMs;
      else this.#lose(epoch);
    }
  }

  /** A sweep came first. The sweep's consumer removes the rows. */
  #lose(epoch: Epoch): void {
    this.#epochs.delete(epoch.id);
    if (this.#current === epoch) this.#current = undefined;
  }

  async abort(opId: string): Promise<void> {
    const { client, keys } = this.#ports;
    const key = laneKeyOf(keys, opId);
    await client.transact(async (transaction) => {
      const [value] = await transaction.lock([key]);
      const row = rowOf(value);
      if (row !== undefined && !isBarred(value, opId)) transaction.put(key, pack([...row, numberOf(opId)]));
    });
  }

  async abandoned(): Promise<readonly Abandoned[]> {
    const found: string[] = [];
    for (const epoch of await this.#lapsed()) if (await this.#mark(epoch)) found.push(epoch);
    for (const epoch of [...this.#epochs.values()]) if (found.includes(epoch.id)) this.#lose(epoch);
    return found.map((epoch) => ({ prefix: `${epoch}.` }));
  }

  /** On its return no commit under any op of the epoch can apply. */
  #mark(epoch: string): Promise<boolean> {
    const { client, keys } = this.#ports;
    const lease = keys.epoch(epoch);
    const rows = Array.from({ length: lanes }, (_, lane) => keys.epochLane(epoch, lane));
    return client.transact(async (transaction) => {
      const [value] = await transaction.lock([lease, ...rows]);
      const row = rowOf(value);
      // Renewed since it was looked at, or settled by somebody else.
      if (row === undefined || !this.#isLapsed(row, await this.#ports.now())) return false;
      const state = row[1] === settled || row[1] === markedAgain ? markedAgain : marked;
      transaction.put(lease, pack([row[0], state]));
      for (const key of rows) transaction.put(key, pack([state]));
      return true;
    });
  }

  #isLapsed([until = 0, state]: Row, now: number): boolean {
    return state === marked || state === markedAgain || until <= now;
  }

  /** The epochs of any process that are marked, or whose lease has run out, or that are due for the second look. */
  async #lapsed(): Promise<readonly string[]> {
    const { client, keys } = this.#ports;
    const now = await this.#ports.now();
    const found: string[] = [];
    let { low } = keys.epochs();
    const { high } = keys.epochs();
    for (let page = 0; page < epochsMax; page += 1) {
      const entries = await client.scan({ low, high, limit: 1024, reverse: false });
      for (const { key, value } of entries) {
        const epoch = keys.epochOf(key);
        if (epoch !== undefined && this.#isLapsed(unpack(value) as Row, now)) found.push(epoch);
      }
      const last = entries.at(-1);
      if (last === undefined || entries.length < 1024) break;
      low = Buffer.concat([last.key, Buffer.of(0)]);
    }
    return found;
  }

  async settle(intent: Abandoned): Promise<void> {
    const { client, keys } = this.#ports;
    const epoch = epochOf(intent.prefix);
    const lease = keys.epoch(epoch);
    const again = (await this.#ports.now()) + secondLookMs;
    await client.transact(async (transaction) => {
      const [value] = await transaction.lock([lease]);
      const state = rowOf(value)?.[1];
      if (state === markedAgain) this.#forget(transaction, epoch);
      else if (state === marked) transaction.put(lease, pack([again, settled]));
    });
  }

  /** At an orderly end: what has no unended op needs no sweep. */
  async close(): Promise<void> {
    this.#current = undefined;
    const done = [...this.#epochs.values()].filter((epoch) => epoch.unended.size === 0);
    await Promise.all(done.map((epoch) => this.#remove(epoch)));
  }
}
