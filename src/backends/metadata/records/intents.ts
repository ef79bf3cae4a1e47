/**
 * Epochs as rows of an ordered store. A sweep marks those whose lease has expired, of any process. Every commit reads
 * its epoch's row inside its own transaction, so it applies wholly before the mark or not at all. A missing row refuses
 * commits like a marked one: a process that was stopped for an hour gets refusals, and no bytes are lost.
 */

import { memoizeLast } from '../../../base/bounded-cache.ts';
import { decodeUtf8 } from '../../../base/text/utf8.ts';
import type { Clock } from '../../../ports/clock.ts';
import { type Abandoned, MetadataDamaged } from '../../../ports/metadata-store.ts';
import type { Random } from '../../../ports/random.ts';
import {
  type EpochRows,
  Epochs,
  epochState,
  isOpId,
  parseCounter,
  parseEpoch,
  secondLookMs,
} from '../epochs.ts';
import { space, textKeyIn } from './codec.ts';
import type { Batch, OrderedStore, Submit } from './ordered-store.ts';

/** `[until, state, ...numbers of the ops that were aborted]` */
type EpochRow = readonly number[];
const { open, marked, settled, markedAgain } = epochState;

export interface IntentPorts {
  readonly store: OrderedStore;
  readonly submit: Submit;
  readonly clock: Clock;
  readonly random: Random;
  readonly ttlMs: number;
}

/** Commits in a row are mostly under one epoch. */
const epochKey = memoizeLast((epoch: string): Uint8Array => textKeyIn('epoch', epoch));
const firstKey = epochKey('');
const endKey = Uint8Array.of(space.epoch + 1);

/** Whether a commit under an op is refused; called inside the transaction of the commit. */
export const isBarred = (store: OrderedStore, batch: Batch, opId: string): boolean =>
  !isOpenIn(rowIn(store, batch, parseEpoch(opId)), opId);

/** @param row of an epoch, as it is stored */
export const isEpochOpen = (row: unknown): boolean => (row as EpochRow)[1] === open;

const isOpenIn = (row: EpochRow | undefined, opId: string): boolean =>
  row !== undefined && isEpochOpen(row) && row.indexOf(parseCounter(opId), 2) < 0;

function rowIn(store: OrderedStore, batch: Batch, epoch: string): EpochRow | undefined {
  if (batch.epochs.has(epoch)) return batch.epochs.get(epoch);
  const row = store.find(epochKey(epoch)) as EpochRow | undefined;
  batch.epochs.set(epoch, row);
  return row;
}

/** An epoch of this process that cannot be read is lost: the process continues with another one. */
function unlessDamaged<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch (cause) {
    if (cause instanceof MetadataDamaged) return undefined;
    throw cause;
  }
}

export class Intents {
  readonly #ports: IntentPorts;
  readonly rows: EpochRows;
  /** The epochs of this process. */
  readonly own: Epochs;

  constructor(ports: IntentPorts) {
    this.#ports = ports;
    this.rows = this.#makeRows();
    this.own = new Epochs({ ...ports, rows: this.rows });
  }

  #makeRows(): EpochRows {
    const { store, submit, clock, ttlMs } = this.#ports;
    return {
      open: async (epoch) => {
        await submit((batch) => this.#put(batch, epoch, [clock.now() + ttlMs, open]));
        return epoch;
      },
      remove: (epoch) => submit((batch) => this.#forget(batch, epoch)),
      renew: (epochs) =>
        submit((batch) => {
          const until = clock.now() + ttlMs;
          return epochs.filter((epoch) => {
            const row = unlessDamaged(() => rowIn(store, batch, epoch));
            if (row === undefined || row[1] !== open) return true;
            this.#put(batch, epoch, [until, ...row.slice(1)]);
            return false;
          });
        }),
    };
  }

  #put(batch: Batch, epoch: string, row: EpochRow): void {
    batch.epochs.set(epoch, row);
    this.#ports.store.put(epochKey(epoch), row);
  }

  #forget(batch: Batch, epoch: string): void {
    this.#ports.store.assertRemovable?.(epochKey(epoch));
    batch.epochs.set(epoch, undefined);
    this.#ports.store.remove(epochKey(epoch));
  }

  async abort(opId: string): Promise<void> {
    this.own.abort(opId);
    const { store, submit } = this.#ports;
    await submit((batch) => {
      const epoch = parseEpoch(opId);
      const row = rowIn(store, batch, epoch);
      if (row !== undefined && isOpenIn(row, opId)) this.#put(batch, epoch, [...row, parseCounter(opId)]);
    });
  }

  isOpen(opId: string): boolean {
    const { store } = this.#ports;
    if (!isOpId(opId) || this.own.hasEnded(opId)) return false;
    store.refresh();
    return isOpenIn(store.find(epochKey(parseEpoch(opId))) as EpochRow | undefined, opId);
  }

  async abandoned(): Promise<readonly Abandoned[]> {
    const { store, submit, clock } = this.#ports;
    store.refresh();
    // Most sweeps find nothing: read first, because a transaction delays the writers.
    if (this.#lapsed(clock.now()).length === 0) return [];
    const found = await submit((batch) => this.#lapsed(batch.now).map((each) => this.#mark(batch, each)));
    this.own.lose(found);
    return found.map((epoch) => ({ prefix: `${epoch}.` }));
  }

  #mark(batch: Batch, [epoch, row]: readonly [string, EpochRow]): string {
    if (row[1] === marked || row[1] === markedAgain) return epoch;
    this.#put(batch, epoch, [row[0] as number, row[1] === settled ? markedAgain : marked]);
    return epoch;
  }

  /** The epochs of any process that are marked, or whose lease has run out, or that are due for the second look. */
  #lapsed(now: number): (readonly [string, EpochRow])[] {
    const found: (readonly [string, EpochRow])[] = [];
    this.#ports.store.read({ low: firstKey, high: endKey, reverse: false }, (key, value) => {
      const row = value as EpochRow;
      if (row[1] === marked || row[1] === markedAgain || (row[0] as number) <= now) {
        found.push([decodeUtf8(key.subarray(1)), row]);
      }
      return true;
    });
    return found;
  }

  async settle(intent: Abandoned): Promise<void> {
    const { store, submit } = this.#ports;
    await submit((batch) => {
      const epoch = parseEpoch(intent.prefix);
      const state = rowIn(store, batch, epoch)?.[1];
      if (state === markedAgain) this.#forget(batch, epoch);
      if (state === marked) this.#put(batch, epoch, [batch.now + secondLookMs, settled]);
    });
  }
}
