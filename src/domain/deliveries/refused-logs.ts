/**
 * The logs whose targets did not take their lines, and the hours of the queue in which only lines of such logs are left. Those rows are not
 * read again before a target may take them: one bucket with a wrong policy may have millions of them, and one worker delivers the logs of
 * all accounts. A leader keeps this in memory; its successor reads every row once.
 */
import { hourMs, placementsEndMs } from '../../metadata/background/hourly-queues.ts';
import type { LogBatch } from '../../metadata/background/log-batches.ts';
import type { QueueHour } from '../../metadata/records/queues.ts';

/** Beyond it the account with the most loses its oldest log, whose hours are read in each pass then. */
const logsMax = 10_000;
/** After this time an hour is read as a whole again, for lines of a process whose clock is far behind. */
const wholeAgainMs = 6 * hourMs;
/** The longest pause of a log whose target refuses the object only when it is written. */
const pauseMaxMs = 30 * 60_000;

/** What a target is asked for: whether it takes an object of this log. */
export type LogSample = Pick<LogBatch, 'target' | 'account' | 'region' | 'bucket' | 'key'>;

/** When a write was refused (store time, ms), and how long the worker waits between its passes. */
export interface RefusedWrite {
  readonly now: number;
  readonly intervalMs: number;
}

interface RefusedLog {
  readonly sample: LogSample;
  /** Writes in a row that were refused. */
  readonly writes: number;
  /** Store time (ms) until which nothing is written. */
  readonly until: number;
}

interface LeftHour {
  /** The logs of all rows that were left. */
  readonly logs: ReadonlySet<string>;
  /** Rows that were due before are read (store time, ms). */
  readonly readBefore: number;
  readonly wholeAt: number;
}

const formatPlace = ({ slot, hour }: Pick<QueueHour, 'slot' | 'hour'>): string => `${slot} ${hour}`;

function pauseAfter(before: number, { now, intervalMs }: RefusedWrite): Omit<RefusedLog, 'sample'> {
  const writes = before + 1;
  const pauseMs = writes < 2 ? 0 : Math.min(pauseMaxMs, intervalMs * 2 ** (writes - 1));
  return { writes, until: now + pauseMs };
}

export class RefusedLogs {
  readonly #logs = new Map<string, RefusedLog>();
  /** The names of the logs by account, the one first that was refused the longest time ago. */
  readonly #ofAccount = new Map<string, Set<string>>();
  readonly #hours = new Map<string, LeftHour>();

  /** The logs and what their targets are asked for, the one first that was refused the longest time ago. */
  entries(): readonly (readonly [log: string, sample: LogSample])[] {
    return [...this.#logs].map(([log, { sample }]) => [log, sample]);
  }

  /**
   * The target does not take the log. It is asked again in the next pass, because that costs no read of the queue.
   * @param write set where the target refused a write, before which lines had to be read: after the second one in a row, pauses grow
   */
  refuse(
    log: string,
    { sample, write }: { readonly sample: LogSample; readonly write: RefusedWrite | undefined },
  ): void {
    const { writes = 0, until = 0 } = this.#logs.get(log) ?? {};
    this.#forget(log);
    if (this.#logs.size >= logsMax) this.#forgetOne();
    this.#logs.set(log, { sample, ...(write === undefined ? { writes, until } : pauseAfter(writes, write)) });
    const names = this.#ofAccount.get(sample.account) ?? new Set();
    this.#ofAccount.set(sample.account, names.add(log));
  }

  #forget(log: string): void {
    const account = this.#logs.get(log)?.sample.account;
    if (account === undefined) return;
    this.#logs.delete(log);
    const names = this.#ofAccount.get(account);
    names?.delete(log);
    if (names?.size === 0) this.#ofAccount.delete(account);
  }

  /** An account with many refused logs takes no room from the others. */
  #forgetOne(): void {
    let most: ReadonlySet<string> = new Set();
    for (const names of this.#ofAccount.values()) if (names.size > most.size) most = names;
    const [oldest] = most;
    if (oldest !== undefined) this.#forget(oldest);
  }

  isPaused(log: string, now: number): boolean {
    return (this.#logs.get(log)?.until ?? 0) > now;
  }

  accept(log: string): void {
    this.#forget(log);
  }

  /**
   * From which time on the rows of an hour are to be read; undefined for all of them. Rows of slow commits come up to
   * `placementsEndMs` late.
   * @param left the logs that take no lines in this pass
   */
  readsFrom(place: QueueHour, { left, now }: { readonly left: ReadonlySet<string>; readonly now: number }) {
    const known = this.#hours.get(formatPlace(place));
    if (known === undefined || now < known.wholeAt || now >= known.wholeAt + wholeAgainMs) return undefined;
    for (const log of known.logs) if (!left.has(log)) return undefined;
    return known.readBefore - placementsEndMs;
  }

  /** @param seen the logs of the rows that were read, which began at `from`; those that are not in `left` have no rows any more */
  readHour(
    place: QueueHour,
    {
      seen,
      left,
      from,
      now,
    }: {
      readonly seen: ReadonlySet<string>;
      readonly left: ReadonlySet<string>;
      readonly from: number | undefined;
      readonly now: number;
    },
  ): void {
    const name = formatPlace(place);
    const former = from === undefined ? undefined : this.#hours.get(name);
    const logs = new Set([...(former?.logs ?? []), ...[...seen].filter((log) => left.has(log))]);
    const isKnown = [...logs].every((log) => this.#logs.has(log));
    if (logs.size === 0 || !isKnown) this.#hours.delete(name);
    else this.#hours.set(name, { logs, readBefore: now + 1, wholeAt: former?.wholeAt ?? now });
  }

  /** Lines of the hour are left. Where no line of this log was known to be left there, the hour is read as a whole again. */
  leave(log: string, place: Pick<QueueHour, 'slot' | 'hour'>): void {
    const name = formatPlace(place);
    if (this.#hours.get(name)?.logs.has(log) === false) this.#hours.delete(name);
  }

  /** Forgets hours that the queue has no more, and logs without lines. */
  endPass(places: readonly QueueHour[]): void {
    const listed = new Set(places.map(formatPlace));
    const used = new Set<string>();
    for (const [name, { logs }] of this.#hours) {
      if (!listed.has(name)) this.#hours.delete(name);
      else for (const log of logs) used.add(log);
    }
    for (const log of this.#logs.keys()) if (!used.has(log)) this.#forget(log);
  }
}
