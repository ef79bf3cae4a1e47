/**
 * Coarse intents (design §5): a process takes an epoch, one durable row, and names up to 4096 ops under
 * it, so that beginning a write costs no I/O. An op is `<epoch>.<n>` with both parts of fixed width:
 * ids sort by the time of their epoch and then of their own, and no `<op id>.` is a prefix of another.
 *
 * The row holds a lease that the process renews while the epoch hands out ops or has unended ones, and
 * goes when neither is so. A sweep marks the epochs whose lease ran out, of whatever process; every
 * commit reads its epoch's row inside its own transaction, so it applies wholly before the mark or not
 * at all. A row that is not there bars as a marked one does: a process stopped for an hour comes back to
 * refusals, not to lost bytes.
 */
import type { Clock } from '../../../ports/clock.ts';
import type { Abandoned, Op } from '../../../ports/metadata-store.ts';
import type { Random } from '../../../ports/random.ts';
import { digits, stamp } from '../op-id.ts';
import { secondLookMs } from '../second-look.ts';
import { type Database, space, textKeyIn } from './environment.ts';
import type { Batch, Journal } from './journal.ts';

const opsPerEpoch = 4096;
const opDigits = 3;
/** An epoch is followed by the next after so long, to keep what a sweep examines small. */
const epochMs = 60_000;

/** `[until, state, ...numbers of the ops that were aborted]` */
type EpochRow = readonly number[];
/** Until its lease runs out. */
const open = 0;
/** A sweep's, until it is settled. */
const marked = 1;
/** Until the second look. */
const settled = 2;
/** A sweep's again, until it is settled for good. */
const markedAgain = 3;

interface Epoch {
  readonly id: string;
  readonly rollAt: number;
  readonly unended: Set<string>;
  used: number;
  leaseUntil: number;
}

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

const epochOf = (opId: string): string => opId.slice(0, opId.indexOf('.'));
const numberOf = (opId: string): number => Number.parseInt(opId.slice(opId.indexOf('.') + 1), 32);

/** Whether a commit under an op may apply: asked inside the transaction that would apply it. */
export function isBarred(database: Database, batch: Batch, opId: string): boolean {
  const row = rowIn(database, batch, epochOf(opId));
  return row === undefined || row[1] !== open || row.indexOf(numberOf(opId), 2) >= 0;
}

function rowIn(database: Database, batch: Batch, epoch: string): EpochRow | undefined {
  if (batch.epochs.has(epoch)) return batch.epochs.get(epoch);
  const row = database.get(keyOf(epoch)) as EpochRow | undefined;
  batch.epochs.set(epoch, row);
  return row;
}

