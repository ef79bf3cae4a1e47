/**
 * Epochs in TiKV. A commit must not apply under an epoch that a sweep has marked, so it locks the epoch's row. With one row all commits
 * of a process would wait for each other. So an epoch has a lease row, which the process renews, and `lanes.epoch` rows beside it, of
 * which a commit locks the one of its op. Marking an epoch locks and writes all of them.
 */

import type { Clock } from '../../../ports/clock.ts';
import type { Abandoned } from '../../../ports/metadata-store.ts';
import type { Random } from '../../../ports/random.ts';
import type { Transaction } from '../../tikv/transaction.ts';
import {
  type EpochRows,
  Epochs,
  epochState,
  isOpId,
  parseCounter,
  parseEpoch,
  secondLookMs,
} from '../epochs.ts';
import type { Cluster } from './health.ts';
import { type Keys, lanes, pack, unpack } from './keys.ts';

/** Leases that a sweep reads, page by page. */
const pageRows = 1024;
const pagesMax = 10_000;

/** `[until, state]` of a lease; `[state, ...numbers of the ops that were aborted]` of a lane. */
type Row = readonly number[];
const { open, marked, settled, markedAgain } = epochState;

export interface IntentPorts {
  readonly client: Cluster;
  readonly keys: Keys;
  readonly clock: Clock;
  /** The store's clock: leases are judged by it. */
  readonly now: () => Promise<number>;
  readonly random: Random;
  readonly ttlMs: number;
}

const decodeRow = (value: Uint8Array | undefined): Row | undefined =>
  value === undefined ? undefined : (unpack(value) as Row);

/** The row that a commit under an op locks, and whether what it finds there bars the op. */
export const laneKeyAt = (keys: Keys, opId: string): Uint8Array =>
  keys.epochLane(parseEpoch(opId), parseCounter(opId) % lanes.epoch);
export function isBarred(value: Uint8Array | undefined, opId: string): boolean {
  const row = decodeRow(value);
  return row === undefined || row[0] !== open || row.indexOf(parseCounter(opId), 1) >= 0;
}

export class Intents {
  readonly #ports: IntentPorts;
  /** The epochs of this process. */
  readonly own: Epochs;

  constructor(ports: IntentPorts) {
    this.#ports = ports;
    this.own = new Epochs({ ...ports, rows: this.#rows() });
  }

  #rows(): EpochRows {
    const { client, keys } = this.#ports;
    return {
      open: async (epoch) => {
        const until = await this.#until();
        await client.transact(async (transaction) => {
          transaction.put(keys.epoch(epoch), pack([until, open]));
          for (let lane = 0; lane < lanes.epoch; lane += 1)
            transaction.put(keys.epochLane(epoch, lane), pack([open]));
        });
        return epoch;
      },
      remove: (epoch) => client.transact(async (transaction) => this.#forget(transaction, epoch)),
      renew: async (epochs) => {
        const until = await this.#until();
        const rows = epochs.map(keys.epoch);
        return client.transact(async (transaction) => {
          const values = await transaction.lock(rows);
          const isLost = values.map((value) => decodeRow(value)?.[1] !== open);
          for (const [i, row] of rows.entries()) if (!isLost[i]) transaction.put(row, pack([until, open]));
          return epochs.filter((_, i) => isLost[i]);
        });
      },
    };
  }

  async #until(): Promise<number> {
    return (await this.#ports.now()) + this.#ports.ttlMs;
  }

  #forget(transaction: Transaction, epoch: string): void {
    const { keys } = this.#ports;
    transaction.remove(keys.epoch(epoch));
    for (let lane = 0; lane < lanes.epoch; lane += 1) transaction.remove(keys.epochLane(epoch, lane));
  }

  async abort(opId: string): Promise<void> {
    this.own.abort(opId);
    const { client, keys } = this.#ports;
    const key = laneKeyAt(keys, opId);
    await client.transact(async (transaction) => {
      const [value] = await transaction.lock([key]);
      const row = decodeRow(value);
      if (row !== undefined && !isBarred(value, opId))
        transaction.put(key, pack([...row, parseCounter(opId)]));
    });
  }

  async isOpen(opId: string): Promise<boolean> {
    const { client, keys } = this.#ports;
    if (!isOpId(opId) || this.own.hasEnded(opId)) return false;
    return !isBarred(await client.get(laneKeyAt(keys, opId)), opId);
  }

  async abandoned(): Promise<readonly Abandoned[]> {
    const found: string[] = [];
    for (const epoch of await this.#lapsed()) if (await this.#mark(epoch)) found.push(epoch);
    this.own.lose(found);
    return found.map((epoch) => ({ prefix: `${epoch}.` }));
  }

  /** On its return no commit under any op of the epoch can apply. */
  #mark(epoch: string): Promise<boolean> {
    const { client, keys } = this.#ports;
    const lease = keys.epoch(epoch);
    const rows = Array.from({ length: lanes.epoch }, (_, lane) => keys.epochLane(epoch, lane));
    return client.transact(async (transaction) => {
      const [value] = await transaction.lock([lease, ...rows]);
      const row = decodeRow(value);
      // Renewed since it was read, or settled by another process.
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
    for (let page = 0; page < pagesMax; page += 1) {
      const entries = await client.scan({ low, high, limit: pageRows, reverse: false });
      for (const { key, value } of entries) {
        const epoch = keys.epochOf(key);
        if (epoch !== undefined && this.#isLapsed(unpack(value) as Row, now)) found.push(epoch);
      }
      const last = entries.at(-1);
      if (last === undefined || entries.length < pageRows) break;
      low = Buffer.concat([last.key, Buffer.of(0)]);
    }
    return found;
  }

  async settle(intent: Abandoned): Promise<void> {
    const { client, keys } = this.#ports;
    const epoch = parseEpoch(intent.prefix);
    const lease = keys.epoch(epoch);
    const again = (await this.#ports.now()) + secondLookMs;
    await client.transact(async (transaction) => {
      const [value] = await transaction.lock([lease]);
      const state = decodeRow(value)?.[1];
      if (state === markedAgain) this.#forget(transaction, epoch);
      else if (state === marked) transaction.put(lease, pack([again, settled]));
    });
  }
}
