/**
 * Coarse intents of the durable backends: a process takes an epoch, one durable row with a lease, and names up to 4096 ops under it, so
 * that beginning a write costs no I/O. An op is `<epoch>.<n>` with both parts of fixed width: ids sort by the time of their epoch and
 * then by their own, and no `<op id>.` is a prefix of another.
 *
 * The process renews the lease while the epoch hands out ops or has open ones; then the row is removed. Each backend decides how the row
 * is stored, and how a sweep bars an epoch whose lease has expired.
 */

import { memoizeLast } from '../../base/bounded-cache.ts';
import type { Clock } from '../../ports/clock.ts';
import type { Op } from '../../ports/metadata-store.ts';
import type { Random } from '../../ports/random.ts';

const opsPerEpoch = 4096;
const opDigits = 3;
/** An epoch is followed by the next after so long, to keep what a sweep examines small. */
const epochMs = 60_000;

/** The states of an epoch's row, the same wherever it is kept. */
export const epochState = {
  /** Until its lease expires. */
  open: 0,
  /** A sweep's, until it is settled. */
  marked: 1,
  /** Until the second look. */
  settled: 2,
  /** Barred by a second sweep, until it is settled finally. */
  markedAgain: 3,
} as const;

export const parseEpoch = (opId: string): string => opId.slice(0, opId.indexOf('.'));
export const parseCounter = (opId: string): number => Number.parseInt(opId.slice(opId.indexOf('.') + 1), 32);

/** Whether a text has the form of an op's id: stored bytes may have any name. */
export const isOpId = (text: string): boolean => /^[0-9a-v]+\.[0-9a-v]{3}$/.test(text);

/** The rows of this process's epochs. */
export interface EpochRows {
  /** Writes the row, durably, with a lease; returns its name, which differs where the given one is not possible. */
  open(epoch: string): Promise<string>;
  remove(epoch: string): Promise<void>;
  /** Renews the leases; returns the epochs that a sweep has marked or removed. */
  renew(epochs: readonly string[]): Promise<readonly string[]>;
}

interface Epoch {
  readonly id: string;
  readonly rollAt: number;
  readonly unended: Set<string>;
  /** Abandoned and not ended: the sweep must find them if no process ends them. */
  readonly aborted: Set<string>;
  used: number;
  leaseUntil: number;
}

interface EpochPorts {
  readonly clock: Clock;
  readonly random: Random;
  readonly ttlMs: number;
  readonly rows: EpochRows;
}

export class Epochs {
  readonly #ports: EpochPorts;
  /** Every epoch of this process whose row may still be there. */
  readonly #epochs = new Map<string, Epoch>();
  #current: Epoch | undefined;
  #opening: Promise<Epoch> | undefined;

  constructor(ports: EpochPorts) {
    this.#ports = ports;
  }