export class Intents {
  readonly #ports: IntentPorts;
  /** Every epoch of this process whose row may still be there. */
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
    // The next one is opened early, so that nobody has to wait for it.
    else if (epoch.used > opsPerEpoch * 0.75 || now > epoch.rollAt - epochMs / 4) this.#openAhead();
    // Everyone who waited for one epoch takes from it; beyond 4096 of them some wait again.
    if (epoch.used >= opsPerEpoch) return this.begin();
    const id = `${epoch.id}.${digits(epoch.used++, opDigits)}`;
    epoch.unended.add(id);
    return { id };
  }

  #handsOut(epoch: Epoch, now: number): boolean {
    return epoch.used < opsPerEpoch && now < epoch.rollAt && now < epoch.leaseUntil;
  }

  #openAhead(): void {
    // A failure will be met again, and reported, by the `begin` that needs the epoch.
    void this.#next().catch(() => undefined);
  }

  #next(): Promise<Epoch> {
    this.#opening ??= this.#open().finally(() => {
      this.#opening = undefined;
    });
    return this.#opening;
  }

  async #open(): Promise<Epoch> {
    const { clock, database, journal, ttlMs } = this.#ports;
    const now = clock.now();
    const epoch: Epoch = {
      id: stamp(this.#ports),
      rollAt: now + epochMs,
      unended: new Set(),
      used: 0,
      leaseUntil: now + ttlMs,
    };
    await journal.submit((batch) => {
      const row = [epoch.leaseUntil, open];
      batch.epochs.set(epoch.id, row);
      void database.put(keyOf(epoch.id), row);
    });
    this.#epochs.set(epoch.id, epoch);
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
    await this.#ports.journal.submit((batch) => this.#forget(batch, epoch.id));
  }

  #forget(batch: Batch, epoch: string): void {
    batch.epochs.set(epoch, undefined);
    void this.#ports.database.remove(keyOf(epoch));
  }

  /** Renews the leases of this process, and lets go of an epoch that nobody asked anything of any more. */
  async renew(): Promise<void> {
    const { clock, database, journal, ttlMs } = this.#ports;
    const now = clock.now();
    const current = this.#current;
    if (current !== undefined && now >= current.rollAt) {
      this.#current = undefined;
      this.#removeIfDone(current);
    }
    const epochs = [...this.#epochs.values()];
    if (epochs.length === 0) return;
    const leaseUntil = now + ttlMs;
    const lost = await journal.submit((batch) =>
      epochs.filter(({ id }) => {
        const row = rowIn(database, batch, id);
        if (row === undefined || row[1] !== open) return true;
        const renewed = [leaseUntil, ...row.slice(1)];
        batch.epochs.set(id, renewed);
        void database.put(keyOf(id), renewed);
        return false;
      }),
    );
    for (const epoch of epochs) if (!lost.includes(epoch)) epoch.leaseUntil = leaseUntil;
    for (const epoch of lost) this.#lose(epoch);
  }

  /** A sweep came first. The sweep's consumer removes the row. */
  #lose(epoch: Epoch): void {
    this.#epochs.delete(epoch.id);
    if (this.#current === epoch) this.#current = undefined;
  }

  async abort(opId: string): Promise<void> {
    const { database, journal } = this.#ports;
    await journal.submit((batch) => {
      const epoch = epochOf(opId);
      const row = rowIn(database, batch, epoch);
      if (row === undefined || isBarred(database, batch, opId)) return;
      const barring = [...row, numberOf(opId)];
      batch.epochs.set(epoch, barring);
      void database.put(keyOf(epoch), barring);
    });
  }

  async abandoned(): Promise<readonly Abandoned[]> {
    const { database, journal, clock } = this.#ports;
    database.resetReadTxn();
    // Most sweeps find nothing: they need not disturb the writers.
    if (this.#lapsed(clock.now()).length === 0) return [];
    const found = await journal.submit((batch) =>
      this.#lapsed(batch.now).map((each) => this.#mark(batch, each)),
    );
    for (const epoch of [...this.#epochs.values()]) if (found.includes(epoch.id)) this.#lose(epoch);
    return found.map((epoch) => ({ prefix: `${epoch}.` }));
  }

  #mark(batch: Batch, [epoch, row]: readonly [string, EpochRow]): string {
    if (row[1] === marked || row[1] === markedAgain) return epoch;
    const barring = [row[0] as number, row[1] === settled ? markedAgain : marked];
    batch.epochs.set(epoch, barring);
    void this.#ports.database.put(keyOf(epoch), barring);
    return epoch;
  }

  /** The epochs of any process that are marked, or whose lease has run out, or that are due for the second look. */
  #lapsed(now: number): (readonly [string, EpochRow])[] {
    const found: (readonly [string, EpochRow])[] = [];
    for (const { key, value } of this.#ports.database.getRange({ start: firstKey, end: endKey })) {
      const row = value as EpochRow;
      if (row[1] === marked || row[1] === markedAgain || (row[0] as number) <= now) {
        found.push([new TextDecoder().decode(key.subarray(1)), row]);
      }
    }
    return found;
  }

  async settle(intent: Abandoned): Promise<void> {
    const { database, journal } = this.#ports;
    await journal.submit((batch) => {
      const epoch = epochOf(intent.prefix);
      const state = rowIn(database, batch, epoch)?.[1];
      if (state === markedAgain) this.#forget(batch, epoch);
      if (state !== marked) return;
      const waiting = [batch.now + secondLookMs, settled];
      batch.epochs.set(epoch, waiting);
      void database.put(keyOf(epoch), waiting);
    });
  }

  /** At an orderly end: what has no unended op needs no sweep. */
  async close(): Promise<void> {
    this.#current = undefined;
    const done = [...this.#epochs.values()].filter((epoch) => epoch.unended.size === 0);
    await Promise.all(done.map((epoch) => this.#remove(epoch)));
  }
}
