/** The sign of life of a transaction: its primary lock lasts a little longer with each, so that a dead one's runs out. */
import { Backoff } from '../backoff.ts';
import { toWide } from '../cluster/messages.ts';
import type { Sender } from '../cluster/sender.ts';

/** How long a lock is valid after the last heartbeat; then another transaction may roll it back. */
export const lockMs = 6_000;
const everyMs = lockMs / 3;
/** The limit for a transaction that is never ended: its locks expire. */
const lifeMsMax = 10 * 60_000;

export interface Pulse {
  readonly sender: Sender;
  readonly primary: Uint8Array;
  readonly start: bigint;
  /** By `performance.now()`. */
  readonly startedAt: number;
}

/** For how long a lock that is written now is to last, as stores count it: from the transaction's start. */
export const computeTtl = (startedAt: number): bigint =>
  BigInt(Math.ceil(performance.now() - startedAt + lockMs));

export class Heartbeat {
  readonly #pulse: Pulse;
  readonly #timer: NodeJS.Timeout;
  #isBeating = false;

  constructor(pulse: Pulse) {
    this.#pulse = pulse;
    this.#timer = setInterval(() => void this.#beat(), everyMs);
    this.#timer.unref?.();
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  /** The next beat makes up for a failed one; a lost lock is detected at the commit. */
  async #beat(): Promise<void> {
    const { sender, primary, start, startedAt } = this.#pulse;
    if (performance.now() - startedAt > lifeMsMax) return this.stop();
    if (this.#isBeating) return;
    this.#isBeating = true;
    const request = {
      primary_lock: primary,
      start_version: toWide(start),
      advise_lock_ttl: toWide(computeTtl(startedAt)),
    };
    const answer = await sender
      .one('TxnHeartBeat', primary, { request, backoff: new Backoff(lockMs) })
      .catch(() => undefined);
    this.#isBeating = false;
    if (answer?.error) this.stop();
  }
}
