/**
 * Gathers rows and writes them together: after a second, when many wait, or when a caller flushes them. Rows of all
 * tenants share a write, so a row that the store refuses for itself, such as one that is too long, is found and dropped
 * alone.
 */
import type { Clock } from '../../ports/clock.ts';
import {
  isRowFailure,
  isStoreFailure,
  type LateWrites,
  type MetadataStore,
  type SideChange,
} from '../../ports/metadata-store.ts';
import type { Telemetry } from '../../ports/telemetry.ts';

const restMs = 1_000;
/** With this many bytes the write does not wait for the next second. */
const manyBytes = 256 * 1024;
/** Above this, callers wait, so that a slow store does not take unbounded memory. */
const fullBytes = 4 * 1024 * 1024;
const rowsPerWrite = 256;
/** Halvings of a flush after errors that may be about a row, or about the store: enough to find two rows. */
const doubtfulHalvingsMax = 16;

export interface LateWritesPorts {
  readonly metadata: Pick<MetadataStore, 'apply'>;
  readonly clock: Pick<Clock, 'sleep'>;
  readonly telemetry: Pick<Telemetry, 'log' | 'count'>;
}

class Gathered implements LateWrites {
  readonly #ports: LateWritesPorts;
  #rows: SideChange[] = [];
  #bytes = 0;
  #running: Promise<void> | undefined;
  #rest = new AbortController();
  /** Callers that wait for room. */
  #stalled: (() => void)[] = [];

  constructor(ports: LateWritesPorts) {
    this.#ports = ports;
  }

  async add(change: SideChange, bytes: number): Promise<void> {
    this.#rows.push(change);
    this.#bytes += bytes;
    this.#running ??= this.#run();
    if (this.#bytes >= manyBytes) this.#rest.abort();
    if (this.#bytes >= fullBytes) await new Promise<void>((resolve) => void this.#stalled.push(resolve));
  }

  async flush(): Promise<void> {
    while (this.#running !== undefined) {
      this.#rest.abort();
      await this.#running;
    }
  }

  async #run(): Promise<void> {
    await this.#ports.clock.sleep(restMs, this.#rest.signal);
    while (this.#rows.length > 0) await this.#write();
    this.#rest = new AbortController();
    this.#running = undefined;
  }

  async #write(): Promise<void> {
    const rows = this.#rows;
    this.#rows = [];
    this.#bytes = 0;
    const stalled = this.#stalled;
    this.#stalled = [];
    const outcome = new WriteOutcome();
    try {
      for (let first = 0; first < rows.length; first += rowsPerWrite)
        await this.#apply(rows.slice(first, first + rowsPerWrite), outcome);
    } catch (cause) {
      // These rows are kept on a best effort: a store that fails must not fill the memory as well.
      this.#reportLost('store', { rows: rows.length - outcome.settled, cause });
    }
    if (outcome.refused > 0) this.#reportLost('row', { rows: outcome.refused, cause: outcome.cause });
    for (const resume of stalled) resume();
  }

  /**
   * Halves what the store refuses until each refused row is alone. A write that is refused has written nothing.
   * @throws what fails in the store
   */
  async #apply(rows: readonly SideChange[], outcome: WriteOutcome): Promise<void> {
    try {
      await this.#ports.metadata.apply(rows);
      outcome.settled += rows.length;
    } catch (cause) {
      if (isStoreFailure(cause)) throw cause;
      if (rows.length === 1) return outcome.refuse(cause);
      if (!isRowFailure(cause) && !outcome.mayHalve()) throw cause;
      const middle = rows.length >> 1;
      await this.#apply(rows.slice(0, middle), outcome);
      await this.#apply(rows.slice(middle), outcome);
    }
  }

  /** One entry of the log for many rows, because clients may cause them. */
  #reportLost(
    why: 'row' | 'store',
    { rows, cause }: { readonly rows: number; readonly cause: unknown },
  ): void {
    const { telemetry } = this.#ports;
    telemetry.count('svc_late_rows_lost_total', { why }, rows);
    telemetry.log('WARN', 'rows of the write-behind buffer were lost', { why, rows, cause });
  }
}

class WriteOutcome {
  /** Rows that are written or refused. */
  settled = 0;
  refused = 0;
  /** Why the first one was refused. */
  cause: unknown;
  #doubtfulHalvings = 0;

  /** Whether an error of no known kind may still be about a row. */
  mayHalve(): boolean {
    this.#doubtfulHalvings += 1;
    return this.#doubtfulHalvings <= doubtfulHalvingsMax;
  }

  refuse(cause: unknown): void {
    this.settled += 1;
    this.refused += 1;
    this.cause ??= cause;
  }
}

export const lateWrites = (ports: LateWritesPorts): LateWrites => new Gathered(ports);
