/**
 * Epochs in lmdb. A sweep marks those whose lease has expired, of any process. Every commit reads its epoch's row inside its own
 * transaction, so it applies wholly before the mark or not at all. A missing row refuses commits like a marked one: a process that was
 * stopped for an hour gets refusals, and no bytes are lost.
 */

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
import type { Database } from './file/environment.ts';
import { space, textKeyIn } from './file/write-guard.ts';
import type { Batch, Journal } from './journal.ts';

/** `[until, state, ...numbers of the ops that were aborted]` */
type EpochRow = readonly number[];
const { open, marked, settled, markedAgain } = epochState;

export interface IntentPorts {
  readonly database: Database;
  readonly journal: Journal;
  readonly clock: Clock;
  readonly random: Random;
  readonly ttlMs: number;
}

const keyOf = (epoch: string): Uint8Array => textKeyIn('epoch', epoch);
const firstKey = keyOf('');
const endKey = Uint8Array.of(space.epoch + 1);

/** Whether a commit under an op is refused; called inside the transaction of the commit. */
export function isBarred(database: Database, batch: Batch, opId: string): boolean {
  const row = rowIn(database, batch, parseEpoch(opId));
  return row === undefined || row[1] !== open || row.indexOf(parseCounter(opId), 2) >= 0;
}

function rowIn(database: Database, batch: Batch, epoch: string): EpochRow | undefined {
  if (batch.epochs.has(epoch)) return batch.epochs.get(epoch);
  const row = database.find(keyOf(epoch)) as EpochRow | undefined;
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
  /** The epochs of this process. */
  readonly own: Epochs;

  constructor(ports: IntentPorts) {
    this.#ports = ports;
    this.own = new Epochs({ ...ports, rows: this.#rows() });
  }

  #rows(): EpochRows {
    const { database, journal, clock, ttlMs } = this.#ports;
    const put = (batch: Batch, epoch: string, row: EpochRow): void => {
      batch.epochs.set(epoch, row);
      database.put(keyOf(epoch), row);
    };
    return {
      open: async (epoch) => {
        await journal.submit((batch) => put(batch, epoch, [clock.now() + ttlMs, open]));
        return epoch;
      },
      remove: (epoch) => journal.submit((batch) => this.#forget(batch, epoch)),
      renew: (epochs) =>
        journal.submit((batch) => {
          const until = clock.now() + ttlMs;
          return epochs.filter((epoch) => {
            const row = unlessDamaged(() => rowIn(database, batch, epoch));
            if (row === undefined || row[1] !== open) return true;
            put(batch, epoch, [until, ...row.slice(1)]);
            return false;
          });
        }),
    };
  }

  #forget(batch: Batch, epoch: string): void {
    this.#ports.database.assertRemovable(keyOf(epoch));
    batch.epochs.set(epoch, undefined);
    this.#ports.database.remove(keyOf(epoch));
  }

  async abort(opId: string): Promise<void> {
    this.own.abort(opId);
    const { database, journal } = this.#ports;
    await journal.submit((batch) => {
      const epoch = parseEpoch(opId);
      const row = rowIn(database, batch, epoch);
      if (row === undefined || isBarred(database, batch, opId)) return;
      const barring = [...row, parseCounter(opId)];
      batch.epochs.set(epoch, barring);
      database.put(keyOf(epoch), barring);
    });
  }

  isOpen(opId: string): boolean {
    const { database } = this.#ports;
    if (!isOpId(opId) || this.own.hasEnded(opId)) return false;
    database.refresh();
    const row = database.find(keyOf(parseEpoch(opId))) as EpochRow | undefined;
    return row !== undefined && row[1] === open && row.indexOf(parseCounter(opId), 2) < 0;
  }

  async abandoned(): Promise<readonly Abandoned[]> {
    const { database, journal, clock } = this.#ports;
    database.refresh();
    // Most sweeps find nothing: they need not disturb the writers.
    if (this.#lapsed(clock.now()).length === 0) return [];
    const found = await journal.submit((batch) =>
      this.#lapsed(batch.now).map((each) => this.#mark(batch, each)),
    );
    this.own.lose(found);
    return found.map((epoch) => ({ prefix: `${epoch}.` }));
  }

  #mark(batch: Batch, [epoch, row]: readonly [string, EpochRow]): string {
    if (row[1] === marked || row[1] === markedAgain) return epoch;
    const barring = [row[0] as number, row[1] === settled ? markedAgain : marked];
    batch.epochs.set(epoch, barring);
    this.#ports.database.put(keyOf(epoch), barring);
    return epoch;
  }

  /** The epochs of any process that are marked, or whose lease has run out, or that are due for the second look. */
  #lapsed(now: number): (readonly [string, EpochRow])[] {
    const found: (readonly [string, EpochRow])[] = [];
    this.#ports.database.read({ low: firstKey, high: endKey, reverse: false }, (key, value) => {
      const row = value as EpochRow;
      if (row[1] === marked || row[1] === markedAgain || (row[0] as number) <= now) {
        found.push([new TextDecoder().decode(key.subarray(1)), row]);
      }
      return true;
    });
    return found;
  }

  async settle(intent: Abandoned): Promise<void> {
    const { database, journal } = this.#ports;
    await journal.submit((batch) => {
      const epoch = parseEpoch(intent.prefix);
      const state = rowIn(database, batch, epoch)?.[1];
      if (state === markedAgain) this.#forget(batch, epoch);
      if (state !== marked) return;
      const waiting = [batch.now + secondLookMs, settled];
      batch.epochs.set(epoch, waiting);
      database.put(keyOf(epoch), waiting);
    });
  }
}