  async begin(): Promise<Op> {
    const now = this.#ports.clock.now();
    let epoch = this.#current;
    if (epoch === undefined || !handsOut(epoch, now)) epoch = await this.#next();
    // The next one is opened early, so that no write waits for it.
    else if (epoch.used > opsPerEpoch * 0.75 || now > epoch.rollAt - epochMs / 4) this.#openAhead();
    // Everyone who waited for one epoch takes an op from it; with more than 4096 of them some wait again.
    if (epoch.used >= opsPerEpoch) return this.begin();
    const id = `${epoch.id}.${digits(epoch.used++, opDigits)}`;
    epoch.unended.add(id);
    return { id };
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
    const { clock, ttlMs, rows } = this.#ports;
    const now = clock.now();
    const epoch: Epoch = {
      id: await rows.open(stamp(this.#ports)),
      rollAt: now + epochMs,
      unended: new Set(),
      aborted: new Set(),
      used: 0,
      leaseUntil: now + ttlMs,
    };
    this.#epochs.set(epoch.id, epoch);
    const former = this.#current;
    this.#current = epoch;
    if (former !== undefined) this.#removeIfDone(former);
    return epoch;
  }

  /** Whether it is certain that no sweep has taken the epoch of an op. */
  holds(opId: string): boolean {
    const epoch = this.#epochs.get(parseEpoch(opId));
    return epoch !== undefined && this.#ports.clock.now() < epoch.leaseUntil;
  }

  /**
   * A caller abandons an op, perhaps while the store is unavailable. The op may never be ended: an epoch with only such ops left is not
   * renewed any more, so a sweep finds it while this process lives.
   */
  abort(opId: string): void {
    const epoch = this.#epochs.get(parseEpoch(opId));
    if (epoch?.unended.delete(opId)) epoch.aborted.add(opId);
  }

  end(opId: string): void {
    const epoch = this.#epochs.get(parseEpoch(opId));
    if (epoch === undefined || !(epoch.unended.delete(opId) || epoch.aborted.delete(opId))) return;
    this.#removeIfDone(epoch);
  }

  /** For this process's own ops the answer is known immediately; for others once their epoch is gone. */
  hasEnded(opId: string): boolean {
    const epoch = this.#epochs.get(parseEpoch(opId));
    return epoch !== undefined && !epoch.unended.has(opId) && !epoch.aborted.has(opId);
  }

  #removeIfDone(epoch: Epoch): void {
    if (epoch === this.#current || epoch.unended.size > 0 || epoch.aborted.size > 0) return;
    // Should this fail, the lease runs out and a sweep finds nothing to do.
    void this.#remove(epoch).catch(() => undefined);
  }

  async #remove(epoch: Epoch): Promise<void> {
    if (this.#epochs.delete(epoch.id)) await this.#ports.rows.remove(epoch.id);
  }

  /** Renews the leases of this process, and closes an epoch that is no longer used. */
  async renew(): Promise<void> {
    const { clock, ttlMs, rows } = this.#ports;
    const now = clock.now();
    const current = this.#current;
    if (current !== undefined && now >= current.rollAt) {
      this.#current = undefined;
      this.#removeIfDone(current);
    }
    const isOver = (epoch: Epoch): boolean => epoch.leaseUntil <= now && !this.#isRenewed(epoch);
    for (const epoch of [...this.#epochs.values()].filter(isOver)) this.#epochs.delete(epoch.id);
    const epochs = [...this.#epochs.values()].filter((epoch) => this.#isRenewed(epoch));
    if (epochs.length === 0) return;
    const lost = await rows.renew(epochs.map(({ id }) => id));
    for (const epoch of epochs) epoch.leaseUntil = now + ttlMs;
    this.lose(lost);
  }

  #isRenewed(epoch: Epoch): boolean {
    return epoch === this.#current || epoch.unended.size > 0 || epoch.aborted.size === 0;
  }

  /** A sweep came first: no commit can apply under these any more. The sweep removes the rows. */
  lose(epochs: readonly string[]): void {
    for (const id of epochs) {
      if (this.#current?.id === id) this.#current = undefined;
      this.#epochs.delete(id);
    }
  }

  /** At an orderly end: epochs without open ops need no sweep. Where that cannot be recorded, a sweep finds nothing to do. */
  async close(): Promise<void> {
    this.#current = undefined;
    const done = [...this.#epochs.values()].filter(
      ({ unended, aborted }) => unended.size === 0 && aborted.size === 0,
    );
    await Promise.all(done.map((epoch) => this.#remove(epoch).catch(() => undefined)));
  }
}

const handsOut = (epoch: Epoch, now: number): boolean =>
  epoch.used < opsPerEpoch && now < epoch.rollAt && now < epoch.leaseUntil;

// Names for ops. Times and random parts have a fixed width, so that names sort by time and no name is
// the prefix of another; digits are 0–9 and a–v, so that a name can be part of any path or key.

const timeDigits = 9;
const randomDigits = 8;

const base32Digits = Array.from({ length: 256 }, (_, byte) => (byte & 31).toString(32));

/** 45 bits of milliseconds and 40 random bits: `1hq9f3k0a` + `c0v4m2pq`. */
export function stamp(ports: { readonly clock: Clock; readonly random: Random }): string {
  const bytes = ports.random.bytes(randomDigits);
  let drawn = '';
  for (let i = 0; i < randomDigits; i++) drawn += base32Digits[bytes[i] as number];
  return timeText(ports.clock.now()) + drawn;
}

const timeText = memoizeLast((ms: number) => Math.floor(ms).toString(32).padStart(timeDigits, '0'));

/** A stamp of the millisecond after another's, with its own random part. */
export const stampAfter = (other: string, own: string): string =>
  (Number.parseInt(other.slice(0, timeDigits), 32) + 1).toString(32).padStart(timeDigits, '0') +
  own.slice(timeDigits);

/** The least stamp of a time. */
export const stampAt = (ms: number): string =>
  Math.floor(ms).toString(32).padStart(timeDigits, '0') + '0'.repeat(randomDigits);

/** `number` as exactly `width` digits. */
export function digits(number: number, width: number): string {
  return number.toString(32).padStart(width, '0');
}

/**
 * How long after its settlement an abandoned intent is returned once more. A process that was only stopped continues to store bytes when
 * it resumes, and learns of the sweep at its commit. If it dies before it has queued those bytes, this second look finds them. Longer
 * than any upload that was under way.
 */
export const secondLookMs = 24 * 60 * 60_000;
